import json
import os
import re
import signal
import socket
import threading
from unittest.mock import Mock

import httpx
import pytest

from evenglot.reporting import watch as module
from evenglot.reporting.watch import listen, watch
from evenglot.runs.run import Run
from tests.reporting.synthetic import watching, write_run, write_scores, write_statistics
from tests.web import get, post, request


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "run", directions=2, done=False)


@pytest.fixture(scope="module")
def url(run):
    with watching(run) as url:
        yield url


def test_the_page_and_its_data(url):
    page, data = get(url), get(f"{url}/data.json")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<title>run · evenglot report</title>" in page.text
    assert (data.status_code, data.headers["content-type"]) == (200, "application/json")
    content = data.json()
    assert (content["live"], content["runs"][0]["state"]) == (True, "running")
    assert get(f"{url}/?x=1").status_code == 200


def test_browsers_are_told_to_be_strict(url):
    for path in ("/", "/data.json", "/nothing"):
        headers = get(url + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'sha256-" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_data_that_did_not_change_are_not_sent_again(url):
    tag = get(f"{url}/data.json").headers["etag"]
    again = get(f"{url}/data.json", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert get(f"{url}/data.json", headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_run_is_waited_for_and_then_followed(tmp_path):
    later = Run(tmp_path / "later")
    with watching(later) as url:
        waiting = get(f"{url}/data.json").json()["runs"][0]
        assert (waiting["state"], get(url).status_code) == ("waiting", 200)
        write_run(later.folder, directions=2, done=False)
        began = get(f"{url}/data.json").json()["runs"][0]
        assert (began["state"], began["scores"], began["progress"]["step"]) == ("running", None, 2000)
        with later.log_file.open("a") as log:
            log.write(
                json.dumps({"event": "done", "step": 2100, "reason": "updates", "tokens": 1, "seconds": 9.0}) + "\n"
            )
        done = get(f"{url}/data.json").json()["runs"][0]
        assert (done["state"], done["progress"]["step"]) == ("done", 2100)
        write_scores(later)
        assert get(f"{url}/data.json").json()["runs"][0]["scores"]["split"] == "test"


def test_a_file_that_cannot_be_read_just_now_is_no_end(tmp_path):
    run = write_run(tmp_path / "run", directions=2)
    with watching(run) as url:
        (run.folder / "scores.json").write_text("{")
        answer = get(f"{url}/data.json")
        assert (answer.status_code, "scores.json: " in answer.json()["error"]) == (503, True)
        write_scores(run)
        assert get(f"{url}/data.json").status_code == 200


def test_runs_are_compared_once_all_of_them_are_scored(tmp_path, monkeypatch):
    runs = [write_run(tmp_path / name, directions=2) for name in ("erm", "chi")]
    asked = []
    comparison_of = module.comparison_of
    monkeypatch.setattr(module, "comparison_of", lambda *a, **k: asked.append(1) or comparison_of(*a, **k))

    def comparison():
        return get(f"{url}/data.json").json()["comparison"]

    with watching(*runs) as url:
        write_scores(runs[0])
        write_statistics(runs[0])
        assert comparison() is None
        write_scores(runs[1])
        write_statistics(runs[1], level=1.5)
        found = comparison()
        assert [row["name"] for row in found["rows"]] == ["erm", "chi"]
        assert re.match(r"chi .* erm.* loss per character: worse", found["summary"]["loss"][0])
        before = len(asked)
        with runs[0].log_file.open("a") as log:
            log.write(json.dumps({"event": "warning", "step": 2000, "message": "late"}) + "\n")
        assert comparison() == found
        assert len(asked) == before  # a log that grows changes no score
        write_statistics(runs[1], references="others")
        assert comparison() is None  # not the same sentences: the runs alone are shown


def test_errors_are_told_in_one_line_but_not_that_a_browser_has_gone(run, monkeypatch, capsys):
    for error, told in ((BrokenPipeError("gone"), ""), (KeyError("odd"), "report: KeyError: 'odd'\n")):
        with listen([run], 0) as server:
            monkeypatch.setattr(server, "finish_request", Mock(side_effect=error))
            server.process_request_thread(socket.socket(), ("127.0.0.1", 1))
        assert capsys.readouterr().err == told


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:5"])
def test_loopback_goes_by_its_names(url, host):
    assert get(f"{url}/data.json", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "", "8.8.8.8"]
)
def test_another_name_is_refused(url, host):
    answer = get(f"{url}/data.json", headers={"Host": host})
    assert (answer.status_code, list(answer.json())) == (403, ["error"])


def test_a_page_from_elsewhere_is_refused(url):
    assert get(f"{url}/data.json", headers={"Origin": "http://evil.example"}).status_code == 403
    assert get(f"{url}/data.json", headers={"Origin": "null"}).status_code == 403
    assert get(f"{url}/data.json", headers={"Origin": url}).status_code == 200


def test_it_can_only_be_read(url):
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        answer = request(method, f"{url}/data.json")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert post(url, content=b"x" * 100_000).status_code == 405
    for path in ("/nothing", "/log.jsonl", "/../../etc/passwd", "/data.json/"):
        assert get(url + path).status_code == 404


def test_a_taken_port_or_a_strange_one_is_told(run):
    with listen([run], 0) as taken, pytest.raises(ValueError, match=rf"port {taken.server_port} of 127.0.0.1 .*--port"):
        watch([run], port=taken.server_port)
    with pytest.raises(ValueError, match="^port: .*65535.*70000"):
        watch([run], port=70000)
    with pytest.raises(ValueError, match="^report: "):
        watch([], port=0)


def test_ctrl_c_ends_it(run):
    told, answers = [], []

    def ask_then_interrupt(url):
        def person():
            answers.append(get(url).status_code)
            os.kill(os.getpid(), signal.SIGINT)

        told.append(url)
        threading.Thread(target=person).start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        watch([run], port=0, open_=ask_then_interrupt, tell=told.append)
    except KeyboardInterrupt:
        pytest.fail("Ctrl-C was not caught")
    finally:
        signal.signal(signal.SIGINT, before)
    said, url, _ = told  # the last message is that it has stopped
    assert url in said
    assert answers == [200]
    with pytest.raises(httpx.ConnectError):
        get(url)
