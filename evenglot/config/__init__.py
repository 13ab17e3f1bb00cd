"""The configuration. `example.yaml` in this folder explains every key; it is the manual.

config = load_config("conf.yaml", ["balance.rho=0.1"])   # all errors at once, each with file and line
config.save("run/config.yaml")                           # every default filled in, paths absolute
"""

from pathlib import Path

from evenglot.config.data import DataSettings
from evenglot.config.differences import differences
from evenglot.config.errors import ConfigError
from evenglot.config.models import (
    BalanceSettings,
    BatchSettings,
    CleanSettings,
    Config,
    StoreSettings,
    VocabularySettings,
    load_config,
)
from evenglot.config.training import ModelSettings, TrainSettings

EXAMPLE = Path(__file__).with_name("example.yaml")

__all__ = [
    "EXAMPLE",
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
