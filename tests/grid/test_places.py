"""Where the runs of a grid are trained: their own GPUs, several processes, parts of a grid, a Ray cluster."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.files import LockedError, lock
from evenglot.grid.devices import Devices, visible_gpus
from evenglot.grid.plan import matching
from evenglot.grid.process import Here
from evenglot.grid.work import _locks, run_grid
from evenglot.runs.run import RunError
from evenglot.wording import last_message
from tests.grid.folder import names
from tests.ray_clusters import Environment, closed_port, ray_cluster
from tests.training.commands import events, wait_until

# --------------------------------------------------------------------------------------------------------- GPUs


@given(gpus=st.integers(1, 16), per_run=st.integers(1, 16), ended=st.lists(st.integers(0, 99), max_size=20))
def test_runs_share_a_gpu_only_if_there_are_more_of_them_than_groups(gpus, per_run, ended):
    if per_run > gpus:
        with pytest.raises(ValueError, match="--gpus-per-run"):
            Devices([str(i) for i in range(gpus)], per_run)
        return
    devices = Devices([str(i) for i in range(gpus)], per_run)
    groups = gpus // per_run
    running = [devices.take() for _ in range(groups)]
    used = [gpu for group in running for gpu in group.split(",")]
    assert len(used) == len(set(used)) == groups * per_run
    for position in ended:
        group = running.pop(position % len(running))
        devices.give_back(group)
        running.append(devices.take())
        assert running[-1] == group
    assert devices.take() in devices.groups


def test_without_gpus_runs_are_given_none():
    assert Devices([], 4).take() is None


def test_gpus_have_the_names_that_the_environment_gives_them(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, GPU-ab")
    assert visible_gpus() == ["5", "GPU-ab"]


def test_every_run_has_its_own_gpu_in_its_environment(grid, monkeypatch):
    _, jobs = grid.load({name: {"train": {"device": "auto"}} for name in ("erm", "chi")})
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    place = Here(jobs, gpus_per_run=2)
    assert place.at_once == 2
    first, second = (place.start(job, [["--version"]], ()) for job in jobs)
    assert (seen_by_process(first), seen_by_process(second)) == ("0,1", "2,3")
    second.wait()
    third = place.start(jobs[1], [["--version"]], ())
    assert seen_by_process(third) == "2,3"
    for work in (first, third):
        work.wait()


def seen_by_process(work):
    """The GPUs in the environment of the process of a run, which has just been started."""
    assert work.advance()
    return environment_of(work.process.pid)["CUDA_VISIBLE_DEVICES"]


def environment_of(pid):
    with open(f"/proc/{pid}/environ") as file:
        return dict(entry.split("=", 1) for entry in file.read().split("\0") if entry)


# ---------------------------------------------------------------------------------------------------- processes


@pytest.mark.slow
def test_a_run_may_have_several_processes(grid):
    plan, jobs = grid.load()
    (erm,) = matching(jobs, ["erm/*"])
    assert run_grid(plan, jobs, place=Here(jobs, gpus_per_run=2), only=[erm]) == []
    assert events(erm.run.folder, "config")[0]["processes"] == 2
    assert (erm.run.folder / "scores.json").exists()
    assert (erm.run.folder / "baseline-train-token.json").exists()


@pytest.mark.slow
def test_the_message_of_a_failed_process_is_found(grid):
    plan, jobs = grid.load({"erm": {"train": {"learning_rate": 1e30}}})
    failures = run_grid(plan, jobs, place=Here(jobs, gpus_per_run=2))
    assert {failure.job: failure.kind for failure in failures} == {"erm/seed-1": "failed", "chi/seed-1": "blocked"}
    assert "update " in str(failures[0])
    assert "not finite" in str(failures[0])


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "no output"),
        ("update 3\nKilled\n", "Killed"),
        ("evenglot: conf.yaml: first\nevenglot: conf.yaml: last\n", "conf.yaml: last"),
        (
            "evenglot (process 1): disk full\nevenglot (process 0): another process failed or ...\n=====\nexitcode: 2",
            "disk full",
        ),
    ],
)
def test_the_last_message_of_a_command_is_told(output, message):
    assert last_message(output) == message


# ----------------------------------------------------------------------------------------------- parts of a grid


def command(grid, *options):
    return CliRunner().invoke(app, ["grid", str(grid.file), *map(str, options)])


def test_a_list_has_a_name_per_line_and_providers_of_baselines_first(grid):
    grid.write(seeds=[1, 2])
    done = command(grid, "--list")
    assert done.exit_code == 0
    assert done.stdout.split() == ["erm/seed-1", "chi/seed-1", "erm/seed-2", "chi/seed-2"]
    assert not (grid.folder / "runs").exists()


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        (["erm/seed-2"], ["erm/seed-2"]),
        (["*/seed-1"], ["erm/seed-1", "chi/seed-1"]),
        (["chi/*", "erm/seed-1"], ["erm/seed-1", "chi/seed-1", "chi/seed-2"]),
    ],
)
def test_runs_are_chosen_by_name_or_pattern(grid, patterns, chosen):
    _, jobs = grid.load(seeds=[1, 2])
    assert names(matching(jobs, patterns)) == chosen


def test_a_name_that_no_run_has_is_refused(grid):
    done = command(grid, "--only", "erm/*", "--only", "emr/seed-1")
    assert isinstance(done.exception, ValueError)
    assert "emr/seed-1" in str(done.exception)


def test_parts_share_the_grid_but_not_a_run(grid):
    plan, jobs = grid.load()
    chi = matching(jobs, ["chi/*"])
    (grid.folder / "runs").mkdir()
    with lock(grid.folder / "runs", "", shared=True):
        assert [failure.kind for failure in run_grid(plan, jobs, only=chi)] == ["blocked"]  # its baseline is missing
        with pytest.raises(LockedError):
            run_grid(plan, jobs)
    with lock(grid.folder / "runs", ""), pytest.raises(LockedError):
        run_grid(plan, jobs, only=chi)
    with lock(chi[0].run.folder, "", name=".grid.lock"), pytest.raises(LockedError):
        run_grid(plan, jobs, only=chi)


def test_what_a_grid_puts_into_the_folder_of_a_run_is_in_nobodys_way(grid):
    """Training refuses folders with files of others, but not this one: its lock, its output, baselines it restored."""
    plan, (erm, chi) = grid.load()
    with _locks(plan, [erm]):
        Here([erm]).start(erm, [], ()).wait()
        chi.needs[1].write_text("{}")
        assert {path.name for path in erm.run.folder.iterdir()} == {".grid.lock", "output.txt", chi.needs[1].name}
        erm.run.refuse_other_files()
        (erm.run.folder / "thesis.tex").touch()
        with pytest.raises(RunError, match=r"\(thesis\.tex\)"):
            erm.run.refuse_other_files()


@pytest.mark.slow
def test_parts_that_run_beside_each_other_make_the_whole(grid, tmp_path):
    from tests.training.commands import Command, finish

    grid.write({"flat": {"balance": {"strategy": "uniform"}}})
    with ExitStack() as stack:
        parts = [
            stack.enter_context(Command("grid", grid.file, "--only", f"{name}/*", output=tmp_path / name))
            for name in ("erm", "flat")
        ]
        assert [part.wait() for part in parts] == [0, 0], [part.said for part in parts]
    assert not (grid.folder / "runs" / "comparison.json").exists()
    finish("grid", grid.file, output=tmp_path / "whole")
    assert len(json.loads((grid.folder / "runs" / "comparison.json").read_text())["rows"]) == 3
    assert len(events(grid.run("erm").folder, "config")) == 1


# ---------------------------------------------------------------------------------------------------------- Ray


@pytest.mark.parametrize("address", ["127.0.0.1:PORT", "nowhere"])
def test_without_a_cluster_ray_is_refused(grid, monkeypatch, address):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address.replace("PORT", str(closed_port())))
    done = command(grid, "--on", "ray")
    assert isinstance(done.exception, ValueError), done.output
    assert "--on ray" in str(done.exception)


def on_ray(cluster, grid, *options, output):
    """The command of a grid on this cluster."""
    from tests.training.commands import Command

    environment = Environment({"RAY_ADDRESS": cluster.address})
    return Command("grid", grid.file, "--on", "ray", *options, output=output, before=environment)


@pytest.mark.slow
def test_a_run_of_a_lost_machine_resumes_on_another(grid, tmp_path):
    """Two nodes on this machine; the one that trains is killed, with all its processes."""
    long = 600
    grid.write({"erm": {"train": {"updates": long, "save_every": 10}}})
    run = grid.run("erm").folder
    with ray_cluster(num_cpus=1) as cluster:
        cluster.add_node(num_cpus=1)
        with on_ray(cluster, grid, "--only", "erm/*", output=tmp_path / "said") as started:
            assert wait_until(lambda: len(events(run, "checkpoint")) > 2, lambda: started.runs), started.said
            saved = events(run, "checkpoint")[-1]["step"]
            (home,) = trainers_of(run)
            nodes = cluster.worker_nodes
            (lost,) = [node for node in nodes if node.all_processes["raylet"][0].process.pid in ancestors(home)]
            cluster.remove_node(lost, allow_graceful=False)
            assert started.wait() == 0, started.said
    assert [event["reason"] for event in events(run, "done")][-1] == "updates"
    resumed = events(run, "resume")
    assert len(resumed) == 1
    assert saved <= resumed[0]["step"] < long
    assert (run / "scores.json").exists()


@pytest.mark.slow
def test_runs_on_ray_have_their_own_gpus_and_end_with_the_grid(grid, tmp_path):
    """Ray counts GPUs that are not there: runs see their names, and train on the CPU."""
    names = ("erm", "flat")
    runs = [grid.run(name).folder for name in names]

    def start(updates, output):
        train = {"train": {"updates": updates, "device": "auto"}}
        grid.write({"erm": train, "flat": {"balance": {"strategy": "uniform"}, **train}})
        patterns = [word for name in names for word in ("--only", f"{name}/*")]
        return on_ray(cluster, grid, "--gpus-per-run", 2, *patterns, output=output)

    with ray_cluster(num_cpus=4, num_gpus=4) as cluster:
        with start(100_000, tmp_path / "first") as first:
            assert wait_until(lambda: all(events(run, "step") for run in runs), lambda: first.runs), first.said
            processes = [trainers_of(run) for run in runs]
            assert [len(each) for each in processes] == [2, 2]
            seen = [{environment_of(pid)["CUDA_VISIBLE_DEVICES"] for pid in each} for each in processes]
            first.signal(signal.SIGTERM)
            assert first.wait() == 128 + signal.SIGTERM, first.said
        assert wait_until(lambda: not any(trainers_of(run) for run in runs), lambda: True)
        used = [gpu for (group,) in seen for gpu in group.split(",")]
        assert sorted(used) == ["0", "1", "2", "3"]
        steps = [events(run, "done")[-1]["step"] for run in runs]
        assert [events(run, "checkpoint")[-1]["step"] for run in runs] == steps
        with start(max(steps) + 5, tmp_path / "second") as second:
            assert second.wait() == 0, second.said
    assert [events(run, "resume")[0]["step"] for run in runs] == steps
    assert [events(run, "done")[-1]["step"] for run in runs] == [max(steps) + 5] * 2
    assert all((run / "scores.json").exists() for run in runs)


def trainers_of(run):
    """The processes that train in a folder; of several that share a run, not the one that started them."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if b"train" in words and os.fsencode(run) in words and b"torch.distributed.run" not in words:
                found.append(int(entry))
        except OSError:  # it has ended meanwhile
            continue
    return found


def ancestors(pid):
    """The processes above a process."""
    found = []
    while pid > 1:
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        found.append(pid)
    return found
