"""Trainers of Hugging Face with balancing, beside the same training written out by hand. All models are real, tiny and
random."""

import json
import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.parallelism_config import ParallelismConfig
from accelerate.state import AcceleratorState, DistributedType, PartialState
from accelerate.utils import FullyShardedDataParallelPlugin
from packaging.version import Version
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from torch.utils.data import IterableDataset
from transformers import TrainerCallback
from transformers import __version__ as transformers_version
from transformers.trainer_pt_utils import LabelSmoother

from evenglot.balance import UnservedError, create
from evenglot.batches.draw import draw
from evenglot.integrations.transformers import BalancedTrainer
from evenglot.robust.validate import OptionError
from tests.integrations.distributed import in_processes
from tests.integrations.task import Loop
from tests.integrations.trainers import (
    EVALUATED,
    LANGUAGES,
    MOVING,
    SIZES,
    collate,
    logged,
    new_data,
    new_model,
    new_trainer,
    weights_of,
)

WEIGHTED = {"group-dro": {"step": 0.5}, "chi-pd": {"rho": 0.3, "step": 0.5}, "cvar-pd": {"alpha": 0.6}}
STRATEGIES = {"chi-ibr": MOVING, **WEIGHTED}
SGD = {"optim": "sgd", "learning_rate": 0.5, "max_grad_norm": 0.0}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def exact(kind="m2m100"):
    return new_model(kind).double()


def batch_of(indices, kind="seq2seq"):
    data = new_data(kind)
    return collate([{k: v for k, v in data[int(i)].items() if k != "language"} for i in indices])


def by_hand(strategy, updates, size=16, interval_updates=3, seed=5):
    """The training without our integration: draw, slice, weight, sum by language, observe, update."""
    balancer, model = create(strategy, sizes=SIZES, **STRATEGIES[strategy]), exact()
    members = {name: np.flatnonzero(np.array(LANGUAGES) == name) for name in SIZES}
    optimizer = torch.optim.SGD(model.parameters(), lr=SGD["learning_rate"])
    drawn, seen = dict.fromkeys(SIZES, 0), []
    for interval in range(math.ceil(updates / interval_updates)):
        rows = draw(
            SIZES,
            balancer.mixture.sample,
            seed=seed,
            interval=interval,
            drawn_before=drawn,
            rule="exact",
            pairs=size * interval_updates,
        )
        indices = rows.take(lambda name, pairs: members[name][pairs])
        for update in range(interval_updates):
            chosen = indices[update * size : (update + 1) * size]
            batch = batch_of(chosen)
            logits = model(**batch).logits
            losses = cross_entropy(logits.transpose(1, 2), batch["labels"], reduction="none").sum(dim=1)
            tokens = (batch["labels"] != -100).sum(dim=1)
            weights = balancer.mixture.loss or dict.fromkeys(SIZES, 1.0)
            each = torch.tensor([weights[LANGUAGES[i]] for i in chosen], dtype=torch.float64)
            ((losses * each).sum() / tokens.sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
            sums, counts = Counter(), Counter()
            for i, loss, count in zip(chosen, losses.tolist(), tokens.tolist(), strict=True):
                sums[LANGUAGES[i]] += loss
                counts[LANGUAGES[i]] += count
            seen.append((sums, counts))
            balancer.observe(sums, counts)
        drawn = {name: drawn[name] + rows.counts[name] for name in SIZES}
        if (interval + 1) * interval_updates < updates:
            balancer.update(rows.counts)
    return torch.cat([weight.detach().flatten() for weight in model.parameters()]), balancer.q, seen


# ---------------------------------------------------------------------------------------------- the same, by hand


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_trains_as_the_loop_written_out_by_hand(strategy, tmp_path):
    trainer = new_trainer(tmp_path, "m2m100", strategy, STRATEGIES[strategy], model=exact(), logging_steps=4, **SGD)
    trainer.train()
    weights, q, seen = by_hand(strategy, 12)
    torch.testing.assert_close(weights_of(trainer), weights, rtol=1e-9, atol=1e-11)
    assert trainer.balancer.q == pytest.approx(q, abs=1e-9)
    assert max(abs(q[name] - create("proportional", SIZES).q[name]) for name in q) > 0.05, "the mixture moved"
    assert trainer.state.log_history[2]["q/low"] == trainer.balancer.q["low"]
    for k in range(3):
        sums, counts = (sum((each[part] for each in seen[4 * k : 4 * k + 4]), Counter()) for part in (0, 1))
        for name in SIZES:
            assert logged(trainer, f"loss/{name}")[k] == pytest.approx(sums[name] / counts[name], rel=1e-6)


@pytest.mark.parametrize("kind", ["m2m100", "mbart", "marian", "t5", "llama", "gpt2", "bert"])
def test_the_loss_is_the_models_own(kind, tmp_path):
    trainer = new_trainer(tmp_path, kind, model=exact(kind))
    rows = next(iter(trainer.get_train_dataloader()))
    model = trainer.model.train()
    items = trainer.get_batch_samples(iter([rows]), 1, torch.device("cpu"))[1]
    ours = trainer.compute_loss(model, rows, num_items_in_batch=items)
    theirs = model(**{name: value for name, value in rows.items() if name != "language"}).loss
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    gradients = [torch.autograd.grad(each, learned, allow_unused=True) for each in (ours, theirs)]
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)  # some compute theirs in float32


