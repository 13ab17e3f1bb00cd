"""The notebook of examples/ in a real kernel: it works, and its progress looks right."""

import re
import shutil

import nbformat
import pytest
from nbclient import NotebookClient

from tests.documents import ROOT
from tests.patience import PATIENCE

SHORTER = 'overrides=["train.updates=60", "train.warmup=20", "train.validate_every=30"])'
NOTEBOOK = ROOT / "examples" / "five_lines.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Its cells after a run in a copy of the folders it needs; the store is below the home folder."""
    place = tmp_path_factory.mktemp("notebook")
    (place / "examples").mkdir()
    (place / "evenglot").symlink_to(ROOT / "evenglot")
    shutil.copy(NOTEBOOK, place / "examples")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if ".train(" in cell.source:
            cell.source = cell.source.removesuffix(")") + f", {SHORTER}"
    client = NotebookClient(
        notebook, timeout=PATIENCE, kernel_name="python3", resources={"metadata": {"path": str(place / "examples")}}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(place))
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        client.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def plain(cell):
    """The text of its outputs."""
    return [output.get("text") or output["data"]["text/plain"] for output in cell.outputs]


def test_it_has_five_lines():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    lines = [cell.source.splitlines() for cell in notebook.cells if cell.cell_type == "code"]
    assert sum(map(len, lines)) == 5
    assert not any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of Jupyter's own packages
def test_it_runs_and_shows_what_each_step_made(executed):
    imported, prepared, _, frame, translated = executed
    assert not imported.outputs
    left = [text.strip() for text in plain(prepared) if text.strip()]
    assert all(re.fullmatch(r"[\w -]+: \d+ (s|min)", text) for text in left), (
        "bars go with their stages, or leave a line"
    )
    assert "text/html" in frame.outputs[0]["data"]
    assert len(eval(plain(translated)[-1])) == 2
    assert all(output.output_type != "error" for cell in executed for output in cell.outputs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_training_is_one_output_that_is_updated_and_gone_at_the_end(executed):
    said = plain(executed[2])
    assert not any("\r" in text for text in said)
    assert not any("tok/s" in text for text in said), "the live view"
    lines = "\n".join(said)
    assert lines.count("valid ") == 2, "a line for each validation"
    assert re.search(r"done  60 updates", lines)
    assert all(output.output_type == "display_data" for output in executed[2].outputs), "no stream of raw text"
