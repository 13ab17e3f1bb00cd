"""Running what is missing of a grid, in real processes: order, failures, kills, and nothing twice."""

import json
import os
import shutil
import signal
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.files import LOCK, LockedError, lock
from evenglot.grid.display import GridDisplay
from evenglot.grid.plan import load_grid
from evenglot.grid.work import (
    OUTPUT,
    Workers,
    Working,
    _politely,
    _refuse_to_lengthen,
    commands,
    finished,
    grid_results,
    run_grid,
)
from evenglot.inference.engines import SearchOptions
from evenglot.progress import Bars
from evenglot.runs.run import RunError
from evenglot.scoring.score_run import score_run
from evenglot.scoring.sentence_statistics import SentenceStatistics
from evenglot.training.parallel import Processes
from evenglot.training.reference import baseline
from evenglot.training.train import train
from tests.grid.test_keep import finish as finish_run
from tests.training.commands import Command, descendants, events, failure, finish, wait_until

GRID = """\
base: {conf}
seeds: [1]
beam: 1
strategies:
  chi: {{balance: {{strategy: chi-ibr, rho: 0.1, baseline: erm}}}}
  erm: {{balance: {{strategy: proportional}}}}
"""
SCORES = ("scores.json", "statistics.npz")


@pytest.fixture
def plan(conf, tmp_path):
    """Reads a grid on the task, whose store is prepared; runs go below tmp_path."""

    def planned(text=GRID, folder=tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / "grid.yaml").write_text(text.format(conf=conf))
        return load_grid(folder / "grid.yaml")

    return planned


def settings(strategy, section):
    """The grid with a section more for a strategy."""
    line = next(line for line in GRID.splitlines() if line.startswith(f"  {strategy}:"))
    return GRID.replace(line, line.removesuffix("}}") + f", {section}}}}}")


@pytest.fixture(scope="module")
def done(conf, tmp_path_factory):
    """A grid whose runs were made in this process."""
    folder = tmp_path_factory.mktemp("done")
    (folder / "grid.yaml").write_text(GRID.replace("}}}}", "}}, train: {{updates: 6}}}}").format(conf=conf))
    grid, jobs = load_grid(folder / "grid.yaml")
    for job in jobs:
        train(job.config, job.run.folder)
        score_run(job.run, "test", SearchOptions(1, max_length=4), Bars(), device="cpu")
        for other in jobs:
            if other.needs and other.needs[0] == job.run:
                baseline(job.run, other.needs[1], other.needs[2], Processes(), Bars())
    return grid, jobs


# ---------------------------------------------------------------------------------------------- what is to be done


def test_commands_train_score_and_compute_what_others_need(plan, conf):
    grid, jobs = plan()
    erm, chi = jobs
    folder = str(erm.run.folder)
    overrides = ["--set", "seed=1", "--set", "balance={strategy: proportional}"]
    assert commands(grid, erm, jobs) == [
        ["train", str(conf), "--out", folder, "--resume", *overrides],
        ["score", folder, "--split", "test", "--beam", "1"],
        ["baseline", folder, "--out", f"{folder}/baseline-train-token.json", "--split", "train", "--per", "token"],
    ]
    assert [command[0] for command in commands(grid, chi, jobs)] == ["train", "score"]


def test_losses_of_each_kind_are_computed_once(plan):
    more = "".join(
        f"  {name}: {{{{balance: {{{{strategy: chi-ibr, rho: 1, signal: {split}, baseline: erm}}}}}}}}\n"
        for name, split in {"a": "train", "b": "valid", "c": "valid"}.items()
    )
    grid, jobs = plan(GRID + more)
    found = [command for command in commands(grid, jobs[0], jobs) if command[0] == "baseline"]
    assert [Path(command[3]).name for command in found] == ["baseline-train-token.json", "baseline-valid-token.json"]


