"""Grids on the small task: one that is only a file, and one whose runs are complete."""

import shutil

import pytest

from tests.grid.folder import GridFolder


@pytest.fixture
def grid(conf, tmp_path):
    """No run exists yet; the data are prepared."""
    return GridFolder(tmp_path, conf)


@pytest.fixture(scope="session")
def trained(conf, tmp_path_factory):
    """A grid whose two runs were trained and scored in this process, with a copy of them."""
    from evenglot.inference.engines import SearchOptions
    from evenglot.progress import Bars
    from evenglot.scoring.score_run import score_run
    from evenglot.training.parallel import Processes
    from evenglot.training.reference import baseline
    from evenglot.training.train import train

    base = tmp_path_factory.mktemp("complete")
    grid = GridFolder(base / "grid", conf, updates=6)
    _, jobs = grid.load()
    for job in jobs:
        train(job.config, job.run.folder)
        score_run(job.run, "test", SearchOptions(1, max_length=4), Bars(), device="cpu")
        for other in jobs:
            if other.needs and other.needs[0] == job.run:
                baseline(job.run, other.needs[1], other.needs[2], Processes(), Bars())
    shutil.copytree(grid.folder, base / "copy")
    return grid, base / "copy"


@pytest.fixture
def complete(trained):
    """The same for each test: what the last one changed is undone."""
    grid, copy = trained
    shutil.rmtree(grid.folder)
    shutil.copytree(copy, grid.folder)
    return grid
