"""What an earlier version of evenglot wrote loads, resumes and translates the same lines; a later one is named.

The examples are made by `examples.py`.
"""

import json
import tarfile
from pathlib import Path

import pytest

import evenglot
from evenglot.balance import create
from evenglot.corpus import artefacts
from evenglot.corpus.store import MANIFEST, open_store
from evenglot.files import write_json
from evenglot.inference.ctranslate2.about import ABOUT, VERSION, read_about
from evenglot.inference.engines import CTranslate2Engine
from evenglot.inference.translate import Translator
from evenglot.inference.vocabularies import open_verified
from evenglot.reading import LaterFormatError
from evenglot.runs import checkpoint, checkpoint_folder
from evenglot.runs.checkpoint import STATE
from evenglot.runs.events import FORMAT, ConfigEvent, DoneEvent, StepEvent, ValidationEvent, of_kind
from evenglot.runs.log import read_log
from evenglot.runs.run import Run
from evenglot.runs.scores import read_scores, statistics_file
from evenglot.scoring.sentence_statistics import SentenceStatistics
from tests.formats.examples import ARCHIVE, FURTHER, LONGEST, SAVED, further_losses

SIZES = {"por-en": 89, "glg-en": 90}
SAVED_STATE = f"run/checkpoints/step-{SAVED:08}/{STATE}"


def _names() -> list[str]:
    with tarfile.open(ARCHIVE) as archive:
        return sorted({name.partition("/")[0] for name in archive.getnames()})


@pytest.fixture(scope="module")
def all_examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module", params=_names())
def example(request, all_examples) -> Path:
    return all_examples / request.param


def expected(example: Path) -> dict:
    return json.loads((example / "expected.json").read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------ of earlier versions


def test_a_run_translates_the_same_lines(example):
    lines = expected(example)["translations"]
    translator = evenglot.load(example / "run", device="cpu")
    assert len(set(lines.values())) == 6
    assert translator.translate(lines, source="por", beam=1, max_length=LONGEST) == list(lines.values())


def test_an_export_translates_the_same_lines(example):
    lines = expected(example)["translations"]
    run = Run(example / "run")
    data, engine = run.config().data, CTranslate2Engine(example / "export")
    translator = Translator(engine, open_verified(run, run.best(), data), data.directions, 512)
    assert translator.translate(lines, source="por", beam=1, max_length=LONGEST) == list(lines.values())


def test_a_run_resumes_with_the_same_losses(example):
    assert len(expected(example)["losses"]) == FURTHER
    assert further_losses(example) == pytest.approx(expected(example)["losses"], rel=1e-4)


def test_its_log_is_read(example):
    log = list(read_log(example / "run/log.jsonl"))
    assert isinstance(log[0], ConfigEvent)
    assert log[0].format <= FORMAT
    assert {name: facts.pairs for name, facts in log[0].directions.items()} == SIZES
    assert [len(of_kind(log, kind)) for kind in (StepEvent, ValidationEvent, DoneEvent)] == [10, 2, 1]
    assert of_kind(log, DoneEvent)[0].step == SAVED


def test_its_store_is_read(example):
    store = open_store(example / "store")
    assert store.sizes == SIZES
    assert store.made_with.seed == 1
    for direction in store.directions:
        for split in store.splits(direction):
            corpus = store.corpus(direction, split)
            assert len(corpus.source) == len(corpus.target) > 0


def test_its_scores_and_reference_losses_are_read(example):
    run = Run(example / "run")
    scores = read_scores(run)
    assert dict(scores.macro) == expected(example)["macro"]
    statistics = SentenceStatistics.load(statistics_file(run, "test"))
    assert statistics.counts.keys() == scores.directions.keys() == SIZES.keys()
    assert set(create("chi-ibr", SIZES, baseline=run.baseline_file).baseline) != {0.0}


# ------------------------------------------------------------------------------------------------- of later versions


def test_the_last_example_has_the_versions_of_today(all_examples):
    newest = all_examples / _names()[-1]
    (saved,) = checkpoint_folder.checkpoints(newest / "run/checkpoints")
    assert json.loads((saved.folder / STATE).read_text())["format"] == checkpoint.FORMAT
    assert json.loads((newest / "store" / MANIFEST).read_text())["format"] == artefacts.FORMAT
    assert json.loads((newest / "export" / ABOUT).read_text())["version"] == VERSION
    assert next(iter(read_log(newest / "run/log.jsonl"))).format == FORMAT


def unsealed(content: dict) -> dict:
    return content


def sealed_manifest(content: dict) -> dict:
    content.pop("checksum")
    return {**content, "checksum": artefacts.key_of(content, version=content["format"])}


def sealed_state(content: dict) -> dict:
    content.pop("checksum")
    return {**content, "checksum": checkpoint._digest_of(content)}


@pytest.mark.parametrize(
    ("file", "key", "seal", "read"),
    [
        (SAVED_STATE, "format", sealed_state, lambda folder: Run(folder / "run").best()),
        (
            SAVED_STATE,
            "format",
            sealed_state,
            lambda folder: checkpoint_folder.latest(folder / "run/checkpoints", print),
        ),
        (f"store/{MANIFEST}", "format", sealed_manifest, lambda folder: open_store(folder / "store")),
        (f"export/{ABOUT}", "version", unsealed, lambda folder: read_about(folder / "export")),
    ],
)
def test_later_versions_are_neither_damaged_nor_absent(all_examples, file, key, seal, read):
    newest = all_examples / _names()[-1]
    content = (newest / file).read_bytes()
    write_json(newest / file, seal({**json.loads(content), key: json.loads(content)[key] + 1}))
    try:
        with pytest.raises(LaterFormatError, match=str(newest / file)):
            read(newest)
    finally:
        (newest / file).write_bytes(content)


def test_a_log_of_a_later_version_is_refused(all_examples, tmp_path):
    first, _, rest = (all_examples / _names()[-1] / "run/log.jsonl").read_text().partition("\n")
    assert f'"format": {FORMAT}' in first
    (tmp_path / "log.jsonl").write_text(first.replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}') + "\n" + rest)
    with pytest.raises(ValueError, match="format"):
        list(read_log(tmp_path / "log.jsonl"))