# ------------------------------------------------------------------------------------------------- divided updates


@pytest.mark.parametrize(
    ("kind", "strategy", "args"),
    [
        ("m2m100", "chi-ibr", {}),
        ("m2m100", "group-dro", {}),
        ("m2m100", "chi-ibr", {"label_smoothing_factor": 0.1}),
        ("llama", "chi-ibr", {}),
        ("bert", "chi-ibr", {}),
    ],
)
def test_an_update_does_not_depend_on_its_division_into_batches(kind, strategy, args, tmp_path):
    """The loss of stock M2M100 is four times as large with four batches, and so is its gradient."""

    def train(size, accumulate):
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulate, **SGD, **args}
        trainer = new_trainer(tmp_path, kind, strategy, STRATEGIES[strategy], model=exact(kind), **options)
        trainer.train()
        return trainer

    whole = train(32, 1)
    if strategy == "chi-ibr":
        chance = math.log(4 if kind == "bert" else 40)
        assert logged(whole, "loss")[0] == pytest.approx(chance, rel=0.2)
    for division in ((16, 2), (8, 4)):
        parts = train(*division)
        assert logged(parts, "loss") == pytest.approx(logged(whole, "loss"), rel=1e-6)  # summed in float32
        torch.testing.assert_close(weights_of(parts), weights_of(whole), rtol=1e-9, atol=1e-11)
        assert parts.balancer.q == pytest.approx(whole.balancer.q, abs=1e-9)


def test_label_smoothing_needs_no_decoder_inputs(tmp_path):
    trainer = new_trainer(tmp_path, model=exact(), label_smoothing_factor=0.2)
    rows = next(iter(trainer.get_train_dataloader()))
    assert "decoder_input_ids" not in rows
    loss = trainer.compute_loss(trainer.model.eval(), rows)
    stock = trainer.model(**{name: value for name, value in rows.items() if name != "language"})
    assert loss.item() == pytest.approx(LabelSmoother(0.2)(stock, rows["labels"]).item(), rel=1e-6)
    assert loss.item() != pytest.approx(stock.loss.item(), rel=1e-5)


def test_batches_may_have_a_number_of_tokens(tmp_path):
    options = {"tokens": 60, "interval_updates": 4}
    trainer = new_trainer(tmp_path, given=options, gradient_accumulation_steps=2, max_steps=40)
    sizes = [batch["labels"].shape for batch in trainer.get_train_dataloader()]
    assert all(rows * length <= 60 for rows, length in sizes)
    assert len({rows for rows, _ in sizes}) > 3
    assert len(sizes) == len(trainer.sampler)
    trainer.train()
    assert trainer.state.global_step == trainer.sampler.updates.trained == 40
    assert trainer.balancer.intervals > 5


@pytest.mark.parametrize(
    "config",
    [{"split_batches": True}, {"dispatch_batches": True}, {"even_batches": False}, {"use_seedable_sampler": 0}],
)
def test_settings_of_accelerate_do_not_change_the_batches(config, tmp_path):
    usual = new_trainer(tmp_path).get_train_dataloader()
    other = new_trainer(tmp_path, accelerator_config=config).get_train_dataloader()
    for one, same in zip(usual, other, strict=True):
        assert all(torch.equal(one[name], same[name]) for name in one)


# ------------------------------------------------------------------------------------------------- groups and data


