import errno
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from evenglot import files
from evenglot.files import (
    LockedError,
    checksum,
    digest,
    finished_file,
    finished_folder,
    lock,
    remove_folder,
    restore,
    sync,
    write_json,
    write_text,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_has_its_name_only_when_finished(tmp_path):
    with finished_folder(tmp_path / "new" / "result") as folder:
        (folder / "data").write_text("text")
        assert names(tmp_path / "new") == ["result.unfinished"]
    assert names(tmp_path / "new") == ["result"]
    assert (tmp_path / "new" / "result" / "data").read_text() == "text"


def test_it_takes_the_place_of_an_older_one_and_of_leftovers(tmp_path):
    for leftover in ("result", "result.unfinished", "result.replaced.unfinished"):
        (tmp_path / leftover).mkdir()
        (tmp_path / leftover / "old").write_text(leftover)
    with finished_folder(tmp_path / "result") as folder:
        assert (tmp_path / "result" / "old").read_text() == "result"
        (folder / "data").touch()
    assert names(tmp_path) == ["result"]
    assert names(tmp_path / "result") == ["data"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit(1)])
def test_an_error_leaves_all_as_it_was(tmp_path, error):
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "old").write_text("old")

    def write_half():
        with finished_folder(tmp_path / "result") as folder:
            (folder / "data").touch()
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert names(tmp_path) == ["result"]
    assert names(tmp_path / "result") == ["old"]


def test_an_older_one_returns_if_the_new_one_cannot_get_its_name(tmp_path, monkeypatch):
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "old").touch()
    rename = Path.rename

    def refuse_the_new_one(path, target):
        if path.name == "result.unfinished":
            raise PermissionError(target)
        return rename(path, target)

    monkeypatch.setattr(files, "_renameat2", None)
    monkeypatch.setattr(Path, "rename", refuse_the_new_one)
    with pytest.raises(PermissionError), finished_folder(tmp_path / "result"):
        pass
    assert names(tmp_path) == ["result"]
    assert names(tmp_path / "result") == ["old"]


KILLED_WHILE_REPLACING = """
import sys
from pathlib import Path
from evenglot import files
from tests.killed import ALL, kill_itself_after
if sys.argv[3] == "without exchange":
    files._renameat2 = None
kill_itself_after(int(sys.argv[2]), ALL)
with files.finished_folder(Path(sys.argv[1]) / "result") as folder:
    for name in "abc":
        (folder / name).write_text("new")
"""


def can_exchange(folder):
    for name in "ab":
        (folder / name).mkdir(parents=True)
    return files._exchange(folder / "a", folder / "b")


@pytest.mark.parametrize("system", ["with exchange", "without exchange"])
def test_killed_at_any_moment_the_old_folder_or_the_new_one_is_there(tmp_path, system):
    if system == "with exchange" and not can_exchange(tmp_path / "probe"):
        pytest.skip("this file system cannot exchange folders")
    found, operations = [], 0
    while True:
        home = tmp_path / str(operations)
        (home / "result").mkdir(parents=True)
        for name in "abc":
            (home / "result" / name).write_text("old")
        command = [sys.executable, "-c", KILLED_WHILE_REPLACING, str(home), str(operations), system]
        done = subprocess.run(command, cwd=Path(__file__).parents[1], check=False)
        if system == "without exchange":
            restore(home / "result")
        assert names(home / "result") == list("abc")
        (content,) = {file.read_text() for file in (home / "result").iterdir()}
        found.append(content)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        with pytest.raises(KeyboardInterrupt), finished_folder(home / "result"):  # the next one is interrupted, too
            raise KeyboardInterrupt
        assert names(home) == ["result"]
        operations += 1
    assert found == sorted(found, reverse=True)  # old, then new
    assert {"old", "new"} == set(found[:-1])


