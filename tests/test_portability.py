"""Without what only POSIX or Linux has: functions and modules are taken away from a child process before it imports us.

That is not Windows or macOS, which these tests have never seen, but what is missing there is missing here, too.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.tasks import CONFIG, write_corpora

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
WITHOUT = """
import ctypes, os, signal, sys
import portalocker  # of sacreBLEU: goes by os.name, so it must find what it expects

for name in ("fcntl", "resource", "pwd", "grp", "termios", "syslog"):
    sys.modules[name] = None  # `import` raises ImportError
for name in ("SIGPIPE", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGQUIT", "pthread_kill"):
    delattr(signal, name)
for name in ("fork", "forkpty", "sched_getaffinity", "getuid", "geteuid", "getpgid", "killpg", "setsid", "mkfifo"):
    delattr(os, name)
for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
    delattr(os, name)
with_libc = ctypes.CDLL

class CDLL(with_libc):
    def __init__(self, name, *options, **others):
        if name is None:
            raise TypeError("there is no library of the program itself")
        super().__init__(name, *options, **others)

ctypes.CDLL = CDLL
import pathlib
exists = pathlib.Path.exists
pathlib.Path.exists = lambda path, *options: not str(path).startswith(("/proc", "/dev")) and exists(path, *options)
"""

COMMANDS = """
from evenglot.cli import main
for arguments in {commands!r}:
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
from evenglot import files, locks
assert locks._fcntl is None and files._renameat2 is None and not files.IS_POSIX
"""


def run(code, folder, **options):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=ENVIRONMENT, capture_output=True, timeout=PATIENCE, **options
    )


def test_from_text_to_a_report(tmp_path):
    write_corpora(tmp_path, {"aa": 60, "bb": 30, "cc": 20})
    (tmp_path / "conf.yaml").write_text(CONFIG.replace("updates: 24", "updates: 4"))
    commands = [
        ["check", "conf.yaml"],
        ["prepare", "conf.yaml"],
        ["prepare", "conf.yaml", "--set", "clean.max_pieces=100"],  # replaces parts of the store
        ["train", "conf.yaml", "--out", "run", "--set", "clean.max_pieces=100"],
        ["train", "conf.yaml", "--out", "run", "--resume", "--set", "clean.max_pieces=100", "--set", "train.updates=6"],
        ["translate", "run", "--input", "test.aa-en.aa", "--output", "out.txt", "--from", "aa", "--beam", "1"],
        ["score", "run", "--beam", "1"],
        ["report", "run"],
    ]
    done = run(WITHOUT + COMMANDS.format(commands=commands), tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 30
    assert not list(tmp_path.rglob("*.unfinished"))


# In place of Windows' msvcrt: the same promises, kept by POSIX locks. Unlike flock, these belong to a process.
MSVCRT = """
import types
import fcntl as posix

def locking(descriptor, mode, size):
    try:
        posix.lockf(descriptor, posix.LOCK_EX | posix.LOCK_NB, size)
    except BlockingIOError as error:
        raise PermissionError(13, "Permission denied") from error

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
"""

HOLD = """
from pathlib import Path
from evenglot.files import lock
with lock(Path("."), "taken"):
    print("got it", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("locks", ["", MSVCRT])
def test_a_folder_is_locked_if_there_are_locks(tmp_path, locks):
    code = "import sys" + locks + WITHOUT + HOLD
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, **pipes) as holder:
        assert holder.stdout.readline() == b"got it\n"
        second = run(code, tmp_path, input=b"")
        assert (b"LockedError: taken" in second.stderr) == bool(locks), second.stderr
        holder.stdin.close()
    third = run(code, tmp_path, input=b"")
    assert third.stdout == b"got it\n", third.stderr
