"""Runs side by side: who wins, what is worst, which halves there are, and what is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from evenglot.comparison.compare import Comparison, compare
from evenglot.comparison.scored_run import Cost, ScoredRun
from evenglot.comparison.warnings import ComparisonWarning
from evenglot.scoring.metrics import METRICS
from evenglot.scoring.sentence_statistics import SentenceStatistics

SENTENCES = 60
PAIRS = {"aa-en": 1000, "bb-en": 300, "cc-en": 20}


def counts_of(quality: float, direction: str, seed: int) -> dict:
    """Of a system that gets this part of the words right: every metric is better where it is higher."""
    random = np.random.default_rng([seed, *direction.encode()])
    words = np.full(SENTENCES, 20)
    right = random.binomial(words, quality)
    bleu = [words, words, *(np.maximum(right - n, 0) for n in range(4)), *(words - n for n in range(4))]
    chrf = [column for _ in range(8) for column in (words, words, right)]
    loss = [(1 - right / words) * 50 + 1, np.full(SENTENCES, 40.0)]
    ter = [words - right, words]
    return {
        key: np.stack(columns, 1) for key, columns in (("bleu", bleu), ("chrf", chrf), ("ter", ter), ("loss", loss))
    }


def result(
    row: str, quality: dict[str, float] | float = 0.5, *, seed=1, pairs=PAIRS, without=(), **changes: object
) -> ScoredRun:
    """A scored run, made up; `without`: metrics it lacks."""
    by_direction = quality if isinstance(quality, dict) else dict.fromkeys(pairs, quality)
    counts = {
        name: {metric: c for metric, c in counts_of(q, name, seed).items() if metric not in without}
        for name, q in by_direction.items()
    }
    given = {
        "row": row,
        "folder": Path("runs") / row / f"seed-{seed}",
        "seed": seed,
        "strategy": "proportional",
        "tau": 1.0 if row == "erm" else None,
        "pairs": dict(pairs),
        "passes": dict.fromkeys(pairs, 2.0),
        "validation": {name: 2 - q for name, q in by_direction.items()},
        "statistics": SentenceStatistics(counts, {name: f"references of {name}" for name in by_direction}),
        "signature": {"bleu": "b", "chrf": "c"},
        "made": {"beam": 5, "which": "best"},
        "behind": False,
        "cost": Cost(100, 1e6, 60.0),
    }
    return ScoredRun(**{**given, **changes})


def compared(*results: ScoredRun, reference: str | None = None) -> tuple[Comparison, list[ComparisonWarning]]:
    comparison = compare(results, reference, "test")
    return comparison, comparison.warnings


def of_kind(warnings: list[ComparisonWarning], kind: str) -> ComparisonWarning:
    """The only one of its kind."""
    (found,) = [warning for warning in warnings if warning.kind == kind]
    return found


def row_of(comparison: Comparison, name: str) -> dict:
    return next(row for row in comparison.as_json()["rows"] if row["name"] == name)


# --------------------------------------------------------------------------------------------- wins and losses

MIXED = {"aa-en": 0.35, "bb-en": 0.5, "cc-en": 0.7}  # worse, the same sentences exactly, better


def test_wins_and_losses_are_in_the_sense_of_the_metric():
    comparison, _ = compared(result("erm"), result("chi", MIXED))
    for metric in METRICS:
        found = row_of(comparison, "chi")["difference"][metric]
        assert (found["wins"], found["ties"], found["losses"]) == (1, 1, 1), metric
        assert found["harmed"] == ["aa-en"], metric
        sign = 1 if METRICS[metric].higher_is_better else -1
        assert sign * found["directions"]["cc-en"]["difference"] > 0
        assert sign * found["directions"]["aa-en"]["difference"] < 0


def test_the_same_system_ties_everywhere():
    comparison, _ = compared(result("erm"), result("twin"))
    for found in row_of(comparison, "twin")["difference"].values():
        assert (found["wins"], found["ties"], found["losses"], found["harmed"]) == (0, 3, 0, [])
        assert found["mean"] == {"difference": 0.0, "interval": (0.0, 0.0), "p": 1.0}


def test_significance_is_after_holm():
    comparison, _ = compared(result("erm"), result("chi", {"aa-en": 0.52, "bb-en": 0.53, "cc-en": 0.54}))
    for metric in METRICS:
        found = comparison.findings(comparison.rows[1], metric)
        assert all(found.p_holm[name] >= each.p for name, each in found.directions.items())
        assert set(found.wins) == {name for name, p in found.p_holm.items() if p < 0.05}
        assert found.losses == []


def test_differences_are_row_minus_reference():
    comparison, _ = compared(result("erm"), result("chi", 0.7))
    chi, erm = (row_of(comparison, name) for name in ("chi", "erm"))
    for metric in METRICS:
        for group in ("mean", "low_resource", "high_resource"):
            expected = chi["scores"][metric][group]["mean"] - erm["scores"][metric][group]["mean"]
            found = chi["difference"][metric][group]
            assert found["difference"] == pytest.approx(expected)
            assert found["interval"][0] < expected < found["interval"][1]
    assert erm["difference"] is None


def test_swapping_the_reference_mirrors_everything():
    runs = [result("erm"), result("chi", MIXED)]
    there, back = (compared(*runs, reference=name)[0] for name in ("erm", "chi"))
    for metric in METRICS:
        mine, theirs = (c.findings(c.rows[1], metric) for c in (there, back))
        assert mine.wins == theirs.losses
        assert mine.losses == theirs.wins
        for name in PAIRS:
            assert theirs.directions[name].difference == -mine.directions[name].difference
            assert theirs.directions[name].p == pytest.approx(mine.directions[name].p, abs=0.003)


# --------------------------------------------------------------------------------------------- the worst direction


def test_the_worst_is_chosen_on_validation_not_on_test():
    """By test scores it would be aa-en."""
    validation = {"aa-en": 1.0, "bb-en": 9.0, "cc-en": 2.0}
    comparison, _ = compared(result("erm", MIXED, validation=validation))
    scores = row_of(comparison, "erm")["scores"]
    for metric in METRICS:
        assert scores[metric]["worst"]["direction"] == "bb-en"
        assert scores[metric]["worst"]["mean"] == scores[metric]["directions"]["bb-en"]["mean"]


def test_without_validation_the_test_set_must_choose():
    comparison, warnings = compared(result("erm", MIXED, validation={}))
    assert comparison.as_json()["worst_by"] == "test"
    assert of_kind(warnings, "worst-chosen-on-test")
    scores = row_of(comparison, "erm")["scores"]
    assert {metric: scores[metric]["worst"]["direction"] for metric in METRICS} == dict.fromkeys(METRICS, "aa-en")


def test_a_direction_without_validation_leaves_the_choice_to_the_others():
    """It would be aa-en, by its scores."""
    validation = {"bb-en": 1.0, "cc-en": 2.0}
    comparison, warnings = compared(result("erm", MIXED, validation=validation), result("chi", MIXED))
    assert row_of(comparison, "erm")["scores"]["chrf"]["worst"]["direction"] == "cc-en"
    assert row_of(comparison, "chi")["scores"]["chrf"]["worst"]["direction"] == "bb-en"
    assert comparison.as_json()["worst_by"] == "validation"
    assert of_kind(warnings, "validation-incomplete").directions == ("aa-en",)


def test_each_row_has_a_worst_direction_of_its_own():
    comparison, _ = compared(result("erm", {**MIXED, "aa-en": 0.6, "cc-en": 0.3}), result("chi", MIXED))
    erm, chi = (row_of(comparison, name) for name in ("erm", "chi"))
    assert erm["scores"]["chrf"]["worst"]["direction"] == "cc-en"
    assert chi["scores"]["chrf"]["worst"]["direction"] == "aa-en"
    expected = chi["scores"]["chrf"]["worst"]["mean"] - erm["scores"]["chrf"]["worst"]["mean"]
    assert chi["difference"]["chrf"]["worst"]["difference"] == pytest.approx(expected)


# --------------------------------------------------------------------------------------------- halves


@pytest.mark.parametrize(
    ("pairs", "low", "high"),
    [
        ({"aa-en": 1}, [], []),
        ({"aa-en": 1, "bb-en": 9}, ["aa-en"], ["bb-en"]),
        ({"aa-en": 5, "bb-en": 9, "cc-en": 1}, ["cc-en"], ["bb-en"]),
        ({"aa-en": 5, "bb-en": 5, "cc-en": 5, "dd-en": 5}, ["cc-en", "dd-en"], ["aa-en", "bb-en"]),
        ({"aa-en": 1, "bb-en": 2, "cc-en": 3, "dd-en": 4, "ee-en": 5}, ["bb-en", "aa-en"], ["ee-en", "dd-en"]),
    ],
)
def test_halves_by_size_leave_out_the_middle(pairs, low, high):
    comparison, _ = compared(result("erm", pairs=pairs), result("chi", 0.7, pairs=pairs))
    assert (comparison.low_resource, comparison.high_resource) == (low, high)
    content = comparison.as_json()
    resources = {name: facts["resource"] for name, facts in content["directions"].items()}
    assert {name for name, resource in resources.items() if resource == "low"} == set(low)
    assert {name for name, resource in resources.items() if resource == "high"} == set(high)
    assert [facts["pairs"] for facts in content["directions"].values()] == sorted(pairs.values(), reverse=True)


def test_one_direction_has_no_halves():
    comparison, _ = compared(result("erm", pairs={"aa-en": 1}), result("chi", 0.7, pairs={"aa-en": 1}))
    chi = row_of(comparison, "chi")
    assert chi["scores"]["bleu"]["low_resource"] is None
    assert chi["difference"]["bleu"]["high_resource"] is None
    assert chi["difference"]["bleu"]["mean"] == {
        key: chi["difference"]["bleu"]["directions"]["aa-en"][key] for key in ("difference", "interval", "p")
    }


# --------------------------------------------------------------------------------------------- reference


def test_the_reference_is_that_on_the_data_as_they_are_and_comes_first():
    comparison, _ = compared(result("chi"), result("flat", tau=math.inf), result("plain", tau=1.0), result("t1", tau=1))
    assert [row.name for row in comparison.rows] == ["plain", "chi", "flat", "t1"]


def test_or_the_first_where_there_is_none():
    comparison, _ = compared(result("chi"), result("flat", tau=math.inf))
    assert comparison.reference.name == "chi"


def test_or_the_named_one():
    comparison, _ = compared(result("erm"), result("chi"), reference="chi")
    assert [row.name for row in comparison.rows] == ["chi", "erm"]
    assert comparison.as_json()["reference"] == "chi"


def test_the_same_runs_beside_another_reference_are_the_same_comparison():
    runs = [result(row, q, seed=seed) for row, q in (("erm", 0.5), ("chi", 0.6), ("tau", MIXED)) for seed in (1, 2)]
    again = compared(*runs)[0].against("tau")
    assert again.as_json() == compared(*runs, reference="tau")[0].as_json()


def test_an_unknown_one_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="^--reference chii: .*erm, chi$"):
        compared(result("erm"), result("chi"), reference="chii")


def test_nothing_cannot_be_compared():
    with pytest.raises(ValueError, match="compare"):
        compared()


# --------------------------------------------------------------------------------------------- the same sentences


def test_different_test_sentences_are_refused():
    other = result("chi")
    references = {**other.statistics.references, "bb-en": "something else"}
    other = result("chi", statistics=SentenceStatistics(other.statistics.counts, references))
    with pytest.raises(ValueError, match="^bb-en: .*runs/erm/seed-1.*runs/chi/seed-1"):
        compared(result("erm"), other)


def test_only_directions_that_all_have_are_compared():
    fewer = {name: PAIRS[name] for name in ("aa-en", "cc-en")}
    comparison, _ = compared(result("erm"), result("chi", pairs=fewer))
    assert list(comparison.as_json()["directions"]) == ["aa-en", "cc-en"]


def test_none_in_common_is_refused():
    with pytest.raises(ValueError, match="direction"):
        compared(result("erm", pairs={"aa-en": 1}), result("chi", pairs={"bb-en": 1}))


def test_also_where_seeds_of_one_row_differ_in_their_directions():
    comparison, _ = compared(result("erm"), result("erm", seed=2, pairs={"aa-en": 1000, "bb-en": 300}))
    assert list(row_of(comparison, "erm")["passes"]) == ["aa-en", "bb-en"]


@pytest.mark.parametrize("missing", ["loss", "bleu"])
def test_a_metric_that_a_run_lacks_is_left_out(missing):
    comparison, _ = compared(result("erm"), result("chi", without=[missing]))
    content = comparison.as_json()
    assert set(content["metrics"]) == set(METRICS) - {missing}
    assert all(missing not in row["scores"] for row in content["rows"])


def test_scores_that_were_made_differently_are_not_compared():
    comparison, warnings = compared(result("erm"), result("chi", signature={"bleu": "tok:char", "chrf": "c"}))
    assert "bleu" not in comparison.metrics
    assert of_kind(warnings, "metric-left-out").metrics == ("bleu",)


def test_runs_scored_by_a_version_without_a_metric_are_compared_in_the_others():
    newer = result("chi", signature={"bleu": "b", "chrf": "c", "ter": "t"})
    comparison, warnings = compared(result("erm", without=["ter"]), newer)
    assert comparison.metrics == ["bleu", "chrf", "loss"]
    found = of_kind(warnings, "metric-left-out")
    assert (found.metrics, found.rows) == (("ter",), ("erm",))
    assert comparison.as_json()["warnings"][0] == {
        "kind": "metric-left-out", "message": found.message, "rows": ["erm"], "metrics": ["ter"]
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ fairness

SEEDS = (3, 1, 2)
TRAINED = {
    "train": {"schedule": "inverse-sqrt", "warmup": 4000, "decay": 0.5, "betas": [0.9, 0.98], "updates": 10},
    "batches": {"tokens_per_update": 65536, "interval_pairs": None},
    "model": {"size": "base", "init": "/here/model"},
    "clean": {"duplicates": False},
    "vocabulary": {"sample": None},
}


@pytest.mark.parametrize(
    ("section", "changes", "kind", "keys"),
    [
        ("train", {"schedule": "step"}, "different-schedule", ("train.schedule",)),
        ("train", {"warmup": 400, "schedule": "step"}, "different-schedule", ("train.schedule", "train.warmup")),
        ("train", {"betas": [0.9, 0.999]}, "different-optimizer", ("train.betas",)),
        ("batches", {"tokens_per_update": 4096}, "different-batches", ("batches.tokens_per_update",)),
        ("model", {"size": "tiny"}, "different-model", ("model.size",)),
        ("clean", {"duplicates": True}, "different-data", ("clean.duplicates",)),
        ("vocabulary", {"sample": 250_000}, "different-data", ("vocabulary.sample",)),
    ],
)
def test_other_settings_than_those_of_the_reference_are_mentioned(section, changes, kind, keys):
    changed = {**TRAINED, section: {**TRAINED[section], **changes}}
    runs = [result(row, seed=s, settings=TRAINED) for row in ("erm", "chi") for s in SEEDS]
    assert compared(*runs)[1] == []
    _, warnings = compared(*runs, *(result("step", seed=s, settings=changed) for s in SEEDS))
    assert [(each.kind, each.rows, each.settings) for each in warnings] == [(kind, ("step", "erm"), keys)]


def test_settings_without_effect_or_unknown_to_a_run_are_not_compared():
    changed = {
        "train": {**TRAINED["train"], "decay": 0.1, "log_every": 5},  # decay is of schedule step
        "model": {"size": "base", "init": "/elsewhere/model", "new_key": 1},
        "batches": {"interval_pairs": 300},  # part of the strategy
    }
    erm = [result("erm", seed=s, settings=TRAINED) for s in SEEDS]
    assert compared(*erm, *(result("chi", seed=s, settings=changed) for s in SEEDS))[1] == []
    assert compared(*erm, *(result("old", seed=s) for s in SEEDS))[1] == []


# --------------------------------------------------------------------------------------------- seeds


def test_runs_that_share_a_name_are_seeds_of_one_row():
    comparison, warnings = compared(*(result("erm", seed=s) for s in SEEDS), *(result("chi", seed=s) for s in SEEDS))
    row = row_of(comparison, "chi")
    assert row["seeds"] == [1, 2, 3]
    assert row["runs"] == [f"runs/chi/seed-{seed}" for seed in (1, 2, 3)]
    assert warnings == []


def test_scores_are_means_over_seeds_with_their_spread():
    comparison, _ = compared(*(result("erm", seed=s) for s in SEEDS))
    found = row_of(comparison, "erm")["scores"]["chrf"]
    singles = [row_of(compared(result("erm", seed=s))[0], "erm")["scores"]["chrf"] for s in SEEDS]
    for place in (lambda s: s["mean"], lambda s: s["directions"]["aa-en"], lambda s: s["low_resource"]):
        values = [place(single)["mean"] for single in singles]
        assert place(found)["mean"] == pytest.approx(np.mean(values))
        assert place(found)["sd"] == pytest.approx(np.std(values, ddof=1))


def test_one_seed_has_no_spread_and_is_warned_of():
    comparison, warnings = compared(result("erm"), result("chi"))
    assert row_of(comparison, "erm")["scores"]["bleu"]["mean"]["sd"] is None
    assert [warning.kind for warning in warnings] == ["seed-variance-unknown"]


def test_models_that_barely_translate_are_mentioned():
    _, warnings = compared(result("erm", 0.02), result("chi", 0.7))
    assert of_kind(warnings, "barely-translates").rows == ("erm",)
    _, warnings = compared(result("erm", 0.6), result("chi", 0.7))
    assert "barely-translates" not in [warning.kind for warning in warnings]
    _, warnings = compared(result("erm", 0.02))
    assert "model barely" in of_kind(warnings, "barely-translates").message
    _, warnings = compared(result("erm", 0.02), result("chi", 0.02))
    assert "models barely" in of_kind(warnings, "barely-translates").message


@pytest.mark.parametrize(("loss", "disagrees"), [(1.2, False), (1.497, False), (1.6, True)])
def test_a_loss_that_contradicts_the_scores_is_mentioned(loss, disagrees):
    """The validation loss of the reference is 1.5, its quality 0.5; of the other 0.7."""
    better = result("chi", 0.7, validation=dict.fromkeys(PAIRS, loss))
    _, warnings = compared(result("erm"), better)
    assert ("metrics-disagree" in [warning.kind for warning in warnings]) == disagrees
    if disagrees:
        assert of_kind(warnings, "metrics-disagree").rows == ("chi", "erm")


def test_other_seeds_than_those_of_the_reference_are_mentioned():
    comparison, warnings = compared(
        *(result("erm", seed=s) for s in (1, 2)), *(result("chi", seed=s) for s in (1, 2, 3))
    )
    assert [(warning.kind, warning.rows) for warning in warnings] == [("different-seeds", ("chi", "erm"))]
    assert comparison.contrasts["chi"].by_seed
    assert comparison.as_json()["warnings"] == [warning.as_json() for warning in warnings]


def test_without_any_in_common_what_seeds_do_is_noise():
    """Two runs of which one is lucky, for both strategies: luck cancels only where the seeds are the same."""
    comparison, warnings = compared(*(result("erm", seed=s) for s in (1, 2)), *(result("chi", seed=s) for s in (3, 4)))
    assert [(warning.kind, warning.rows) for warning in warnings] == [("different-seeds", ("chi", "erm"))]
    assert not comparison.contrasts["chi"].by_seed

    def width(*seeds):
        runs = [result("erm", quality, seed=seed) for quality, seed in ((0.3, 1), (0.7, 2))]
        runs += [result("chi", quality, seed=seed) for quality, seed in zip((0.3, 0.7), seeds, strict=True)]
        low, high = row_of(compared(*runs)[0], "chi")["difference"]["chrf"]["mean"]["interval"]
        return high - low

    assert width(1, 2) < 10
    assert width(3, 4) > 20


def test_the_same_seed_twice_in_a_row_is_mentioned():
    _, warnings = compared(result("erm"), result("erm", 0.6, folder=Path("elsewhere")))
    assert of_kind(warnings, "repeated-seed").rows == ("erm",)


def test_the_same_run_twice_in_a_row_is_refused():
    """It would be taken for training without noise."""
    with pytest.raises(ValueError, match="^runs/chi/seed-1: "):
        compared(result("erm"), result("chi"), result("chi"))


def test_one_test_sentence_is_mentioned():
    short = {name: {"chrf": counts_of(0.5, name, 1)["chrf"][: 1 if name == "cc-en" else 60]} for name in PAIRS}
    statistics = SentenceStatistics(short, {name: f"references of {name}" for name in PAIRS})
    _, warnings = compared(result("erm", statistics=statistics), result("chi", statistics=statistics))
    assert of_kind(warnings, "single-test-sentence").directions == ("cc-en",)


def test_a_lonely_row_is_not_said_to_be_like_others():
    assert compared(result("erm"))[1] == []


def test_less_training_is_mentioned():
    _, warnings = compared(result("erm"), result("chi", cost=Cost(50, 1e6, 60.0)))
    assert of_kind(warnings, "different-updates").rows == ("chi", "erm")


def test_one_seed_of_a_row_is_judged_by_the_noise_of_the_others():
    seeds = (1, 2, 3)
    others = [result(name, 0.5 + 0.01 * s, seed=s) for name in ("erm", "tau") for s in seeds]
    comparison, warnings = compared(*others, result("chi", 0.52))
    assert of_kind(warnings, "seed-variance-assumed").rows == ("chi",)
    assert [row["freedom"] for row in comparison.as_json()["rows"]] == [None, 2, 2]


def test_a_row_that_is_noisier_than_the_others_is_judged_by_its_own_runs():
    seeds = (1, 2, 3, 4)
    names = ("erm", "a", "b", "c", "d")
    pairs = {f"{name}-en": 100 for name in ("aa", "bb", "cc", "dd", "ee", "ff")}
    random = np.random.default_rng(1)

    def runs(wild: float):
        return [
            result(name, 0.5 + random.normal() * (wild if name == "c" else 0.01), seed=seed, pairs=pairs)
            for name in names
            for seed in seeds
        ]

    comparison, warnings = compared(*runs(0.15))
    assert comparison.noisy == ["c"]
    assert of_kind(warnings, "noisy-row").rows == ("c",)
    _, warnings = compared(*runs(0.15), reference="c")
    assert of_kind(warnings, "noisy-row").rows == ("c",)
    freedom = {row["name"]: row["freedom"] for row in comparison.as_json()["rows"]}
    assert freedom == {"erm": None, "a": 9, "b": 9, "c": 3, "d": 9}
    assert compared(*runs(0.01))[0].noisy == []


def test_other_training_data_are_mentioned():
    _, warnings = compared(result("erm"), result("chi", pairs={**PAIRS, "aa-en": 9999}))
    assert of_kind(warnings, "different-training-data").directions == ("aa-en",)


# --------------------------------------------------------------------------------------------- as JSON


def test_cost_validation_and_passes_are_means_of_the_runs():
    one = result("erm", cost=Cost(100, 10, 6.0, 50, 3.0), validation={"aa-en": 1.0}, passes=dict.fromkeys(PAIRS, 1.0))
    two = result("erm", seed=2, cost=Cost(200, 30, 8.0), validation={"aa-en": 2.0}, passes=dict.fromkeys(PAIRS, 2.0))
    row = row_of(compared(one, two)[0], "erm")
    assert row["cost"] == {"updates": 150, "tokens": 20, "seconds": 7.0, "reference_updates": 25} | {
        "reference_seconds": 1.5
    }
    assert row["validation"] == {"aa-en": 1.5, "bb-en": None, "cc-en": None}
    assert row["passes"] == dict.fromkeys(PAIRS, 1.5)


def test_all_of_it_is_json():
    runs = [
        *(result("erm", seed=s) for s in (1, 2)),
        *(result("flat", MIXED, seed=s, tau=math.inf, validation={}) for s in (1, 2)),
        result("nothing", 0.0),
        result("all", 1.0),
    ]
    content = json.loads(json.dumps(compared(*runs)[0].as_json(), allow_nan=False))
    assert [row["tau"] for row in content["rows"]] == [1.0, "inf", None, None]
    assert content["samples"] == 1000
    assert content["split"] == "test"
    assert content["signature"] == {"bleu": "b", "chrf": "c"}
    assert content["metrics"]["loss"]["higher_is_better"] is False


def test_the_same_runs_give_the_same_numbers():
    first, second = (compared(result("erm"), result("chi", MIXED))[0].as_json() for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


def test_runs_of_different_strategies_are_not_seeds_of_one_row():
    mixed = [result("a", strategy="proportional"), result("a", strategy="chi-ibr", seed=2)]
    with pytest.raises(ValueError, match=r"^a: .*chi-ibr, proportional"):
        compare(mixed, None, "test")


def test_translations_made_in_another_way_or_of_an_earlier_model_are_mentioned():
    _, warnings = compared(result("erm"), result("chi", made={"beam": 1, "which": "best"}, behind=True))
    assert of_kind(warnings, "outdated-scores").rows == ("chi",)
    assert of_kind(warnings, "different-decoding")
    _, warnings = compared(result("erm"), result("chi"))
    assert not {"outdated-scores", "different-decoding"} & {warning.kind for warning in warnings}
