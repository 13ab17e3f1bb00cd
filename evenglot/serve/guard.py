"""Protection against requests from foreign web pages: checks of host and origin, and security headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenglot.web import content_policy, host_name, is_loopback, served_headers


class Guard:
    """Rejects requests from foreign web pages, and adds security headers to all responses.

    A web page can make a browser send requests to a server on loopback. A direct request names the page in `Origin`; if
    the page's host name resolves to our address (DNS rebinding), it is in `Host`. `ours` accepts the allowed hosts.
    """

    def __init__(self, app: ASGIApp, ours: Callable[[str], bool], page: str) -> None:
        self._app, self._ours = app, ours
        self._headers = security_headers(page)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request, or pass it to the app."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        problem = self._objection(Headers(scope=scope))
        answer = JSONResponse({"error": problem}, 403) if problem else self._app
        await answer(scope, receive, send_with_headers)

    def _objection(self, headers: Headers) -> str | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._ours(host):
            return f"host {host!r} is not allowed; use the server's address, or start it with this host name"
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return f"origin {origin!r} is not allowed"
        return None


def allowed_host(loopback: bool, names: Iterable[str]) -> Callable[[str], bool]:
    """A test for `Host` headers, ignoring the port: the given names, and on loopback its usual names."""
    given = {name.lower() for name in names}

    def allowed(host: str) -> bool:
        name = host_name(host)
        return name is not None and (name in given or (is_loopback(name) if loopback else not given))

    return allowed


def security_headers(page: str) -> dict[str, str]:
    """Headers that allow only the script and style of the page, and only requests to this server."""
    inside = dict(re.findall(r"<(script|style)>(.*?)</\1>", page, flags=re.DOTALL))
    return served_headers(content_policy(inside["script"], inside["style"]))
