"""Small checkpoints to save, compare and damage."""

import torch

from evenglot.runs.checkpoint import save

FILES = ("model.safetensors", "optimizer.safetensors", "state.json")
STATE = {"epoch": 3, "position": 117, "q": {"por-en": 0.1 + 0.2, "glg-en": 1e-308}, "seen": [1, None, "é", True]}


def weights(seed=0):
    drawn = torch.Generator().manual_seed(seed)
    return {
        "embedding": torch.randn(7, 5, generator=drawn),
        "half": torch.randn(4, generator=drawn).bfloat16(),
        "scale": torch.randn((), generator=drawn, dtype=torch.float64),
    }


def moments():
    return {"embedding.step": torch.tensor(2**40 + 1), "embedding.exp_avg": torch.randn(7, 5), "none": torch.zeros(0)}


def save_at(root, step, score=None, **changes):
    return save(
        root, step, **({"model": weights(step), "optimizer": moments(), "state": STATE, "score": score} | changes)
    )


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (got[name].dtype, got[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(got[name].reshape(-1).view(torch.uint8), tensor.contiguous().reshape(-1).view(torch.uint8))


def names(root):
    return sorted(path.name for path in root.iterdir())


def flip(position):
    def damage(file):
        content = bytearray(file.read_bytes())
        content[int(position * (len(content) - 1))] ^= 0x01
        file.write_bytes(content)

    return damage
