"""The short form of `make torture`: a few damaged files of every kind, and the worst single ones."""

import io
import json
import os
import subprocess
import sys
import zipfile
from contextlib import nullcontext

import numpy as np
import pytest

from evenglot.reading import DEEPEST, UnreadableError, parse_json, read_bytes, read_json
from evenglot.records import read_record
from evenglot.runs.checkpoint import DamagedCheckpointError, open_checkpoint, save
from evenglot.runs.model import load_model
from evenglot.runs.run import RunError
from evenglot.runs.scores import Scores, read_scores_file
from evenglot.scoring.sentence_statistics import SentenceStatistics
from tests.logs import scores_json
from tests.model.cases import small_model
from torture.files import TARGETS, attack
from torture.scene import make_scene

# ------------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e999", str(10**400), "9" * 19, "{", '"\ud800"', "[" * 100_000])
def test_numbers_out_of_range_and_what_is_no_json_are_refused(text):
    with pytest.raises(UnreadableError):
        parse_json(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("value", [0, -1.5, 2**63 - 1, 1e300, "1e999", "9" * 30, {"a": [1, None, True]}, [[[]]]])
def test_what_we_write_is_read(value):
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(("levels", "is_refused"), [(DEEPEST, False), (DEEPEST + 2, True), (900, True)])
def test_depth_is_limited(levels, is_refused):
    content = (b'{"a":' * levels) + b"1" + b"}" * levels
    if is_refused:
        with pytest.raises(UnreadableError, match=str(DEEPEST)):
            parse_json(content)
    else:
        parse_json(content)


def test_only_regular_files_of_a_limited_size_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "large").write_bytes(bytes(101))
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "zero", "large", "folder"):
        with pytest.raises(UnreadableError):
            read_bytes(tmp_path / name, 100)
    with pytest.raises(OSError, match="No such file"):
        read_json(tmp_path / "missing")
    (tmp_path / "link").symlink_to("large")
    assert read_bytes(tmp_path / "link", 101) == bytes(101)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("macro", None),
        ("macro", {"chrf": None}),
        ("macro", {"chrf": "3"}),
        ("directions", {"a-b": None}),
        ("directions", {"a-b": {"chrf": [1]}}),
        ("signature", {"chrf": 1}),
        ("made", {"beam": []}),
        ("split", 1),
    ],
)
def test_records_have_the_types_they_declare(key, value):
    content = {
        "split": "test",
        "signature": {},
        "directions": {"a-b": {"chrf": 1}},
        "macro": {"chrf": 1},
        "worst": {"direction": "a-b", "chrf": 1},
    }
    assert read_record(Scores, content).worst_direction == "a-b"
    with pytest.raises(ValueError, match=f"`{key}"):
        read_record(Scores, {**content, key: value})


# ------------------------------------------------------------------------------------------ before memory is allocated


@pytest.mark.parametrize("shape", [(10**12, 10), (2**40,), (10**30, 2), (0, 10**15), (-1, 10)])
def test_an_array_that_promises_terabytes_is_refused(tmp_path, shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "statistics.npz", "w") as archive:
        archive.writestr("a-b/bleu.npy", header.getvalue() + bytes(80))
    with pytest.raises(ValueError, match="statistics.npz: cannot be read"):
        SentenceStatistics.load(tmp_path / "statistics.npz")


@pytest.mark.parametrize(
    "change",
    [
        {"encoder_layers": 1_000_000},
        {"dim": 1 << 40},
        {"ffn": 1 << 40},
        {"max_positions": 1 << 40},
        {"target_pieces": 1 << 40},
        {"encoder_layers": "2"},
        {"dim": None},
        {"heads": -1},
    ],
)
def test_a_model_that_its_weights_do_not_fill_is_refused(tmp_path, change):
    model = small_model()
    state = model.description()
    saved = save(tmp_path, 1, model=model.state_dict(), optimizer=None, state=state, score=None)
    load_model(saved)
    forged = {"shape": state["shape"] | change}
    saved = save(tmp_path, 1, model=model.state_dict(), optimizer=None, state=forged, score=None)
    with pytest.raises(DamagedCheckpointError):
        load_model(saved)


def test_scores_of_a_checkpoint_say_which(tmp_path):
    for made, is_refused in (({"which": "best", "step": 8}, False), ({"which": "best"}, True), ({}, False)):
        (tmp_path / "scores.json").write_text(scores_json(made=made))
        with pytest.raises(RunError, match="made.step") if is_refused else nullcontext():
            read_scores_file(tmp_path / "scores.json")


def test_a_state_that_has_no_end_is_refused(tmp_path):
    folder = tmp_path / "step-00000001"
    folder.mkdir()
    (folder / "state.json").symlink_to("/dev/zero")
    with pytest.raises(DamagedCheckpointError):
        open_checkpoint(folder)


def test_a_bug_is_told_in_a_line_that_says_where_the_details_are(tmp_path):
    program = "import evenglot.cli as cli\ncli.app = lambda **_: {}['x']\ncli.main()"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    (details,) = tmp_path.glob("evenglot-*.txt")
    assert line.startswith("evenglot: internal error: KeyError: 'x'")
    assert str(details) in line
    assert "Traceback" in details.read_text()


# ------------------------------------------------------------------------------------------------------ files of a run


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return make_scene(tmp_path_factory.mktemp("scene") / "s")


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_refused_or_read(scene, name):
    outcomes, faults = attack(scene, name, cases=25, seed=1)
    assert faults == []
    assert outcomes["refused"] > 0
