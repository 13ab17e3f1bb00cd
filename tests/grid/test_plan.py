"""A grid file: the runs it defines, their order, and the place of each error."""

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

    def planned(text=GRID, overrides=()):
        (tmp_path / "grid.yaml").write_text(text)
        return load_grid(tmp_path / "grid.yaml", overrides)

    return planned


def replaced(old, new):
    assert old in GRID
    return GRID.replace(old, new)


def errors(plan, text):
    """The errors as 'grid.yaml:2', 'seeds[0]', and the rest."""
    with pytest.raises(ConfigError) as caught:
        plan(text)
    parts = [re.sub(r"^/[^:]*/", "", line).split(": ", 2) for line in caught.value.lines]
    assert all(len(part) == 3 for part in parts), parts
    return parts


def places(plan, text):
    return [tuple(part[:2]) for part in errors(plan, text)]


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


def test_overrides_replace_settings_of_the_grid_of_the_base_and_of_strategies(plan, tmp_path):
    overrides = ["seeds=[7]", "out=elsewhere", "train.updates=5", "train.warmup=1", "store.folder=small"]
    both = "directions: {there: {from: [aa, bb], to: en}, back: {from: en, to: [aa, bb]}}\n"
    grid, jobs = plan(GRID + both, overrides)
    assert grid.out == str(tmp_path / "elsewhere")
    assert {job.seed for job in jobs} == {7}
    assert {(job.config.train.updates, job.config.train.warmup) for job in jobs} == {(5, 1)}
    assert {job.config.store.folder for job in jobs} == {str(tmp_path / "small" / name) for name in ("there", "back")}
    _, (erm, *_) = plan(GRID, ["strategies.erm.train.updates=3"])
    assert erm.config.train.updates == 3


@pytest.mark.parametrize("override", ["seed=1", "balance={strategy: uniform}", "train.update=5", "sedes=[1]", "train"])
def test_overrides_that_make_no_sense_are_refused(plan, override):
    with pytest.raises(ConfigError, match=override.partition("=")[0]):
        plan(GRID, [override])


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
def test_baselines_are_of_the_kind_that_the_strategy_uses(plan, tmp_path, options, file):
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


def test_a_baseline_that_is_neither_is_refused(plan):
    ((_, key, rest),) = errors(plan, replaced("baseline: erm", "baseline: emr"))
    assert key == "strategies.chi-ibr"
    assert rest.startswith("balance.baseline: ")


def test_strategies_that_need_the_same_losses_share_the_file(plan):
    more = "".join(
        f"  {name}: {{balance: {{strategy: chi-ibr, rho: 1, signal: {split}, baseline: erm}}}}\n"
        for name, split in {"a": "train", "b": "valid", "c": "valid"}.items()
    )
    _, jobs = plan(GRID.replace("[1, 2]", "[1]") + more)
    files = [job.needs[1].name for job in jobs if job.needs]
    assert sorted(set(files)) == ["baseline-train-token.json", "baseline-valid-token.json"]
    assert len(files) == 4


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
    ("text", "line", "key"),
    [
        (replaced("seeds:", "seds:"), 2, "seds"),
        (replaced("[1, 2]", "[1, 1]"), 2, "seeds"),
        (replaced("[1, 2]", "[]"), 2, "seeds"),
        (replaced("[1, 2]", "[-1]"), 2, "seeds[0]"),
        (replaced("  erm:", "  a/b: {}\n  erm:"), 5, "strategies.a/b"),
        (replaced("  erm:", "  ..: {}\n  erm:"), 5, "strategies..."),
        (GRID + "reference: emr\n", 7, "reference"),
        (GRID + "split: train\n", 7, "split"),
        (GRID + "checkpoints: burn\n", 7, "checkpoints"),
        (replaced("train: {warmup", "data: {x"), 6, "strategies.tau-3.data"),
        (replaced("train: {warmup", "vocabulary: {x"), 6, "strategies.tau-3.vocabulary"),
        (replaced("train: {warmup: 5}", "seed: 5"), 6, "strategies.tau-3.seed"),
        (replaced("train: {warmup: 5}", "stor: {}"), 6, "strategies.tau-3.stor"),
        (replaced("{strategy: proportional}", "proportional"), 5, "strategies.erm.balance"),
        (replaced("baseline: erm", "baseline: chi-ibr"), 4, "strategies.chi-ibr"),
        ("base: conf.yaml\nstrategies: {}\n", 2, "strategies"),
    ],
)
def test_an_error_has_the_line_and_the_key(plan, text, line, key):
    assert places(plan, text) == [(f"grid.yaml:{line}", key)]


def test_a_missing_key_has_no_line(plan):
    assert places(plan, "base: conf.yaml\n") == [("grid.yaml", "strategies")]


def test_circular_baselines_are_refused(plan):
    text = replaced("{strategy: proportional}", "{strategy: chi-ibr, baseline: chi-ibr}")
    assert places(plan, text) == [("grid.yaml:4", "strategies.chi-ibr"), ("grid.yaml:5", "strategies.erm")]


@pytest.mark.parametrize(
    ("old", "new", "strategy", "key"),
    [
        ("strategy: proportional", "strategy: proportinal", "erm", "balance.strategy"),
        ("tau: 3", "tau: three", "tau-3", "balance.tau"),
        ("rho: 0.1", "rho: 0.1, taux: 1", "chi-ibr", "balance.taux"),
        ("warmup: 5", "warmups: 5", "tau-3", "train.warmups"),
    ],
)
def test_an_error_inside_a_strategy_names_it_and_the_key(plan, old, new, strategy, key):
    ((file, place, rest),) = errors(plan, replaced(old, new))
    assert (file, place) == ("grid.yaml", f"strategies.{strategy}")
    assert re.match(rf"(--set \S+: )?(--set )?{re.escape(key)}: ", rest)


def test_an_error_in_the_directions_names_them_once(plan):
    found = errors(plan, GRID + "directions:\n  in: {frm: [aa], to: en}\n")
    assert {place for _, place, _ in found} == {"directions.in"}
    assert any("data.directions.frm" in rest for *_, rest in found)


def test_options_of_the_base_for_its_own_directions_do_not_matter_to_other_sets(plan, tmp_path):
    losses = "{strategy: chi-ibr, rho: 0.1, baseline: {aa-en: 1, bb-en: 1, cc-en: 1}}"
    (tmp_path / "conf.yaml").write_text(CONFIG.replace("{strategy: proportional}", losses))
    _, jobs = plan(GRID + "directions:\n  out: {from: en, to: [aa, bb]}\n")
    assert len(jobs) == 6


def test_an_error_in_the_base_names_the_base(plan, tmp_path):
    (tmp_path / "conf.yaml").write_text(CONFIG.replace("warmup:", "warmpu:"))
    line = CONFIG.splitlines().index(next(line for line in CONFIG.splitlines() if line.startswith("train:"))) + 1
    assert places(plan, GRID) == [(f"conf.yaml:{line}", "train.warmpu")]


def test_so_does_a_base_that_does_not_exist(plan):
    with pytest.raises(ConfigError) as caught:
        plan(replaced("conf.yaml", "nope.yaml"))
    assert [line.split(": ")[0].rpartition("/")[2] for line in caught.value.lines] == ["nope.yaml"]


def test_an_empty_section_changes_nothing(plan):
    _, jobs = plan(replaced("train: {warmup: 5}", "train: "))
    assert jobs[2].config.train.updates == 24


def test_overrides_are_printable_lines(plan):
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
