"""`--on ray`: a connection to the Ray cluster that RAY_ADDRESS names, or that this machine belongs to."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evenglot.extras import missing

RETRIES = 5  # after workers and machines that were lost; errors of the work itself are not tried again


@contextmanager
def connected() -> Iterator[Any]:
    """The ray package, connected to the cluster; a connection that the caller has made before is used, and kept."""
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS", "auto")
    try:
        _refuse_unreachable(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--on ray: no Ray cluster at {address!r}; start one with `ray start --head`, or set RAY_ADDRESS"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def import_ray() -> Any:
    """The ray package, or an error that says how to install it."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise missing("ray", "ray") from error


def _refuse_unreachable(address: str) -> None:
    """OSError or ValueError unless somebody listens at host:port; Ray itself would try for minutes."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host.removeprefix("ray://"), int(port)), timeout=10).close()
