"""Reference losses: computed, written, used; and the run that is trained for them."""

import json
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from evenglot.balance import Signal
from evenglot.cli import app
from evenglot.config import load_config
from evenglot.progress import Bars
from evenglot.runs.checkpoint import Checkpoint, DamagedCheckpointError, fingerprint, save
from evenglot.runs.checkpoint_folder import checkpoints
from evenglot.runs.model import load_model
from evenglot.runs.run import ChangedSettingsError, Run, RunError
from evenglot.training.parallel import Processes
from evenglot.training.reference import baseline, reference_cost
from evenglot.training.train import train
from tests.counting import calls_of
from tests.training.commands import Tripwire, tensors, without_times
from tests.training.helpers import events, store_of, total_loss

NAMES = ["aa-en", "bb-en", "cc-en"]
TOKENS_OF_TRAINING_TEXT = Signal()
SHORT = {"interval_pairs": 300}
LABELS = [{"src": "aa", "tgt": "en", "label": "large"}, {"from": ["bb", "cc"], "to": "en", "label": "small"}]


@pytest.fixture(scope="module")
def reference(conf, tmp_path_factory):
    """A run of which the best checkpoint is not the last: config and folder."""
    overrides = ["train.updates=10", "train.save_every=4", "train.validate_every=4", "train.label_smoothing=0.2"]
    config, folder = load_config(conf, overrides, check_files=False), tmp_path_factory.mktemp("reference") / "run"
    train(config, folder)
    early, *_ = found = checkpoints(folder / "checkpoints")
    content = early.read()
    save(folder / "checkpoints", 11, model=content.model, optimizer=None, state=content.state, score=99.0)
    assert Run(folder).best().step == found[-1].step == 10
    return config, folder


def compute(folder, out, signal=TOKENS_OF_TRAINING_TEXT):
    losses = baseline(Run(folder), out, signal, Processes(), Bars())
    assert json.loads(out.read_text())["losses"] == losses
    return losses


def test_the_checkpoint_is_read_once(reference, tmp_path, monkeypatch):
    reads = calls_of(monkeypatch, Checkpoint, "read")
    compute(reference[1], tmp_path / "losses.json")
    assert [each.step for (each,) in reads] == [10]


def naive(config, folder, split="train"):
    """Summed losses and tokens of each direction under the best model, one sentence at a time."""
    model, store = load_model(Run(folder).best()), store_of(config)
    return {name: total_loss(model, store.corpus(name, split), 0.2) for name in NAMES}


# ------------------------------------------------------------------------------------------------- computed


def test_reference_losses_are_token_means_over_training_text_without_dropout(reference, tmp_path):
    losses = compute(reference[1], tmp_path / "losses.json")
    expected = {name: loss / tokens for name, (loss, tokens) in naive(*reference).items()}
    assert losses == pytest.approx(expected, rel=1e-5)


def test_they_may_be_of_characters_of_validation_text(reference, conf, tmp_path):
    losses = compute(reference[1], tmp_path / "losses.json", Signal("valid", "character"))
    for name, (loss, _) in naive(*reference, "valid").items():
        text = (conf.parent / f"valid.{name}.en").read_text().splitlines()
        assert losses[name] == pytest.approx(loss / sum(len(line) + 1 for line in text), rel=1e-5)


def test_the_file_says_what_the_losses_are_of(reference, tmp_path):
    compute(reference[1], tmp_path / "losses.json", Signal("valid"))
    best = Run(reference[1]).best()
    about = json.loads((tmp_path / "losses.json").read_text())["about"]
    assert about["model"] == fingerprint(best)
    assert (about["step"], about["split"], about["unit"]) == (best.step, "valid", "token")
    assert about["label_smoothing"] == 0.2
    assert about["store"] == store_of(reference[0]).fingerprint


def test_groups_have_the_token_means_of_their_directions_together(reference, configure, tmp_path):
    shutil.copytree(reference[1], tmp_path / "run")
    config = configure(data={"directions": LABELS, "grouping": "label"}, train={"label_smoothing": 0.2})
    config.save(tmp_path / "run" / "config.yaml")
    losses = compute(tmp_path / "run", tmp_path / "losses.json")
    sums, tokens = zip(*(naive(*reference)[name] for name in ("bb-en", "cc-en")), strict=True)
    assert set(losses) == {*NAMES, "large", "small"}
    assert losses["small"] == pytest.approx(sum(sums) / sum(tokens), rel=1e-5)
    assert losses["large"] == losses["aa-en"]


def test_a_folder_without_a_model_is_refused(reference, tmp_path):
    Run(reference[1]).config().save(tmp_path / "config.yaml")
    with pytest.raises(RunError, match=f"^{tmp_path}: .*checkpoint"):
        compute(tmp_path, tmp_path / "losses.json")
    assert not (tmp_path / "losses.json").exists()


# ----------------------------------------------------------------------------------------------------- used


