"""LoRA: low-rank adapters in the linear layers of a pretrained model, through peft. Only the adapters are trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from evenglot.extras import import_peft
from evenglot.model.families import Family

ADAPTER = "default"  # peft's name of an adapter that was given none
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def add_lora(model: nn.Module, lora: Mapping[str, Any], family: Family) -> None:
    """Add adapters to a model, in place, and freeze its weights. Their start depends on torch.manual_seed."""
    peft = import_peft()
    peft.inject_adapter_in_model(peft.LoraConfig(**_options(lora, family)), model, adapter_name=ADAPTER)


def merge_lora(model: nn.Module) -> None:
    """Add the adapters to the weights, so that they cost no time; they are still there."""
    tuners = import_peft().tuners.lora
    for layer in model.modules():
        if isinstance(layer, tuners.LoraLayer):
            layer.merge()


def without_lora(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the model itself, by their names in a model without adapters."""
    return {name.replace(".base_layer.", "."): weight for name, weight in weights.items() if ".lora_" not in name}


def adapter_config(lora: Mapping[str, Any], family: Family, base: str) -> dict[str, Any]:
    """The content of peft's adapter_config.json; `base`: where it finds the weights of the model."""
    own = {"peft_type": "LORA", "task_type": "SEQ_2_SEQ_LM", "base_model_name_or_path": base, "inference_mode": True}
    return {**own, **_options(lora, family)}


def adapter_weights(adapters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adapters by their names in peft's files."""
    return {f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}": weight for name, weight in adapters.items()}


def _options(lora: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Our settings (`model.lora`) as peft has them."""
    names = family.attention if lora["layers"] == "attention" else (*family.attention, *family.feed_forward)
    return {
        "r": lora["rank"],
        "lora_alpha": lora["alpha"],
        "lora_dropout": lora["dropout"],
        "target_modules": list(names),
        "bias": "none",
    }
