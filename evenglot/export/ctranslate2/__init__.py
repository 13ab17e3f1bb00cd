"""Models for CTranslate2: the weights of a run in its format, checked against torch, and an engine that runs them.

FOLDER/model.bin, config.json, *_vocabulary.json     what CTranslate2 reads
FOLDER/source.model, target.model                    SentencePiece: from text to pieces and back
FOLDER/translate.py, README.md                       how to use it, without evenglot
FOLDER/evenglot.json                                 where it comes from; also the sign that an export wrote the folder
"""

from evenglot.export.ctranslate2.agreement import Report, compare
from evenglot.export.ctranslate2.engine import CTranslate2Engine
from evenglot.export.ctranslate2.weights import convert
from evenglot.export.ctranslate2.write import converted, export

__all__ = ["CTranslate2Engine", "Report", "compare", "convert", "converted", "export"]
