"""`evenglot translate` and `evenglot score`, as they are used."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.corpus.prepared import open_prepared
from evenglot.inference.lines import _lines
from evenglot.runs.run import Run, RunError
from evenglot.scoring.comet import comet_score
from evenglot.scoring.score_run import score_split
from evenglot.scoring.sentence_statistics import SentenceStatistics
from tests.inference.test_translate import SENTENCES, foreign

PROGRAM = str(Path(sys.executable).with_name("evenglot"))


def evenglot(*arguments, stdin=None):
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def test_from_a_pipe_to_a_pipe(run, translator):
    done = evenglot("translate", run, "--to", "en", "--from", "aa", stdin="\n".join([*foreign("aa")[:4], "", "x\x0bx"]))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:5] == [*translator.translate(foreign("aa")[:4], source="aa"), ""]
    assert len(done.stdout.split("\n")) == 7  # six lines: only a line feed ends one


def test_files_and_forms(run, translator, tmp_path):
    with gzip.open(tmp_path / "in.gz", "wt") as file:
        file.write("".join(f"{line}\n" for line in foreign("aa")[:3]))
    arguments = ("translate", run, "--from", "aa", "--input", tmp_path / "in.gz", "--n-best", 2, "--beam", 4)
    assert evenglot(*arguments, "--format", "jsonl", "--output", tmp_path / "out.gz").returncode == 0
    with gzip.open(tmp_path / "out.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert all(len(row["translations"]) == 2 for row in rows)
    done = evenglot(*arguments, "--format", "tsv")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["1", "1", "2", "2", "3", "3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "de", "--from", "aa"), "aa-de: "),
        (("--from", "aa", "--input", "missing.txt"), "missing.txt"),
        (("--from", "aa", "--n-best", "2"), "n_best: "),
        (("--from", "aa", "--beam", "0"), "beam: "),
        (("--from", "aa", "--which", "5"), "'5'"),
        (("--from", "aa", "--max-ratio", "inf"), "max_ratio: "),
        (("--from", "aa", "--length-penalty", "nan"), "length_penalty: "),
        (("--from", "aa", "--length-penalty", "300"), "length_penalty: "),
        (("--from", "aa", "--max-length", "9" * 20), "max_length: "),
        (("--to", "de", "--from", "aa", "--force"), "aa-de: "),
    ],
)
def test_mistakes_are_said_before_anything_is_translated(run, arguments, message):
    done = CliRunner().invoke(app, ["translate", str(run), *arguments], input="a\n")
    assert isinstance(done.exception, ValueError | OSError)
    assert message in str(done.exception)
    assert done.stdout == ""


def test_a_mistake_costs_a_line(run):
    done = evenglot("translate", run, "--to", "de", "--from", "aa", stdin="a\n")
    assert done.returncode == 2
    assert done.stderr.startswith("evenglot: aa-de: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_bytes_that_are_no_text_are_named_and_nothing_is_half_written(run, tmp_path):
    (tmp_path / "in").write_bytes(b"abc\n\xff\xfe\n")
    done = evenglot("translate", run, "--from", "aa", "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "line 2: " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_file_that_is_cut_off_is_named(run, tmp_path):
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"abc\n" * 1000)[:-12])
    done = evenglot("translate", run, "--from", "aa", "--input", tmp_path / "in.gz", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "in.gz" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.gz"]


@pytest.mark.parametrize(("closed", "said"), [("<&-", "--input"), (">&-", "--output")])
def test_without_input_or_output_it_says_so(run, closed, said):
    command = f"echo a | '{PROGRAM}' translate '{run}' --from aa --device cpu {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


@pytest.mark.parametrize("piped", [True, False])
def test_a_byte_order_mark_is_not_text(tmp_path, monkeypatch, piped):
    file = tmp_path / "in"
    file.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo")
    with file.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert list(_lines(None if piped else file, lambda _: None)) == [b"one", b"\xef\xbb\xbftwo"]


def test_score_translates_and_scores_every_direction(run):
    done = evenglot("score", run)
    assert done.returncode == 0, done.stderr
    scores = json.loads((run / "scores.json").read_text())
    assert scores["split"] == "test"
    assert set(scores["directions"]) == {"aa-en", "bb-en", "cc-en"}
    assert scores["directions"]["aa-en"]["lines"] == 30
    assert scores["macro"]["chrf"] == pytest.approx(sum(row["chrf"] for row in scores["directions"].values()) / 3)
    assert scores["directions"]["aa-en"]["chrf"] > 40
    store = open_prepared(Run(run).config())
    file = run / "hypotheses" / "test" / "aa-en.en"
    assert len(file.read_text().splitlines()) == 30
    again, statistics = score_split(store, "test", file.parent)
    assert scores["macro"].pop("loss_per_character") > 0
    assert again["macro"] == scores["macro"]
    assert scores["directions"]["aa-en"].pop("loss_per_character") > 0
    assert again["directions"]["aa-en"] == scores["directions"]["aa-en"]
    assert statistics.references == SentenceStatistics.load(run / "statistics.npz").references
    assert scores["worst"]["direction"] in done.stdout


def test_existing_translations_can_be_scored(run, tmp_path):
    store = open_prepared(Run(run).config())
    for name in store.directions:
        lines = store.text(name, "valid", "target")
        (tmp_path / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
    done = evenglot("score", run, "--split", "valid", "--hypotheses", tmp_path)
    assert done.returncode == 0, done.stderr
    scores = json.loads((run / "scores-valid.json").read_text())
    assert scores["macro"] == pytest.approx({"bleu": 100, "chrf": 100, "ter": 0})
    (tmp_path / "aa-en.en").write_text("only one\n")
    done = evenglot("score", run, "--split", "valid", "--hypotheses", tmp_path)
    assert done.returncode == 2
    assert re.search(r"aa-en\.en: 1 .*30 ", done.stderr)


def test_comet_is_a_command_of_another_environment(tmp_path):
    program = tmp_path / "comet-score"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfiles = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "lines = {key: open(files[key]).read().splitlines() for key in ('-s', '-t', '-r')}\n"
        "same = sum(a == b for a, b in zip(lines['-t'], lines['-r']))\n"
        "print(f\"score: {same / len(lines['-s']):.4f}\")\n"
    )
    program.chmod(0o755)
    folder = tmp_path / "hypotheses"
    folder.mkdir()
    assert comet_score(str(program), SENTENCES[:4], ["x", *SENTENCES[1:4]], SENTENCES[:4], folder) == 0.75
    assert list(folder.iterdir()) == []
    with pytest.raises(RunError, match="--comet no-such-program: "):
        comet_score("no-such-program", ["a"], ["b"], ["c"], folder)
