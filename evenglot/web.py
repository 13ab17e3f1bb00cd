"""What our local pages have in common: whom they answer, and what they tell a browser."""

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
    """A Content-Security-Policy: only this very script and style may run, and they may talk to their origin only."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    return (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def served_headers(policy: str) -> dict[str, str]:
    """Headers of a page that a server sends; a policy in the page itself cannot forbid frames."""
    return {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'", **STRICT_HEADERS}


def host_name(host: str) -> str | None:
    """The name in a `Host` header, without its port; None if it cannot be read."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return None


def is_loopback(name: str | None) -> bool:
    """Is it a name or an address of this machine itself?"""
    try:
        return name == "localhost" or ip_address(name or "").is_loopback
    except ValueError:
        return False