class Pairs(torch.utils.data.Dataset):
    """Not one of `datasets`."""

    def __init__(self):
        self.data = new_data()

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return {**self.data[index], "note": "nothing for a model"}


@pytest.mark.parametrize("remove_unused_columns", [True, False])
def test_groups_reach_the_loss_but_not_the_model(remove_unused_columns, tmp_path):
    model, seen = exact(), []
    model.register_forward_pre_hook(lambda _, args, options: seen.append(set(options)), with_kwargs=True)
    trainer = new_trainer(tmp_path, model=model, remove_unused_columns=remove_unused_columns, max_steps=2)
    trainer.train()
    trainer.evaluate()
    assert logged(trainer, "loss/big")
    assert logged(trainer, "eval_loss/low")
    known = {"input_ids", "attention_mask", "decoder_input_ids", "use_cache"}
    assert all(options == known for options in seen)


def test_any_map_style_data_set_will_do(tmp_path):
    usual, other = (
        new_trainer(tmp_path, max_steps=3),
        new_trainer(tmp_path, max_steps=3, given={"train_dataset": Pairs()}),
    )
    usual.train()
    other.train()
    assert torch.equal(weights_of(usual), weights_of(other))


def test_training_again_starts_from_the_beginning(tmp_path):
    given = {"model": None, "model_init": lambda: new_model(dropout=0.1)}
    trainer = new_trainer(tmp_path, given=given, max_steps=11)
    trainer.train()
    first, losses = weights_of(trainer), logged(trainer, "loss")
    trainer.train()
    assert trainer.sampler.updates.trained == trainer.state.global_step == 11
    assert logged(trainer, "loss") == losses
    assert torch.equal(weights_of(trainer), first)


def test_arguments_may_change_before_training(tmp_path):
    """As a search of hyperparameters does; looking at the loader in mid-training changes nothing."""

    class Look(TrainerCallback):
        def on_step_end(self, args, state, control, **others):
            len(trainer.get_train_dataloader())

    usual = new_trainer(tmp_path, model=exact(), **SGD)
    usual.train()
    trainer = new_trainer(tmp_path, model=exact(), given={"callbacks": [Look()]}, **SGD)
    trainer.args.per_device_train_batch_size, trainer.args.gradient_accumulation_steps = 4, 4
    trainer.train()
    torch.testing.assert_close(weights_of(trainer), weights_of(usual), rtol=1e-9, atol=1e-11)


# -------------------------------------------------------------------------------------------------------- stopping


class Stop(TrainerCallback):
    """Ends the epoch, or training, after these steps."""

    def __init__(self, steps, what):
        self.steps, self.what, self.ended = steps, what, 0

    def on_step_end(self, args, state, control, **others):
        if state.global_step in self.steps:
            setattr(control, self.what, True)

    def on_epoch_end(self, args, state, control, **others):
        self.ended += 1


def test_a_stop_in_mid_epoch_updates_nothing(tmp_path):
    stop = Stop([5], "should_training_stop")
    trainer = new_trainer(tmp_path, given={"callbacks": [stop]}, save_strategy="epoch")
    trainer.train()
    assert (stop.ended, trainer.state.global_step, trainer.sampler.updates.trained) == (1, 5, 5)
    assert trainer.balancer.intervals == 1  # after 3 updates
    whole, rest = new_trainer(tmp_path / "whole"), new_trainer(tmp_path)
    whole.train()
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert torch.equal(weights_of(rest), weights_of(whole))
    assert rest.sampler.state_dict() == whole.sampler.state_dict()


def test_an_epoch_that_ends_early_loses_no_batch(tmp_path):
    whole = new_trainer(tmp_path, max_steps=20)
    whole.train()
    trainer = new_trainer(
        tmp_path, given={"callbacks": [Stop([5, 6], "should_epoch_stop")]}, num_train_epochs=4, max_steps=-1
    )
    trainer.train()
    assert trainer.state.global_step == trainer.sampler.updates.trained == 5 + 1 + 8 + 8
    assert logged(trainer, "loss")[:20] == logged(whole, "loss")


# ------------------------------------------------------------------------------------------------------------ resume


RESUMED = {
    "dropout": 0.1,
    "max_steps": 18,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "eval_strategy": "steps",
    "eval_steps": 4,
    "save_strategy": "steps",
    "save_steps": 1,
}


def assert_same_run(one, other):
    assert torch.equal(weights_of(one), weights_of(other))
    assert one.sampler.state_dict() == other.sampler.state_dict()
    for key in ("loss", "loss/low", "q/low", "eval_worst_loss", "epoch", "step"):
        assert logged(one, key) == logged(other, key), key


