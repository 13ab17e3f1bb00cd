"""One run on several machines: two agents of `torchrun` on this one, which meet as on a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from tests.patience import PATIENCE
from tests.training.commands import arguments, events, tensors
from tests.training.test_parallel import CHI_IBR, run_on, settings

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_machines_learn_what_one_learns_even_if_a_process_is_killed(conf, tmp_path):
    """All processes are restarted, and resume from the last checkpoint, to the last bit."""
    chosen = settings(CHI_IBR, 24, save_every=5)
    whole = run_on(2, conf, tmp_path / "whole", chosen)
    run = tmp_path / "run"
    killed_after = run / "checkpoints" / "step-00000010"
    command = ["-m", "tests.training.dying", killed_after, *arguments(conf, run, chosen, "--resume")]
    assert on_two_machines(command, tmp_path) == [0, 0], [file.read_text() for file in tmp_path.glob("agent-*")]
    (resumed,) = events(run, "resume")
    assert (resumed["step"], resumed["processes"]) == (10, 2)
    assert tensors(run) == tensors(whole)


def on_two_machines(command, folder):
    """The exit codes of two agents. The port on which they meet is held here, so that no other test can take it.

    Without the variable, agents of torch 2.13 keep the store of the first attempt, with addresses of dead processes.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{store.port}", "--rdzv-conf", "is_host=0"]
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--local-addr", "127.0.0.1", "--max-restarts", "1", *meeting]
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with ExitStack() as stack:
        agents = []
        for number in range(2):
            output = stack.enter_context((folder / f"agent-{number}").open("w"))
            start = [sys.executable, "-m", "torch.distributed.run", *options, *map(str, command)]
            agents.append(subprocess.Popen(start, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT))
            stack.callback(agents[-1].wait)
            stack.callback(agents[-1].terminate)
        return [agent.wait(PATIENCE) for agent in agents]