def test_what_is_missing_decides_whether_a_run_is_finished(plan):
    grid, jobs = plan()
    erm, chi = jobs
    assert not finished(grid, erm, jobs)
    finish_run(erm)
    assert not finished(grid, erm, jobs)  # its losses are wanted too
    chi.needs[1].write_text("{}")
    assert finished(grid, erm, jobs)
    assert not finished(grid, chi, jobs)
    for name in SCORES:
        (erm.run.folder / name).rename(erm.run.folder / "aside")
        assert not finished(grid, erm, jobs), name
        (erm.run.folder / "aside").rename(erm.run.folder / name)
    assert finished(grid, erm, jobs)
    valid, _ = plan(GRID + "split: valid\n")
    assert not finished(valid, erm, jobs)


def test_a_run_that_was_stopped_is_not_finished(plan):
    grid, jobs = plan()
    finish_run(jobs[1])
    assert finished(grid, jobs[1], jobs)
    log = jobs[1].run.log_file
    log.write_text(log.read_text().replace('"reason": "updates"', '"reason": "stopped"'))
    assert not finished(grid, jobs[1], jobs)


def test_nor_is_one_that_is_to_be_longer(plan):
    _, jobs = plan()
    finish_run(jobs[1])
    grid, longer = plan(settings("chi", "train: {{updates: 30}}"))
    assert not finished(grid, longer[1], longer)
    log = jobs[1].run.log_file
    log.write_text(log.read_text().replace('"reason": "updates"', '"reason": "patience"'))
    grid, patient = plan(settings("chi", "train: {{patience: 3}}"))
    patient[1].config.save(jobs[1].run.config_file)
    assert finished(grid, patient[1], patient)
    grid, impatient = plan(settings("chi", "train: {{patience: 4}}"))
    assert not finished(grid, impatient[1], impatient)


def test_one_that_was_killed_on_a_longer_way_is_not_finished(plan):
    grid, jobs = plan()
    finish_run(jobs[1])
    with jobs[1].run.log_file.open("a") as log:
        log.write('{"event": "resume", "step": 24}\n')
    assert not finished(grid, jobs[1], jobs)


@pytest.mark.parametrize("change", ["learning_rate: 1", "clip: 2", "updates: 12", "average: 2"])
def test_a_finished_run_of_other_settings_is_not_taken_for_this_one(plan, change):
    """Some settings may change while a run is on its way; then it is another run."""
    _, jobs = plan()
    finish_run(jobs[1])
    grid, others = plan(settings("chi", f"train: {{{{{change}}}}}"))
    with pytest.raises(
        RunError, match=f"chi/seed-1: this run was made with another train.{change.split(':')[0]}; remove"
    ):
        finished(grid, others[1], others)


def test_a_run_is_not_made_longer_under_those_who_have_its_losses(plan):
    _, jobs = plan()
    for job in jobs:
        finish_run(job)
    jobs[1].needs[1].write_text("{}")
    grid, longer = plan(settings("erm", "train: {{updates: 30}}"))
    with pytest.raises(RunError, match="erm/seed-1: cannot be made longer: chi/seed-1 was trained against its losses"):
        run_grid(grid, longer)
    assert jobs[1].needs[1].exists()


def test_runs_at_the_same_time_share_the_cores(plan):
    grid, jobs = plan(settings("erm", "train: {{threads: null}}"))
    workers = Workers(grid, jobs, jobs, 10_000, print, GridDisplay(2, jobs, 2))
    for job, threads in zip(jobs, (1, None), strict=True):  # the task has train.threads
        work = workers._begin(job)
        assert work.threads == threads
        assert ("train.threads=1" in work.commands[0]) == (threads == 1)
        work.output.close()


def test_a_folder_with_a_run_of_other_settings_is_refused(plan):
    _, jobs = plan()
    finish_run(jobs[0])
    grid, others = plan(GRID.replace("proportional", "uniform"))
    with pytest.raises(RunError, match="erm/seed-1: balance.strategy changed since this run began"):
        finished(grid, others[0], others)


def begun(grid, jobs, job):
    """The commands for a job that is begun."""
    work = Workers(grid, jobs, jobs, 1, print, GridDisplay(len(jobs), jobs, 1))._begin(job)
    work.output.close()
    return [command[0] for command in work.commands]


