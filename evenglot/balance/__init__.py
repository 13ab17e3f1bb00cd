"""What was observed -> what to show next: every strategy under one interface. NumPy only."""

from evenglot.balance.balancer import Balancer, GradientProbe, Mixture, Signal
from evenglot.balance.baseline import ideal, load_baseline, mean_losses, save_baseline
from evenglot.balance.catalogue import PRESETS, STRATEGIES, Preset, create
from evenglot.balance.groups import Groups
from evenglot.robust.validate import OptionError

__all__ = [
    "PRESETS",
    "STRATEGIES",
    "Balancer",
    "GradientProbe",
    "Groups",
    "Mixture",
    "OptionError",
    "Preset",
    "Signal",
    "create",
    "ideal",
    "load_baseline",
    "mean_losses",
    "save_baseline",
]
