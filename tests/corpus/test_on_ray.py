"""`evenglot prepare --on ray`: the same store from workers on several machines."""

import os
import sys
import time
from contextlib import closing
from functools import partial

import pytest
from typer.testing import CliRunner

import evenglot
from evenglot.cli import app
from evenglot.corpus import read, workers
from evenglot.corpus.on_ray import Cluster, on_ray
from evenglot.corpus.store import open_store
from evenglot.corpus.workers import WORTHWHILE, WorkerError, each, processes_for
from evenglot.extras import MissingExtraError
from tests.corpus.test_prepare import content_of
from tests.patience import PATIENCE
from tests.ray_clusters import Environment, closed_port, ray_cluster
from tests.training.commands import finish

GIVEN_TO_RAY = "blocks of text are given to Ray"


def refused(corpus):
    """The error of the command; nothing is left behind."""
    before = sorted(corpus.iterdir())
    done = CliRunner().invoke(app, ["prepare", str(corpus / "conf.yaml"), "--on", "ray"])
    assert sorted(corpus.iterdir()) == before
    return done.exception


@pytest.mark.parametrize("address", ["127.0.0.1:PORT", "nowhere"])
def test_without_a_cluster_nothing_is_prepared(corpus, monkeypatch, address):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address.replace("PORT", str(closed_port())))
    error = refused(corpus)
    assert isinstance(error, ValueError)
    assert "--on ray" in str(error)


def test_without_ray_the_error_says_what_to_install(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    error = refused(corpus)
    assert isinstance(error, MissingExtraError)
    assert "evenglot[ray]" in str(error)


def test_other_places_are_refused(corpus):
    with pytest.raises(ValueError, match="'dask'"):
        evenglot.prepare(corpus / "conf.yaml", on="dask")


@pytest.mark.slow
def test_two_nodes_make_the_same_store(corpus, tmp_path):
    conf = corpus / "conf.yaml"
    here = evenglot.prepare(conf, ["store.folder=here"])
    with ray_cluster(num_cpus=1) as cluster:
        cluster.add_node(num_cpus=1)
        arguments = ("prepare", conf, "--on", "ray", "--set", "store.folder=there")
        said = finish(*arguments, output=tmp_path / "said", before=SmallBlocks({"RAY_ADDRESS": cluster.address}))
    assert said.count(GIVEN_TO_RAY) == 4  # surroundings, scan, training and held-out text
    assert open_store(corpus / "there").fingerprint == here.fingerprint
    assert content_of(corpus / "there") == content_of(corpus / "here")


class SmallBlocks(Environment):
    """Makes a process cut small corpora into many blocks, and say how often it leaves them to Ray."""

    def __call__(self):
        super().__call__()
        read.BLOCK_LINES, workers.WORTHWHILE = 16, 0
        each_on_ray = Cluster.each

        def told(*arguments):
            print(GIVEN_TO_RAY, flush=True)
            return each_on_ray(*arguments)

        Cluster.each = told


@pytest.mark.slow
def test_tasks_on_ray_keep_their_order_and_errors_and_survive_their_workers(tmp_path, monkeypatch):
    with ray_cluster(num_cpus=1) as cluster:
        cluster.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        with on_ray():
            processes = processes_for(WORTHWHILE, 1)
            assert processes == 2
            assert processes_for(WORTHWHILE - 1, 4) == 1
            tasks = [(f"label {number}", str(number)) for number in range(50)]
            assert list(each(int, tasks, processes)) == [(f"label {number}", number) for number in range(50)]
            with closing(each(int, [(None, text) for text in "12x4y"], processes)) as results:
                assert [next(results)[1], next(results)[1]] == [1, 2]
                with pytest.raises(ValueError, match="'x'"):
                    next(results)
            homes = each(partial(meet, tmp_path), [(None, name) for name in "ab"], processes)
            assert {home for _, home in homes} == {node.node_id for node in cluster.worker_nodes}
            survivors = each(partial(die_once, tmp_path), [(None, name) for name in "cde"], processes)
            assert [name for _, name in survivors] == ["c", "d", "e"]
            with pytest.raises(WorkerError, match="--on ray"):
                list(each(os._exit, [(None, 3)], processes))


def meet(folder, name):
    """Wait until two tasks run at the same time; the node of this one."""
    import ray

    (folder / name).touch()
    until = time.monotonic() + PATIENCE
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < until, "the other task does not start"
        time.sleep(0.05)
    return ray.get_runtime_context().get_node_id()


def die_once(folder, name):
    """Take the worker down the first time; the name the second time."""
    if not (folder / name).exists():
        (folder / name).touch()
        os._exit(1)
    return name