def test_a_removed_folder_is_gone_with_its_leftover(tmp_path):
    for name in ("result", "result.unfinished"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").touch()
    remove_folder(tmp_path / "result")
    assert names(tmp_path) == []


def test_a_lock_is_for_one_process_and_ends_with_it(tmp_path):
    program = f"""
from pathlib import Path
from evenglot.files import lock
with lock(Path({str(tmp_path)!r}), "taken"):
    print("locked", flush=True)
    input()
"""
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    with pytest.raises(LockedError, match="our message"), lock(tmp_path, "our message"):
        pass
    with pytest.raises(UnicodeError, match="x"), lock(tmp_path, "x", UnicodeError):
        pass
    process.kill()
    process.communicate()
    with lock(tmp_path, "free after the other process ended"):
        pass
    with lock(tmp_path, "free after our block"):
        pass


def test_an_error_in_a_locked_block_is_that_error(tmp_path):
    with pytest.raises(BlockingIOError), lock(tmp_path, "taken"):
        raise BlockingIOError


def test_a_link_leads_to_the_file_that_is_meant(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_text(tmp_path / "pipe", "text")
    reader.join(10)
    assert read == ["text"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_stands_in_the_place_of_a_file_of_our_own_is_replaced(tmp_path, kind):
    (device := tmp_path / "device").symlink_to("/dev/null")
    file = device if kind == "device" else tmp_path / "pipe"
    if kind == "pipe":
        os.mkfifo(file)
    write_json(file, 1)
    assert file.is_file()
    assert not file.is_symlink()
    assert file.read_text() == "1\n"
    assert Path("/dev/null").is_char_device()


def test_standard_output_by_name_is_added_to(tmp_path):
    program = "from pathlib import Path; from evenglot.files import write_text; write_text(Path('/dev/stdout'), 'text')"
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert piped.stdout == "text"
    with (tmp_path / "all").open("a") as file:
        file.write("before ")
        file.flush()
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True)
    assert (tmp_path / "all").read_text() == "before text"


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_an_open_file_by_its_number_is_added_to(tmp_path, name):
    (tmp_path / "all").write_text("before ")
    with (tmp_path / "all").open("a") as file:
        (tmp_path / "link").symlink_to(f"/dev/fd/{file.fileno()}")
        write_text(tmp_path / name.format(file.fileno()), "text")
    assert (tmp_path / "all").read_text() == "before text"


def test_process_substitution_receives_the_text(tmp_path):
    program = "import sys; from pathlib import Path; from evenglot.files import write_text\n"
    program += "write_text(Path(sys.argv[1]), 'text')"
    command = ["bash", "-c", '"$0" -c "$1" >(cat > copied)', sys.executable, program]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)  # waits for `cat`, which has our stderr
    assert (tmp_path / "copied").read_text() == "text"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no memory file system")
def test_a_regular_file_is_replaced_wherever_it_lies():
    with TemporaryDirectory(dir="/dev/shm") as folder:
        for text in ("first", "second"):
            write_text(Path(folder) / "file", text)
        assert (Path(folder) / "file").read_text() == "second"
        assert names(Path(folder)) == ["file"]


def test_a_file_is_not_written_through_a_link_that_somebody_put_in_its_way(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "file.unfinished").symlink_to("precious")
    (tmp_path / "file.01234567.unfinished").symlink_to("precious")
    os.mkfifo(tmp_path / "file.89abcdef.unfinished")
    (tmp_path / "folder.unfinished").symlink_to(".")
    write_text(tmp_path / "file", "text")
    with finished_folder(tmp_path / "folder") as folder:
        (folder / "precious").write_text("mine")
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "file").read_text() == "text"
    assert (tmp_path / "folder" / "precious").read_text() == "mine"
    assert not (tmp_path / "folder").is_symlink()


def test_two_processes_that_write_the_same_file_do_not_mix(tmp_path):
    with finished_file(tmp_path / "file") as one:
        one.write(b"one")
        with finished_file(tmp_path / "file") as two:
            two.write(b"two")
        assert (tmp_path / "file").read_text() == "two"
        one.write(b" is whole")
    assert (tmp_path / "file").read_text() == "one is whole"
    assert names(tmp_path) == ["file"]


def test_many_that_write_the_same_file_all_succeed(tmp_path):
    contents, path = ["a", "bc", "def", "ghij"], tmp_path / "file"
    with ThreadPoolExecutor(len(contents)) as pool:
        for _ in range(100):
            list(pool.map(lambda content: write_text(path, content), contents))  # raises what they raise
            assert path.read_text() in contents
            assert names(tmp_path) == ["file"]


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from evenglot.files import finished_file
with finished_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_killed_processes_left_is_deleted_by_the_next(tmp_path):
    path = tmp_path / "a[b]?.json"
    others = [f"{path.name}.mine.unfinished", "x.01234567.unfinished"]
    for other in others:
        (tmp_path / other).touch()
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(path)], check=False)
        assert len(names(tmp_path)) == 3
    write_text(path, "text")
    assert names(tmp_path) == sorted([path.name, *others])


def test_permissions_are_the_usual_ones(tmp_path):
    write_text(tmp_path / "file", "text")
    (tmp_path / "usual").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_full_disk_is_named():
    with pytest.raises(OSError, match="/dev/full"):
        write_text(Path("/dev/full"), "text" * 10_000)


FILES_ARE_TOO_LARGE = """
import resource, signal, sys
from pathlib import Path
from evenglot.files import finished_file, finished_folder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for write in (finished_file, finished_folder):
    try:
        with write(Path(sys.argv[1])) as out:
            file = out if write is finished_file else (out / "file").open("wb")
            file.write(b"x" * 100_000)
    except OSError as error:
        print(error.filename, error.strerror)
"""


def test_a_file_that_becomes_too_large_is_named(tmp_path):
    command = [sys.executable, "-c", FILES_ARE_TOO_LARGE, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{tmp_path / 'out'} {os.strerror(errno.EFBIG)}"] * 2
    assert names(tmp_path) == []


def test_an_error_that_is_not_of_writing_stays_as_it_is(tmp_path):
    with pytest.raises(BrokenPipeError) as caught, finished_file(tmp_path / "file"):
        raise BrokenPipeError(errno.EPIPE, "pipe")
    assert caught.value.filename is None


def test_json_is_replaced_whole(tmp_path):
    write_json(tmp_path / "a.json", {"a": 0.1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert (tmp_path / "a.json").read_text() == '{\n "a": 0.1\n}\n'


def test_checksums_are_of_the_content(tmp_path):
    (tmp_path / "check").write_bytes(b"123456789")
    assert checksum(tmp_path / "check") == 0xCBF43926  # the standard check value of CRC-32
    assert digest(b"a") == digest(b"a") != digest(b"b")


def test_everything_inside_is_synced(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "data").touch()
    synced = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    sync(tmp_path)
    assert synced == {path.stat().st_ino for path in (tmp_path, tmp_path / "inner", tmp_path / "inner" / "data")}
