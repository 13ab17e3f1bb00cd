"""Ray clusters of several nodes on this machine."""

import os
import signal
import socket
from contextlib import contextmanager

import pytest


def closed_port():
    """Where nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextmanager
def ray_cluster(**resources):
    """A head that only decides, and one node with these resources."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    handler = signal.getsignal(signal.SIGTERM)  # which Ray replaces
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, include_dashboard=False)
        cluster.add_node(**resources)
        yield cluster
    finally:
        cluster.shutdown()
        signal.signal(signal.SIGTERM, handler)


class Environment:
    """Sets variables in a process before it works."""

    def __init__(self, variables):
        self.variables = variables

    def __call__(self):
        os.environ.update(self.variables)
