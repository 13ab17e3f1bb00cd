"""Reports: a self-contained HTML page, and figures."""
