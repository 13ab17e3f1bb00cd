from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.config import load_config
from evenglot.corpus.read import read_pairs
from evenglot.files import sha256
from evenglot.grid.plan import Grid, Job, load_grid
from evenglot.paper.layout import CONFIG, GRID, SPLITS
from evenglot.paper.numbers import layouts
from evenglot.paper.recipes import RECIPES, demo_corpus, recipe_config, recipe_grid
from evenglot.paper.ted import DIVERSE, RELATED
from evenglot.paper.wmt import WMT4
from evenglot.text_file import TextFile
from tests.paper.downloads import ted_archive, wmt_folder

LANGUAGES = {"ted-related": RELATED, "ted-diverse": DIVERSE, "wmt": WMT4}


def test_the_demo_corpus_is_whole_and_has_its_licences() -> None:
    folder = demo_corpus()
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for language, split in product(("por", "tur", "ces", "slk", "glg"), SPLITS):
        source, target = (TextFile(folder / f"{split}.{language}-en.{side}.gz") for side in (language, "en"))
        assert sum(pair is not None and all(pair) for pair in read_pairs(source, target)) > 40
    assert manifest["sha256"] == {path.name: sha256(path) for path in sorted(folder.glob("*.gz"))}
    assert "Copyright" in (folder / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")


def test_the_config_of_the_demo_finds_its_corpus() -> None:
    config = load_config(recipe_config("tiny-webui"))
    files = config.data.files(config.data.directions[0], "test")
    assert files is not None
    assert files[0][0].path == demo_corpus() / "test.por-en.por.gz"


# --------------------------------------------------------------------------------------- configurations and grids


@pytest.fixture(scope="module")
def grids(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Grid, list[Job]]]:
    """Each recipe's grid and its jobs, read as users read them, once."""
    found = {}
    for name in RECIPES:
        folder = tmp_path_factory.mktemp(name)
        for file, content in ((CONFIG, recipe_config(name)), (GRID, recipe_grid(name))):
            (folder / file).write_bytes(content.read_bytes())
        found[name] = load_grid(folder / GRID)
    return found


@pytest.fixture
def planned(grids, request: pytest.FixtureRequest) -> dict[tuple[str | None, str], Job]:
    """The jobs of a recipe's grid, by directions and strategy."""
    _, jobs = grids[request.param]
    assert {job.seed for job in jobs} == {222}
    return {(job.direction, job.strategy): job for job in jobs}


