"""The paper's corpora: convert public downloads to our file layout."""
