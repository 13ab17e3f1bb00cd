"""Who may ask: pages from elsewhere may not, and browsers are told to be strict with ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenglot.web import content_policy, host_name, is_loopback, served_headers


class Guard:
    """Keeps pages from elsewhere out, and tells browsers to be strict with ours.

    A page on the web can make a browser ask a server on loopback. If it does so openly, `Origin` names it; if it has
    its own name resolved to our address (DNS rebinding), `Host` does. `ours`: whether we go by that name.
    """

    def __init__(self, app: ASGIApp, ours: Callable[[str], bool], page: str) -> None:
        self._app, self._ours = app, ours
        self._headers = security_headers(page)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app answer."""

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
            return f"this server does not go by the name {host!r}; use its address, or start it with that name"
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return f"a page from {origin!r} may not use this server"
        return None


def allowed_host(loopback: bool, names: Iterable[str]) -> Callable[[str], bool]:
    """Whether a `Host` header, with any port, is one of ours: on loopback its names, and those that were given."""
    given = {name.lower() for name in names}

    def allowed(host: str) -> bool:
        name = host_name(host)
        return name is not None and (name in given or (is_loopback(name) if loopback else not given))

    return allowed


def security_headers(page: str) -> dict[str, str]:
    """Only the script and the style that stand in the page may run, and they may talk to us only."""
    inside = dict(re.findall(r"<(script|style)>(.*?)</\1>", page, flags=re.DOTALL))
    return served_headers(content_policy(inside["script"], inside["style"]))
