"""Translation with a trained model."""
