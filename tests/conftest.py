"""Settings for all tests."""

import os
import signal

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads, as the command line does
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the same sums on every machine; tests run beside each other anyway

import pytest
from hypothesis import settings

from tests.tasks import conf, configure, run, translator

__all__ = ["conf", "configure", "run", "translator"]

# What the shell, the terminal or the cluster of the person who tests has set must not matter.
TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE")
CLUSTER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
for name in (*TERMINAL, *CLUSTER):
    os.environ.pop(name, None)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in a shell's background jobs; processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, so that a change is judged by what it changed; no deadline, as machines may be busy.
settings.register_profile("evenglot", max_examples=40, deadline=None, derandomize=True)
# New examples every time, to find what nobody thought of: pytest --hypothesis-profile=thorough
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("evenglot")


@pytest.fixture
def bfloat16():
    """Skip where the CPU has no bfloat16 instructions, or they kill the process."""
    from evenglot.training.parallel import has_bfloat16

    if not has_bfloat16():
        pytest.skip("no bfloat16 instructions")