@pytest.mark.parametrize("name", RECIPES)
def test_the_config_trains_the_papers_method_and_a_reference_with_its_own_schedule(name: str, tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_bytes(recipe_config(name).read_bytes())
    config = load_config(path, check_files=False)
    assert {direction.src for direction in config.data.directions} == set(LANGUAGES[name])
    assert {direction.tgt for direction in config.data.directions} == {"en"}
    files = config.data.files(config.data.directions[0], "train")
    assert files is not None
    assert files[0][0].path.parent == tmp_path
    assert config.vocabulary.sample is None
    reference = config.reference_run.changed(config)
    assert (config.train.schedule, reference.train.schedule) == ("step", "inverse-sqrt")
    assert (config.train.weight_decay, reference.train.weight_decay) == (1e-4, 1e-4 if name == "wmt" else 0)
    assert config.balance.reference_mixture == ("tau:100" if name == "wmt" else "data")


STEP, SQRT = "step", "inverse-sqrt"
CHI = {"strategy": "chi-ibr", "preset": "paper", "ema": 0.1, "noise": None, "floor": None}
ERM = {
    "erm": ({"strategy": "proportional"}, SQRT, None),
    "tau-5": ({"strategy": "temperature", "tau": 5}, SQRT, None),
    "tau-100": ({"strategy": "temperature", "tau": 100}, SQRT, None),
    "multidds": ({"strategy": "multidds", "every": 1000}, SQRT, None),
    "erm-step": ({"strategy": "proportional"}, STEP, None),
}
RELATED_ABLATION = {  # Table 4, a to g; a, b and e are rows of Table 1
    "chi-rho.05-nobase": (CHI | {"rho": 0.05}, STEP, None),
    "chi-rho.1-nobase": (CHI | {"rho": 0.1}, STEP, None),
    "chi-rho.1-base1": (CHI | {"rho": 0.1}, STEP, "erm"),
    "chi-rho.05-base100": (CHI | {"rho": 0.05}, STEP, "tau-100"),
}
WMT_ONLY = {  # Tables 3 and 4, h and i
    "fastdro": ({"strategy": "fastdro", "rho": 0.5, "alpha": None, "penalty": 0}, STEP, "tau-100"),
    "group-dro": ({"strategy": "group-dro", "step": 0.1, "apply": "reweight"}, SQRT, "tau-100"),
    "cvar-pd": ({"strategy": "cvar-pd", "alpha": 0.5, "ema": 0.1, "apply": "reweight"}, SQRT, "tau-100"),
    "cvar-ibr": ({"strategy": "cvar-ibr", "alpha": 0.5, "ema": 0.1}, SQRT, "tau-100"),
    "chi-pd": ({"strategy": "chi-pd", "rho": 0.1, "step": 1e-3, "apply": "reweight"}, SQRT, "tau-100"),
    "chi-rho.1-base1": (CHI | {"rho": 0.1}, STEP, "erm"),
    "chi-rho.1-base100": (CHI | {"rho": 0.1}, STEP, "tau-100"),
}


def chi_ibr(rho: float, base: str) -> dict[str, tuple[dict[str, object], str, str]]:
    return {"chi-ibr": (CHI | {"rho": rho}, STEP, base), "chi-ibr-inverse-sqrt": (CHI | {"rho": rho}, SQRT, base)}


# All rows of each grid: strategy and options, learning-rate schedule, and the row whose losses are the baseline.
PLANNED = {
    "ted-related": ERM | chi_ibr(0.05, "erm") | RELATED_ABLATION,
    "ted-diverse": ERM | chi_ibr(0.05, "erm"),
    "wmt": ERM | chi_ibr(0.3, "tau-100") | WMT_ONLY,
}


@pytest.mark.parametrize(("planned", "rows"), PLANNED.items(), indirect=["planned"], ids=PLANNED)
def test_every_row_has_the_papers_strategy_schedule_and_baseline(planned, rows) -> None:
    assert set(planned) == set(product(("any-en", "en-any"), rows))
    for (direction, row), job in planned.items():
        options, schedule, base = rows[row]
        balance, found = job.config.balance, {}
        for key in options:
            found[key] = balance.strategy if key == "strategy" else balance.options[key]
        assert found == options, row
        assert job.config.train.schedule == schedule, row
        assert (job.needs[0] if job.needs else None) == (planned[direction, base].run if base else None), row
        assert bool(balance.options.get("baseline")) == bool(base), row


SIZES = [  # updates, learning rate, weight decay of chi-IBR and of the others, subwords, validation
    ("ted-related", 200_000, 2e-4, (1e-4, 0), (10_000, 30_000), 800),
    ("ted-diverse", 200_000, 2e-4, (1e-4, 0), (10_000, 30_000), 800),
    ("wmt", 300_000, 5e-4, (1e-4, 1e-4), (24_000, 34_000), 1500),
]


@pytest.mark.parametrize(
    ("planned", "updates", "rate", "decays", "subwords", "cap"), SIZES, indirect=["planned"], ids=[s[0] for s in SIZES]
)
def test_all_rows_have_the_papers_sizes(planned, updates, rate, decays, subwords, cap) -> None:
    for (direction, row), job in planned.items():
        config, train = job.config, job.config.train
        assert {d.tgt if direction == "any-en" else d.src for d in config.data.directions} == {"en"}
        assert (train.updates, train.learning_rate, train.warmup) == (updates, rate, 4000)
        assert (train.decay, train.decay_every) == (0.5, 100_000)  # of schedule step
        assert (train.betas, train.epsilon, train.label_smoothing, train.clip) == ((0.9, 0.98), 1e-8, 0.1, None)
        assert train.weight_decay == decays[not (row.startswith("chi-") and row != "chi-pd")], row
        assert config.batches.tokens_per_update == 65_536
        assert config.batches.interval_pairs is None  # an interval is an epoch
        parts = [config.model.part(name) for name in ("dim", "ffn", "encoder_layers", "decoder_layers", "heads")]
        assert parts == [512, 2048, 6, 6, 8]
        assert config.model.dropout == 0.3
        vocabulary = config.vocabulary
        assert (vocabulary.size_shared, vocabulary.size_other, vocabulary.tau) == (*subwords, 5)
        assert (vocabulary.model, vocabulary.sample, config.clean.max_pieces) == ("unigram", None, 250)
        assert config.store.valid_cap == cap


def test_translations_are_scored_as_in_the_paper(grids) -> None:
    assert {(grid.beam, grid.split, grid.reference) for grid, _ in grids.values()} == {(5, "test", "erm")}


def test_every_row_of_the_papers_tables_is_in_a_grid(grids) -> None:
    of_set = {"ted_related": "ted-related", "ted_diverse": "ted-diverse", "wmt": "wmt"}
    strategies = {dataset: set(grids[name][0].strategies) for dataset, name in of_set.items()}
    for dataset, name in of_set.items():
        assert set(grids[name][0].directions["any-en"]["from"]) == set(layouts()["sets"][dataset]["languages"])
    for table in layouts()["tables"].values():
        for dataset in table["sets"]:
            assert {row[1] for row in table["rows"]} <= strategies[dataset]
    for _, _, dataset, row in layouts()["ablation"]["rows"]:
        assert row in strategies[dataset]


# ------------------------------------------------------------------------------------------------------ the command


def recipe(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["recipe", *map(str, arguments)])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def test_the_command_writes_corpus_config_and_grid(tmp_path: Path) -> None:
    sizes = {language: 5 + number for number, language in enumerate(RELATED)}
    archive = ted_archive(tmp_path / "ted_talks.tar.gz", RELATED, sizes)
    out = tmp_path / "corpora" / "ted"
    code, said = recipe("ted-related", archive, out, "--dry-run")
    assert code == 0
    assert "5,946" in said
    assert not out.exists()
    assert recipe("ted-related", archive, out)[0] == 0
    config = load_config(out / "conf.yaml")  # with all files in place
    assert len(config.data.directions) == 8
    _, jobs = load_grid(out / "paper.yaml")
    assert len(jobs) == 22
    code, said = recipe("ted-related", archive, out)
    assert code == 1  # `main` makes it one line and 2
    assert "--overwrite" in said
    assert recipe("ted-related", archive, out, "--overwrite")[0] == 0


def test_a_dry_run_lists_what_there_is_and_refuses_what_is_missing(tmp_path: Path) -> None:
    folder = wmt_folder(tmp_path / "downloads", dict.fromkeys(WMT4, 7))
    code, said = recipe("wmt", folder, tmp_path / "out", "--dry-run")
    assert code == 0
    assert "newstest2020-enta-ref.ta.sgm" in said
    assert "1,000" in said
    (next(folder.rglob("newstest2020-enta-ref.ta.sgm"))).unlink()
    code, said = recipe("wmt", folder, tmp_path / "out", "--dry-run")
    assert code == 1
    assert "newstest2020-enta-ref.ta.sgm" in said
    assert not (tmp_path / "out").exists()
    assert recipe("ted-diverse", tmp_path / "nowhere", tmp_path / "out", "--dry-run")[0] == 1
