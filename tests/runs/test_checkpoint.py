import json
import math
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenglot.runs.checkpoint import Checkpoint, DamagedCheckpointError, fingerprint, open_checkpoint, save
from evenglot.runs.checkpoint_folder import best, checkpoints, latest, prune
from tests.runs.saved import FILES, STATE, assert_same, flip, moments, names, save_at, weights

# -------------------------------------------------------------------------------------------------- round trip


def test_all_that_was_saved_comes_back_to_the_bit(tmp_path):
    model, optimizer = weights(), moments()
    model["embedding"][0] = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 1e-45])
    saved = save(tmp_path / "checkpoints", 1200, model=model, optimizer=optimizer, state=STATE, score=0.1 + 0.2)
    assert saved.folder == tmp_path / "checkpoints" / "step-00001200"
    assert (saved.step, saved.score) == (1200, 0.1 + 0.2)
    assert checkpoints(tmp_path / "checkpoints") == [saved] == [open_checkpoint(saved.folder)]
    content = saved.read()
    assert_same(content.model, model)
    assert_same(content.optimizer, optimizer)
    assert content.state == STATE
    assert_same(saved.read_model(), model)


def test_what_was_read_can_be_trained_and_outlives_its_files(tmp_path):
    content = save_at(tmp_path, 1).read()
    shutil.rmtree(tmp_path / "step-00000001")
    content.model["embedding"].add_(1)
    assert torch.equal(content.model["embedding"], weights(1)["embedding"] + 1)


def test_parameters_and_views_are_saved_as_they_look(tmp_path):
    layer = torch.nn.Linear(3, 4)
    model = dict(layer.named_parameters()) | {"turned": torch.randn(3, 4).t(), "row": torch.randn(5, 2)[3]}
    got = save_at(tmp_path, 1, model=model).read().model
    assert_same(got, {name: tensor.detach() for name, tensor in model.items()})
    assert not any(tensor.requires_grad for tensor in got.values())


def test_a_model_without_an_optimizer(tmp_path):
    saved = save_at(tmp_path, 7, optimizer=None, name="average")
    assert names(tmp_path / "average") == ["model.safetensors", "state.json"]
    assert saved.read().optimizer == {}
    assert checkpoints(tmp_path) == []  # not a step of the run
    assert latest(tmp_path, pytest.fail) is None


def test_files_have_the_usual_permissions(tmp_path):
    folder = save_at(tmp_path, 1).folder
    (tmp_path / "ordinary").touch()
    usual = stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {usual}


@given(
    st.dictionaries(
        st.text(),
        st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63) + 1, 2**63 - 1) | st.text(),
    )
)
@settings(max_examples=40, deadline=None)
def test_the_state_comes_back_exactly(state):
    with tempfile.TemporaryDirectory() as root:
        try:
            saved = save(Path(root), 1, model={}, optimizer=None, state=state, score=None)
        except UnicodeEncodeError:  # half a character is not text
            assert any(0xD800 <= ord(sign) < 0xE000 for sign in str([*state, *state.values()]))
        else:
            got = saved.read().state
            assert got == state
            assert [type(value) for value in got.values()] == [type(value) for value in state.values()]


@pytest.mark.parametrize(
    "state",
    [
        {"a": 2**63},
        {"a": math.nan},
        {"a": [math.inf]},
        {"a": {1: 2}},
        {"a": [({None: 1},)]},
        {"a": object()},
        {"a": {1, 2}},
    ],
)
def test_a_state_that_json_would_change_is_refused(tmp_path, state):
    with pytest.raises(ValueError, match="^state: "):
        save_at(tmp_path, 1, state=state)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["", "../up", "a/b", "step-00000003", "step-x", "x.unfinished", ".hidden", "a\n"])
def test_names_that_would_be_taken_for_something_else_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"^name: {re.escape(repr(name))}"):
        save_at(tmp_path, 1, name=name)


def test_a_negative_step_is_refused(tmp_path):
    with pytest.raises(ValueError, match="^step: .*-1"):
        save_at(tmp_path, -1)


def test_a_step_saved_again_is_replaced(tmp_path):
    save_at(tmp_path, 5, score=1.0)
    again = save_at(tmp_path, 5, score=2.0, model=weights(99))
    assert names(tmp_path) == ["step-00000005"]
    assert [c.score for c in checkpoints(tmp_path)] == [2.0]
    assert_same(again.read_model(), weights(99))


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_kept_as_such(tmp_path, score):
    save_at(tmp_path, 1, score=score)
    assert str(checkpoints(tmp_path)[0].score) == str(score)


