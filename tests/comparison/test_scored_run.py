"""What a comparison reads from the folders of runs."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from evenglot.comparison.scored_run import Cost, read_scored_run
from evenglot.inference.engines import SearchOptions
from evenglot.progress import Bars
from evenglot.runs.log import Log
from evenglot.runs.run import Run, RunError
from evenglot.scoring.metrics import METRICS
from evenglot.scoring.score_run import score_run
from evenglot.scoring.sentence_statistics import SentenceStatistics
from evenglot.training.train import train
from tests.logs import event, json_events, scores_json
from tests.tasks import HELD_OUT, SIZES

NAMES = ("aa-en", "bb-en")


def write_run(folder: Path, balance=None, reference=None, validations=(), done=True, scored="test") -> Run:
    """A run of 10 updates, as far as a comparison looks into it."""
    run = Run(folder)
    log = Log(run.log_file)
    log.write(
        event(
            "config",
            0,
            config={"seed": 7, "balance": balance or {"strategy": "proportional"}},
            strategy=(balance or {"strategy": "proportional"})["strategy"],
            directions={"aa-en": {"pairs": 100, "p": 0.8, "q": 0.8}, "bb-en": {"pairs": 25, "p": 0.2, "q": 0.2}},
            reference=reference,
        )
    )
    log.write(event("interval", 0, mixture={"aa-en": 0.5, "bb-en": 0.5}, pairs={"aa-en": 50, "bb-en": 50}, updates=10))
    for best, losses in validations:
        log.write(event("validation", 5, loss=losses, loss_per_character=losses, best=best))
    log.write(event("step", 8, losses={}, tokens=800, seconds=4.0))
    if done:
        log.write(event("done", 10, reason="updates", tokens=1000, seconds=5.0))
    log.close()
    if scored:
        ending = "" if scored == "test" else f"-{scored}"
        (folder / f"scores{ending}.json").write_text(scores_json(split=scored, signature={"bleu": "s"}))
        counts = {name: {"loss": np.ones((3, 2))} for name in NAMES}
        SentenceStatistics(counts, dict.fromkeys(NAMES, "r")).save(folder / f"statistics{ending}.npz")
    return run


@pytest.fixture
def scored(run, tmp_path):
    """The run of the task, scored on its test set."""
    home = Run(Path(shutil.copytree(run, tmp_path / "run")))
    scores, _ = score_run(home, "test", SearchOptions(1), Bars(), device="cpu")
    return home, scores


# -------------------------------------------------------------------------------------------------- a real run


def test_a_scored_run_is_read_with_all_a_comparison_needs(scored):
    home, scores = scored
    found = read_scored_run(home, "uniform", "test")
    assert (found.row, found.folder, found.seed, found.strategy) == ("uniform", home.folder, 1, "uniform")
    assert found.tau == math.inf
    assert found.pairs == {f"{language}-en": size for language, size in SIZES.items()}
    assert found.signature == scores["signature"]
    assert found.cost.updates == 260
    assert found.cost.tokens > 260 * 100
    assert found.cost.seconds > 0
    assert (found.cost.reference_updates, found.cost.reference_seconds) == (0, 0.0)
    assert found.passes["cc-en"] > 4 * found.passes["aa-en"] > 0  # uniform: as many sentences of each
    best = [each for each in json_events(home.log_file) if each["event"] == "validation" and each["best"]][-1]
    assert found.validation == best["loss_per_character"]


def test_settings_are_those_that_a_resumed_run_ended_with(scored):
    home, _ = scored
    before = read_scored_run(home, "row", "test").settings
    assert before["train"]["learning_rate"] != 1e-5
    train(home.config(["train.updates=261", "train.learning_rate=1e-5"]), home.folder, resume=True)
    train(home.config(["train.updates=262"]), home.folder, resume=True)
    after = read_scored_run(home, "row", "test").settings
    assert after == {**before, "train": {**before["train"], "learning_rate": 1e-5}}


def test_its_statistics_make_its_scores(scored):
    home, scores = scored
    found = read_scored_run(home, "uniform", "test").statistics
    assert set(found.counts) == set(scores["directions"])
    for name, by_metric in found.counts.items():
        assert {len(counts) for counts in by_metric.values()} == {HELD_OUT}
        for metric, key in {"bleu": "bleu", "chrf": "chrf", "ter": "ter", "loss": "loss_per_character"}.items():
            score = float(METRICS[metric].score(by_metric[metric].sum(axis=0, dtype=float)))
            assert score == pytest.approx(scores["directions"][name][key], rel=1e-6)
    assert scores["directions"]["aa-en"]["bleu"] > 5  # it has learnt something


def test_given_translations_have_no_loss(scored):
    home, _ = scored
    score_run(home, "test", SearchOptions(1), Bars(), hypotheses=home.folder / "hypotheses" / "test")
    found = read_scored_run(home, "uniform", "test").statistics
    assert all(set(by_metric) == {"bleu", "chrf", "ter"} for by_metric in found.counts.values())


# -------------------------------------------------------------------------------------------------- refusals


def test_a_run_that_is_not_scored_says_how_to_score_it(tmp_path):
    run = write_run(tmp_path / "run", scored="")
    with pytest.raises(RunError, match=rf"`evenglot score {run.folder}`$"):
        read_scored_run(run, "row", "test")
    with pytest.raises(RunError, match=rf"`evenglot score {run.folder} --split valid`$"):
        read_scored_run(run, "row", "valid")


def test_each_split_has_scores_of_its_own(tmp_path):
    run = write_run(tmp_path / "run", scored="valid")
    assert read_scored_run(run, "row", "valid").seed == 7
    with pytest.raises(RunError, match=rf"`evenglot score {run.folder}`$"):
        read_scored_run(run, "row", "test")


def test_scores_of_an_older_version_must_be_made_again(tmp_path):
    run = write_run(tmp_path / "run")
    (run.folder / "statistics.npz").unlink()
    with pytest.raises(RunError, match=rf"`evenglot score {run.folder}`$"):
        read_scored_run(run, "row", "test")


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="nowhere: "):
        read_scored_run(Run(tmp_path / "nowhere"), "row", "test")
    with pytest.raises(RunError, match=rf"{tmp_path}: .*log\.jsonl"):
        read_scored_run(Run(tmp_path), "row", "test")
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(RunError, match="log.jsonl: "):
        read_scored_run(Run(tmp_path), "row", "test")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "{}",
    ],
)
def test_damaged_scores_are_named(tmp_path, content):
    run = write_run(tmp_path / "run")
    (run.folder / "scores.json").write_text(content)
    with pytest.raises(ValueError, match="scores.json"):
        read_scored_run(run, "row", "test")


# -------------------------------------------------------------------------------------------------- what it says


@pytest.mark.parametrize(
    ("balance", "tau"),
    [
        ({"strategy": "proportional"}, 1),
        ({"strategy": "uniform"}, math.inf),
        ({"strategy": "temperature", "tau": 5.0}, 5),
        ({"strategy": "temperature", "tau": 1}, 1),
        ({"strategy": "temperature", "tau": math.inf}, math.inf),  # null in the log
        ({"strategy": "chi-ibr", "rho": 0.1}, None),
        ({"strategy": "unimax", "passes": 3}, None),
    ],
)
def test_only_static_temperatures_have_a_tau(tmp_path, balance, tau):
    assert read_scored_run(write_run(tmp_path / "run", balance), "row", "test").tau == tau


def test_cost_is_that_of_the_end(tmp_path):
    assert read_scored_run(write_run(tmp_path / "run"), "row", "test").cost == Cost(10, 1000, 5.0)


def test_a_run_that_was_killed_has_cost_what_it_had_by_then(tmp_path):
    assert read_scored_run(write_run(tmp_path / "run", done=False), "row", "test").cost == Cost(8, 800, 4.0)


def test_the_run_that_baselines_come_from_is_counted_beside_it(tmp_path):
    run = write_run(tmp_path / "run", {"strategy": "chi-ibr"}, reference={"updates": 300, "seconds": 60.5})
    assert read_scored_run(run, "row", "test").cost == Cost(10, 1000, 5.0, 300, 60.5)


@pytest.mark.parametrize("given", ["auto", "file"])
def test_training_says_what_its_baselines_cost(configure, tmp_path, given):
    """From the log of a real run, whose reference was trained on the way or before."""
    from evenglot.training.reference import baseline
    from evenglot.training.train import train

    short = {"updates": 6, "log_every": 2}
    file = "auto"
    if given == "file":
        before = Run(tmp_path / "erm")
        train(configure(train={**short, "updates": 5}), before.folder)
        file = str(tmp_path / "losses.json")
        from evenglot.balance import Signal
        from evenglot.training.parallel import Processes

        baseline(before, Path(file), Signal(), Processes(), Bars())
    run = Run(tmp_path / "chi")
    train(configure(balance={"strategy": "chi-ibr", "rho": 0.1, "baseline": file}, train=short), run.folder)
    score_run(run, "test", SearchOptions(1, max_length=4), Bars(), device="cpu")
    cost = read_scored_run(run, "chi", "test").cost
    assert (cost.updates, cost.reference_updates) == (6, 6 if given == "auto" else 5)
    assert cost.reference_seconds > 0


def test_validation_is_that_of_the_best_model(tmp_path):
    losses = [(True, {"aa-en": 3.0}), (True, {"aa-en": 2.0}), (False, {"aa-en": 2.5})]
    assert read_scored_run(write_run(tmp_path / "run", validations=losses), "row", "test").validation == {"aa-en": 2.0}


def test_without_validation_there_are_no_losses(tmp_path):
    assert read_scored_run(write_run(tmp_path / "run"), "row", "test").validation == {}


def test_passes_follow_from_what_was_drawn(tmp_path):
    assert read_scored_run(write_run(tmp_path / "run"), "row", "test").passes == {"aa-en": 0.5, "bb-en": 2.0}


@pytest.mark.parametrize(("scored_at", "behind"), [(5, False), (3, True)])
def test_scores_of_an_earlier_checkpoint_are_noticed_before_the_run_is_done(scored_at, behind, tmp_path):
    run = write_run(tmp_path, validations=[(True, dict.fromkeys(NAMES, 1.0))], done=False)
    log = Log(run.log_file)
    log.write(event("checkpoint", 5, folder="checkpoints/step-00000005"))
    log.close()
    made = {"which": "best", "step": scored_at}
    (tmp_path / "scores.json").write_text(scores_json(signature={"bleu": "s"}, made=made))
    assert read_scored_run(run, "a", "test").behind == behind
