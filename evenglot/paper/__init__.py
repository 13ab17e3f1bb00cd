"""The paper's corpora: from public downloads into our layout."""
