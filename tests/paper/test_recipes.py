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
from evenglot.grid.plan import Job, load_grid
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


@pytest.fixture
def planned(tmp_path: Path, request: pytest.FixtureRequest) -> dict[tuple[str | None, str], Job]:
    """The jobs of a recipe's grid, by directions and strategy."""
    for name, file in ((CONFIG, recipe_config), (GRID, recipe_grid)):
        (tmp_path / name).write_bytes(file(request.param).read_bytes())
    _, jobs = load_grid(tmp_path / GRID)
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
    assert (config.train.schedule, config.reference_run.changed(config).train.schedule) == ("step", "inverse-sqrt")
    assert config.balance.reference_mixture == ("tau:100" if name == "wmt" else "data")


PLANNED = [
    ("ted-related", 200_000, 2e-4, 0.05, "erm", {"chi-rho.1-base1": 0.1, "chi-rho.1-nobase": 0.1}),
    ("ted-diverse", 200_000, 2e-4, 0.05, "erm", {}),
    ("wmt", 300_000, 5e-4, 0.3, "tau-100", {"chi-rho.1-base1": 0.1, "chi-rho.1-base100": 0.1}),
]


@pytest.mark.parametrize(
    ("planned", "updates", "rate", "rho", "base", "others"), PLANNED, indirect=["planned"], ids=[p[0] for p in PLANNED]
)
def test_the_grid_has_the_papers_settings(planned, updates, rate, rho, base, others) -> None:
    for (direction, strategy), job in planned.items():
        config = job.config
        assert config.train.updates == updates
        assert config.train.learning_rate == rate
        assert config.train.warmup == 4000
        assert config.batches.tokens_per_update == 65_536
        assert {d.tgt if direction == "any-en" else d.src for d in config.data.directions} == {"en"}
        assert config.model.part("ffn") == 2048
        is_step = (strategy.startswith("chi-") and strategy != "chi-pd") or strategy == "fastdro"
        swapped = {"erm-step": "step", "chi-ibr-inverse-sqrt": "inverse-sqrt"}
        assert config.train.schedule == swapped.get(strategy, "step" if is_step else "inverse-sqrt"), strategy
    for direction in ("any-en", "en-any"):
        main = planned[direction, "chi-ibr"]
        assert (main.config.balance.options["rho"], main.config.balance.options["preset"]) == (rho, "paper")
        assert main.needs is not None
        assert main.needs[0] == planned[direction, base].run
        for strategy, radius in others.items():
            assert planned[direction, strategy].config.balance.options["rho"] == radius


@pytest.mark.parametrize("planned", ["wmt"], indirect=True)
def test_all_dro_methods_of_wmt_have_the_same_baselines(planned) -> None:
    needed = {row: job.needs[0].folder.parent.name for (_, row), job in planned.items() if job.needs}
    assert set(needed) == {
        *("fastdro", "group-dro", "cvar-pd", "cvar-ibr", "chi-pd", "chi-ibr", "chi-ibr-inverse-sqrt"),
        *("chi-rho.1-base1", "chi-rho.1-base100"),
    }
    assert {row for row, provider in needed.items() if provider != "tau-100"} == {"chi-rho.1-base1"}


def test_every_row_of_the_papers_tables_is_in_a_grid(tmp_path: Path) -> None:
    of_set = {"ted_related": "ted-related", "ted_diverse": "ted-diverse", "wmt": "wmt"}
    strategies = {}
    for dataset, name in of_set.items():
        for file, content in ((CONFIG, recipe_config(name)), (GRID, recipe_grid(name))):
            (tmp_path / file).write_bytes(content.read_bytes())
        grid, _ = load_grid(tmp_path / GRID)
        strategies[dataset] = set(grid.strategies)
        assert set(grid.directions["any-en"]["from"]) == set(layouts()["sets"][dataset]["languages"])
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
