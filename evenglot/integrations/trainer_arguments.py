"""Arguments of transformers' `Trainer` that do not work with a balancer, each with what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenglot.balance import Balancer, OptionError, UnservedError

if TYPE_CHECKING:
    from transformers import Trainer


def refuse_what_is_not_served(trainer: Trainer, balancer: Balancer) -> None:
    """Raise for arguments with which the losses, their sums or the batches would be wrong."""
    args = trainer.args
    parallel = getattr(trainer.accelerator, "parallelism_config", None)
    sharding = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    routed = getattr(getattr(trainer.model, "config", None), "output_router_logits", False)
    for is_used, option, message in (
        (trainer.compute_loss_func is not None, "compute_loss_func", "the loss is computed by group; leave it out"),
        (trainer.is_deepspeed_enabled or args.deepspeed, "deepspeed", "not supported: use torchrun with DDP or FSDP"),
        (args.n_gpu > 1, "n_gpu", f"{args.n_gpu} GPUs in one process: start a process for each one with torchrun"),
        (getattr(parallel, "non_data_parallel_size", 1) > 1, "parallelism_config", "only data parallel is supported"),
        (
            trainer.is_fsdp_xla_enabled or getattr(sharding, "fsdp_version", 2) != 2,
            "fsdp_config",
            "only FSDP2 is supported: set its version to 2",
        ),
        (
            getattr(trainer.model, "is_distributed_loading_by_transformers", False),
            "distributed_config",
            "a model that is sharded when it is loaded is not supported: leave it out, and pass fsdp=True",
        ),
        (routed, "output_router_logits", "not supported: the loss of the routers would be lost; set it to False"),
        (args.auto_find_batch_size, "auto_find_batch_size", "not supported: choose a batch size, or pass tokens="),
        (args.use_liger_kernel, "use_liger_kernel", "not supported: its loss has no losses of single labels"),
        (getattr(args, "group_by_length", False), "group_by_length", "pass tokens= for batches of similar lengths"),
        (
            getattr(args, "train_sampling_strategy", "random") != "random",
            "train_sampling_strategy",
            "the balancer samples; pass tokens= for batches of similar lengths",
        ),
        (
            balancer.signal is not None and balancer.signal.unit == "character",
            "loss_per",
            "losses per character are not available here; use 'token'",
        ),
        (
            balancer.needs.validation_losses and args.eval_strategy == "epoch" and args.save_strategy == "steps",
            "save_strategy",
            "a checkpoint at the end of an epoch would not have the losses of its evaluation; use 'epoch' for both",
        ),
    ):
        if is_used:
            raise OptionError(option, message)
    if balancer.needs.gradients is not None:
        raise UnservedError(balancer.strategy, ["gradients"])
    if balancer.needs.validation_losses and (trainer.eval_dataset is None or args.eval_strategy == "no"):
        raise UnservedError(balancer.strategy, ["validation_losses"])