def test_the_fingerprint_is_of_the_weights_and_of_nothing_else(tmp_path):
    model = weights()
    one = save_at(tmp_path, 1, model=model)
    same = save_at(tmp_path, 2, model=dict(reversed(model.items())), optimizer=None, state={}, score=1.0)
    model["half"] = -model["half"]
    other = save_at(tmp_path, 3, model=model)
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)
    with pytest.raises(DamagedCheckpointError, match="model.safetensors"):
        fingerprint(Checkpoint(tmp_path / "absent", 1, None))


# ------------------------------------------------------------------------------------------------------ damage


def become_a_folder(file):
    file.unlink()
    file.mkdir()


DAMAGES = {
    "first byte": flip(0),
    "a byte inside": flip(0.4),
    "last byte": flip(1),
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-2]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "empty": lambda file: file.write_bytes(b""),
    "deleted": Path.unlink,
    "a folder": become_a_folder,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_damage_is_noticed_and_skipped(tmp_path, name, damage):
    save_at(tmp_path, 1)
    newest = save_at(tmp_path, 2)
    damage(newest.folder / name)
    with pytest.raises(DamagedCheckpointError, match=f"step-00000002/{name}: ") as caught:
        newest.read()
    assert "\n" not in str(caught.value)
    warnings = []
    found, content = latest(tmp_path, warnings.append)
    assert found.step == 1
    assert_same(content.model, weights(1))
    assert len(warnings) == 1
    assert f"step-00000002/{name}" in warnings[0]


def test_every_flipped_byte_of_the_state_is_noticed_or_harmless(tmp_path):
    saved = save_at(tmp_path, 1, score=2.5)
    file, expected = saved.folder / "state.json", saved.read().state
    content = file.read_bytes()
    for position in range(len(content)):
        file.write_bytes(content[:position] + bytes([content[position] ^ 0x04]) + content[position + 1 :])
        try:
            assert open_checkpoint(saved.folder) == saved
            assert saved.read().state == expected
        except DamagedCheckpointError:
            pass


GARBAGE = {
    "not json": b"{",
    "not text": b"\xff\xfe\x00",
    "a list": b"[]",
    "a number": b"1",
    "text": b'"checksum"',
    "null": b"null",
    "no keys": b"{}",
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "a very long number": b'{"step": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_instead_of_the_state(tmp_path, garbage):
    saved = save_at(tmp_path, 1)
    (saved.folder / "state.json").write_bytes(garbage)
    with pytest.raises(DamagedCheckpointError, match="state.json"):
        saved.read()
    with pytest.raises(DamagedCheckpointError, match="state.json"):
        open_checkpoint(saved.folder)
    assert checkpoints(tmp_path) == []
    assert best(tmp_path) is None


def rewrite_state(folder, **changes):
    """Change the state and its checksum too, as somebody who means harm would."""
    from evenglot.runs.checkpoint import _digest_of

    about = json.loads((folder / "state.json").read_text("utf-8"))
    del about["checksum"]
    about |= changes
    (folder / "state.json").write_text(json.dumps({**about, "checksum": _digest_of(about)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"step": "1"},
        {"step": None},
        {"step": True},
        {"step": 2},  # not what the folder is named after
        {"score": "low"},
        {"score": []},
        {"score": 10**400},
        {"state": []},
        {"state": {"vocabulary": "source.model"}},
        {"state": {"vocabulary": {"source.model": None}}},
        {"state": {"shape": 3}},
        {"state": {"pretrained": []}},
        {"files": {}},
        {"files": []},
        {"files": {"model.safetensors": 3}},
        {"files": {"model.safetensors": [1, 2, 3]}},
        {"files": {"model.safetensors": [None, None]}},
        {"files": {"model.safetensors": [[], {}]}},
        {"files": {"model.safetensors": [0, 0], "../../secret": [0, 0]}},
    ],
)
def test_a_state_with_another_shape(tmp_path, changes):
    saved = save_at(tmp_path, 1)
    rewrite_state(saved.folder, **changes)
    with pytest.raises(DamagedCheckpointError):
        saved.read()
    with pytest.raises(DamagedCheckpointError):
        latest(tmp_path, str)


HEADERS = {
    "nothing": b"",
    "no header": b"\0" * 8,
    "a huge header": b"\xff" * 64,
    "not tensors": b"PK\x03\x04" + bytes(range(256)),
    "deep": (200_000).to_bytes(8, "little") + b"[" * 200_000,
    "an odd type": (58).to_bytes(8, "little") + b'{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}     ' + b"\0",
    "no data": (58).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}}   ',
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_a_file_with_the_right_checksum_that_holds_no_tensors(tmp_path, content):
    saved = save_at(tmp_path, 1, optimizer=None)
    (saved.folder / "model.safetensors").write_bytes(content)
    rewrite_state(saved.folder, files={"model.safetensors": [len(content), zlib.crc32(content)]})
    with pytest.raises(DamagedCheckpointError, match=r"model\.safetensors: "):
        saved.read()


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_no_bytes_raise_anything_else(content):
    with tempfile.TemporaryDirectory() as root:
        saved = save(Path(root), 1, model={}, optimizer=None, state={}, score=None)
        (saved.folder / "model.safetensors").write_bytes(content)
        rewrite_state(saved.folder, files={"model.safetensors": [len(content), zlib.crc32(content)]})
        with pytest.raises(DamagedCheckpointError):
            saved.read()
        (saved.folder / "state.json").write_bytes(content)
        with pytest.raises(DamagedCheckpointError):
            open_checkpoint(saved.folder)


