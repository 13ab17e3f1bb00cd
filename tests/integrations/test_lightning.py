"""Balancing in Lightning, beside the same training in a plain PyTorch loop."""

import csv
import subprocess
import sys
import warnings

import pytest
import torch

pytest.importorskip("lightning", reason="in the dev extra")

from lightning.pytorch.callbacks import Callback, GradientAccumulationScheduler, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torch.utils.data import DataLoader

from evenglot.balance import OptionError, UnservedError, create
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss
from tests.integrations.lightning_task import MOVING, Model, Run, Sequences
from tests.integrations.task import GROUPS, NAMES, SIZES

UPDATES = 45
BY_VALIDATION = {"signal": "valid", "rho": 0.3, "noise": "ignore"}


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level("ERROR", "lightning.pytorch")
    caplog.set_level("ERROR", "lightning.pytorch.utilities.rank_zero")


def by_hand(strategy, updates, workers=0):
    """The training of `Run` without dropout, in a plain loop."""
    balancer = create(strategy, sizes=SIZES, **MOVING[strategy])
    sampler = BalancedBatchSampler(GROUPS, balancer, 16, 10, 5)
    module = Model(GroupLoss(sampler), dropout=0)
    optimizer = module.configure_optimizers()
    loader = DataLoader(Sequences(), batch_sampler=sampler)
    while sampler.updates.trained < updates:
        for batch in loader:
            module.training_step(batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            module.group_loss.step()
            if sampler.updates.trained == updates:
                break
    return torch.cat([weight.detach().flatten() for weight in module.parameters()]), balancer.q


@pytest.mark.parametrize("strategy", MOVING)
def test_it_trains_as_a_plain_loop(strategy, tmp_path):
    run = Run(tmp_path, strategy, model={"dropout": 0}).fit(max_steps=UPDATES)
    weights, q = by_hand(strategy, UPDATES)
    assert torch.equal(run.weights, weights)
    assert run.balancer.q == q
    assert max(abs(q[name] - create("proportional", SIZES).q[name]) for name in q) > 0.05, "the mixture moved"


# ---------------------------------------------------------------------------------------------- accumulated gradients


@pytest.mark.parametrize("strategy", ["chi-ibr", "group-dro"])
@pytest.mark.parametrize(("size", "accumulate"), [(16, 2), (8, 4)])
def test_accumulated_batches_train_on_the_mean_over_all_tokens_of_the_update(strategy, size, accumulate, tmp_path):
    """Also with gradients that are clipped, which is done after they are scaled."""
    options = {"model": {"dropout": 0}, "trainer": {"gradient_clip_val": 0.1}}
    whole = Run(tmp_path, strategy, sampling={"batch_size": 32}, **options).fit(max_steps=15)
    options["trainer"] = {**options["trainer"], "accumulate_grad_batches": accumulate}
    parts = Run(tmp_path, strategy, sampling={"batch_size": size}, **options).fit(max_steps=15)
    assert [len(batch) for batch in parts.module.served] == [size] * 15 * accumulate
    torch.testing.assert_close(parts.weights, whole.weights, rtol=1e-9, atol=1e-11)
    assert parts.balancer.q == pytest.approx(whole.balancer.q, abs=1e-9)


def test_an_update_that_an_epoch_cuts_short_has_the_mean_over_its_own_tokens(tmp_path):
    limits = {"accumulate_grad_batches": 2, "limit_train_batches": 3}  # updates of 2 batches and 1
    run = Run(tmp_path, model={"dropout": 0}, trainer=limits).fit(max_epochs=1, max_steps=-1)
    alone = Run(tmp_path, model={"dropout": 0}, sampling={"batch_size": 32})
    sizes = [32, 16]
    optimizer, batches = alone.module.configure_optimizers(), iter(alone.loader)
    for size in sizes:
        batch = {name: values[:size] for name, values in next(batches).items()}
        alone.module.training_step(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert run.trainer.global_step == 2
    torch.testing.assert_close(run.weights, alone.weights, rtol=1e-9, atol=1e-11)


# --------------------------------------------------------------------------------------------------------------- resume


def saving(folder, **options):
    options = options or {"every_n_train_steps": 1}
    return ModelCheckpoint(folder, "{step}", save_top_k=-1, auto_insert_metric_name=False, **options)


def assert_resumes(folder, stops, *, end=None, saver=None, **options):
    """A run resumed from each of these checkpoints of a whole run ends as that did, bit by bit."""
    end = end or {"max_steps": UPDATES}
    whole = Run(folder, callbacks=[saving(folder, **(saver or {}))], **options)
    whole.fit(enable_checkpointing=True, **end)
    assert {f"{stop}.ckpt" for stop in stops} <= {path.name for path in folder.iterdir()}
    for stop in stops:
        rest = Run(folder, **options).fit(folder / f"{stop}.ckpt", **end)
        assert rest.trainer.global_step == whole.trainer.global_step
        assert torch.equal(rest.weights, whole.weights), stop
        assert rest.balancer.state_dict() == whole.balancer.state_dict(), stop
        assert rest.module.served == whole.module.served[len(whole.module.served) - len(rest.module.served) :]
    return whole


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    whole = assert_resumes(tmp_path, (7, 20, 33))
    assert whole.trainer.num_training_batches == 20
    assert any(isinstance(layer, torch.nn.Dropout) and layer.p == 0.1 for layer in whole.module.modules())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", MOVING)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_ends_with_the_same_bits_with_any_strategy_and_workers(strategy, workers, tmp_path):
    assert_resumes(tmp_path, (1, 9, 10, 11, 18, 20, 33, 40), strategy=strategy, workers=workers)


@pytest.mark.slow
@pytest.mark.parametrize(
    "trainer",
    [
        {"limit_train_batches": 6},
        {"limit_train_batches": 0.33},
        {"limit_train_batches": 7, "accumulate_grad_batches": 2},
        {"accumulate_grad_batches": 4},
        {"val_check_interval": 5},
        {"val_check_interval": 0.3},
        {"val_check_interval": 30, "check_val_every_n_epoch": None},
    ],
    ids=str,
)
def test_a_resumed_run_ends_with_the_same_bits_whatever_an_epoch_is(trainer, tmp_path):
    assert_resumes(tmp_path, (5, 6, 13, 20, 31), trainer=trainer, workers=2)


@pytest.mark.slow
@pytest.mark.parametrize("saver", [{"every_n_epochs": 1}, {"save_on_train_epoch_end": True}], ids=str)
@pytest.mark.parametrize("options", [MOVING["chi-ibr"], BY_VALIDATION], ids=str)
def test_checkpoints_at_the_end_of_epochs_resume(saver, options, tmp_path):
    end = {"max_epochs": 3, "max_steps": -1}
    assert_resumes(tmp_path, (20, 40), end=end, saver=saver, options=options, workers=2)


VALIDATED = {"options": BY_VALIDATION, "trainer": {"val_check_interval": 7}}


def test_a_checkpoint_before_a_validation_that_steers_resumes_with_it(tmp_path):
    """Lightning saves in the step before the validation, and would skip it."""
    assert_resumes(tmp_path, (7, 27), end={"max_steps": 35}, **VALIDATED)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_checkpoints_before_between_and_after_validations_that_steer_resume(workers, tmp_path):
    assert_resumes(tmp_path, (4, 7, 9, 13, 14, 20, 27, 29, 40), workers=workers, **VALIDATED)
    after = tmp_path / "after"
    after.mkdir()
    assert_resumes(after, (7, 14, 27), workers=workers, saver={"monitor": "val_loss_worst"}, **VALIDATED)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_checkpoints_before_the_validation_at_the_end_of_an_epoch_resume(workers, tmp_path):
    trainer = {"check_val_every_n_epoch": 2}
    sampling = {"interval_updates": 20}  # an interval begins when the validation is over
    options = {"options": BY_VALIDATION, "trainer": trainer, "sampling": sampling, "workers": workers}
    assert_resumes(tmp_path, (20, 39, 40, 60), end={"max_steps": 85}, **options)


class Fails(Callback):
    """Ends the run before a batch, and saves it."""

    def __init__(self, file, batch, stage="train"):
        self.file, self.batch = file, batch
        setattr(self, f"on_{stage}_batch_start", self.fail)

    def fail(self, trainer, module, batch, batch_idx, dataloader_idx=0):
        if batch_idx == self.batch and not trainer.sanity_checking:
            trainer.save_checkpoint(self.file)
            raise KeyboardInterrupt


def assert_continues(folder, failing, **options):
    """A run that fails, and is resumed from the checkpoint saved then, ends as one that does not fail."""
    whole = Run(folder, **options).fit(max_steps=12)
    with pytest.raises(SystemExit):
        Run(folder, callbacks=[failing], **options).fit(max_steps=12)
    rest = Run(folder, **options).fit(failing.file, max_steps=12)
    assert torch.equal(rest.weights, whole.weights)
    assert rest.balancer.state_dict() == whole.balancer.state_dict()
    assert {step: whole.mixtures.q[step] for step in rest.mixtures.q} == rest.mixtures.q, "a validation counts once"
    progress = [run.trainer.fit_loop.epoch_loop for run in (rest, whole)]
    assert progress[0]._batches_that_stepped == progress[1]._batches_that_stepped
    assert progress[0].total_batch_idx == progress[1].total_batch_idx
    return rest.module.served == whole.module.served[-len(rest.module.served) :], len(rest.module.served)


def test_a_run_that_is_interrupted_within_a_validation_repeats_it(tmp_path):
    assert assert_continues(tmp_path, Fails(tmp_path / "cut.ckpt", 3, "validation"), **VALIDATED) == (True, 5)


ACCUMULATED = {"sampling": {"batch_size": 4, "interval_updates": 5}, "options": BY_VALIDATION}


@pytest.mark.parametrize("batch", [2, 10])
def test_a_run_that_is_interrupted_within_an_update_repeats_it(batch, tmp_path):
    """Lightning does not save the gradients of its first batches. The validations are at the ends of batches 3, 6, 9,
    12, ...: within updates, and between them."""
    trainer = {"accumulate_grad_batches": 4, "val_check_interval": 3}
    failing = Fails(tmp_path / "cut.ckpt", batch)
    assert assert_continues(tmp_path, failing, trainer=trainer, **ACCUMULATED) == (True, 48 - batch // 4 * 4)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_checkpoints_at_validations_within_updates_resume(workers, tmp_path):
    """At the ends of batches 3, 6, 9, 12, ...: updates end with every fourth, and with the 20th, the last of an
    epoch."""
    trainer = {"accumulate_grad_batches": 4, "val_check_interval": 3, "limit_train_batches": 18}
    saver = {"monitor": "val_loss_worst"}
    options = {"trainer": trainer, "saver": saver, "workers": workers, **ACCUMULATED}
    assert_resumes(tmp_path, (1, 2, 3, 5, 6, 8), end={"max_steps": 18}, **options)


class Normed(Model):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.layers.append(torch.nn.BatchNorm1d(5).double())


def test_batches_that_count_twice_in_running_statistics_are_told(tmp_path):
    def run(**more):
        each = Run(tmp_path, trainer={"accumulate_grad_batches": 4}, **more)
        each.module = Normed(each.module.group_loss)
        return each

    with pytest.raises(SystemExit):
        run(callbacks=[Fails(tmp_path / "cut.ckpt", 2)]).fit(max_steps=2)
    with pytest.warns(UserWarning, match="BatchNorm"):
        run().fit(tmp_path / "cut.ckpt", max_steps=2)


def test_the_warning_that_the_loader_cannot_be_resumed_is_not_shown(tmp_path):
    Run(tmp_path, callbacks=[saving(tmp_path, every_n_train_steps=7)]).fit(enable_checkpointing=True, max_steps=7)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        Run(tmp_path).fit(tmp_path / "7.ckpt", max_steps=8)
    assert not [each for each in shown if "not resumable" in str(each.message)]


def test_a_second_fit_continues_with_whole_epochs(tmp_path):
    run = Run(tmp_path).fit(max_steps=7)
    run.fit(max_epochs=1, max_steps=-1)
    assert run.sampler.updates.trained == 27
    served = [index for batch in run.module.served for index in batch]
    assert all(served.count(index) >= 1 for index, group in enumerate(GROUPS) if group != "big")


# -------------------------------------------------------------------------------------------------- epochs and samplers


def test_epochs_continue_where_the_last_one_ended_although_nobody_calls_set_epoch(tmp_path):
    whole = Run(tmp_path).fit(max_steps=40)
    cut = Run(tmp_path, trainer={"limit_train_batches": 9}).fit(max_steps=40)
    assert cut.trainer.current_epoch == 5
    assert cut.module.served == whole.module.served
    assert whole.module.served[:20] != whole.module.served[20:]


class Accumulating(SingleDeviceStrategy):
    """Accumulates gradients itself, as DeepSpeed does."""

    handles_gradient_accumulation = True


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        (
            "accumulate_grad_batches",
            {"trainer": {"strategy": Accumulating("cpu"), "accumulate_grad_batches": 2}},
        ),
        ("overfit_batches", {"trainer": {"overfit_batches": 2}}),
        ("accumulate_grad_batches", {"trainer": {"accumulate_grad_batches": 2}, "sampling": {"accumulate": 4}}),
        ("accumulate_grad_batches", {"callbacks": [GradientAccumulationScheduler({1: 2})]}),
        ("accumulate_grad_batches", {"strategy": "fastdro", "trainer": {"accumulate_grad_batches": 2}}),
    ],
)
def test_what_would_train_on_something_else_is_refused(option, changes, tmp_path):
    with pytest.raises(OptionError) as refused:
        Run(tmp_path, **changes).fit(max_steps=30)
    assert refused.value.option == option


def test_another_loader_is_refused(tmp_path):
    run = Run(tmp_path)
    run.loader = DataLoader(Sequences(), batch_size=16)
    with pytest.raises(OptionError) as refused:
        run.fit(max_steps=3)
    assert refused.value.option == "train_dataloaders"


class OwnLoss(Model):
    def training_step(self, batch):
        return self.losses(batch).mean()


def test_a_loss_that_is_not_recorded_is_refused_if_the_strategy_needs_it(tmp_path):
    run = Run(tmp_path)
    run.module = OwnLoss(run.module.group_loss)
    with pytest.raises(OptionError) as refused:
        run.fit(max_steps=3)
    assert refused.value.option == "balancer"
    fixed = Run(tmp_path, "temperature", {"tau": 5})
    fixed.module = OwnLoss(fixed.module.group_loss)
    assert fixed.fit(max_steps=3).sampler.updates.trained == 3


def test_strategies_that_lightning_cannot_serve_raise(tmp_path):
    with pytest.raises(UnservedError) as unserved:
        Run(tmp_path, "multidds").fit(max_steps=3)
    assert unserved.value.missing == ("gradients",)
    with pytest.raises(UnservedError) as unserved:
        Run(tmp_path, options=BY_VALIDATION, trainer={"limit_val_batches": 0}).fit(max_steps=3)
    assert unserved.value.missing == ("validation_losses",)


class Unvalidated(Model):
    def validation_step(self, batch):
        self.log("own", self.losses(batch).mean())


def test_validation_losses_that_are_not_recorded_are_missed(tmp_path):
    run = Run(tmp_path, options=BY_VALIDATION, trainer={"val_check_interval": 2})
    run.module = Unvalidated(run.module.group_loss)
    with pytest.raises(UnservedError):
        run.fit(max_steps=3)
    fine = Run(tmp_path, trainer={"val_check_interval": 2})
    fine.module = Unvalidated(fine.module.group_loss)
    fine.fit(max_steps=3)
    assert "val_loss_worst" not in fine.trainer.callback_metrics


def test_with_manual_optimization_every_batch_is_an_update(tmp_path):
    manual = Run(tmp_path, model={"is_manual": True}).fit(max_steps=25)
    automatic = Run(tmp_path).fit(max_steps=25)
    assert torch.equal(manual.weights, automatic.weights)
    assert manual.balancer.state_dict() == automatic.balancer.state_dict()


def test_strategies_that_weight_examples_are_served(tmp_path):
    run = Run(tmp_path, "fastdro").fit(max_steps=5)
    assert run.sampler.updates.trained == 5


# ----------------------------------------------------------------------------------------------------------- validation


def test_validation_steers_and_the_sanity_check_does_not(tmp_path):
    run = Run(tmp_path, options=BY_VALIDATION, trainer={"val_check_interval": 15}).fit(max_steps=25)
    start = create("proportional", SIZES).q  # the interval that ends after step 10 has seen the sanity check at most
    assert [run.mixtures.q[step] == start for step in (1, 11, 20, 21)] == [True, True, True, False]
    assert run.mixtures.q[25]["low"] > 2 * start["low"]


def test_mixture_and_losses_are_logged_and_can_be_monitored(tmp_path):
    best = ModelCheckpoint(tmp_path, monitor="val_loss_worst")
    logger = CSVLogger(tmp_path)
    run = Run(tmp_path, callbacks=[best], trainer={"val_check_interval": 10, "logger": logger})
    run.fit(max_steps=20, enable_checkpointing=True)
    assert float(best.best_model_score) == pytest.approx(min(logged(logger, "val_loss_worst").values()), rel=1e-6)
    for step in (5, 10, 15, 20):
        q = {name: logged(logger, f"q/{name}")[step - 1] for name in NAMES}
        assert q == pytest.approx(run.mixtures.q[step], rel=1e-6)
        assert all(step - 1 in logged(logger, f"train_loss/{name}") for name in NAMES), "also rare ones"
    losses = {name: logged(logger, f"val_loss/{name}")[19] for name in NAMES}
    assert losses == pytest.approx(validated(run), rel=1e-6)
    assert logged(logger, "val_loss_macro")[19] == pytest.approx(sum(losses.values()) / 3, rel=1e-6)
    assert logged(logger, "val_loss_worst")[19] == max(losses.values())


def logged(logger, name):
    """Values by step."""
    logger.save()
    with open(logger.experiment.metrics_file_path, newline="") as file:
        return {int(row["step"]): float(row[name]) for row in csv.DictReader(file) if row.get(name)}


def validated(run):
    """Mean token loss of each group, computed in one piece."""
    module, examples = run.module.eval(), Sequences(40, seed=2)
    with torch.no_grad():
        losses = module.losses({"input": examples.inputs, "label": examples.labels})
    found = {}
    for name in NAMES:
        rows = torch.tensor([group == name for group in examples.groups])
        found[name] = losses[rows][examples.mask[rows]].mean().item()
    return found


def test_a_trainer_that_only_validates_logs_the_losses_and_leaves_the_balancer_alone(tmp_path):
    run = Run(tmp_path, options=BY_VALIDATION, trainer={"val_check_interval": 5}).fit(max_steps=5)
    before = run.balancer.state_dict()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning|torch")
        (metrics,) = run.trainer.validate(run.module, run.validation, verbose=False)
    assert metrics["val_loss_worst"] == pytest.approx(max(validated(run).values()), rel=1e-6)
    assert run.balancer.state_dict() == before


# ------------------------------------------------------------------------------------------------------------ processes


TWO = {"devices": 2, "strategy": "ddp_spawn", "use_distributed_sampler": False}


def balancer_of(checkpoint):
    return torch.load(checkpoint, weights_only=True)["callbacks"]["BalancingCallback"]["sampler"]["balancer"]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["chi-ibr", "group-dro"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_train_as_one(strategy, accumulate, tmp_path):
    model, split = {"dropout": 0}, 2 * accumulate
    alone = Run(tmp_path, strategy, model=model, trainer={"val_check_interval": 5}).fit(max_steps=30)
    trainer = {**TWO, "accumulate_grad_batches": accumulate, "val_check_interval": 5 * accumulate}
    options = {"model": model, "sampling": {"batch_size": 16 // split}, "trainer": trainer}
    last = saving(tmp_path, every_n_train_steps=30)
    two = Run(tmp_path, strategy, callbacks=[last], **options).fit(max_steps=30, enable_checkpointing=True)
    torch.testing.assert_close(two.weights, alone.weights, rtol=1e-9, atol=1e-11)
    assert balancer_of(tmp_path / "30.ckpt")["q"] == pytest.approx(alone.balancer.q, abs=1e-9)
    for name, value in alone.trainer.callback_metrics.items():
        assert two.trainer.callback_metrics[name] == pytest.approx(float(value), rel=1e-5), name


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_two_processes_resume_with_the_same_bits(workers, tmp_path):
    options = {"workers": workers, "trainer": TWO}
    whole = Run(tmp_path, callbacks=[saving(tmp_path)], **options).fit(max_steps=UPDATES, enable_checkpointing=True)
    for stop in (9, 40):
        folder = tmp_path / str(stop)
        rest = Run(folder, callbacks=[saving(folder)], **options)
        rest.fit(tmp_path / f"{stop}.ckpt", max_steps=UPDATES, enable_checkpointing=True)
        assert torch.equal(rest.weights, whole.weights)
        assert balancer_of(folder / f"{UPDATES}.ckpt") == balancer_of(tmp_path / f"{UPDATES}.ckpt")


@pytest.mark.slow
def test_a_trainer_that_would_replace_the_sampler_is_refused(tmp_path):
    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="OptionError: use_distributed_sampler"):
        Run(tmp_path, trainer={**TWO, "use_distributed_sampler": True}).fit(max_steps=3)


class Halved(DDPStrategy):
    """One copy of the model on two processes, as tensor parallelism has."""

    def __init__(self):
        super().__init__(start_method="spawn")

    @property
    def distributed_sampler_kwargs(self):
        return {"num_replicas": 1, "rank": 0}


@pytest.mark.slow
def test_a_model_that_is_divided_among_processes_is_refused(tmp_path):
    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="OptionError: strategy"):
        Run(tmp_path, trainer={**TWO, "strategy": Halved()}).fit(max_steps=3)


def test_a_trainer_of_pytorch_lightning_can_be_used_too(tmp_path):
    """Whoever has both packages may import either; their classes differ."""
    other = pytest.importorskip("pytorch_lightning")

    class Other(other.LightningModule):
        def __init__(self, model):
            super().__init__()
            self.layers, self.training_step = model.layers, model.training_step
            self.validation_step, self.configure_optimizers = model.validation_step, model.configure_optimizers

    run, same = Run(tmp_path), Run(tmp_path).fit(max_steps=15)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning|torch")
        trainer = other.Trainer(
            accelerator="cpu",
            max_steps=15,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[run.balancing],
            default_root_dir=tmp_path,
        )
        trainer.fit(Other(run.module), run.loader, run.validation)
        trainer.save_checkpoint(tmp_path / "other.ckpt")
    assert torch.equal(run.weights, same.weights)
    assert balancer_of(tmp_path / "other.ckpt") == same.balancer.state_dict()


IMPORTS = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))  # whoever imports them gets a ModuleNotFoundError
from evenglot.extras import MissingExtraError
try:
    from evenglot.integrations.lightning import BalancingCallback
    print(BalancingCallback.__base__.__module__)
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("absent", "said"),
    [
        ((), "lightning.pytorch.callbacks.callback"),
        (("lightning",), "pytorch_lightning.callbacks.callback"),
        (("lightning", "pytorch_lightning"), 'lightning is not installed: pip install "evenglot[lightning]"'),
    ],
)
def test_either_package_will_do(absent, said):
    command = [sys.executable, "-c", IMPORTS, *absent]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == said
