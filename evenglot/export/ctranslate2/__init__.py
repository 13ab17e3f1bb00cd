"""Export to CTranslate2: a folder that is usable without evenglot, verified against torch.

FOLDER/model.bin, config.json, *_vocabulary.json     the CTranslate2 model
FOLDER/source.model, target.model                    SentencePiece models: text to subwords and back
FOLDER/translate.py, README.md                       example script and instructions; neither needs evenglot
FOLDER/evenglot.json                                 provenance; also marks the folder as an export
"""

from evenglot.export.ctranslate2.agreement import Report, compare
from evenglot.export.ctranslate2.write import export

__all__ = ["Report", "compare", "export"]