def test_files_of_two_checkpoints_do_not_mix(tmp_path):
    one, two = save_at(tmp_path, 1), save_at(tmp_path, 2)
    shutil.copy(one.folder / "model.safetensors", two.folder)
    with pytest.raises(DamagedCheckpointError, match="step-00000002/model.safetensors: "):
        two.read()


# --------------------------------------------------------------------------------------------- kill, full disk


SAVE_FOREVER = """
import sys
from pathlib import Path
import torch
from evenglot.runs.checkpoint import save
from evenglot.runs.checkpoint_folder import checkpoints, prune
root = Path(sys.argv[1])
step = max((c.step for c in checkpoints(root)), default=0)
while True:
    step += 1
    model = {f"layer{i}": torch.full((50_000,), float(step)) for i in range(10)}
    save(root, step, model=model, optimizer={"step": torch.tensor(step)}, state={"step": step}, score=float(-step % 7))
    prune(root, 2, 1)
    print(step, flush=True)
"""


def test_killed_at_any_moment_the_last_one_is_complete(tmp_path):
    moments = random.Random(5)
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOREVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        first = process.stdout.readline()
        time.sleep(moments.uniform(0, 0.2))
        process.kill()
        printed = process.communicate()[0].split()
        checkpoint, content = latest(tmp_path, pytest.fail)  # nothing to warn of: complete or absent
        assert checkpoint.step >= max(map(int, [first, *printed]))
        assert content.state == {"step": checkpoint.step}
        assert all(torch.all(tensor == checkpoint.step) for tensor in content.model.values())
        for other in checkpoints(tmp_path):
            other.read()
    prune(tmp_path, 1, 0)
    assert len(names(tmp_path)) == 1


FULL_DISK = """
import resource, sys
from pathlib import Path
import torch
from evenglot.runs.checkpoint import save
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
large, small = {"w": torch.zeros(10_000)}, {"w": torch.zeros(10)}
for model, optimizer, note in ((large, small, ""), (small, large, ""), (small, small, "x" * 40_000)):
    for step in (1, 2):
        try:
            save(Path(sys.argv[1]), step, model=model, optimizer=optimizer, state={"note": note}, score=None)
        except OSError as error:
            print(error)
"""


def test_a_full_disk_is_said_and_harms_nothing(tmp_path):
    before = save_at(tmp_path, 1)
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 6  # model, optimizer and state too large, each in place of an older one and as a new one
    for line, step in zip(lines, (1, 2) * 3, strict=True):
        assert line.startswith(f"{tmp_path}/step-0000000{step}: ")
        assert "file too large" in line
    assert names(tmp_path) == ["step-00000001"]
    assert_same(before.read().model, weights(1))


def test_a_root_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file/checkpoints/step-00000001: .*not a directory"):
        save_at(tmp_path / "file" / "checkpoints", 1)
