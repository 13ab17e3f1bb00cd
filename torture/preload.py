"""What commands import when they need it: loaded once, before they are forked."""

import ctranslate2  # noqa: F401
import sacrebleu.metrics  # noqa: F401
import transformers.models.marian.tokenization_marian
import transformers.models.mbart.modeling_mbart  # noqa: F401

import evenglot.cli
import evenglot.corpus.prepare
import evenglot.grid.work
import evenglot.reporting.page
import evenglot.scoring.score_run
import evenglot.training.train  # noqa: F401
from evenglot.corpus.languages import can_identify

can_identify()  # loads a model
