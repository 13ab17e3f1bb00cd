"""The command line: its commands and options, exit codes, and errors of one line."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import evenglot
from evenglot.cli import app
from evenglot.cli.failure import worded
from tests.patience import PATIENCE

FROZEN = Path(__file__).with_name("cli_options.txt")


def run(*arguments, **options):
    command = [sys.executable, "-m", "evenglot", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def commands():
    return get_command(app).commands


def test_commands_and_options_are_those_that_scripts_rely_on():
    """A change breaks other people's scripts: make it on purpose, in cli_options.txt and in CHANGELOG.md."""
    lines = []
    for name, command in commands().items():
        arguments = [
            f"{p.metavar}{'...' if p.nargs == -1 else ''}" for p in command.params if not p.opts[0].startswith("-")
        ]
        options = [option for p in command.params for option in p.opts if option.startswith("-")]
        lines.append(" ".join([name, *arguments, *sorted(options)]))
    assert lines == FROZEN.read_text().splitlines()


def test_help_lists_the_commands_in_the_order_of_the_pipeline():
    said = run("--help").stdout
    places = [said.index(f" {name} ") for name in commands()]
    assert places == sorted(places)
    assert run("--version").stdout.strip() == f"evenglot {evenglot.__version__}"


def test_every_command_has_the_usual_options():
    for name, command in commands().items():
        spellings = {spelling for p in command.params for spelling in p.opts}
        assert {"--quiet", "-q", "--verbose", "-v"} <= spellings, name
        help_of_it = CliRunner().invoke(app, [name, "-h"])
        assert help_of_it.exit_code == 0
        assert help_of_it.stdout == CliRunner().invoke(app, [name, "--help"]).stdout
    assert CliRunner().invoke(app, ["-V"]).stdout == run("--version").stdout


@pytest.mark.parametrize("arguments", [["-q", "-v", "example"], ["example", "--quiet", "--verbose"]])
def test_quiet_and_verbose_exclude_each_other(arguments):
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, ValueError)
    assert not done.stdout


def test_a_traceback_is_shown_to_those_who_ask_for_it():
    for arguments in (["check", "nowhere.yaml", "-v"], ["--verbose", "check", "nowhere.yaml"]):
        done = run(*arguments)
        assert done.returncode == 2
        assert "Traceback" in done.stderr
        assert done.stderr.splitlines()[-1].startswith("evenglot: nowhere.yaml")


@pytest.mark.parametrize(
    ("typed", "offered"), [("evenglot tr", {"train", "translate"}), ("evenglot train --res", {"--resume"})]
)
def test_the_shell_can_complete_commands_and_options(typed, offered):
    command = [Path(sys.executable).parent / "evenglot"]
    asked = {"_EVENGLOT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | asked)
    assert set(done.stdout.split()) == offered
    named = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # the shell of the tests may be gone
    assert "complete_bash" in run("--show-completion", "bash", env=named).stdout


@pytest.mark.parametrize("name", commands())
def test_every_option_is_explained(name):
    command = commands()[name]
    assert command.help
    assert len(command.help.splitlines()[0]) <= 64  # one line of `evenglot --help` in 80 columns
    for parameter in command.params:
        assert parameter.help, parameter.name
        assert "[" not in parameter.help, parameter.name  # would be taken for markup and disappear


@pytest.mark.parametrize("name", commands())
def test_choices_are_not_broken_in_80_columns(name):
    said = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, [name, "--help"]).stdout
    begun = [line for line in said.splitlines() if re.search(r"<[a-z][^>\s]*(\s|$)", line)]
    assert "│" in said
    assert not begun, "\n".join(begun)


def test_starting_needs_none_of_the_heavy_libraries():
    code = "import sys, evenglot.cli; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ["torch", "numpy", "pydantic", "yaml", "sentencepiece", "sacrebleu", "jinja2"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
    assert done.stderr.startswith("Interrupted: run the same command again")
    assert done.stderr.count("\n") == 1
    assert list((tmp_path / "out" / "store").iterdir())
    assert not (tmp_path / "out" / "store" / "manifest.json").exists()


DEAF = """
import hashlib, os, signal, threading
from evenglot.cli.interrupt import end_on_interrupt
end_on_interrupt()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # releases the interpreter, and returns after many minutes
"""


def test_an_interrupt_ends_a_library_that_does_not_check_for_signals():
    done = subprocess.run([sys.executable, "-c", DEAF], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == "Interrupted.\n"


def test_bad_input_is_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = run("demo", "--out", str(tmp_path / "file"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "file" in done.stderr


def test_a_run_to_continue_that_does_not_exist_is_no_unreadable_file(tmp_path):
    done = CliRunner().invoke(app, ["train", "--resume", str(tmp_path / "runs" / "frist")])
    assert str(done.exception) == f"{tmp_path / 'runs' / 'frist'}: no such run, and no such config"
    assert isinstance(done.exception, ValueError)


def test_errors_are_wrapped_between_words_on_a_terminal():
    plain = run("check", "conf.yaml", "--jsn").stderr
    terminal = {**os.environ, "TTY_COMPATIBLE": "1", "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "40"}
    lines = run("check", "conf.yaml", "--jsn", env=terminal).stderr.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == plain.strip()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["demmo"], "demmo"),
        (["check"], "CONFIG"),
        (["check", "conf.yaml", "--jsn"], "--jsn"),
        (["check", "conf.yaml", "--set"], "--set"),
        (["grid", "grid.yaml", "--split", "valid"], "--split"),
        (["compare", "runs/erm", "--jobs", "2"], "--jobs"),
        (["score", "runs/erm", "--split", "tset"], "'--split': 'tset' "),
    ],
)
def test_wrong_usage_is_one_line_too(arguments, name):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert "--help" in done.stderr


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError(2, "No such file or directory", "x/y"), "x/y: no such file or directory"),
        (IsADirectoryError(21, "Is a directory", b"x"), "x: is a directory"),
        (OSError(18, "Invalid cross-device link", "a", None, "b"), "a -> b: invalid cross-device link"),
        (BrokenPipeError(32, "Broken pipe"), "broken pipe"),
        (OSError("a worker was lost"), "a worker was lost"),
    ],
)
def test_errors_of_the_system_are_worded(error, expected):
    assert worded(error) == expected


def test_some_errors_of_the_system_have_advice():
    full = worded(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run/log.jsonl"))
    assert full.startswith("run/log.jsonl: ")
    assert "; " in full
    assert "Errno" not in full
