"""CTranslate2: convert the weights of a run to its format, and translate with them."""

from evenglot.inference.ctranslate2.convert import Quantization, converted, write_model
from evenglot.inference.ctranslate2.engine import CTranslate2Engine
from evenglot.inference.ctranslate2.weights import convert

__all__ = ["CTranslate2Engine", "Quantization", "convert", "converted", "write_model"]
