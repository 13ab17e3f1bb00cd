"""A folder for CTranslate2, checked against torch, that others can use without evenglot.

FOLDER/model.bin, config.json, *_vocabulary.json     what CTranslate2 reads
FOLDER/source.model, target.model                    SentencePiece: from text to pieces and back
FOLDER/translate.py, README.md                       how to use it, without evenglot
FOLDER/evenglot.json                                 where it comes from; also the sign that an export wrote the folder
"""

from evenglot.export.ctranslate2.agreement import Report, compare
from evenglot.export.ctranslate2.write import export

__all__ = ["Report", "compare", "export"]
