"""The paper's experiments: its corpora from public downloads, and its tables and figures from finished runs."""
