"""The demo does what it says, on the real corpus; the whole of it, with a model that has learnt, is a slow test."""

import json
from io import StringIO

import pytest
from rich.console import Console

from evenglot.config import load_config
from evenglot.corpus.prepared import open_prepared
from evenglot.demo import MINUTES, UPDATES_A_MINUTE, run_demo
from evenglot.directions import parse
from evenglot.inference.engines import SearchOptions, TorchEngine
from evenglot.inference.translate import Translator
from evenglot.model.devices import usable_device
from evenglot.runs.run import Run
from evenglot.scoring.scorer import Scorer
from evenglot.training.model import create_model
from tests.logs import json_events

LANGUAGES = ("por", "tur", "ces", "slk", "glg")


def demo(out, minutes):
    console = Console(file=StringIO(), width=80)
    run_demo(out, minutes, console)
    return console.file.getvalue()


def untrained_chrf(run: Run) -> dict[str, float]:
    """chrF++ of the model before its first update."""
    config = run.config()
    store = open_prepared(config)
    model = create_model(config, store)
    translator = Translator(
        TorchEngine(model, usable_device("cpu")), store.tokenizers, config.data.directions, model.max_positions
    )
    found = {}
    for name in store.directions:
        best = translator.stream(store.text(name, "test", "source"), parse(name), SearchOptions(beam=1, max_length=40))
        texts = [each[0].text for each in best]
        found[name] = Scorer().score(texts, store.text(name, "test", "target")).scores["chrf"]
    return found


def test_every_step_leaves_what_it_should_and_a_second_start_does_nothing_again(tmp_path):
    said = demo(tmp_path, 0.15)
    assert max(len(line) for line in said.splitlines() if str(tmp_path) not in line) <= 120  # a path may be long
    assert "…" not in said
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    for word in ("erm", "fade", "chi-ibr", *LANGUAGES):
        assert word in said
        assert word in report
    logs = {name: json_events(tmp_path / name / "log.jsonl") for name in ("erm", "fade", "chi-ibr")}
    assert {events[-1]["step"] for events in logs.values()} == {round(0.15 * UPDATES_A_MINUTE)}
    configs = [load_config(tmp_path / name / "config.yaml", check_files=False) for name in logs]
    assert [config.balance.strategy for config in configs] == ["proportional", "fade", "chi-ibr"]
    assert all((config.seed, config.train) == (configs[0].seed, configs[0].train) for config in configs)
    baselines = [event["baseline"] for event in logs["chi-ibr"] if event["event"] == "balance"]
    assert logs["chi-ibr"][0]["reference"]["updates"] == logs["erm"][-1]["step"]
    assert all(loss is not None for losses in baselines for loss in losses.values())
    assert "evenglot train conf.yaml" in said

    again = demo(tmp_path, 0.15)
    assert {name: json_events(tmp_path / name / "log.jsonl") for name in logs} == logs
    assert "chrF++ (test)" in again


@pytest.mark.slow
def test_all_models_have_learnt_every_language(tmp_path):
    demo(tmp_path, MINUTES)
    nothing = untrained_chrf(Run(tmp_path / "erm"))
    for name in ("erm", "fade", "chi-ibr"):
        scores = json.loads((tmp_path / name / "scores.json").read_text())
        for direction, before in nothing.items():
            assert scores["directions"][direction]["chrf"] > before + 10, (name, direction)
