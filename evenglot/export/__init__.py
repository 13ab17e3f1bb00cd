"""Export trained models to CTranslate2 and Hugging Face."""
