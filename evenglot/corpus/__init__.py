"""Raw text -> token ids on disk."""