def test_a_run_that_goes_on_gives_new_baselines(plan):
    _, jobs = plan()
    finish_run(jobs[0])
    jobs[1].needs[1].write_text("{}")
    grid, longer = plan(settings("erm", "train: {{updates: 30}}"))
    assert not finished(grid, longer[0], longer)
    assert begun(grid, longer, longer[0]) == ["train", "score", "baseline"]
    assert not jobs[1].needs[1].exists()


@pytest.mark.parametrize("reason", ["updates", "stopped"])
def test_a_run_that_is_trained_again_leaves_those_that_others_have(plan, reason):
    """Its checkpoints were removed, and something new is wanted of it; perhaps somebody stopped it on the way."""
    grid, jobs = plan()
    for job in jobs:
        finish_run(job)
    log = jobs[0].run.log_file
    log.write_text(log.read_text().replace('"reason": "updates"', f'"reason": "{reason}"'))
    jobs[1].needs[1].write_text("{}")
    _refuse_to_lengthen(jobs, jobs[:1])
    assert begun(grid, jobs, jobs[0]) == ["train", "score"]
    assert jobs[1].needs[1].exists()
    assert not log.exists()  # it begins anew


# ---------------------------------------------------------------------------------------------- nothing twice


def test_a_finished_grid_runs_nothing(done):
    grid, jobs = done
    before = {file: file.stat().st_mtime_ns for file in Path(grid.out).rglob("*.*") if file.name != LOCK}
    run_grid(grid, jobs)
    after = {file: file.stat().st_mtime_ns for file in Path(grid.out).rglob("*.*") if file.name != LOCK}
    assert after == before
    assert len(after) > 10
    assert not list(Path(grid.out).rglob(OUTPUT))


def test_its_results_are_those_of_its_rows(done):
    (results,) = grid_results(*done).values()
    assert [(result.row, result.seed, result.strategy) for result in results] == [
        ("erm", 1, "proportional"),
        ("chi", 1, "chi-ibr"),
    ]
    assert results[1].cost.reference_updates == 6


def test_the_command_compares_it_and_writes_into_its_folder(done):
    grid, _ = done
    file = Path(grid.out).parent / "grid.yaml"
    found = CliRunner().invoke(app, ["compare", str(file), "--format", "json"])
    assert json.loads(found.stdout)["reference"] == "erm"
    assert {each.name for each in Path(grid.out).glob("comparison.*")} == {
        f"comparison.{ending}" for ending in ("json", "md", "tex")
    }


def test_another_split_than_the_grids_is_not_ignored(done):
    found = CliRunner().invoke(app, ["compare", str(Path(done[0].out).parent / "grid.yaml"), "--split", "valid"])
    assert found.exit_code != 0


def test_two_do_not_work_on_one_grid(plan):
    grid, jobs = plan()
    Path(grid.out).mkdir()
    with lock(Path(grid.out), ""), pytest.raises(LockedError, match="another process is working on this grid"):
        run_grid(grid, jobs)


# ---------------------------------------------------------------------------------------------- processes


def working(job, *arguments):
    job.run.folder.mkdir(parents=True, exist_ok=True)
    return Working(job, deque(map(list, arguments)), (job.run.folder / OUTPUT).open("ab+"))


def until_done(work):
    while work.go_on():
        time.sleep(0.02)


def test_commands_run_one_after_the_other_and_their_words_are_kept(plan):
    _, jobs = plan()
    work = working(jobs[0], ["--version"], ["--version"])
    until_done(work)
    work.wait()
    assert (jobs[0].run.folder / OUTPUT).read_text().count("evenglot ") == 2


def test_a_failed_command_ends_the_job_with_its_last_words(plan):
    _, jobs = plan()
    work = working(jobs[0], ["prepare", "nowhere.yaml"], ["--version"])
    with pytest.raises(RunError, match=r"^erm/seed-1: nowhere.yaml: cannot be read: .* \(.*output.txt\)$"):
        until_done(work)
    work.wait()
    assert "evenglot 0" not in (jobs[0].run.folder / OUTPUT).read_text()


