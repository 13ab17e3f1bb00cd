from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from evenglot.runs import checkpoint_folder
from evenglot.runs.checkpoint import Checkpoint
from evenglot.serve import listen, serve
from tests.counting import calls_of
from tests.patience import PATIENCE
from tests.serve.clients import FOREIGN, ask, wait_until, waiting
from tests.web import get


def test_a_taken_port_or_a_strange_one_is_told(run):
    with listen("127.0.0.1", 0) as taken, pytest.raises(ValueError, match="port .* of 127.0.0.1 .*--port"):
        serve(run, port=taken.getsockname()[1])
    with pytest.raises(ValueError, match="^port: .*65535.*70000"):
        serve(run, port=70000)
    with pytest.raises(ValueError, match="port 0 of no.such.host.invalid"):
        serve(run, host="no.such.host.invalid", port=0)


class ServingError(Exception):
    """Raised as soon as a server is about to listen."""


def test_the_checkpoint_is_chosen_and_read_once(run, monkeypatch):
    def stop(text):
        raise ServingError(text)

    chosen, reads = calls_of(monkeypatch, checkpoint_folder, "best"), calls_of(monkeypatch, Checkpoint, "read")
    with pytest.raises(ServingError):
        serve(run, port=0, tell=stop)
    assert len(chosen) == len(reads) == 1


def test_without_the_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in [name for name in sys.modules if name.startswith("evenglot.serve")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ValueError, match=r'pip install "evenglot\[serve\]"'):
        __import__("evenglot.serve")


def test_a_client_that_leaves_before_the_answer_ends_nothing(run):
    program = str(Path(sys.executable).with_name("evenglot"))
    command = [program, "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        url = process.stdout.readline().split(" at ")[1].split()[0]
        host, port = url.removeprefix("http://").split(":")
        for _ in range(20):
            with socket.create_connection((host, int(port))) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leave at once
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        broken = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(broken)
        assert get(f"{url}/api/health").status_code == 200
        process.terminate()
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "Traceback" not in rest


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_lets_running_requests_finish(run, number):
    program = (
        "import sys; from pathlib import Path; from evenglot.inference.translate import Translator;"
        "from evenglot.serve import serve; old = Translator.stream;"
        "Translator.stream = lambda *rest: (sys.stdin.readline(), old(*rest))[1];"  # waits for the word of the test
        "serve(Path(sys.argv[1]), port=0)"
    )
    command = [sys.executable, "-c", program, str(run)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, **pipes) as process:
        url = process.stdout.readline().split(" at ")[1].split()[0]
        answers = []
        thread = threading.Thread(target=lambda: answers.append(ask(url, text=FOREIGN["aa"][0], **{"from": "aa"})))
        thread.start()
        wait_until(lambda: waiting(url) == 1)
        process.send_signal(number)
        wait_until(lambda: not is_reachable(url))
        rest, _ = process.communicate("go on\n", timeout=PATIENCE)
        thread.join()
    assert answers[0].status_code == 200
    assert (process.returncode, rest) == (0, "Stopped.\n")


def is_reachable(url):
    try:
        get(url)
    except httpx.TransportError:
        return False
    return True
