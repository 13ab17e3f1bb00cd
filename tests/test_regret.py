"""The arithmetic of experiments/regret.py."""

import numpy as np
import pytest

from experiments.regret import (
    FIXED,
    MEASURES,
    NAMES,
    POINTS,
    Regret,
    by_setting,
    draw,
    draw_regimes,
    everything,
    goals,
    is_fixed,
    load,
    mean_over_settings,
    means,
    noise,
    regret,
    settings,
    thinned,
)

SEEDS = (1, 2, 3, 4, 5)


def rows(chance, rows=9, spread=1.0, gap=0.0):
    """Rows a, b, ... with equal true values and a common effect of each seed; `own` is better by `gap`."""
    seed_effects = chance.normal(size=len(SEEDS))
    names = [f"fixed{k}" for k in range(rows)] + ["own"]
    return {
        name: dict(
            zip(SEEDS, gap * (name == "own") + seed_effects + spread * chance.normal(size=len(SEEDS)), strict=True)
        )
        for name in names
    }


def test_the_best_of_equal_rows_is_not_flattered():
    chance = np.random.default_rng(1)
    found, flattered = [], []
    for _ in range(400):
        values = rows(chance)
        fixed = [name for name in values if name != "own"]
        found.append(regret(values, fixed, "own").mean)
        flattered.append(
            max(np.mean(list(values[name].values())) for name in fixed) - np.mean([*values["own"].values()])
        )
    assert np.mean(found) == pytest.approx(0, abs=4 * np.std(found) / 20)
    assert np.mean(flattered) > 0.5


def test_intervals_cover_and_a_better_strategy_has_negative_regret():
    chance = np.random.default_rng(2)
    covered = []
    for _ in range(200):
        values = rows(chance, rows=3, spread=0.5, gap=2.0)
        result = regret(values, ["fixed0", "fixed1", "fixed2"], "own")
        covered.append(abs(result.mean + 2.0) <= result.half)
        assert result.seeds == 5
    assert np.mean(covered) > 0.88  # the interval does not count the choice of the best row, which costs a little
    assert noise(rows(np.random.default_rng(3), rows=60, spread=0.5))[0] == pytest.approx(0.5, rel=0.15)


def test_noise_is_pooled_over_settings_of_different_levels():
    chance = np.random.default_rng(4)
    one, other = rows(chance, rows=30, spread=0.5), rows(chance, rows=30, spread=0.5)
    far = {name: {seed: value + 100 for seed, value in runs.items()} for name, runs in other.items()}
    spread, freedom = noise(one, far)
    assert spread == pytest.approx(0.5, rel=0.2)
    assert freedom == noise(one)[1] + noise(other)[1]
    single = {"erm": {1: 3.0}, "own": {1: 2.0}}
    assert regret(single, ["erm"], "own", (spread, freedom)).half == pytest.approx(1.97 * spread * 2**0.5, rel=0.01)


def test_one_seed_has_no_interval():
    result = regret({"erm": {1: 3.0}, "own": {1: 2.0}}, ["erm"], "own")
    assert (result.mean, result.seeds) == (1.0, 1)
    assert np.isnan(result.half)


def test_seeds_without_a_fixed_row_do_not_count():
    assert regret({"erm": {1: 3.0}, "own": {1: 2.0, 2: 9.0}}, ["erm"], "own").seeds == 1


def test_the_mean_over_settings_is_known_better_than_each():
    whole = mean_over_settings([Regret(1.0, 0.3, 2), Regret(-0.5, 0.4, 3)])
    assert (whole.mean, whole.seeds) == (0.25, 5)
    assert whole.half == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("mean", "half", "verdict"),
    [(0.0, 0.3, "met"), (0.2, 0.3, "undecided"), (0.7, 0.3, "missed"), (0.0, np.nan, "undecided")],
)
def test_a_goal_is_met_or_missed_by_the_whole_interval(mean, half, verdict):
    assert Regret(mean, half, 2).verdict(0.3) == verdict


def test_goals_have_every_setting_of_a_row_and_their_mean():
    heading, lines = goals("mix50")
    assert len(heading) == 1 + len(MEASURES)
    assert [line[0] for line in lines][:-1] == [setting for setting in settings() if "mix50" in load(setting)]


def test_the_summary_has_the_rows_of_all_settings():
    heading, lines = means()
    assert len(heading) == 1 + len(MEASURES)
    assert "`fade` (default)" in [line[0] for line in lines]


def test_courses_are_thinned_with_both_ends():
    events = [{"step": k} for k in range(500)]
    kept = thinned(events)
    assert len(kept) == POINTS
    assert (kept[0], kept[-1]) == (events[0], events[-1])
    assert thinned(events[:5]) == events[:5]


def test_stored_runs_are_complete():
    assert settings()
    for setting in settings():
        for row, runs in load(setting).items():
            for seed, run in runs.items():
                assert run["seed"] == seed
                assert all({"chrf", "bleu", "loss_per_character"} <= set(each) for each in run["directions"].values())
                strategy = run["balance"]["strategy"]
                constant = strategy in FIXED and "fade" not in run["balance"]
                assert is_fixed(run) == constant, row
        assert {row[0].split()[0] for row in everything(setting)[1]} == set(load(setting))


def test_courses_are_drawn_without_a_warning(tmp_path, recwarn):
    draw_regimes(tmp_path / "regimes.svg")
    assert (tmp_path / "regimes.svg").stat().st_size > 10_000
    assert not [warning for warning in recwarn if issubclass(warning.category, UserWarning)]


def test_tables_and_the_picture_have_every_row_of_every_setting(tmp_path):
    rows = {row for setting in settings() for row in load(setting)}
    for measure in MEASURES:
        heading, lines = by_setting(measure)
        assert heading[1:-1] == settings()
        assert {line[0] for line in lines} == {NAMES.get(row, row) for row in rows}
    draw(tmp_path / "regret.svg")
    assert (tmp_path / "regret.svg").stat().st_size > 10_000