def test_training_that_somebody_stopped_is_not_scored(plan, monkeypatch):
    grid, jobs = plan()
    work = working(jobs[1], *commands(grid, jobs[1], jobs))
    finish_run(jobs[1])
    log = jobs[1].run.log_file
    log.write_text(log.read_text().replace('"reason": "updates"', '"reason": "stopped"'))
    monkeypatch.setattr(sys, "executable", shutil.which("true"))  # train ends as if all were well
    assert work.go_on()
    work.process.wait()
    with pytest.raises(RunError, match="^chi/seed-1: training was stopped before its end; start again to go on"):
        work.go_on()
    work.wait()


def test_a_command_that_was_killed_is_said_to_be(plan):
    _, jobs = plan()
    work = working(jobs[0], ["--version"], ["demo", "--out", str(jobs[0].run.folder / "demo")])
    assert work.go_on()
    work.process.wait()
    assert work.go_on()  # the second
    work.process.kill()
    work.process.wait()
    with pytest.raises(RunError) as caught:
        work.go_on()
    work.wait()
    assert "evenglot 0" not in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_become_an_orderly_end_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught, _politely():
        signal.raise_signal(number)
    assert caught.value.code == 128 + number
    assert signal.getsignal(number) is before


# ---------------------------------------------------------------------------------------------- real grids


def scores_of(folder: Path) -> dict:
    """Of all runs; times are not in them."""
    return {file.parent.relative_to(folder): json.loads(file.read_text()) for file in folder.rglob("scores.json")}


def statistics_of(folder: Path) -> dict:
    return {
        (file.parent.relative_to(folder), name, metric): counts
        for file in folder.rglob("statistics.npz")
        for name, by_metric in SentenceStatistics.load(file).counts.items()
        for metric, counts in by_metric.items()
    }


def same_results(left: Path, right: Path) -> bool:
    mine, theirs = statistics_of(left), statistics_of(right)
    return (
        scores_of(left) == scores_of(right)
        and mine.keys() == theirs.keys()
        and all(np.array_equal(mine[key], theirs[key]) for key in mine)
    )


@pytest.fixture(scope="module")
def uninterrupted(conf, tmp_path_factory):
    """A grid that nobody disturbed, and what was said."""
    folder = tmp_path_factory.mktemp("grid")
    (folder / "grid.yaml").write_text(GRID.format(conf=conf))
    said = finish("compare", folder / "grid.yaml", output=folder / "said")
    return folder, said


@pytest.mark.slow
def test_a_grid_is_run_scored_and_compared(uninterrupted):
    folder, said = uninterrupted
    for strategy in ("erm", "chi"):
        run = folder / "runs" / strategy / "seed-1"
        assert events(run, "done")[-1]["reason"] == "updates"
        assert (run / OUTPUT).exists()
    assert (folder / "runs" / "erm" / "seed-1" / "baseline-train-token.json").exists()
    assert events(folder / "runs" / "chi" / "seed-1", "config")[0]["reference"]["updates"] == 24
    assert said.index("erm/seed-1: done. 1/2 runs") < said.index("chi/seed-1: done. 2/2 runs")
    assert "chi against erm, mean chrF++" in said
    content = json.loads((folder / "runs" / "comparison.json").read_text())
    assert [row["name"] for row in content["rows"]] == ["erm", "chi"]
    assert (folder / "runs" / "comparison.md").exists()


@pytest.mark.slow
def test_a_second_start_only_compares(uninterrupted, tmp_path):
    folder, _ = uninterrupted
    logs = {file: file.read_bytes() for file in folder.rglob("log.jsonl")}
    said = finish("compare", folder / "grid.yaml", "--format", "json", output=tmp_path / "said")
    assert "runs are done" not in said
    assert {file: file.read_bytes() for file in folder.rglob("log.jsonl")} == logs