def test_a_file_of_reference_losses_is_what_the_balancer_uses(configure, tmp_path):
    losses = {"aa-en": 1.0, "bb-en": 2.5, "cc-en": 1.25, "dd-en": 9.0}  # more than we have, which is no matter
    (tmp_path / "losses.json").write_text(json.dumps({"losses": losses}))
    balance = {"strategy": "chi-ibr", "baseline": str(tmp_path / "losses.json")}
    train(configure(balance, batches=SHORT, train={"updates": 4}), tmp_path / "run")
    assert events(tmp_path / "run", "balance")[0]["baseline"] == {name: losses[name] for name in NAMES}


def test_a_direction_without_a_reference_loss_is_an_error_before_anything_is_done(configure, tmp_path):
    (tmp_path / "losses.json").write_text(json.dumps({"losses": {"aa-en": 1.0, "cc-en": 2.0}}))
    config = configure({"strategy": "chi-ibr", "baseline": str(tmp_path / "losses.json")})
    with pytest.raises(ValueError, match="^baseline: .*bb-en"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "log.jsonl").exists()
    assert not (tmp_path / "run" / "config.yaml").exists()


# ------------------------------------------------------------------------------------------- trained for it

AUTO = {"strategy": "chi-ibr", "baseline": "auto"}


@pytest.fixture(scope="module")
def automatic(conf, tmp_path_factory):
    """A run with a reference of its own: its overrides and its folder."""
    overrides = [f"balance={json.dumps(AUTO)}", "batches.interval_pairs=300", "train.updates=8", "train.log_every=1"]
    folder = tmp_path_factory.mktemp("automatic") / "run"
    assert train(load_config(conf, overrides, check_files=False), folder) == "updates"
    return overrides, folder


def test_auto_trains_a_reference_on_the_data_as_they_are_and_uses_its_losses(automatic, tmp_path):
    folder = automatic[1]
    shown = events(folder / "reference", "interval")
    assert len(shown) > 1
    assert all(event["mixture"] == {"aa-en": 0.75, "bb-en": 0.1875, "cc-en": 0.0625} for event in shown)
    assert events(folder / "reference", "done")[0]["step"] == events(folder, "done")[0]["step"] == 8
    losses = json.loads((folder / "baseline.json").read_text())["losses"]
    assert losses == compute(folder / "reference", tmp_path / "again.json")
    for event in events(folder, "balance"):
        assert event["baseline"] == losses


def test_doubts_are_told_before_a_reference_run_is_paid_for(conf, tmp_path, capsys):
    overrides = [f"balance={json.dumps(AUTO)}", "batches.interval_pairs=300", "train.updates=4"]
    train(load_config(conf, overrides, check_files=False), tmp_path / "run")
    told = " ".join(capsys.readouterr().err.split())
    assert "too few for it to adapt" in told[: told.index("Planned training data")]
    assert [event["kind"] for event in events(tmp_path / "run", "warning")].count("intervals") == 1


def test_the_folder_is_enough_to_resume_where_only_the_reference_has_begun(automatic, conf, tmp_path, monkeypatch):
    overrides, whole = automatic
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Tripwire())
        assert train(load_config(conf, overrides, check_files=False), run) == "stopped"
    assert not (run / "log.jsonl").exists()
    assert CliRunner().invoke(app, ["train", "--resume", str(run)]).exit_code == 0
    assert tensors(run) == tensors(whole)


def test_a_resume_does_not_train_a_finished_reference_again(automatic, conf, tmp_path):
    overrides, finished = automatic
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    before = {name: (folder / name).read_bytes() for name in ("baseline.json", "reference/log.jsonl")}
    train(load_config(conf, [*overrides, "train.updates=11"], check_files=False), folder, resume=True)
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert events(folder, "done")[-1]["step"] == 11
    assert events(folder, "balance")[-1]["baseline"] == json.loads(before["baseline.json"])["losses"]


def test_a_resume_goes_on_where_the_reference_was_done_but_not_its_losses(automatic, conf, tmp_path):
    overrides, finished = automatic
    folder = tmp_path / "run"
    shutil.copytree(finished / "reference", folder / "reference")
    train(load_config(conf, overrides, check_files=False), folder, resume=True)
    again, before = (json.loads((each / "baseline.json").read_text()) for each in (folder, finished))
    assert without_times(again) == without_times(before)
    assert [event["step"] for event in events(folder / "reference", "step")] == list(range(1, 9))  # none twice
    losses = [[event["loss"] for event in events(each, "step")] for each in (finished, folder)]
    assert losses[0] == losses[1]


def test_a_resume_needs_the_losses_of_the_reference_not_its_checkpoints(automatic, conf, tmp_path):
    overrides, finished = automatic
    shutil.copytree(finished, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "reference" / "checkpoints")
    train(load_config(conf, [*overrides, "train.updates=9"], check_files=False), tmp_path / "run", resume=True)
    assert events(tmp_path / "run", "done")[-1]["step"] == 9


