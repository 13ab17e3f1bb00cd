"""What a trained model is worth: translate, and score the translations."""
