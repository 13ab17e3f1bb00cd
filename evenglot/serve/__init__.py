"""A trained model as a page and a JSON API (docs/serve.md).

    request -> guard (who asks?) -> api (is it well formed, within the limits?) -> worker (one thread owns the model)

Requests that wait are translated together. Nothing in a request is ever used as a path or as code.
"""

from __future__ import annotations

try:
    from evenglot.serve.messages import Limits
    from evenglot.serve.server import about, listen, prepared, serve
except ModuleNotFoundError as error:
    if error.name not in ("starlette", "uvicorn"):
        raise
    raise ValueError('starlette and uvicorn are not installed: pip install "evenglot[serve]"') from error

__all__ = ["Limits", "about", "listen", "prepared", "serve"]
