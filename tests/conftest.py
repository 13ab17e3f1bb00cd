"""Settings for all tests."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads, as the command line does

from hypothesis import settings

from tests.tasks import conf, configure, run, translator

__all__ = ["conf", "configure", "run", "translator"]

# The same examples every time, so that a change is judged by what it changed; no deadline, as machines may be busy.
settings.register_profile("evenglot", max_examples=40, deadline=None, derandomize=True)
# New examples every time, to find what nobody thought of: pytest --hypothesis-profile=thorough
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("evenglot")
