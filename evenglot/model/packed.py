"""Linear layers whose weights are packed for oneDNN, for translation on CPUs.

By default torch multiplies float32 matrices with MKL, which is much slower than oneDNN on AMD processors and does not
keep the weights in the order that its kernels need.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from evenglot.model.transformer import Transformer

SMALL = 2**19  # for fewer multiplications, calling oneDNN takes longer than it saves


class PackedLinear(nn.Linear):
    """A linear layer for inference; the original weights are kept, but changing them has no effect."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)  # without creating weights
        self.out_features, self.in_features = weight.shape
        self.register_parameter("weight", nn.Parameter(weight, requires_grad=False))
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias, requires_grad=False))
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        self._multiply: Any = torch.ops.mkldnn._linear_pointwise.default

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in_features)."""
        if x.numel() * self.out_features < SMALL:
            return super().forward(x)
        result: Tensor = self._multiply(x, self._packed, self.bias, "none", [], "")
        return result


def packed(model: Transformer) -> Transformer:
    """A model with the same parameters and packed linear layers, or the model itself if it cannot be packed."""
    if not _can_pack(model.output_embedding):
        return model
    shared = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    copied = deepcopy(model, shared)
    for module in list(copied.modules()):
        for name, part in module.named_children():
            if isinstance(part, nn.Linear):
                setattr(module, name, PackedLinear(part.weight, part.bias))
    copied.packed_output = PackedLinear(copied.target_embedding.weight, None)
    return copied


def _can_pack(weight: Tensor) -> bool:
    """Whether torch has oneDNN's operators, which are not part of its documented interface, for weights like this."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.cpu.get_cpu_capability().startswith("AVX")
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )
