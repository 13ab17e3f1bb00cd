"""Balanced training with Hugging Face transformers: `Trainer` and `Seq2SeqTrainer` with a balancer.

trainer = BalancedSeq2SeqTrainer(
    model=model,
    args=Seq2SeqTrainingArguments(...),
    train_dataset=train,                                           # with a column "language"
    eval_dataset=valid,                                            # the same
    balancer=create("chi-ibr", sizes=Counter(train["language"])),
    group_column="language",
)

Everything else is used as before. The training loss is the sum of the losses of all labels of an update, over its
batches and processes, divided by their number; it is computed here, from the logits, for all models alike. Batches come
straight from our sampler: accelerate neither divides nor pads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.utils.data import DataLoader

from evenglot.balance import Balancer, OptionError
from evenglot.extras import missing
from evenglot.integrations.losses import IGNORED, label_losses
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss
from evenglot.integrations.trainer_arguments import refuse_what_is_not_served
from evenglot.integrations.trainer_data import Epochs, WithGroups, groups_in, labels_of, lengths_in
from evenglot.integrations.trainer_losses import LossSums, by_example

if find_spec("accelerate") is None:
    raise missing("hf", "accelerate")
try:
    from transformers import Seq2SeqTrainer, Trainer, TrainerCallback
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers.trainer_utils import seed_worker
except ModuleNotFoundError as error:
    raise missing("hf", str(error.name)) from error

__all__ = ["BalancedSeq2SeqTrainer", "BalancedTrainer"]

CAUSAL = frozenset(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
SAVED_AS = "evenglot"  # our part of trainer_state.json, beside the states of callbacks


class BalancedTrainer(Trainer):
    """A `Trainer` that samples from a balancer's mixture, and reports the losses of each group to it.

    It takes the arguments of `Trainer` and, by keyword:

    - `balancer`: `evenglot.balance.create(...)`
    - `group_column`: the column of the data sets that has the group of every example, such as its language
    - `interval_updates`: number of optimizer updates after which the mixture changes
    - `tokens`: tokens in a batch, with padding, instead of `per_device_train_batch_size` examples
    - `lengths`: with `tokens`: one or two lengths of every example; by default those of `input_ids` and `labels`
    """

    def __init__(
        self,
        *args: Any,
        balancer: Balancer,
        group_column: str,
        interval_updates: int = 100,
        tokens: int | None = None,
        lengths: ArrayLike | None = None,
        **options: Any,
    ) -> None:
        self.balancer, self.group_column = balancer, group_column
        super().__init__(*args, **options)
        refuse_what_is_not_served(self, balancer)
        self._interval_updates, self._tokens = interval_updates, tokens
        self._set_signature_columns_if_needed()
        self.data_collator = WithGroups(self.data_collator, group_column, balancer.groups.names)
        # Our loss is divided by the number of labels of the whole update; Trainer must not divide it again.
        self.model_accepts_loss_kwargs = self.loss_is_scaled_for_ga = True
        self.args.ignore_data_skip = False  # nothing is read in order to be skipped (Epochs), so this costs nothing
        if balancer.needs.validation_losses:
            balancer.serves("validation_losses")  # the first evaluation may come after the first interval
        self._started_as = balancer.state_dict()
        self._evaluated: list[Tensor] = []
        self._since_log = LossSums()
        self._sampled_with: dict[str, Any] = {}
        if self.train_dataset is not None:
            self._groups = groups_in(self.train_dataset, group_column)
            self._lengths = lengths_in(self.train_dataset) if lengths is None and tokens is not None else lengths
            self._sample()
        # Before the others: one that saves a checkpoint after a step must find the step reported.
        self.callback_handler.callbacks.insert(0, _Reporter(self))

    # ------------------------------------------------------------------------------------------------------ batches

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches from the balanced sampler. Not prepared by accelerate, which would divide and pad them again."""
        if self.train_dataset is None:
            return super().get_train_dataloader()  # it raises
        self._sample()
        args, dataset, collator = self.args, self.train_dataset, self.data_collator
        if hasattr(dataset, "column_names"):
            dataset = self._remove_unused_columns(dataset, description="training")
        else:
            collator = self._get_collator_with_removed_columns(collator, description="training")
        workers = args.dataloader_num_workers
        return DataLoader(
            dataset,
            batch_sampler=self._epochs,
            collate_fn=collator,
            num_workers=workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
            multiprocessing_context=getattr(args, "dataloader_multiprocessing_context", None),
            worker_init_fn=partial(seed_worker, num_workers=workers, rank=args.process_index),
        )

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], int]:
        """The batches of an update, and the number of their labels over all processes."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        labels = sum(int((self._aligned(labels_of(batch)) != IGNORED).sum()) for batch in batches)
        total = torch.tensor(labels, device=device)
        if self.args.world_size > 1:
            torch.distributed.all_reduce(total)
        return batches, max(1, int(total))

    def _set_signature_columns_if_needed(self) -> None:
        """The columns that are not removed: the group too."""
        if self._signature_columns is not None:
            return
        super()._set_signature_columns_if_needed()
        columns: list[str] = self._signature_columns or []
        if self.group_column in columns:
            raise OptionError(
                "group_column", f"{self.group_column!r} is an argument of the model's forward: rename the column"
            )
        self._signature_columns = [*columns, self.group_column]  # type: ignore[assignment]

    def _sample(self) -> None:
        """Make a sampler, unless there is one for these arguments, which a search of hyperparameters changes."""
        args = self.args
        options = {
            "batch_size": None if self._tokens is not None else args.train_batch_size,
            "seed": args.seed if args.data_seed is None else args.data_seed,
            "accumulate": args.gradient_accumulation_steps,
            "rank": args.process_index,
            "world": args.world_size,
            "interval_updates": self._interval_updates,
            "tokens": self._tokens,
        }
        if options != self._sampled_with:
            self.sampler = BalancedBatchSampler(self._groups, self.balancer, lengths=self._lengths, **options)
            self.group_loss = GroupLoss(self.sampler)
            self._epochs, self._sampled_with = Epochs(self.sampler), options

    # ----------------------------------------------------------------------------------------------------- position

    def _begin(self, saved: Mapping[str, Any] | None, step: int) -> None:
        """Start from the beginning, or where the checkpoint was saved."""
        if step == 0:
            saved = {"updates": 0, "intervals": [], "balancer": self._started_as}
        if saved is None or saved.get("updates") != step:
            raise OptionError(
                "resume_from_checkpoint", f"step {step} was not saved with a balancer: resume it with Trainer"
            )
        self.sampler.load_state_dict(saved)
        self._epochs.skip = step % self.sampler.updates.per_epoch
        self._since_log = LossSums()

    def _end_update(self) -> None:
        self.group_loss.step()
        self._since_log.add(*self.group_loss.last)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save the sampler and the balancer with Trainer's own state, in the same file."""
        states: Any = self.state.stateful_callbacks
        states[SAVED_AS] = self.sampler.state_dict()
        super()._save_checkpoint(model, trial)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log; with the training loss also the mixture, and the mean losses of the groups since the last time."""
        if "loss" in logs:
            logs |= {f"q/{name}": share for name, share in self.balancer.q.items()}
            logs |= {f"loss/{name}": loss for name, loss in self._since_log.means.items()}
            self._since_log = LossSums()
        super().log(logs, start_time)

    # ------------------------------------------------------------------------------------------------------- losses

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: float | Tensor | None = None,
    ) -> Any:
        """The loss of a batch: in training of the whole update's labels, recorded by group; else its mean."""
        labels = labels_of(inputs)
        groups = inputs.get(self.group_column)
        outputs = model(**self._model_inputs(inputs, labels))
        losses, counted = self._label_losses(outputs, labels)
        if model.training:
            if groups is None:
                raise OptionError("group_column", f"a training batch has no {self.group_column!r}")
            loss = self.group_loss(losses, groups, counted, num_items_in_batch)
        else:
            loss = losses.sum() / counted.sum().clamp(min=1)
            if groups is not None:
                self._record(groups, losses, counted)
        if not return_outputs:
            return loss
        return loss, outputs if isinstance(outputs, Mapping) else (loss, *outputs)

    def _label_losses(self, outputs: Any, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of every label, and whether it counts."""
        logits = outputs.get("logits") if isinstance(outputs, Mapping) else outputs[0]
        labels = self._aligned(labels)
        if logits is None or logits.shape[:-1] != labels.shape or logits.size(-1) < 2 or labels.is_floating_point():
            raise OptionError(
                "model",
                f"expected logits for every label, (batch, [length,] classes) for labels {tuple(labels.shape)}, got "
                f"{None if logits is None else tuple(logits.shape)} and {labels.dtype}: the losses of the groups are "
                "cross-entropies of single labels",
            )
        labels = labels.to(logits.device)
        return label_losses(logits, labels, self.args.label_smoothing_factor), labels != IGNORED

    def _aligned(self, labels: Tensor) -> Tensor:
        """Labels at the places of their logits: a causal model predicts the next one."""
        if not self._is_causal:
            return labels
        # The labels are moved rather than the logits, of which a slice would be copied.
        return torch.cat([labels[..., 1:], torch.full_like(labels[..., :1], IGNORED)], dim=-1)

    @property
    def _is_causal(self) -> bool:
        model = self._plain_model()
        is_causal = any(each.__name__ in CAUSAL for each in type(model).__mro__)  # FSDP and users derive from it
        return is_causal and not _is_encoder_decoder(model)

    def _model_inputs(self, inputs: Mapping[str, Any], labels: Tensor) -> dict[str, Any]:
        """Without group and labels, from which the model would compute a loss of its own; the decoder's input stays."""
        given = {name: value for name, value in inputs.items() if name not in (self.group_column, "labels")}
        if "use_cache" in (self._signature_columns or ()):
            given.setdefault("use_cache", False)
        model = self._plain_model()
        decodes = _is_encoder_decoder(model) and labels.ndim == 2  # not a classifier
        if decodes and not {"decoder_input_ids", "decoder_inputs_embeds"} & given.keys():
            given["decoder_input_ids"] = _decoder_inputs(model, labels)
        return given

    def _plain_model(self) -> Any:
        """The model without what distributed training and adapters (PEFT) wrap around it."""
        model = self.accelerator.unwrap_model(self.model)
        return model.get_base_model() if hasattr(model, "get_base_model") else model

    # --------------------------------------------------------------------------------------------------- evaluation

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
        **options: Any,
    ) -> tuple[Any, Any, Any]:
        """Evaluate a batch. The model sees no groups, whether it computes logits or generates."""
        loss = None
        generates = getattr(self.args, "predict_with_generate", False) and not prediction_loss_only
        if generates and inputs.get("labels") is not None:
            with torch.no_grad(), self.compute_loss_context_manager():
                loss = self.compute_loss(model, self._prepare_inputs(inputs))
        if generates or inputs.get("labels") is None:
            inputs = {name: value for name, value in inputs.items() if name != self.group_column}
        own, predictions, labels = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys, **options)
        return own if loss is None else loss, predictions, labels

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        """Evaluate; if the data have groups, also by group, with the mean and the largest of the groups' losses."""
        self._evaluated = []
        output = super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        losses = LossSums.of_rows(self._evaluated, self.balancer.groups.names)
        self._evaluated = []
        if not losses.means or output.metrics is None:
            return output
        values = losses.means.values()
        summary = {"loss": losses.mean, "macro_loss": sum(values) / len(values), "worst_loss": max(values)}
        summary |= {f"loss/{name}": loss for name, loss in losses.means.items()}
        output.metrics.update({f"{metric_key_prefix}_{key}": value for key, value in summary.items()})
        if self.is_in_train and metric_key_prefix.startswith("eval"):
            self.balancer.observe(losses.sums, losses.counts, "valid")
        return output

    def _record(self, groups: Tensor, losses: Tensor, counted: Tensor) -> None:
        """Note group, loss sum and count of every example of all processes; what pads the last batch is dropped."""
        rows = torch.stack([groups.to(losses.device), by_example(losses), by_example(counted)], dim=1)
        self._evaluated.append(self.accelerator.gather_for_metrics(rows.detach()).cpu())


class BalancedSeq2SeqTrainer(BalancedTrainer, Seq2SeqTrainer):
    """A `Seq2SeqTrainer` with a balancer; see `BalancedTrainer`."""


class _Reporter(TrainerCallback):
    """Tells the trainer where training begins, and when an update is done."""

    def __init__(self, trainer: BalancedTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Start, or resume."""
        self.trainer._begin(state.stateful_callbacks.get(SAVED_AS), state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """An optimizer step was done; a checkpoint or an evaluation may follow."""
        self.trainer._end_update()


def _is_encoder_decoder(model: Any) -> bool:
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def _decoder_inputs(model: Any, labels: Tensor) -> Tensor:
    """The labels shifted to the right, as the model does for its own loss."""
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        return model.prepare_decoder_input_ids_from_labels(labels=labels)  # type: ignore[no-any-return]
    start, pad = model.config.decoder_start_token_id, model.config.pad_token_id
    if start is None or pad is None:
        raise OptionError("model", "its configuration needs decoder_start_token_id and pad_token_id")
    shifted = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == IGNORED, pad)
