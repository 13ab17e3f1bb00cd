from __future__ import annotations

import pytest

from evenglot.runs.run import Run
from evenglot.serve import about
from tests.serve.clients import serving


@pytest.fixture(scope="module")
def model(run, translator):
    return about(Run(run), Run(run).config().balance.strategy, Run(run).best().step, translator)


@pytest.fixture(scope="module")
def url(translator, model):
    with serving(translator, model) as address:
        yield address
