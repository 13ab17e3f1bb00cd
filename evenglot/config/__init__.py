"""The configuration. Each key is declared once, with its meaning, range and flags (`key` in section.py).

`evenglot example`, `evenglot schema` and docs/configuration.md are generated from these declarations.

config = load_config("conf.yaml", ["balance.rho=0.1"])   # all errors at once, each with file and line
config.save("run/config.yaml")                           # every default filled in, paths absolute
"""

from evenglot.config.balance import BalanceSettings
from evenglot.config.batches import BatchSettings
from evenglot.config.data import DataSettings
from evenglot.config.differences import differences
from evenglot.config.errors import ConfigError
from evenglot.config.models import Config, load_config
from evenglot.config.preparation import CleanSettings, StoreSettings, VocabularySettings
from evenglot.config.training import ModelSettings, TrainSettings

__all__ = [
    "BalanceSettings",
    "BatchSettings",
    "CleanSettings",
    "Config",
    "ConfigError",
    "DataSettings",
    "ModelSettings",
    "StoreSettings",
    "TrainSettings",
    "VocabularySettings",
    "differences",
    "load_config",
]
