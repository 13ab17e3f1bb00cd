"""The way from a prepared store to a trained model, and what does not belong together is refused before it begins."""

import json
import os
import re
import shutil

import pytest

from evenglot.balance import interval_strategies, save_baseline
from evenglot.config import load_config
from evenglot.corpus import artefacts, prepared, store
from evenglot.corpus.prepare import prepare
from evenglot.corpus.prepared import StoreError
from evenglot.progress import Bars
from evenglot.runs.model import load_model
from evenglot.runs.run import ChangedSettingsError, Run, RunError
from evenglot.training.step import TrainingError
from evenglot.training.train import train
from tests.counting import calls_of
from tests.logs import json_events
from tests.tasks import CONFIG, write_corpora


def events(run, name):
    return [event for event in json_events(run / "log.jsonl") if event["event"] == name]


def test_a_run_leaves_a_folder_that_can_be_read_and_used(configure, tmp_path):
    assert train(configure(), tmp_path / "run") == "updates"
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {".lock", "config.yaml", "log.jsonl", "checkpoints", "vocabulary"}
    assert {path.name for path in (tmp_path / "run" / "vocabulary").iterdir()} == {"source.model", "target.model"}
    losses = [event["loss"] for event in events(tmp_path / "run", "step")]
    assert losses[-1] < losses[0]
    assert load_model(Run(tmp_path / "run").best()).shape.dim == 32


def test_the_start_and_the_end_are_told_in_full(configure, tmp_path):
    train(configure(train={"intervals": 2, "updates": 100}), tmp_path / "run")
    start, end = events(tmp_path / "run", "config")[0], events(tmp_path / "run", "done")[0]
    assert start["directions"]["cc-en"]["pairs"] == 50
    assert start["directions"]["cc-en"]["total_passes"] == pytest.approx(2)
    assert start["updates"] == end["step"]
    assert end["reason"] == "intervals"
    assert (tmp_path / "run" / end["best_folder"]).is_dir()


def test_the_plan_of_a_mixture_that_fades_is_kept(configure, tmp_path):
    train(configure({"strategy": "fade", "passes": 3}, train={"intervals": 20, "updates": 1000}), tmp_path / "run")
    (start,), intervals = events(tmp_path / "run", "config"), events(tmp_path / "run", "interval")
    for name, facts in start["directions"].items():
        passes = sum(interval["pairs"][name] for interval in intervals) / facts["pairs"]
        assert facts["total_passes"] == pytest.approx(passes, rel=0.03)


@pytest.mark.parametrize("balance", [{"strategy": "proportional"}, {"strategy": "chi-ibr", "baseline": "auto"}])
def test_the_store_is_opened_validated_and_verified_once(configure, tmp_path, monkeypatch, balance):
    opened = calls_of(monkeypatch, prepared, "open_store")
    configs = calls_of(monkeypatch, store, "load_config")
    verified = calls_of(monkeypatch, artefacts, "verify")
    config = configure(balance, train={"updates": 2})
    train(config, tmp_path / "run")
    assert len(opened) == len(configs) == 1
    assert sorted(verified) == sorted((folder,) for folder in store.open_store(config.store.folder, False).artefacts)


# ----------------------------------------------------------------------------------------------------- refused


def test_another_folder_than_that_of_a_run_is_not_written_into(configure, tmp_path):
    (tmp_path / "config.yaml").write_text("# my own\n")
    with pytest.raises(RunError, match=f"{tmp_path}: .*--out"):
        train(configure(), tmp_path)
    assert (tmp_path / "config.yaml").read_text() == "# my own\n"


