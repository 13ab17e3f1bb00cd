"""A grid file: what it asks for, in which order, and what is wrong with it, where."""

import re

import pytest

from evenglot.config import ConfigError
from evenglot.grid.plan import load_grid
from tests.tasks import CONFIG

GRID = """\
base: conf.yaml
seeds: [1, 2]
strategies:
  chi-ibr: {balance: {strategy: chi-ibr, rho: 0.1, baseline: erm}}
  erm: {balance: {strategy: proportional}}
  tau-3: {balance: {strategy: temperature, tau: 3}, train: {warmup: 5}}
"""


@pytest.fixture
def plan(tmp_path):
    """Reads a grid of this text; the texts it is about need not be there."""
    (tmp_path / "conf.yaml").write_text(CONFIG)

    def planned(text=GRID):
        (tmp_path / "grid.yaml").write_text(text)
        return load_grid(tmp_path / "grid.yaml")

    return planned


def replaced(old, new):
    assert old in GRID
    return GRID.replace(old, new)


def errors(plan, text):
    """The lines of what it says, with the files' names but not their folders."""
    with pytest.raises(ConfigError) as caught:
        plan(text)
    return [re.sub(r"^/[^:]*/", "", line) for line in caught.value.lines]


# ---------------------------------------------------------------------------------------------------- order


def test_seeds_come_first_and_whoever_gives_baselines_before_whoever_takes_them(plan):
    _, jobs = plan()
    assert [job.name for job in jobs] == [
        "erm/seed-1", "chi-ibr/seed-1", "tau-3/seed-1", "erm/seed-2", "chi-ibr/seed-2", "tau-3/seed-2",
    ]  # fmt: skip


def test_chains_of_baselines_are_followed(plan):
    _, jobs = plan(
        replaced("baseline: erm", "baseline: dro").replace(
            "  erm:", "  dro: {balance: {strategy: chi-ibr, rho: 1, baseline: erm}}\n  erm:"
        )
    )
    assert [job.strategy for job in jobs[:4]] == ["erm", "dro", "chi-ibr", "tau-3"]


def test_defaults(plan, tmp_path):
    grid, jobs = plan("base: conf.yaml\nstrategies: {erm: {}}\n")
    assert grid.seeds == (1, 2, 3)
    assert (grid.out, grid.split, grid.beam, grid.checkpoints) == (str(tmp_path / "runs"), "test", 5, "keep")
    assert len(jobs) == 3
    assert jobs[0].config.balance.strategy == "proportional"


# ---------------------------------------------------------------------------------------------------- jobs


def test_each_job_has_its_strategy_seed_and_settings(plan, tmp_path):
    _, jobs = plan()
    by_name = {job.name: job for job in jobs}
    tau = by_name["tau-3/seed-2"]
    assert (tau.config.seed, tau.config.balance.strategy, tau.config.balance.options["tau"]) == (2, "temperature", 3)
    assert tau.config.train.warmup == 5
    assert tau.config.train.updates == 24  # other keys of the section are the base's
    assert by_name["erm/seed-2"].config.train.warmup == 10
    assert tau.run.folder == tmp_path / "runs" / "tau-3" / "seed-2"
    assert tau.needs is None


def test_the_overrides_make_the_same_config_of_the_base(plan, tmp_path):
    from evenglot.config import load_config

    for job in plan()[1]:
        assert load_config(tmp_path / "conf.yaml", job.overrides, check_files=False) == job.config


def test_options_of_the_bases_strategy_do_not_remain(plan, tmp_path):
    (tmp_path / "conf.yaml").write_text(CONFIG.replace("{strategy: proportional}", "{strategy: temperature, tau: 7}"))
    _, jobs = plan()
    assert jobs[0].config.balance.strategy == "proportional"


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ("", "baseline-train-token.json"),
        (", signal: valid", "baseline-valid-token.json"),
        (", loss_per: character", "baseline-train-character.json"),
    ],
)
def test_baselines_are_of_the_kind_that_the_strategy_listens_to(plan, tmp_path, options, file):
    _, jobs = plan(replaced("baseline: erm", f"baseline: erm{options}"))
    chi = jobs[1]
    run, path, signal = chi.needs
    assert run == jobs[0].run
    assert path == run.folder / file
    assert f"baseline-{signal.split}-{signal.unit}.json" == file
    assert chi.config.balance.options["baseline"] == str(path)