def training(folder: Path, strategy: str, step: int) -> bool:
    found = events(folder / "runs" / strategy / "seed-1", "step")
    return bool(found) and found[-1]["step"] >= step


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "step"), [("erm", 8), ("erm", 24), ("chi", 12)])
def test_after_a_power_cut_it_goes_on_and_ends_the_same(uninterrupted, plan, tmp_path, strategy, step):
    plan()
    with Command("compare", tmp_path / "grid.yaml", output=tmp_path / "said") as command:
        assert wait_until(lambda: training(tmp_path, strategy, step), lambda: command.runs), command.said
        for pid in (command.members[0].pid, *descendants(command.members[0].pid)):
            os.kill(pid, signal.SIGKILL)
        command.wait()
    finish("compare", tmp_path / "grid.yaml", output=tmp_path / "again")
    assert same_results(tmp_path, uninterrupted[0])


@pytest.mark.slow
def test_after_a_kill_of_the_grid_alone_too(plan, tmp_path):
    plan(settings("erm", "train: {{updates: 600}}"))
    with Command("compare", tmp_path / "grid.yaml", output=tmp_path / "said") as command:
        assert wait_until(lambda: training(tmp_path, "erm", 8), lambda: command.runs), command.said
        orphans = descendants(command.members[0].pid)
        os.kill(command.members[0].pid, signal.SIGKILL)
        command.wait()
    try:
        with Command("compare", tmp_path / "grid.yaml", output=tmp_path / "again") as command:
            code = command.wait()
        assert code == 0 or "another process is working on this grid" in command.said, command.said
        assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans), lambda: True)
        finish("compare", tmp_path / "grid.yaml", output=tmp_path / "again")
    finally:
        for pid in orphans:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_asked_to_end_it_lets_runs_save_and_goes_on_later(uninterrupted, plan, tmp_path, number):
    plan()
    with Command("compare", tmp_path / "grid.yaml", output=tmp_path / "said") as command:
        assert wait_until(lambda: training(tmp_path, "erm", 8), lambda: command.runs), command.said
        children = descendants(command.members[0].pid)
        command.signal(number)
        assert command.wait() == 128 + number
        assert children
        assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    run = tmp_path / "runs" / "erm" / "seed-1"
    if (done := events(run, "done"))[-1]["reason"] == "stopped":  # or it was faster than the signal
        assert (run / "checkpoints" / f"step-{done[-1]['step']:08d}").exists()
    assert "Traceback" not in command.said
    finish("compare", tmp_path / "grid.yaml", output=tmp_path / "again")
    assert same_results(tmp_path, uninterrupted[0])


@pytest.mark.slow
def test_two_runs_at_a_time_end_the_same(uninterrupted, plan, tmp_path):
    plan(GRID.replace("seeds: [1]", "seeds: [1, 2]"))
    finish("compare", tmp_path / "grid.yaml", "--jobs", "2", output=tmp_path / "said")
    assert {f"{path}" for path in scores_of(tmp_path)} == {
        f"runs/{strategy}/seed-{seed}" for strategy in ("erm", "chi") for seed in (1, 2)
    }
    mine, theirs = scores_of(tmp_path), scores_of(uninterrupted[0])
    assert {path: mine[path] for path in theirs} == theirs


@pytest.mark.slow
def test_one_failure_does_not_stop_the_others(plan, tmp_path):
    plan(settings("erm", "train: {{learning_rate: 1e30}}") + "  flat: {{balance: {{strategy: uniform}}}}\n")
    with Command("compare", tmp_path / "grid.yaml", output=tmp_path / "said") as command:
        assert command.wait() == 2
    lines = [line for line in command.said.splitlines() if line.startswith("evenglot: ")]
    assert lines[0].startswith("evenglot: erm/seed-1: ")
    assert "finite" in lines[0]
    assert "output.txt" in lines[0]
    assert lines[1].startswith("evenglot: chi/seed-1: needs ")
    assert lines[2] == "evenglot: 2 of 3 runs failed; the others are done"
    assert "Traceback" not in command.said
    assert (tmp_path / "runs" / "flat" / "seed-1" / "scores.json").exists()


