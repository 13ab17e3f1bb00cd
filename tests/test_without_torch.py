"""`evenglot compare` and `evenglot report` read runs where torch is not installed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evenglot.corpus.prepared import open_prepared
from evenglot.runs.run import Run
from evenglot.runs.scores import translations_file

PROGRAM = """
import sys
sys.modules["torch"] = None  # whoever imports it gets a ModuleNotFoundError
from evenglot.cli import main
main()
"""
KEPT = Path(__file__).parents[1] / "experiments/related/results/any-en"
ROWS = ("erm", "tau-5")


def evenglot(*arguments: str | Path, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def data_of(page: Path) -> dict:
    """What the page embeds."""
    html = page.read_text(encoding="utf-8")
    start = html.index(">", html.index('<script type="application/json"')) + 1
    return json.loads(html[start : html.index("</script>", start)])


def test_torch_is_really_not_there():
    done = evenglot(program=PROGRAM.replace("from evenglot.cli import main", "import evenglot.model.transformer"))
    assert "ModuleNotFoundError" in done.stderr


def test_kept_runs_are_compared():
    runs = [KEPT / row / "seed-1" for row in ROWS]
    done = evenglot("compare", *runs, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in json.loads(done.stdout)["rows"]] == list(ROWS)


@pytest.mark.parametrize("more", [(), ("--figures",)])
def test_kept_runs_are_reported(tmp_path, more):
    folder = [tmp_path / "figures"] if more else []
    done = evenglot("report", *(KEPT / row / "seed-1" for row in ROWS), "--out", tmp_path / "page.html", *more, *folder)
    assert done.returncode == 0, done.stderr
    data = data_of(tmp_path / "page.html")
    assert [run["state"] for run in data["runs"]] == ["done", "done"]
    assert data["comparison"]["metrics"]
    assert not folder or list(folder[0].rglob("*.svg"))


def test_a_run_is_reported_with_its_translations(run, tmp_path):
    home = Run(Path(shutil.copytree(run, tmp_path / "run")))
    store = open_prepared(home.config())
    for name in store.directions:  # as good as can be
        file = translations_file(home, "test", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in store.text(name, "test", "target")), encoding="utf-8")
    perfect = {"bleu": 100.0, "chrf": 100.0}
    scores = {
        "split": "test",
        "signature": {},
        "directions": {
            name: {**perfect, "lines": len(store.text(name, "test", "target"))} for name in store.directions
        },
        "macro": perfect,
        "worst": {"direction": sorted(store.directions)[0], **perfect},
    }
    (home.folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    done = evenglot("report", home.folder, "--out", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert sorted(data_of(tmp_path / "page.html")["runs"][0]["samples"]["directions"]) == sorted(store.directions)