@pytest.mark.parametrize(
    ("strategy", "workers", "steps"),
    [
        ("chi-ibr", 0, (7, 8)),
        pytest.param("chi-ibr", 2, (2, 3, 7, 8, 9, 16), marks=pytest.mark.slow),
        pytest.param("group-dro", 0, (2, 3, 8, 9), marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_ends_with_the_same_bits(strategy, workers, steps, tmp_path):
    """Checkpoints in mid-interval, at the end of an interval (3, 9), of an epoch (8, 16), and just before and after."""
    options = {**RESUMED, "dataloader_num_workers": workers}
    whole = new_trainer(tmp_path / "whole", "m2m100", strategy, STRATEGIES[strategy], **options)
    whole.train()
    for step in steps:
        rest = new_trainer(tmp_path / "rest", "m2m100", strategy, STRATEGIES[strategy], **{**options, "save_steps": 99})
        rest.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{step}"))
        assert_same_run(rest, whole)


def test_nothing_is_read_in_order_to_be_skipped(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 7, "max_steps": 8, "ignore_data_skip": True}
    new_trainer(tmp_path, **options).train()

    class Watched(Pairs):
        read = 0

        def __getitem__(self, index):
            self.read += 1
            return super().__getitem__(index)

    data = Watched()
    trainer = new_trainer(tmp_path, given={"train_dataset": data}, **options)
    data.read = 0
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-7"))
    assert (data.read, trainer.state.global_step, trainer.state.epoch) == (16, 8, 1.0)


@pytest.mark.parametrize("stop", [9, 10, 20])
def test_a_loop_with_a_loader_of_accelerate_resumes_with_the_same_bits(stop):
    """Its loader reads a batch ahead: the first of the next interval, which changes the mixture, too early."""

    def loop():
        one = Loop(options=MOVING)
        one.loader = Accelerator(cpu=True).prepare(one.loader)
        return one

    whole, part = loop().run(45), loop().run(stop)
    rest = loop().restored(part.saved()).run(45)
    assert torch.equal(rest.weights, whole.weights)
    assert part.served + rest.served == whole.served
    assert rest.balancer.state_dict() == whole.balancer.state_dict()
    assert whole.mixtures[9] != whole.mixtures[8], "an update early"


def test_a_checkpoint_may_be_resumed_with_another_division_into_batches(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 5}
    whole = new_trainer(tmp_path, model=exact(), **options, **SGD)
    whole.train()
    rest = new_trainer(
        tmp_path, model=exact(), per_device_train_batch_size=4, gradient_accumulation_steps=4, **options, **SGD
    )
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    torch.testing.assert_close(weights_of(rest), weights_of(whole), rtol=1e-6, atol=1e-8)  # saved in float32


def test_a_checkpoint_of_another_trainer_is_refused(tmp_path):
    trainer = new_trainer(tmp_path, save_strategy="steps", save_steps=2, max_steps=2)
    trainer.train()
    file = tmp_path / "checkpoint-2" / "trainer_state.json"
    state = json.loads(file.read_text())
    del state["stateful_callbacks"]["evenglot"]
    file.write_text(json.dumps(state))
    with pytest.raises(OptionError) as raised:
        new_trainer(tmp_path).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert raised.value.option == "resume_from_checkpoint"


# -------------------------------------------------------------------------------------------------------- evaluation


def losses_by_hand(model, kind="seq2seq"):
    """The mean loss of each language in the evaluation data, example by example."""
    data, sums, counts = new_data(kind, seed=2, languages=EVALUATED), Counter(), Counter()
    model.eval()
    for each in data:
        batch = collate([{k: v for k, v in each.items() if k != "language"}])
        with torch.no_grad():
            tokens = batch["labels"][..., 1:].numel() if kind == "causal" else batch["labels"].numel()
            sums[each["language"]] += model(**batch).loss.item() * tokens
        counts[each["language"]] += tokens
    return {name: sums[name] / counts[name] for name in sums}, sum(sums.values()) / sum(counts.values())


@pytest.mark.parametrize(("kind", "data"), [("m2m100", "seq2seq"), ("gpt2", "causal"), ("bert", "classes")])
def test_evaluation_by_language(kind, data, tmp_path):
    trainer = new_trainer(tmp_path, kind, model=exact(kind))
    metrics = trainer.evaluate()
    means, mean = losses_by_hand(trainer.model, data)
    for name in SIZES:
        assert metrics[f"eval_loss/{name}"] == pytest.approx(means[name], rel=1e-6)
    assert metrics["eval_loss"] == pytest.approx(mean, rel=1e-6)
    assert metrics["eval_macro_loss"] == pytest.approx(sum(means.values()) / 3, rel=1e-6)
    assert metrics["eval_worst_loss"] == pytest.approx(max(means.values()), rel=1e-6)
    assert trainer.predict(trainer.eval_dataset).metrics["test_worst_loss"] == metrics["eval_worst_loss"]


@pytest.mark.parametrize("kind", ["m2m100", "llama", "bert"])
def test_the_worst_language_selects_the_best_model(kind, tmp_path):
    often = {"eval_strategy": "steps", "eval_steps": 4, "save_strategy": "steps", "save_steps": 4, "max_steps": 16}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_worst_loss", "greater_is_better": False}
    trainer = new_trainer(tmp_path, kind, learning_rate=0.1, **often, **best)
    trainer.train()
    worst = logged(trainer, "eval_worst_loss")
    assert trainer.state.best_metric == min(worst)
    assert trainer.state.best_model_checkpoint.endswith(f"-{4 * worst.index(min(worst)) + 4}")
    assert trainer.evaluate()["eval_worst_loss"] == pytest.approx(min(worst), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_evaluation_with_translations(smoothing, tmp_path):
    """`generate` refuses arguments that the model does not know."""
    lengths = []

    def compute_metrics(prediction):
        lengths.extend(map(len, (prediction.predictions, prediction.label_ids)))
        return {"chrf": 1.5}

    options = {"predict_with_generate": True, "generation_max_length": 6, "label_smoothing_factor": smoothing}
    trainer = new_trainer(tmp_path, given={"compute_metrics": compute_metrics}, **options)
    plain = new_trainer(tmp_path, label_smoothing_factor=smoothing)
    metrics, expected = trainer.evaluate(), plain.evaluate()
    assert metrics["eval_chrf"] == 1.5
    assert lengths == [len(EVALUATED)] * 2
    for key in ("eval_loss", "eval_worst_loss", "eval_loss/low"):
        assert metrics[key] == pytest.approx(expected[key], rel=1e-6)


def test_data_without_groups_or_labels_are_evaluated_as_usual(tmp_path):
    trainer = new_trainer(tmp_path, model=exact())
    whole = trainer.eval_dataset
    metrics = trainer.evaluate(whole.remove_columns("language"))
    assert metrics["eval_loss"] == pytest.approx(trainer.evaluate()["eval_loss"], rel=0.05)  # a mean of batches
    assert "eval_worst_loss" not in metrics
    classifier = new_trainer(tmp_path, "bert")
    unknown = classifier.eval_dataset.remove_columns("label")
    assert classifier.predict(unknown).predictions.shape == (len(EVALUATED), 4)


def test_validation_losses_move_the_mixture(tmp_path):
    options = {**MOVING, "signal": "valid"}
    often = {"eval_strategy": "steps", "eval_steps": 6, "max_steps": 14}
    trainer = new_trainer(tmp_path, "m2m100", "chi-ibr", options, **often)
    trainer.train()
    shares = logged(trainer, "q/low")
    assert len(set(shares[:6])) == 1, "two intervals end before the first evaluation"
    assert shares[6] != shares[5]
    assert trainer.balancer.losses["low"] == pytest.approx(logged(trainer, "eval_loss/low")[-1], rel=1e-9)
    seen = trainer.balancer.state_dict()
    trainer.evaluate(new_data(seed=7))
    assert trainer.balancer.state_dict() == seen, "only evaluation in training is observed"


def test_a_data_set_for_each_language_moves_the_mixture_as_all_of_them_in_one(tmp_path):
    options = {**MOVING, "signal": "valid"}
    often = {"eval_strategy": "steps", "eval_steps": 3, "max_steps": 10}
    whole = new_trainer(tmp_path, "m2m100", "chi-ibr", options, model=exact(), **often)
    each = {name: whole.eval_dataset.filter(lambda row, name=name: row["language"] == name) for name in SIZES}
    parts = new_trainer(tmp_path, "m2m100", "chi-ibr", options, model=exact(), given={"eval_dataset": each}, **often)
    for trainer in (whole, parts):
        trainer.train()
    assert parts.balancer.q == pytest.approx(whole.balancer.q, abs=1e-9)
    assert logged(parts, "eval_low_loss/low") == pytest.approx(logged(whole, "eval_loss/low"), rel=1e-6)
    assert logged(whole, "q/low")[-1] != logged(whole, "q/low")[0]


# --------------------------------------------------------------------------------------------- strategies, precision


def test_fastdro_weights_examples(tmp_path):
    trainer = new_trainer(tmp_path, "m2m100", "fastdro", {"rho": 1.0}, model=exact(), **SGD)
    trainer.train()
    usual = new_trainer(tmp_path, "m2m100", "proportional", {}, model=exact(), **SGD)
    usual.train()
    assert logged(trainer, "loss/big")[0] == logged(usual, "loss/big")[0]
    assert logged(trainer, "loss")[0] > logged(usual, "loss")[0], "the worst examples weigh more"
    with pytest.raises(OptionError):
        new_trainer(tmp_path, "m2m100", "fastdro", {"rho": 1.0}, gradient_accumulation_steps=2)


def test_bfloat16_losses_are_observed_in_full_precision(tmp_path):
    exact_run, run = new_trainer(tmp_path), new_trainer(tmp_path, bf16=True)
    exact_run.train()
    run.train()
    assert logged(run, "loss") == pytest.approx(logged(exact_run, "loss"), rel=0.02)
    assert logged(run, "loss") != logged(exact_run, "loss")
    for value in logged(run, "loss/big"):
        assert torch.tensor(value).bfloat16().item() != value


# ---------------------------------------------------------------------------------------------------------- adapters


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft 0.21 uses it
def test_adapters_are_trained_evaluated_and_resumed(tmp_path):
    """LoRA with dropout of its own: the weights of the model stay, and those of the adapters learn."""

    def adapted():
        config = LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)
        return get_peft_model(new_model(), config)

    def train(folder, resume=None):
        options = {"save_strategy": "steps", "save_steps": 5, "learning_rate": 0.1, "max_steps": 12}
        trainer = new_trainer(tmp_path / folder, model=adapted(), **options)
        assert type(trainer).__name__ == "BalancedSeq2SeqTrainer"
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    whole = train("whole")
    plain = new_model().state_dict()
    base = whole.model.get_base_model().state_dict()
    kept = {name: base[name.replace("_proj.", "_proj.base_layer.", 1)] for name in plain if ".q_proj." in name}
    assert kept
    assert all(torch.equal(kept[name], plain[name]) for name in kept)
    assert logged(whole, "loss")[-1] < logged(whole, "loss")[0]
    assert logged(whole, "q/low")[-1] != logged(whole, "q/low")[0]
    assert whole.evaluate()["eval_worst_loss"] > 0
    rest = train("rest", str(tmp_path / "whole" / "checkpoint-5"))
    assert torch.equal(weights_of(rest), weights_of(whole))
    assert rest.sampler.state_dict() == whole.sampler.state_dict()


# ---------------------------------------------------------------------------------------------------------- refusals


class Stream(IterableDataset):
    def __iter__(self):
        yield from new_data()


@pytest.mark.parametrize(
    ("option", "make"),
    [
        ("compute_loss_func", lambda folder: new_trainer(folder, given={"compute_loss_func": lambda *_: 0})),
        ("train_dataset", lambda folder: new_trainer(folder, given={"train_dataset": Stream()})),
        ("group_column", lambda folder: new_trainer(folder, given={"group_column": "dialect"})),
        ("group_column", lambda folder: new_trainer(folder, given={"group_column": "input_ids"})),
        ("auto_find_batch_size", lambda folder: new_trainer(folder, auto_find_batch_size=True)),
        ("loss_per", lambda folder: new_trainer(folder, options={**MOVING, "loss_per": "character"})),
        (
            "save_strategy",
            lambda folder: new_trainer(
                folder, options={**MOVING, "signal": "valid"}, eval_strategy="epoch", save_strategy="steps"
            ),
        ),
        ("model", lambda folder: new_trainer(folder, model=regression(), kind="bert").evaluate()),
        ("model", lambda folder: new_trainer(folder, model=without_start()).evaluate()),
        ("output_router_logits", lambda folder: new_trainer(folder, model=with_routers())),
        ("language", lambda folder: new_trainer(folder).evaluate(renamed("xx"))),
        ("labels", lambda folder: new_trainer(folder, given={"train_dataset": without_labels()}).train()),
    ],
)
def test_what_cannot_be_right_is_refused(option, make, tmp_path):
    with pytest.raises(OptionError) as raised:
        make(tmp_path)
    assert raised.value.option == option
    assert "\n" not in str(raised.value)


def regression():
    model = new_model("bert")
    model.classifier, model.num_labels = torch.nn.Linear(16, 1), 1
    return model


def without_start():
    model = new_model()
    model.config.decoder_start_token_id = None
    return model


def with_routers():
    model = new_model()
    model.config.output_router_logits = True
    return model


def without_labels():
    return new_data().remove_columns("labels")


def renamed(name):
    return new_data(seed=2, languages=EVALUATED).map(lambda each: {"language": name})


IS_5 = Version(transformers_version) >= Version("5")
LIGER = pytest.param("use_liger_kernel", True, marks=pytest.mark.skipif(not IS_5, reason="4.57 misses it first"))


SAMPLING = ("train_sampling_strategy", "group_by_length") if IS_5 else ("group_by_length", True)


@pytest.mark.parametrize(("name", "value"), [("deepspeed", "zero.json"), ("_n_gpu", 2), SAMPLING, LIGER])
def test_ways_to_train_that_are_not_supported_are_refused(name, value, tmp_path):
    trainer = new_trainer(tmp_path)
    setattr(trainer.args, name, value)  # after they were checked: the packages and devices are not here
    with pytest.raises(OptionError) as raised:
        new_trainer(tmp_path, given={"args": trainer.args})
    assert raised.value.option == name.removeprefix("_")


@pytest.mark.parametrize("kind", ["tp", "cp", "sp"])
def test_only_data_parallelism_is_supported(kind, tmp_path, monkeypatch):
    """Set where Trainer finds it: accelerate itself allows it on several devices only."""
    make = BalancedTrainer.create_accelerator_and_postprocess

    def make_parallel(trainer):
        make(trainer)
        trainer.accelerator.state.parallelism_config = ParallelismConfig(**{f"{kind}_size": 2})

    monkeypatch.setattr(BalancedTrainer, "create_accelerator_and_postprocess", make_parallel)
    with pytest.raises(OptionError) as raised:
        new_trainer(tmp_path)
    assert raised.value.option == "parallelism_config"


def test_fsdp_of_the_first_version_is_refused(tmp_path, monkeypatch):
    make = BalancedTrainer.create_accelerator_and_postprocess

    def make_sharding(trainer):
        make(trainer)
        plugin = FullyShardedDataParallelPlugin(fsdp_version=1)
        monkeypatch.setattr(trainer.accelerator.state, "fsdp_plugin", plugin, raising=False)

    monkeypatch.setattr(BalancedTrainer, "create_accelerator_and_postprocess", make_sharding)
    with pytest.raises(OptionError) as raised:
        new_trainer(tmp_path)
    assert raised.value.option == "fsdp_config"


@pytest.mark.skipif(not IS_5, reason="4.57 has no distributed_config")
def test_a_model_that_is_sharded_when_it_is_loaded_is_refused(tmp_path):
    model = new_model()
    model._is_distributed_loading_by_transformers = True  # as from_pretrained(distributed_config=...) does
    with pytest.raises(OptionError) as raised:
        new_trainer(tmp_path, model=model)
    assert raised.value.option == "distributed_config"


def test_strategies_that_need_more_than_a_trainer_has_are_refused(tmp_path):
    with pytest.raises(UnservedError) as raised:
        new_trainer(tmp_path, "m2m100", "multidds", {})
    assert raised.value.missing == ("gradients",)
    with pytest.raises(UnservedError) as raised:
        new_trainer(tmp_path, options={**MOVING, "signal": "valid"})
    assert raised.value.missing == ("validation_losses",)


# --------------------------------------------------------------------------------------------------------- processes


def run_of(folder, kind="m2m100", strategy="chi-ibr", resume=None, double=True, **args):
    """Train in this process; what a test wants to know of it."""
    model = exact(kind) if double else None
    trainer = new_trainer(folder, kind, strategy, STRATEGIES[strategy], model=model, **args)
    trainer.train(resume_from_checkpoint=resume)
    return {
        "kind": type(trainer.model_wrapped).__name__,
        "weights": weights_of(trainer),
        "q": trainer.balancer.q,
        "losses": logged(trainer, "loss"),
        "state": trainer.sampler.state_dict(),
        "metrics": {k: v for k, v in trainer.evaluate().items() if "loss" in k},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "args"),
    [
        ("chi-ibr", {"label_smoothing_factor": 0.1}),
        ("group-dro", {"accelerator_config": {"split_batches": True}}),
    ],
)
def test_two_processes_train_and_evaluate_as_one(strategy, args, tmp_path):
    """21 examples are evaluated in batches of 8: accelerate repeats some, which count once."""
    alone = run_of(tmp_path / "alone", strategy=strategy, **args)
    options = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, **args}
    two = in_processes(2, tmp_path / "two", partial(run_of, tmp_path / "run", strategy=strategy, **options))
    assert two["kind"] == "DistributedDataParallel"
    assert two["losses"] == pytest.approx(alone["losses"], rel=1e-6)
    torch.testing.assert_close(two["weights"], alone["weights"], rtol=1e-9, atol=1e-11)
    assert two["q"] == pytest.approx(alone["q"], abs=1e-9)
    assert two["metrics"] == pytest.approx(alone["metrics"], rel=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(not IS_5, reason="4.57 cannot load an optimizer in several processes on CPUs")
@pytest.mark.parametrize("workers", [0, 2])
def test_two_processes_resume_with_the_same_bits(workers, tmp_path):
    """In mid-interval, and at the end of an epoch."""
    options = {**RESUMED, "per_device_train_batch_size": 4, "dataloader_num_workers": workers, "double": False}
    whole = in_processes(2, tmp_path / "1", partial(run_of, tmp_path / "whole", **options))
    for step in (5, 8):
        saved = str(tmp_path / "whole" / f"checkpoint-{step}")
        rest = in_processes(2, tmp_path / f"2-{step}", partial(run_of, tmp_path / "rest", resume=saved, **options))
        assert torch.equal(rest["weights"], whole["weights"])
        assert all(rest[key] == whole[key] for key in ("losses", "q", "state", "metrics"))


def run_sharded(folder, saved_as="FULL_STATE_DICT", **options):
    """FSDP2 through accelerate. It shards on accelerators only, so it is told that these CPUs are one."""
    start = AcceleratorState.__init__

    def start_sharded(self, *args, fsdp_plugin=None, **options):
        start(self, *args, fsdp_plugin=fsdp_plugin, **options)
        if fsdp_plugin is not None:
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP
            self._shared_state |= {"distributed_type": DistributedType.FSDP, "fsdp_plugin": fsdp_plugin}

    AcceleratorState.__init__ = start_sharded
    config = {"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], "state_dict_type": saved_as}
    divided = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    return run_of(folder, "llama", fsdp=True, fsdp_config=config, **{**options, **divided})


@pytest.mark.slow
@pytest.mark.skipif(not IS_5, reason="FSDP2 is configured differently")
def test_sharded_models_train_and_evaluate_as_whole_ones(tmp_path):
    alone = run_of(tmp_path / "alone", "llama")
    two = in_processes(2, tmp_path / "two", partial(run_sharded, tmp_path / "run"))
    assert two["kind"] == "FSDPLlamaForCausalLM"
    assert two["losses"] == pytest.approx(alone["losses"], rel=1e-6)
    torch.testing.assert_close(two["weights"], alone["weights"], rtol=1e-9, atol=1e-11)
    assert two["q"] == pytest.approx(alone["q"], abs=1e-9)
    assert two["metrics"] == pytest.approx(alone["metrics"], rel=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(not IS_5, reason="FSDP2 is configured differently")
@pytest.mark.parametrize("saved_as", ["FULL_STATE_DICT", "SHARDED_STATE_DICT"])
def test_sharded_models_resume_with_the_same_bits(saved_as, tmp_path):
    """In mid-interval, and at the end of an epoch."""
    options = {**RESUMED, "double": False, "saved_as": saved_as}
    whole = in_processes(2, tmp_path / "1", partial(run_sharded, tmp_path / "whole", **options))
    for step in (5, 8):
        saved = str(tmp_path / "whole" / f"checkpoint-{step}")
        rest = in_processes(2, tmp_path / f"2-{step}", partial(run_sharded, tmp_path / "rest", resume=saved, **options))
        assert torch.equal(rest["weights"], whole["weights"])
        assert all(rest[key] == whole[key] for key in ("losses", "q", "state", "metrics"))
