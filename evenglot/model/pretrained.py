"""Adapters for pretrained encoder-decoders of Hugging Face transformers: M2M100/NLLB, MBart, Marian and T5/MADLAD.

One class serves all families: the encoder and decoder are those of transformers; the loss, the search and the loop are
ours. Ids, weights and their names stay those of the checkpoint.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the usual name)
from torch import Tensor, nn

from evenglot.extras import import_transformers, quiet
from evenglot.model.families import PretrainedConfig, PretrainedError, read_config, weight_files
from evenglot.model.interface import TranslationModel
from evenglot.model.lora import add_lora, merge_lora, without_lora
from evenglot.model.transformer import is_real, unpadded
from evenglot.wording import one_line

DROPOUTS = ("dropout", "attention_dropout", "activation_dropout", "dropout_rate")  # the last of T5
LAYER_DROPOUTS = ("encoder_layerdrop", "decoder_layerdrop")


@dataclass(frozen=True, eq=False)
class PretrainedMemory:
    """Encoder states of B source sentences (B, S, dim), and a mask (B, S) of what is not padding."""

    states: Tensor
    mask: Tensor

    def select(self, rows: Tensor) -> PretrainedMemory:
        """The memory of these rows; rows may be dropped or repeated."""
        return PretrainedMemory(self.states[rows], self.mask[rows])


@dataclass(frozen=True, eq=False)
class PretrainedCache:
    """Keys and values of W hypotheses for each of B sentences, in rows b * W + w of transformers' own cache."""

    past: Any
    width: int

    def select(self, rows: Tensor) -> PretrainedCache:
        """The cache of these sentences; sentences may be dropped or repeated."""
        every = torch.arange(self.width, device=rows.device)
        return self._reordered((rows[:, None] * self.width + every).flatten(), self.width)

    def follow(self, parents: Tensor) -> PretrainedCache:
        """The cache of hypotheses (B, W) that continue those numbered `parents`; they may be dropped or repeated."""
        first = torch.arange(len(parents), device=parents.device)[:, None] * self.width
        return self._reordered((first + parents).flatten(), parents.size(1))

    def _reordered(self, rows: Tensor, width: int) -> PretrainedCache:
        if self.past is not None:
            self.past.batch_select_indices(rows)
        return PretrainedCache(self.past, width)


