import signal
import subprocess
import sys
from pathlib import Path

import pytest

import evenglot


def run(*arguments, **options):
    command = [sys.executable, "-m", "evenglot", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_help_and_version():
    assert "demo" in run("--help").stdout
    assert run("--version").stdout.strip() == f"evenglot {evenglot.__version__}"


INTERRUPTED = """
import signal
from evenglot.cli import main
from tests.killed import RENAMES, kill_itself_after
kill_itself_after(1, RENAMES, signal.SIGINT)  # while it prepares the store
main()
"""


def test_an_interrupt_ends_at_once_and_leaves_nothing_that_looks_finished(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, "demo", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == -signal.SIGINT  # 130 to a shell
    assert done.stderr == ""
    assert list((tmp_path / "out" / "store").iterdir())
    assert not (tmp_path / "out" / "store" / "manifest.json").exists()


def test_bad_input_is_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = run("demo", "--out", str(tmp_path / "file"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "file" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["demmo"], "No such command 'demmo'"),
        (["check"], "Missing argument 'CONFIG'; see `"),
        (["check", "conf.yaml", "--jsn"], "No such option: --jsn"),
        (["check", "conf.yaml", "--set"], "Option '--set' requires an argument"),
    ],
)
def test_a_wrong_command_is_one_line_too(arguments, line):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert line in done.stderr
