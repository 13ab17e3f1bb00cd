"""Export a fine-tuned model in the format of its checkpoint: the same config and tokenizer, new weights.

Adapters (`model.lora`) are added to the weights, or exported by themselves in the format of peft.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from evenglot import __version__
from evenglot.config import Config
from evenglot.corpus.pretrained import OTHERS, VOCABULARIES, PretrainedTokenizers, copy_tokenizer
from evenglot.corpus.tokenizers import open_tokenizers
from evenglot.directions import Direction
from evenglot.export.hub import Sharing
from evenglot.export.model_card import Usage, model_card
from evenglot.export.report import BATCH, LONGEST, MARKER, SAMPLE, Report, refuse_other_content
from evenglot.export.sample import validation_text
from evenglot.extras import import_peft, import_transformers, quiet
from evenglot.files import finished_folder, write_json
from evenglot.model.families import CONFIG, WEIGHTS
from evenglot.model.lora import ADAPTER_CONFIG, ADAPTER_WEIGHTS, adapter_config, adapter_weights
from evenglot.model.pretrained import Pretrained
from evenglot.model.search import greedy
from evenglot.runs.checkpoint import Checkpoint, fingerprint, write_tensors
from evenglot.runs.run import Run
from evenglot.seals import checksums, sealed

WRITTEN = {*VOCABULARIES, *OTHERS, WEIGHTS, ADAPTER_CONFIG, ADAPTER_WEIGHTS, "README.md", MARKER}


def export_pretrained(
    run: Run,
    config: Config,
    checkpoint: Checkpoint,
    model: Pretrained,
    folder: Path,
    sharing: Sharing,
    adapter: bool = False,
) -> Report:
    """Write the folder, and compare both models on validation sentences; ValueError if they differ."""
    refuse_other_content(folder, WRITTEN)
    tokenizers = open_tokenizers(run.vocabulary, config.data)
    if not isinstance(tokenizers, PretrainedTokenizers):
        raise ValueError(f"{run.vocabulary}: not the tokenizer of a pretrained model")
    transformers = import_transformers()
    with finished_folder(folder) as unfinished:
        copy_tokenizer(run.vocabulary, unfinished)
        write_json(unfinished / CONFIG, _config(model))
        if adapter:
            base = sharing.base_model or str(config.model.init)  # on the Hub, or the folder here
            _write_adapter(unfinished, model, base)
        else:
            weights = {name: tensor.clone() for name, tensor in model.merged_weights().items()}
            write_tensors(unfinished / WEIGHTS, weights, {"format": "pt"})
        with quiet(transformers):
            theirs = _load(transformers, unfinished, config, adapter)
            report = _compare(transformers, theirs, unfinished, model, tokenizers, config, folder)
        if adapter:
            (unfinished / CONFIG).unlink()  # with it, transformers would look for all weights in this folder
        card = model_card(run, config, report.summary, _usage(tokenizers, config, sharing, adapter), sharing)
        (unfinished / "README.md").write_text(card, encoding="utf-8")
        about = {"evenglot": __version__, "weights": fingerprint(checkpoint), "step": checkpoint.step}
        write_json(unfinished / MARKER, sealed({**about, "files": checksums(unfinished)}))
    return report


def _config(model: Pretrained) -> dict[str, Any]:
    """That of the checkpoint; but weights are float32, as they were trained."""
    content: dict[str, Any] = dict(model.description()["pretrained"])
    return {name: "float32" if name in ("dtype", "torch_dtype") else value for name, value in content.items()}


def _write_adapter(folder: Path, model: Pretrained, base: str) -> None:
    """The files of peft; `base`: where it finds the weights of the model."""
    weights = {name.removeprefix("model."): tensor for name, tensor in model.state_dict().items()}
    write_tensors(folder / ADAPTER_WEIGHTS, adapter_weights(weights), {"format": "pt"})
    write_json(folder / ADAPTER_CONFIG, adapter_config(model.lora or {}, model.config.family, base))


def _load(transformers: Any, folder: Path, config: Config, adapter: bool) -> Any:
    """The exported model, loaded as its users do."""
    if not adapter:
        return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()
    base = transformers.AutoModelForSeq2SeqLM.from_pretrained(config.model.init, local_files_only=True)
    return import_peft().PeftModel.from_pretrained(base.float(), folder).eval().get_base_model()


def _usage(tokenizers: PretrainedTokenizers, config: Config, sharing: Sharing, adapter: bool) -> Usage:
    """The calls that translate the first direction, and the names of languages in all of them."""
    first = config.data.directions[0]
    begin = tokenizers.begin(first)
    family = tokenizers.config.family
    generate, load, text = "**batch", "FOLDER", "..."
    if family.tag is None:
        load += f', src_lang="{tokenizers.code(first.src)}"'
        name = "forced_bos_token_id" if len(begin) > 1 else "decoder_start_token_id"
        generate += f", {name}={begin[-1]}"
    elif (code := tokenizers.code(first.tgt)) is not None:
        text = f"{family.tag.format(code)} ..."
    tags = {direction.name: _languages(tokenizers, direction) for direction in config.data.directions}
    note = f"This translates {first.name}. For other directions, use their language codes, as below."
    if not adapter:
        return Usage(load, text, generate, note, tags)
    base = sharing.base_model or Path(config.model.init or "").name
    note += f"\n\nThe folder has adapters (LoRA) for `{base}`, which need `pip install peft`."
    if sharing.base_model is None:
        note += f" Set `base_model_name_or_path` in\n`{ADAPTER_CONFIG}` to where its users find that model."
    return Usage(load, text, generate, note, tags, library="peft")


def _languages(tokenizers: PretrainedTokenizers, direction: Direction) -> str:
    """The codes of a direction; of a family with tags, which name the target, only that."""
    target = tokenizers.code(direction.tgt) or "-"
    return target if tokenizers.config.family.tag is not None else f"{tokenizers.code(direction.src)} → {target}"


# -------------------------------------------------------------------------------------------------- the comparison


@dataclass(frozen=True)
class _Sentences:
    """Sentences of one direction, as ids, and the first inputs of the decoder."""

    begin: tuple[int, ...]
    sources: list[list[int]]


def _compare(
    transformers: Any,
    theirs: Any,
    written: Path,
    model: Pretrained,
    tokenizers: PretrainedTokenizers,
    config: Config,
    folder: Path,
) -> Report:
    """Compare with the exported model and tokenizer."""
    again = PretrainedTokenizers(written, tokenizers.codes)
    sentences, identical, difference = 0, 0, 0.0
    for batch in _batches(tokenizers, again, config, model.max_positions):
        same, apart = _compare_batch(transformers, theirs, model, batch)
        sentences, identical = sentences + len(batch.sources), identical + same
        difference = max(difference, apart)
    report = Report(folder, sentences, identical, difference)
    report.refuse_difference()
    return report


def _batches(
    tokenizers: PretrainedTokenizers, again: PretrainedTokenizers, config: Config, longest: int
) -> Iterator[_Sentences]:
    texts = validation_text(config)
    for direction, lines in texts.items():
        chosen = [line for line in islice(lines, max(1, SAMPLE // len(texts))) if line]
        sources, written = (_encode(each, direction, chosen) for each in (tokenizers, again))
        if sources != written or tokenizers.begin(direction) != again.begin(direction):
            raise ValueError(
                f"{again.folder}: not written: the exported tokenizer encodes {direction.name} differently"
            )
        fitting = [ids for ids in sources if len(ids) <= longest]
        for start in range(0, len(fitting), BATCH):
            yield _Sentences(tokenizers.begin(direction), fitting[start : start + BATCH])


def _encode(tokenizers: PretrainedTokenizers, direction: Direction, lines: Sequence[str]) -> list[list[int]]:
    frame, _ = tokenizers.frames(direction)
    return [frame.around(ids) for ids in tokenizers.encode(lines, "source")]


@torch.inference_mode()
def _compare_batch(transformers: Any, theirs: Any, model: Pretrained, batch: _Sentences) -> tuple[int, float]:
    """The number of identical greedy translations, and the largest difference of logits along ours."""
    eos, pad, begin = model.symbols.eos, model.symbols.pad, list(batch.begin)
    lengths = torch.tensor([len(ids) for ids in batch.sources])
    source = pad_sequence([torch.tensor(ids) for ids in batch.sources], batch_first=True, padding_value=pad)
    inputs = {"input_ids": source, "attention_mask": (torch.arange(source.size(1)) < lengths[:, None]).long()}
    longest = min(LONGEST, model.max_positions - len(begin) + 1)
    ours = greedy(model, source, lengths, longest, begin)
    theirs.generation_config = transformers.GenerationConfig(
        max_length=longest + len(begin),
        num_beams=1,
        eos_token_id=eos,
        pad_token_id=pad,
        decoder_start_token_id=begin[0],
        suppress_tokens=[pad],  # as in our search
    )
    start = torch.tensor(begin).expand(len(source), -1)
    found = theirs.generate(**inputs, decoder_input_ids=start)[:, len(begin) :].tolist()
    cut = [line[: line.index(eos)] if eos in line else line for line in found]
    same = sum(left == right for left, right in zip(ours, cut, strict=True))
    return same, _largest_difference(theirs, model, inputs, lengths, [[*begin, *pieces][:longest] for pieces in ours])


def _largest_difference(
    theirs: Any, model: Pretrained, inputs: dict[str, Tensor], lengths: Tensor, seen: list[list[int]]
) -> float:
    """The largest difference of logits after these inputs of the decoder."""
    difference = 0.0
    for row, pieces in enumerate(seen):
        source = {name: ids[row, None, : lengths[row]] for name, ids in inputs.items()}
        expected = theirs(**source, decoder_input_ids=torch.tensor([pieces])).logits
        hidden = model.decode(torch.tensor([pieces]), model.encode(source["input_ids"], lengths[row, None]))
        difference = max(difference, float((model.project(hidden) - expected).abs().max()))
    return difference
