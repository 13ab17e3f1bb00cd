"""Headless chromium, told what to do through a pipe (the DevTools protocol); for tests of pages."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

MOUSE = "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
FITS = "document.documentElement.scrollWidth <= innerWidth"


class Browser:
    """One window."""

    def __init__(self, program: str, folder: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        flags = (
            "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
            "--disable-component-update --disable-sync --disable-dev-shm-usage --no-proxy-server "
            f"--remote-debugging-pipe --user-data-dir={folder} {MOUSE}"
        )
        command = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "-", program, *flags.split(), "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, pass_fds=(to_read, to_write), stdout=quiet, stderr=quiet)
        os.close(to_read)
        os.close(to_write)
        self._number, self._rest, self._session = 0, b"", None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Network", "Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def _send(self, method: str, **parameters: Any) -> None:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._send(method, **parameters)
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 2**16)
            assert more, "chromium has gone"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, url: str, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        loader = self.call("Page.navigate", url=url)["loaderId"]
        while loader not in self._loaders():  # until then, scripts may still run in the page before
            self.events.append(self._next())
        self.wait("document.readyState === 'complete'")

    def _loaders(self) -> list[str]:
        navigated = [event for event in self.events if event.get("method") == "Page.frameNavigated"]
        return [event["params"]["frame"]["loaderId"] for event in navigated]

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    def hover(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Move the mouse to a place in an element, given as parts of its width and height."""
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.run(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        for part in (0.9, 1.0):  # a move, not a jump
            at = {"x": box["left"] + part * x * box["width"], "y": box["top"] + part * y * box["height"]}
            self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)

    def click(self, selector: str) -> None:
        """With the mouse, in the middle."""
        self.hover(selector)
        box = self.run(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        at = {"x": box["left"] + box["width"] / 2, "y": box["top"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def press(self, key: str, code: int, text: str = "", modifiers: int = 0) -> None:
        pressed = {"key": key, "windowsVirtualKeyCode": code, "text": text, "modifiers": modifiers}
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **pressed)

    def complaints(self) -> list[str]:
        """Errors that the page made, policies it broke among them."""
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        asked = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in asked]

    def picture(self, file: Path, whole: bool = True) -> None:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._session = None
        self._send("Browser.close")
        while os.read(self._read, 2**16):  # its answer, or not even that
            continue
        self._process.wait(PATIENCE)
        os.close(self._read)
        os.close(self._write)


def start_browser(folder: Path, kind: type[Browser] = Browser) -> Browser:
    """Chromium, or the test is skipped."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no chromium on this machine (Debian: apt-get install chromium)")
    return kind(program, folder)
