from __future__ import annotations

import pytest

from evenglot.serve.guard import allowed_host
from tests.web import get, post


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:5"])
def test_loopback_goes_by_its_names(url, host):
    headers = {"Host": host, "Origin": f"http://{host}".lower()}
    assert get(f"{url}/api/health", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "", "8.8.8.8"]
)
def test_another_name_is_refused(url, host):
    answer = get(f"{url}/api/health", headers={"Host": host})
    assert (answer.status_code, list(answer.json())) == (403, ["error"])


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["])
def test_a_page_from_elsewhere_is_refused(url, origin):
    answer = post(f"{url}/api/translate", json={"text": "x", "from": "aa"}, headers={"Origin": origin})
    assert (answer.status_code, list(answer.json())) == (403, ["error"])
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_names_can_be_given():
    assert allowed_host(True, ["mt.example"])("MT.example:80")
    assert not allowed_host(True, ["mt.example"])("other.example")
    assert allowed_host(False, [])("other.example")
    assert not allowed_host(False, ["mt.example"])("other.example")


def test_browsers_are_told_to_be_strict(url):
    for path in ("/", "/api/health", "/nope"):
        headers = get(url + path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
