"""Security of the local web pages: response headers, and checks of the `Host` header."""

from __future__ import annotations

import base64
import hashlib
from ipaddress import ip_address
from urllib.parse import urlsplit

STRICT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def content_policy(script: str, style: str) -> str:
    """A Content-Security-Policy that allows only this script and style, and connections only to the page's origin."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    return (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def served_headers(policy: str) -> dict[str, str]:
    """HTTP headers of a served page. They include frame-ancestors, which has no effect in a <meta> policy."""
    return {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'", **STRICT_HEADERS}


def host_name(host: str) -> str | None:
    """The name in a `Host` header, without the port; None if it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return None


def is_loopback(name: str | None) -> bool:
    """Is this `localhost` or a loopback address?"""
    try:
        return name == "localhost" or ip_address(name or "").is_loopback
    except ValueError:
        return False