def test_without_resume_a_finished_reference_is_not_overwritten(automatic, conf, tmp_path):
    overrides, finished = automatic
    shutil.copytree(finished / "reference", tmp_path / "run" / "reference")
    with pytest.raises(RunError, match=f"^{tmp_path / 'run' / 'reference'}: "):
        train(load_config(conf, overrides, check_files=False), tmp_path / "run")
    assert checkpoints(tmp_path / "run" / "reference" / "checkpoints")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"p_unit": "tokens"}, id="shares of tokens"),
        pytest.param({"max_passes": 40}, id="a limit on passes"),
        pytest.param({"signal": "valid", "loss_per": "character"}, id="validation"),
    ],
)
def test_auto_goes_with_every_other_option(configure, tmp_path, options):
    train(configure({**AUTO, **options}, batches=SHORT, train={"updates": 4, "intervals": 3}), tmp_path)
    written = json.loads((tmp_path / "baseline.json").read_text())
    assert events(tmp_path, "balance")[0]["baseline"] == {name: written["losses"][name] for name in NAMES}
    assert written["about"]["split"] == options.get("signal", "train")
    assert written["about"]["unit"] == options.get("loss_per", "token")


def test_auto_with_another_mixture(configure, tmp_path):
    config = configure({**AUTO, "baseline": "auto:uniform"}, batches=SHORT, train={"updates": 4})
    train(config, tmp_path / "run")
    (shown, *_) = events(tmp_path / "run" / "reference", "interval")
    assert shown["mixture"] == pytest.approx(dict.fromkeys(NAMES, 1 / 3))
    losses = compute(tmp_path / "run" / "reference", tmp_path / "again.json")
    assert events(tmp_path / "run", "balance")[0]["baseline"] == losses
    assert reference_cost(config, Run(tmp_path / "run")).updates == 4
    train(
        configure({**AUTO, "baseline": "auto:uniform"}, batches=SHORT, train={"updates": 5}),
        tmp_path / "run",
        resume=True,
    )
    assert events(tmp_path / "run", "done")[-1]["step"] == 5


def test_the_reference_can_have_a_schedule_and_a_length_of_its_own(configure, tmp_path):
    own = {"train": {"schedule": "inverse-sqrt", "updates": 3}}
    mine = {"updates": 5, "schedule": "step", "warmup": 1, "log_every": 1}
    settings = {"train": mine, "batches": SHORT, "reference_run": own}
    train(configure(AUTO, **settings), tmp_path / "run")
    reference, run = Run(tmp_path / "run" / "reference"), Run(tmp_path / "run")
    assert reference.config().train == run.config().train.model_copy(update=own["train"])
    assert [events(each.folder, "done")[0]["step"] for each in (reference, run)] == [3, 5]
    rates = [[event["learning_rate"] for event in events(each.folder, "step")] for each in (reference, run)]
    assert rates[0] != rates[1][:3]
    train(configure(AUTO, **settings), tmp_path / "run", resume=True)  # nothing has changed
    with pytest.raises(ChangedSettingsError):
        train(configure(AUTO, **{**settings, "reference_run": {}}), tmp_path / "run", resume=True)


def test_auto_goes_with_groups_of_several_directions(configure, tmp_path):
    data = {"directions": LABELS, "grouping": "label"}
    train(configure(AUTO, data=data, batches=SHORT, train={"updates": 4}), tmp_path)
    losses = json.loads((tmp_path / "baseline.json").read_text())["losses"]
    expected = {"aa-en": losses["large"], "bb-en": losses["small"], "cc-en": losses["small"]}
    assert events(tmp_path, "balance")[0]["baseline"] == expected


# ------------------------------------------------------------------------------------------- from a command line


def test_the_command_writes_the_losses_of_a_run(reference, tmp_path):
    done = CliRunner().invoke(app, ["baseline", str(reference[1]), "--out", str(tmp_path / "losses.json")])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "losses.json").read_text())["losses"] == compute(reference[1], tmp_path / "own.json")
    assert all(name in done.stdout for name in NAMES)


def test_the_command_refuses_a_folder_that_is_no_run_in_one_line(tmp_path):
    command = [sys.executable, "-m", "evenglot", "baseline", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{tmp_path}: " in done.stderr
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------- which checkpoint


def test_another_checkpoint_can_be_named(reference, tmp_path):
    baseline(Run(reference[1]), tmp_path / "losses.json", Signal(), Processes(), Bars(), which="11")
    assert json.loads((tmp_path / "losses.json").read_text())["about"]["checkpoint"] == "step-00000011"
    file = tmp_path / "again.json"
    done = CliRunner().invoke(app, ["baseline", str(reference[1]), "--which", "11", "--out", str(file)])
    assert done.exit_code == 0, done.output
    assert json.loads(file.read_text())["losses"] == json.loads((tmp_path / "losses.json").read_text())["losses"]


def test_a_damaged_best_one_is_not_replaced_by_another(reference, tmp_path):
    shutil.copytree(reference[1], tmp_path / "run")
    run = Run(tmp_path / "run")
    (run.best().folder / "state.json").write_text("{")
    with pytest.raises(DamagedCheckpointError, match="step-00000010"):
        baseline(run, tmp_path / "losses.json", Signal(), Processes(), Bars())
    baseline(run, tmp_path / "losses.json", Signal(), Processes(), Bars(), which="last")
    assert json.loads((tmp_path / "losses.json").read_text())["about"]["step"] == 11
