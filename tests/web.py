"""Requests to servers on this machine: patient, and past any proxy that the environment names."""

from __future__ import annotations

from functools import partial

import httpx

from tests.patience import PATIENCE

OPTIONS = {"timeout": PATIENCE, "trust_env": False, "verify": False}  # http only: no certificates to load
request, get, post = (partial(function, **OPTIONS) for function in (httpx.request, httpx.get, httpx.post))
