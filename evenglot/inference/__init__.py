"""Translate with a trained model."""