def test_each_seed_takes_the_baselines_of_its_own_seed(plan):
    _, jobs = plan()
    assert [job.needs[0].folder.name for job in jobs if job.needs] == ["seed-1", "seed-2"]


def test_a_baseline_that_is_no_strategy_is_a_file(plan, tmp_path):
    (tmp_path / "losses.json").write_text("{}")
    _, jobs = plan(replaced("baseline: erm", "baseline: losses.json"))
    chi = next(job for job in jobs if job.strategy == "chi-ibr")
    assert chi.needs is None
    assert chi.config.balance.options["baseline"] == str(tmp_path / "losses.json")


def test_a_misspelt_baseline_is_refused_before_anything_runs(plan):
    assert errors(plan, replaced("baseline: erm", "baseline: emr"))


def test_sets_of_directions_have_folders_and_stores_of_their_own(plan, tmp_path):
    _, jobs = plan(GRID + "directions:\n  in: {from: [aa, bb], to: en}\n  out: {from: en, to: [aa, bb]}\n")
    assert [job.name for job in jobs[:6]] == [
        "in/erm/seed-1", "in/chi-ibr/seed-1", "in/tau-3/seed-1", "out/erm/seed-1", "out/chi-ibr/seed-1",
        "out/tau-3/seed-1",
    ]  # fmt: skip
    assert jobs[0].run.folder == tmp_path / "runs" / "in" / "erm" / "seed-1"
    assert sorted(jobs[0].config.data.groups) == ["aa-en", "bb-en"]
    assert sorted(jobs[3].config.data.groups) == ["en-aa", "en-bb"]
    stores = {job.direction: job.config.store.folder for job in jobs}
    assert len(set(stores.values())) == 2
    assert {store.rsplit("/", 1)[1] for store in stores.values()} == {"in", "out"}
    assert jobs[4].needs[0] == jobs[3].run


def test_paths_are_relative_to_the_grid_file(plan, tmp_path):
    grid, jobs = plan(GRID + "out: here/there\n")
    assert grid.base == str(tmp_path / "conf.yaml")
    assert jobs[0].run.folder == tmp_path / "here" / "there" / "erm" / "seed-1"


