"""Serve a trained model as a web page and a JSON API (docs/serve.md).

    request -> guard (checks host and origin) -> api (validates format and limits) -> worker (one thread owns the model)

Waiting requests are translated in batches. Nothing in a request is ever used as a path or as code.
"""

from __future__ import annotations

from evenglot.extras import missing

try:
    from evenglot.serve.messages import Limits
    from evenglot.serve.server import about, listen, prepared, serve
except ModuleNotFoundError as error:
    if error.name not in ("starlette", "uvicorn"):
        raise
    raise missing("serve", "starlette", "uvicorn") from error

__all__ = ["Limits", "about", "listen", "prepared", "serve"]