class Pretrained(TranslationModel):
    """A model of transformers with the interface of ours. `lora`: the settings of its adapters, if it has them."""

    def __init__(self, model: Any, config: PretrainedConfig, lora: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        if lora is not None:
            add_lora(model, lora, config.family)
        self.model = model
        self.config, self.lora = config, lora
        self.symbols = config.symbols
        self.target_pieces, self.max_positions = len(self.model.get_output_embeddings().weight), config.max_positions
        self._has_bias = _has_bias(model)
        self._scale = _output_scale(model)

    @property
    def output_embedding(self) -> Tensor:
        """(target_pieces, dim), or with a bias of the output layer (target_pieces, dim + 1): see `_hidden`."""
        weight: Tensor = self.model.get_output_embeddings().weight
        return torch.cat([weight, self.model.final_logits_bias.T.to(weight.dtype)], 1) if self._has_bias else weight

    def forward(self, source: Tensor, source_lengths: Tensor, target: Tensor, target_lengths: Tensor) -> Tensor:
        """Hidden states (n, dim) that predict the n target subwords (without padding), sentence by sentence."""
        hidden = self.decode(self._shifted(target, target_lengths), self.encode(source, source_lengths))
        return unpadded(hidden, target_lengths)

    def encode(self, source: Tensor, source_lengths: Tensor) -> PretrainedMemory:
        """Encode source sentences."""
        self._refuse_too_long(source.size(1), "source")
        mask = is_real(source_lengths, source.size(1)).to(source.device, torch.int64)
        states = self.model.get_encoder()(input_ids=source, attention_mask=mask).last_hidden_state
        return PretrainedMemory(states, mask)

    def decode(self, seen: Tensor, memory: PretrainedMemory) -> Tensor:
        """Hidden states (B, T, dim) after each subword of `seen`."""
        self._refuse_too_long(seen.size(1), "target")
        found = self.model.get_decoder()(
            input_ids=seen,
            encoder_hidden_states=memory.states,
            encoder_attention_mask=memory.mask,
            use_cache=False,
        )
        return self._hidden(found.last_hidden_state)

    def start(self, memory: PretrainedMemory) -> PretrainedCache:
        """An empty cache with one hypothesis per sentence."""
        return PretrainedCache(None, 1)

    def step(self, pieces: Tensor, memory: PretrainedMemory, cache: PretrainedCache) -> tuple[Tensor, PretrainedCache]:
        """Feed one subword per hypothesis (B, W): hidden states (B, W, dim), and the extended cache."""
        width = pieces.size(1)
        found = self.model.get_decoder()(
            input_ids=pieces.reshape(-1, 1),
            encoder_hidden_states=memory.states.repeat_interleave(width, 0),
            encoder_attention_mask=memory.mask.repeat_interleave(width, 0),
            past_key_values=self._new_cache() if cache.past is None else cache.past,
            use_cache=True,
        )
        hidden = self._hidden(found.last_hidden_state.view(*pieces.shape, -1))
        return hidden, PretrainedCache(found.past_key_values, width)

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (..., target_pieces) of hidden states."""
        weight = self.model.get_output_embeddings().weight
        if not self._has_bias:
            return F.linear(hidden, weight)
        return F.linear(hidden[..., :-1], weight, self.model.final_logits_bias[0].to(weight.dtype))

    def recompute_layers(self) -> None:
        """Gradient checkpointing, by transformers."""
        new, old = "activation_checkpointing_enable", "gradient_checkpointing_enable"  # its name in earlier versions
        getattr(self.model, new if hasattr(self.model, new) else old)({"use_reentrant": False})

    def description(self) -> dict[str, Any]:
        """config.json of the checkpoint, with the dropout rates that are used; and the settings of adapters."""
        changed = {name: getattr(self.model.config, name) for name in DROPOUTS if name in self.config.content}
        adapters = {} if self.lora is None else {"lora": dict(self.lora)}
        return {"pretrained": {**self.config.content, **changed}, **adapters}

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Tensor]:  # type: ignore[override]
        """The weights by name; those of adapters alone, if the model has them.

        Of tied weights, only the first name: files cannot hold tensors that share memory.
        """
        found = super().state_dict(*arguments, **options)
        if self.lora is not None:
            kept = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        else:
            kept = _names(self)
        return {name: tensor for name, tensor in found.items() if name in kept}

    def merge(self) -> Pretrained:
        """Add adapters to the weights, if there are any: translating is as fast as without."""
        if self.lora is not None:
            merge_lora(self.model)
        return self

    def merged_weights(self) -> dict[str, Tensor]:
        """All weights by their names in transformers, with adapters added (after `merge`)."""
        kept = _names(self.model)
        return without_lora({name: tensor for name, tensor in self.model.state_dict().items() if name in kept})

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load what `state_dict` returned, all of it."""
        untie(self, state_dict)
        if other := sorted(state_dict.keys() ^ self.state_dict().keys()):
            raise ValueError(f"{other[0]}: the weights do not belong to this model")
        found = super().load_state_dict(state_dict, strict=False, assign=assign)
        self._has_bias = _has_bias(self.model)
        return found

    def _hidden(self, states: Tensor) -> Tensor:
        """What is multiplied with the output embedding; a bias of the output layer is its last column, times 1."""
        if self._scale != 1:
            states = states * self._scale
        return F.pad(states, (0, 1), value=1.0) if self._has_bias else states

    def _shifted(self, target: Tensor, lengths: Tensor) -> Tensor:
        """The inputs of the decoder in training."""
        if self.config.family.shifts_last:
            first = target.gather(1, (lengths - 1)[:, None].to(target.device))
        else:
            first = torch.full_like(target[:, :1], self.config.decoder_start)
        return torch.cat([first, target[:, :-1]], 1)

    def _refuse_too_long(self, length: int, side: str) -> None:
        if length > self.max_positions:
            raise ValueError(f"{side}: {length} subwords exceed the {self.max_positions} positions of the model")

    def _new_cache(self) -> Any:
        caches = importlib.import_module("transformers.cache_utils")
        return caches.EncoderDecoderCache(caches.DynamicCache(), caches.DynamicCache())


def load_pretrained(
    folder: Path, dropout: Mapping[str, float] | None = None, lora: Mapping[str, Any] | None = None
) -> Pretrained:
    """The model of a checkpoint, in float32. `dropout`: rates that replace those of the checkpoint, by name.

    `lora`: the settings of adapters to train instead of the weights.
    """
    config = read_config(folder)
    files = weight_files(folder)
    transformers = import_transformers()
    with quiet(transformers):
        try:
            model, about = getattr(transformers, config.family.model_class).from_pretrained(
                folder,
                config=_config(transformers, config, dropout),
                dtype=torch.float32,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )
        except Exception as error:  # of damaged weights or a strange config.json, it raises anything
            raise PretrainedError(f"{folder}: cannot be loaded: {one_line(error)}") from error
    for kind in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, about[kind])):
            raise PretrainedError(
                f"{files[0]}: {names[0]}: not in the weights as {folder / 'config.json'} describes it"
            )
    return Pretrained(model, config, lora)


def build_pretrained(content: Mapping[str, Any]) -> Pretrained:
    """The model of a `description`; its weights are still random."""
    transformers = import_transformers()
    config = PretrainedConfig(Path(), content)
    with quiet(transformers):
        model = getattr(transformers, config.family.model_class)(_config(transformers, config, None))
    return Pretrained(model, config)


def untie(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give each of these names a parameter of its own, where several have the same one.

    config.json does not always say whether weights are tied (T5): the weights do.
    """
    own = dict(model.named_parameters())
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        if name in tensors and name not in own:
            place, _, last = name.rpartition(".")
            setattr(model.get_submodule(place), last, nn.Parameter(parameter.detach().clone()))


def _config(transformers: Any, config: PretrainedConfig, dropout: Mapping[str, float] | None) -> Any:
    """The configuration in transformers' form. Layers are never dropped: their gradients would be missing in sums."""
    found = transformers.AutoConfig.for_model(**config.content)
    for name in LAYER_DROPOUTS:
        if hasattr(found, name):
            setattr(found, name, 0.0)
    for name, rate in (dropout or {}).items():
        if hasattr(found, name):
            setattr(found, name, rate)
    return found


def _names(model: nn.Module) -> set[str]:
    """The names of all weights; of tied ones, the first."""
    return {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}


def _has_bias(model: nn.Module) -> bool:
    """Whether the output layer has a bias; a buffer, which is not trained. Without weights, that is not known."""
    bias = getattr(model, "final_logits_bias", None)
    return bias is not None and not bias.is_meta and bool(bias.any())


def _output_scale(model: nn.Module) -> float:
    """T5 scales the last hidden states if its config says so: in transformers 5 by a key of its own."""
    config: Any = model.config
    if config.model_type != "t5" or not getattr(config, "scale_decoder_outputs", config.tie_word_embeddings):
        return 1.0
    return float(config.d_model**-0.5)
