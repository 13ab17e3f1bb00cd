"""Raw text -> token ids on disk: read, clean, learn the vocabulary, write the store."""
