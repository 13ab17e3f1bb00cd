"""A stand-in of the Hugging Face Hub: as much of its HTTP interface as an upload uses. It is not the Hub itself.

Large files come by Git LFS, the older of the Hub's ways; the newer, Xet, is a service of its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

TOKEN = "hf_local"


@dataclass
class Hub:
    """What it was given: repositories with their settings, their files, and messages of commits."""

    address: str = ""
    repositories: dict[str, dict[str, Any]] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)  # large files by SHA-256
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


@contextmanager
def local_hub() -> Iterator[Hub]:
    """Serves on a free port of this machine."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Authorization"] != f"Bearer {TOKEN}" and "validate" not in self.path:
                self.answer({"error": "Invalid username or password."}, 401)
            else:
                self.answer(respond(hub, self.path.partition("?")[0], content))

        def do_PUT(self) -> None:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                content = b"".join(self.chunks())
            else:
                content = self.rfile.read(int(self.headers["Content-Length"]))
            hub.objects[self.path.removeprefix("/upload/")] = content
            self.answer({})

        def chunks(self) -> Iterator[bytes]:
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        def answer(self, content: Any, status: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        yield hub
        server.shutdown()


def respond(hub: Hub, path: str, content: bytes) -> Any:
    if path == "/api/validate-yaml":
        return {"errors": [], "warnings": []}
    if path == "/api/repos/create":
        asked = json.loads(content)
        name = f"{asked['organization']}/{asked['name']}"
        hub.repositories[name] = asked
        return {"url": f"{hub.address}/{name}", "name": name}
    if path.endswith("/info/lfs/objects/batch"):
        return {
            "transfer": "basic",
            "objects": [
                {**each, "actions": {"upload": {"href": f"{hub.address}/upload/{each['oid']}"}}}
                for each in json.loads(content)["objects"]
            ],
        }
    name, action = path.removeprefix("/api/models/").rsplit("/", 2)[:2]
    if action == "preupload":
        names = [each["path"] for each in json.loads(content)["files"]]
        modes = {True: "lfs", False: "regular"}
        return {
            "files": [
                {"path": each, "uploadMode": modes[each.endswith((".safetensors", ".spm"))], "shouldIgnore": False}
                for each in names
            ]
        }
    assert action == "commit", path
    return commit(hub, name, [json.loads(line) for line in content.splitlines()])


def commit(hub: Hub, repository: str, lines: list[dict[str, Any]]) -> dict[str, str]:
    files = hub.files.setdefault(repository, {})
    for line in lines:
        value = line["value"]
        if line["key"] == "header":
            hub.messages.append(value["summary"])
        elif line["key"] == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            found = hub.objects[value["oid"]]
            assert hashlib.sha256(found).hexdigest() == value["oid"]
            files[value["path"]] = found
    return {"commitUrl": f"{hub.address}/{repository}/commit/1", "commitOid": "0" * 40}
