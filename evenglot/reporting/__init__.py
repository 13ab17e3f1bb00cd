"""Reports: one self-contained HTML page, and figures."""
