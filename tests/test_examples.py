"""Every example runs, does what it says, and is the code that its page shows."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import warnings

import pytest

from tests.documents import ROOT, blocks

EXAMPLES = ROOT / "examples"
PAGES = {
    "plain_loop": "integrations-torch",
    "lightning_trainer": "integrations-lightning",
    "classifier": "integrations-classifier",
    "finetune_seq2seq": "integrations-transformers",
    "pretrain_causal_lm": "integrations-causal-lm",
}
IN_A_LOOP = ("plain_loop", "lightning_trainer")  # tests/integrations/test_transformers_examples.py has the others
LANGUAGES = ("por", "tur", "ces", "slk", "glg")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run an example in this process, which has imported torch already; returns the words of its table by row."""

    def perform(name: str, *arguments: str) -> dict[str, list[float]]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning|torch")
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return table(capsys.readouterr().out)

    return perform


def in_a_process(name: str, *arguments: str) -> dict[str, list[float]]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return table(done.stdout)


def table(text: str) -> dict[str, list[float]]:
    rows = (re.fullmatch(r"([\w, ]+?) +([\d.]+%? +[\d.]+%?(?: +[\d.]+%?)?)", line) for line in text.splitlines())
    return {row[1]: [float(word.rstrip("%")) for word in row[2].split()] for row in rows if row}


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_the_first_code_of_a_page_is_the_example(name, page):
    first = next(block for block in blocks(ROOT / "docs" / f"{page}.md") if block.language == "python")
    assert first.text == (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").rstrip("\n")


def test_balancing_takes_few_lines():
    plain, lightning = ((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines() for name in IN_A_LOOP)
    assert len([line for line in plain if re.search("# [+~]$", line)]) <= 12
    assert len([line for line in lightning if re.search("# [+]$", line) and " import " not in line]) <= 6
    for line in (*plain, *lightning):
        if re.search(r"(from evenglot|import Counter|create\(|sampler|[gG]roup_?[lL]oss|Balanc)", line):
            assert re.search('# [+~]$|^Balanc|"""', line), line


def test_every_example_has_a_page():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PAGES)
    overview = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    assert all(f"({page}.md)" in overview for page in PAGES.values())


@pytest.mark.parametrize("name", IN_A_LOOP)
def test_languages_are_balanced(name, run):
    if name == "lightning_trainer":
        pytest.importorskip("lightning", reason="in the dev extra")
    rows = run(name, "--steps", "60")
    assert tuple(rows) == LANGUAGES
    assert sum(share for _, share, _ in rows.values()) == pytest.approx(100, abs=0.3)
    assert rows["por"][1] < 40, "of 48.0 % of the data"
    assert all(loss < 4 for _, _, loss in rows.values()), "of log(256) = 5.5 at the start"


def test_group_dro_is_far_better_in_the_worst_group(run):
    rows = run("classifier")
    plain, robust = rows["worst group"]
    assert plain < 45
    assert robust > 70
    assert rows["worst group"] == [min(row[k] for row in list(rows.values())[:-1]) for k in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_group_dro_is_far_better_with_other_seeds(seed, run):
    plain, robust = run("classifier", "--seed", str(seed))["worst group"]
    assert robust > plain + 30


@pytest.mark.slow
@pytest.mark.parametrize("name", [*IN_A_LOOP, "classifier"])
def test_an_example_runs_as_it_is(name):
    assert len(in_a_process(name)) == 5


@pytest.mark.slow
def test_two_processes_of_the_lightning_example_train_as_one():
    one, two = (in_a_process("lightning_trainer", "--steps", "60", "--devices", str(n)) for n in (1, 2))
    for name in LANGUAGES:
        assert two[name] == pytest.approx(one[name], abs=0.11)  # of printed numbers
