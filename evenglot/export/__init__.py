"""Trained models in the formats of other programs: CTranslate2 and Hugging Face."""
