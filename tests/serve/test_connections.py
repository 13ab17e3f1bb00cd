"""Clients that say nothing, or hardly anything, do not keep others out. No test depends on how long anything takes."""

import os
import re
import resource
import socket
import threading
from contextlib import ExitStack, closing, suppress

import pytest

from evenglot.reporting import watch
from evenglot.runs.run import Run
from evenglot.serve import Limits
from evenglot.serve.connections import most_connections
from tests.patience import PATIENCE
from tests.serve.clients import Held, ask, asking, serving, wait_until, waiting
from tests.training.commands import executable
from tests.web import get

HOST = re.compile(r"http://([\d.]+):(\d+)")


def connect(url):
    host, port = HOST.match(url).groups()
    made = socket.create_connection((host, int(port)), timeout=PATIENCE)
    return closing(made)


def is_ended(connection, dribble=b""):
    """Wait until the server ends a connection, sending a byte now and then."""
    with suppress(ConnectionError):
        while True:
            connection.settimeout(0.05 if dribble else PATIENCE)
            with suppress(TimeoutError):
                if not connection.recv(1 << 16):
                    return True
            connection.sendall(dribble)
    return True


@pytest.mark.parametrize(
    ("begin", "dribble"),
    [
        (b"", b""),
        (b"", b"G"),
        (b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"x"),
        (b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b""),  # answered, then silent
    ],
)
def test_a_request_that_does_not_arrive_in_time_ends_the_connection(model, begin, dribble):
    with serving(Held(held=False), model, Limits(header_seconds=0.3)) as url, connect(url) as slow:
        slow.sendall(begin)
        assert is_ended(slow, dribble)
        assert ask(url, sentences=["a"]).status_code == 200


def test_the_one_that_says_nothing_makes_room(model):
    limits = Limits(connections=3, header_seconds=PATIENCE, seconds=PATIENCE)
    with serving(Held(held=False), model, limits) as url, ExitStack() as stack:
        silent = [stack.enter_context(connect(url)) for _ in range(6)]
        for _ in range(3):
            assert ask(url, sentences=["a"]).status_code == 200
        assert is_ended(silent[0])


def test_too_many_that_are_busy_are_told(model):
    held = Held()
    limits = Limits(connections=2, seconds=PATIENCE)
    with serving(held, model, limits) as url:
        with asking(url, [{"sentences": ["a"]}, {"sentences": ["b"]}]) as answers:
            try:
                wait_until(lambda: held.asked == 2)
                with connect(url) as refused:
                    assert b" 503 " in refused.recv(1000)
            finally:
                held.let_go()
        assert [answer.result().status_code for answer in answers] == [200, 200]


def test_there_are_fewer_connections_than_open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (now + 400, hard))
    try:
        assert 1 <= most_connections(Limits()) <= 400
        assert most_connections(Limits(connections=7)) == 7
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_a_flood_of_silent_connections_stops_nobody(run):
    """300 connections at 256 open files: the server still answers, and says little."""

    def limited():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    server = executable("evenglot", "serve", run, "--port", 0, preexec_fn=limited)
    try:
        url = HOST.search(server.stdout.readline())[0]
        with ExitStack() as stack:
            for _ in range(300):
                with suppress(ConnectionError):
                    stack.enter_context(connect(url))
            assert get(f"{url}/api/ready").status_code == 200
            assert ask(url, sentences=["ba"], **{"from": "aa"}).status_code == 200
        server.terminate()
        assert len(server.communicate(timeout=PATIENCE)[0]) < 2_000
        assert server.returncode == 0
    finally:
        server.kill()


# ---------------------------------------------------------------------------------------------------------- end points


def test_live_and_ready_differ_when_it_is_full(model):
    held = Held()
    with serving(held, model, Limits(requests=1, seconds=PATIENCE)) as url:
        assert get(f"{url}/api/ready").status_code == 200
        with asking(url, [{"sentences": ["a"]}]):
            try:
                wait_until(lambda: waiting(url) == 1)
                assert get(f"{url}/api/live").status_code == 200
                assert get(f"{url}/api/ready").status_code == 503
            finally:
                held.let_go()
        wait_until(lambda: get(f"{url}/api/ready").status_code == 200)


def test_metrics_count_what_happens(model):
    with serving(Held(held=False), model) as url:
        ask(url, sentences=["a", "b"])
        ask(url, sentences="wrong")
        get(f"{url}/nowhere/at/all")
        answer = get(f"{url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert values['evenglot_requests_total{path="/api/translate",status="200"}'] == "1"
    assert values['evenglot_requests_total{path="/api/translate",status="422"}'] == "1"
    assert values['evenglot_requests_total{path="other",status="404"}'] == "1"
    assert values["evenglot_sentences_total"] == "2"
    assert values["evenglot_translate_seconds_count"] == values['evenglot_translate_seconds_bucket{le="+Inf"}'] == "1"


# --------------------------------------------------------------------------------------------------------- live report


def test_the_live_report_ends_dribbling_clients_and_limits_threads(run, monkeypatch):
    monkeypatch.setattr(watch, "SECONDS", 0.3)
    monkeypatch.setattr(watch, "MOST", 4)
    with watch.listen([Run(run)], 0) as server, ExitStack() as stack:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        before = threading.active_count()
        slow = [stack.enter_context(connect(server.url)) for _ in range(12)]
        assert threading.active_count() <= before + 4
        for each in slow:
            assert is_ended(each, b"G")
        assert get(f"{server.url}/data.json").status_code == 200
        server.shutdown()
        thread.join()