# ---------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (replaced("seeds:", "seds:"), r"grid.yaml:2: seds: unknown key; did you mean 'seeds'\?"),
        (replaced("[1, 2]", "[1, 1]"), "grid.yaml:2: seeds: the same seed twice"),
        (replaced("[1, 2]", "[]"), "grid.yaml:2: seeds: expected at least one, got .*"),
        (replaced("[1, 2]", "[-1]"), r"grid.yaml:2: seeds\[0\]: expected 0 or more, got -1"),
        (replaced("  erm:", "  a/b: {}\n  erm:"), r"grid.yaml:5: strategies.a/b: not the name of a folder.*"),
        (replaced("  erm:", "  ..: {}\n  erm:"), r"grid.yaml:5: strategies.*: not the name of a folder.*"),
        (GRID + "reference: emr\n", "grid.yaml:7: reference: not one of the strategies chi-ibr, erm, tau-3"),
        (GRID + "split: train\n", "grid.yaml:7: split: expected 'test', 'valid' or 'valid_full', got 'train'"),
        (GRID + "checkpoints: burn\n", "grid.yaml:7: checkpoints: expected 'keep' or 'remove', got 'burn'"),
        (replaced("train: {warmup", "data: {x"), r"grid.yaml:6: strategies.tau-3.data: a strategy can set .*"),
        (replaced("train: {warmup", "vocabulary: {x"), r"grid.yaml:6: strategies.tau-3.vocabulary: a strategy can .*"),
        (replaced("train: {warmup: 5}", "seed: 5"), r"grid.yaml:6: strategies.tau-3.seed: a strategy can set .*"),
        (replaced("train: {warmup: 5}", "stor: {}"), r"grid.yaml:6: strategies.tau-3.stor: a strategy can set .*"),
        ("base: conf.yaml\n", "grid.yaml: strategies: missing; .*"),
        ("base: conf.yaml\nstrategies: {}\n", "grid.yaml:2: strategies: expected at least one, got {}"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(plan, text, expected):
    found = errors(plan, text)
    assert len(found) == 1, found
    assert re.fullmatch(expected, found[0]), found


def test_baselines_in_a_circle_are_refused(plan):
    text = replaced("{strategy: proportional}", "{strategy: chi-ibr, baseline: chi-ibr}")
    found = errors(plan, text)
    assert any("strategies.erm: baselines in a circle: erm <- chi-ibr <- erm" in line for line in found)
    own = errors(plan, replaced("baseline: erm", "baseline: chi-ibr"))
    assert ["strategies.chi-ibr: baselines in a circle: chi-ibr <- chi-ibr" in line for line in own] == [True]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("strategy: proportional", "strategy: proportinal", "strategies.erm: .*did you mean 'proportional'"),
        ("tau: 3", "tau: three", "strategies.tau-3: .*tau: expected a number, got 'three'"),
        ("rho: 0.1", "rho: 0.1, taux: 1", "strategies.chi-ibr: .*taux: unknown key"),
        ("warmup: 5", "warmups: 5", "strategies.tau-3: .*warmups: unknown key; did you mean 'warmup'"),
    ],
)
def test_a_mistake_inside_a_strategy_names_it(plan, old, new, expected):
    found = errors(plan, replaced(old, new))
    assert len(found) == 1, found
    assert re.match(f"grid.yaml: {expected}", found[0]), found


def test_a_strategy_in_place_of_its_section_is_a_mistake_like_others(plan):
    assert "erm" in errors(plan, replaced("{strategy: proportional}", "proportional"))[0]


def test_a_mistake_in_the_directions_names_them(plan):
    found = errors(plan, GRID + "directions:\n  in: {frm: [aa], to: en}\n")
    assert "directions.in" in found[0]
    assert "strategies" not in found[0]


def test_a_mistake_in_the_base_names_the_base(plan, tmp_path):
    (tmp_path / "conf.yaml").write_text(CONFIG.replace("warmup:", "warmpu:"))
    (found,) = errors(plan, GRID)
    assert re.match(r"conf.yaml:\d+: train.warmpu: unknown key", found)


def test_a_base_that_is_not_there_is_named(plan):
    (found,) = errors(plan, replaced("conf.yaml", "nope.yaml"))
    assert found == "nope.yaml: cannot be read: no such file or directory"


def test_an_empty_section_changes_nothing(plan):
    _, jobs = plan(replaced("train: {warmup: 5}", "train: "))
    assert jobs[2].config.train.updates == 24


def test_overrides_are_lines(plan):
    """Each is one that `evenglot train --set` takes."""
    overrides = [override for job in plan()[1] for override in job.overrides]
    assert all("=" in override and override.isprintable() for override in overrides)


@pytest.mark.parametrize(
    ("balance", "option", "value"),
    [
        ("{strategy: schedule, points: {0: tau:5, 20: data}}", "points", {0: "tau:5", 20: "data"}),
        ("{strategy: temperature, tau: .inf}", "tau", float("inf")),
    ],
)
def test_settings_that_json_cannot_say(plan, balance, option, value):
    _, jobs = plan(replaced("{strategy: temperature, tau: 3}", balance))
    assert jobs[2].config.balance.options[option] == value
