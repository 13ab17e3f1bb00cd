"""Balancing in other training loops: plain PyTorch, Hugging Face transformers, Lightning."""