@pytest.mark.slow
def test_kept_runs_are_not_run_again(uninterrupted, plan, tmp_path):
    """Also not for their baselines: only what is new is trained."""
    folder, _ = uninterrupted
    finish("compare", folder / "grid.yaml", "--keep", tmp_path / "kept", output=tmp_path / "said")
    shutil.rmtree(tmp_path / "kept" / "chi")
    plan()
    finish("compare", tmp_path / "grid.yaml", "--keep", tmp_path / "kept", output=tmp_path / "said")
    assert not (tmp_path / "runs" / "erm" / "seed-1" / "log.jsonl").exists()
    assert events(tmp_path / "runs" / "chi" / "seed-1", "done")
    assert same_results(tmp_path / "kept", folder / "runs")
    for file in (tmp_path / "kept").rglob("*.*"):
        assert str(tmp_path).encode() not in file.read_bytes()
        assert str(folder).encode() not in file.read_bytes()


@pytest.mark.slow
def test_a_kept_run_is_trained_again_if_a_new_strategy_needs_losses_that_were_not_kept(uninterrupted, plan, tmp_path):
    folder, _ = uninterrupted
    finish("compare", folder / "grid.yaml", "--keep", tmp_path / "kept", output=tmp_path / "said")
    (tmp_path / "kept" / "erm" / "seed-1" / "baseline-train-token.json").unlink()
    shutil.rmtree(tmp_path / "kept" / "chi")
    plan()
    finish("compare", tmp_path / "grid.yaml", "--keep", tmp_path / "kept", output=tmp_path / "said")
    assert same_results(tmp_path / "kept", folder / "runs")


@pytest.mark.slow
def test_so_is_one_whose_checkpoints_were_removed(plan, tmp_path):
    plan(GRID + "checkpoints: remove\n")
    finish("compare", tmp_path / "grid.yaml", output=tmp_path / "said")
    losses = (tmp_path / "runs" / "erm" / "seed-1" / "baseline-train-token.json").read_bytes()
    plan(
        GRID
        + "  ear: {{balance: {{strategy: chi-ibr, rho: 0.1, signal: valid, baseline: erm}}}}\ncheckpoints: remove\n"
    )
    finish("compare", tmp_path / "grid.yaml", output=tmp_path / "said")
    assert (tmp_path / "runs" / "ear" / "seed-1" / "scores.json").exists()
    assert (tmp_path / "runs" / "erm" / "seed-1" / "baseline-train-token.json").read_bytes() == losses


@pytest.mark.slow
def test_failures_are_told_beside_the_comparison_of_the_others(plan, tmp_path):
    """Also where no reference is named: the run on the data as they are is it."""
    plan(settings("chi", "train: {{learning_rate: 1e30}}") + "  flat: {{balance: {{strategy: uniform}}}}\n")
    with Command("compare", tmp_path / "grid.yaml", output=tmp_path / "said") as command:
        assert command.wait() == 2
    assert "flat against erm, mean chrF++" in command.said
    assert "evenglot: chi/seed-1: " in command.said


# ---------------------------------------------------------------------------------------------- the command


def test_a_mistake_in_the_grid_is_refused_in_a_line(tmp_path):
    (tmp_path / "grid.yaml").write_text("base: conf.yaml\nstrategis: {}\n")
    found = CliRunner().invoke(app, ["compare", str(tmp_path / "grid.yaml")])
    assert isinstance(found.exception, ValueError)
    assert "grid.yaml:2: strategis: unknown key; did you mean 'strategies'?" in str(found.exception)


@pytest.mark.slow
def test_an_unknown_reference_is_refused_before_anything_runs(plan, tmp_path):
    _, jobs = plan("base: {conf}\nstrategies: {{erm: {{}}}}\nseeds: [1]\n")
    said = failure("compare", tmp_path / "grid.yaml", "--reference", "emr", output=tmp_path / "said")
    assert "emr" in said
    assert not jobs[0].run.folder.exists()