def test_a_store_of_other_settings_is_not_trained_on(configure, tmp_path):
    with pytest.raises(StoreError, match="vocabulary.tau"):
        train(configure(vocabulary={"tau": 2.0}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_strategy_that_needs_validation_text_is_refused_without(conf, tmp_path):
    for file in conf.parent.glob("*.*-en.*"):
        if not file.name.startswith("valid.bb"):
            shutil.copy(file, tmp_path)
    content = conf.read_text().replace("  valid: valid.{pair}.{lang}\n", "").replace("  test: test.{pair}.{lang}\n", "")
    (tmp_path / "conf.yaml").write_text(content)
    prepare(load_config(tmp_path / "conf.yaml"), Bars())
    declared = content.replace("data:\n", "data:\n  valid: valid.{pair}.{lang}\n")
    (tmp_path / "conf.yaml").write_text(declared)
    for balance in ({"strategy": "chi-ibr", "signal": "valid"}, {"strategy": "multidds"}):
        config = load_config(tmp_path / "conf.yaml", [f"balance={json.dumps(balance)}"], check_files=False)
        with pytest.raises(RunError, match=r"aa-en, bb-en, cc-en.*data\.valid"):
            train(config, tmp_path / "run")


@pytest.mark.parametrize(("key", "value"), [("unit", "character"), ("split", "valid"), ("label_smoothing", 0.0)])
def test_a_baseline_of_another_kind_is_refused(configure, tmp_path, key, value):
    about = {"unit": "token", "split": "train", "label_smoothing": 0.1, key: value}
    save_baseline(tmp_path / "b.json", {"aa-en": 1.0, "bb-en": 1.0, "cc-en": 1.0}, **about)
    balance = {"strategy": "chi-ibr", "baseline": str(tmp_path / "b.json")}
    with pytest.raises(RunError, match=rf"b\.json: .*{key} {value!r}"):
        train(configure(balance), tmp_path / "run")


def test_a_baseline_that_has_changed_is_noticed_on_resume(configure, tmp_path):
    losses = {"aa-en": 1.0, "bb-en": 1.0, "cc-en": 1.0}
    save_baseline(tmp_path / "b.json", losses)
    balance = {"strategy": "chi-ibr", "baseline": str(tmp_path / "b.json")}
    train(configure(balance, train={"updates": 3}), tmp_path / "run")
    save_baseline(tmp_path / "b.json", {**losses, "cc-en": 2.0})
    with pytest.raises(ValueError, match="^baseline: "):
        train(configure(balance, train={"updates": 6}), tmp_path / "run", resume=True)


def test_text_written_after_it_was_prepared_is_said_to_a_new_run(tmp_path, capsys):
    write_corpora(tmp_path)
    (tmp_path / "conf.yaml").write_text(CONFIG)
    prepare(load_config(tmp_path / "conf.yaml"), Bars())
    os.utime(tmp_path / "train.aa-en.aa", ns=(1, 1))

    def told(updates):
        config = load_config(tmp_path / "conf.yaml", [f"train.updates={updates}"], check_files=False)
        train(config, tmp_path / "run", resume=True)
        return "evenglot prepare" in capsys.readouterr().err

    assert told(1)
    assert not told(2), "to prepare the text anew would end the run"


def test_other_groups_are_noticed_on_resume(configure, tmp_path):
    train(configure(train={"updates": 3}), tmp_path / "run")
    with pytest.raises(ChangedSettingsError) as error:
        train(configure(data={"grouping": "source"}, train={"updates": 6}), tmp_path / "run", resume=True)
    assert error.value.keys == {"data.directions", "data.grouping"}


def test_a_linear_schedule_cannot_be_made_longer(configure, tmp_path):
    train(configure(train={"updates": 3, "schedule": "linear"}), tmp_path / "run")
    with pytest.raises(ChangedSettingsError) as error:
        train(configure(train={"updates": 6, "schedule": "linear"}), tmp_path / "run", resume=True)
    assert error.value.keys == {"train.updates"}


# ------------------------------------------------------------------------------------------------ went wrong


def test_a_run_that_diverged_goes_on_with_a_lower_rate(configure, tmp_path):
    wild = {"learning_rate": 1e18, "warmup": 0, "validate_every": 1, "save_every": 1, "updates": 6}
    with pytest.raises(TrainingError, match=r"^update \d: .*aa-en"):
        train(configure(train=wild), tmp_path / "run")
    tame = {**wild, "learning_rate": 1e-3}
    folder = tmp_path / "tame"
    train(configure(train={**tame, "updates": 2}), folder)
    with pytest.raises(TrainingError, match=r"--resume.*train\.learning_rate"):
        train(configure(train=wild), folder, resume=True)
    assert train(configure(train=tame), folder, resume=True) == "updates"
    assert events(folder, "resume")[-1]["step"] < 6


def test_what_looks_like_a_mistake_is_said(configure, tmp_path):
    train(configure(train={"updates": 3, "warmup": 10}), tmp_path / "run")
    assert events(tmp_path / "run", "warning")[0]["kind"] == "warmup"


@pytest.mark.parametrize(("strategy", "better"), [("chi-ibr", "interval-mean"), ("group-dro", "token-ema")])
def test_means_of_updates_that_are_a_batch_or_two_are_warned_of(configure, tmp_path, strategy, better):
    for settings, warned in (({"estimator": "ema"}, True), ({"estimator": better}, False)):
        folder = tmp_path / str(warned)
        train(configure({"strategy": strategy, **settings}, train={"updates": 1}), folder)
        said = [event["message"] for event in events(folder, "warning") if event["kind"] == "estimator"]
        assert [better in message for message in said] == [True] * warned


def test_a_ball_in_which_nothing_can_move_is_warned_of(configure, tmp_path, monkeypatch):
    def warned(folder, **options):
        train(configure({"strategy": "chi-ibr", **options}, train={"updates": 1}), tmp_path / folder)
        return [event["message"] for event in events(tmp_path / folder, "warning") if event["kind"] == "radius"]

    assert not warned("usual")
    monkeypatch.setattr(interval_strategies, "FAINT_TAU", 20)  # instead of a corpus that is tiny
    assert "cc-en" in warned("small")[0]
    assert not warned("wanted", max_upsample=5)
    assert not warned("around", center="uniform")


@pytest.mark.parametrize(
    ("key", "length"),
    [
        ("interval_pairs", None),
        pytest.param("interval_tokens", 6000, marks=pytest.mark.slow),
        pytest.param("interval_updates", 15, marks=pytest.mark.slow),
    ],
)
def test_a_game_of_few_rounds_is_warned_of_and_the_advice_is_good(configure, tmp_path, key, length):
    chi_ibr = {"strategy": "chi-ibr"}
    train(configure(chi_ibr, train={"updates": 60}, batches={key: length}), tmp_path / "run")
    (warning,) = [event["message"] for event in events(tmp_path / "run", "warning") if event["kind"] == "intervals"]
    assert f" {len(events(tmp_path / 'run', 'interval'))} times" in warning
    advised = int(re.search(rf"batches.{key}: (\d+) ", warning)[1])
    train(configure(chi_ibr, train={"updates": 60}, batches={key: advised}), tmp_path / "often")
    assert 15 <= len(events(tmp_path / "often", "interval")) <= 25
    train(configure({"strategy": "proportional"}, train={"updates": 60}), tmp_path / "fixed")
    for folder in ("often", "fixed"):
        assert "intervals" not in {event["kind"] for event in events(tmp_path / folder, "warning")}


@pytest.mark.parametrize(
    ("balance", "updates", "is_late"),
    [
        ({"strategy": "group-dro", "apply": "resample"}, 1001, True),
        ({"strategy": "multidds"}, 1001, True),
        ({"strategy": "group-dro", "apply": "resample"}, 1000, False),
        ({"strategy": "group-dro"}, 1001, False),  # it weights losses, at once
        ({"strategy": "chi-ibr"}, 1001, False),
    ],
)
def test_a_mixture_that_is_sampled_long_after_is_warned_of(configure, tmp_path, balance, updates, is_late):
    config = configure(balance, batches={"interval_updates": updates}, train={"updates": 1})
    train(config, tmp_path)
    said = [event["message"] for event in events(tmp_path, "warning") if event["kind"] == "lag"]
    assert ["1,000 updates" in message for message in said] == [True] * is_late
