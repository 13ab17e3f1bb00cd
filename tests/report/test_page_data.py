import json
import shutil
from dataclasses import replace

import pytest

from evenglot.config import load_config
from evenglot.report.history import Series, history
from evenglot.report.page_data import page_data, rounded, run_data, short_names, thinned
from evenglot.report.warnings import mean_shares, warnings
from evenglot.training.log import read_log
from evenglot.training.run import Run, open_prepared
from tests.report.synthetic import comparison, write_run, write_scores


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    run = write_run(tmp_path_factory.mktemp("runs") / "made", directions=3)
    write_scores(run, off_target=0.2)
    return run


def texts(data, kind):
    return [warning["text"] for warning in data["warnings"] if warning["kind"] == kind]


def events_of(run):
    return read_log(run.log_file)


def rewrite(run, events):
    run.log_file.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_the_table_has_what_the_log_and_the_scores_say(made):
    data = run_data(made, "made")
    story = history(events_of(made))
    assert [row["name"] for row in data["rows"]] == story.names
    for row in data["rows"]:
        name = row["name"]
        assert row["pairs"] == story.pairs[name]
        assert row["p"] == pytest.approx(story.p[name], rel=1e-3)
        assert row["passes"] == pytest.approx(story.passes[name], rel=1e-3)
        assert row["train"] == pytest.approx(story.train_losses.values[name][-1], rel=1e-3)
        assert row["valid"] == pytest.approx(story.valid_losses.values[name][-1], rel=1e-3)
    assert sum(row["share"] for row in data["rows"]) == pytest.approx(1, rel=1e-3)
    assert (data["rows"][0]["bleu"], data["rows"][0]["chrf"], data["rows"][0]["lines"]) == (30, 50, 500)
    assert data["state"] == "done"


def test_the_summary_says_what_was_trained_and_where_it_is_worst(made):
    data = run_data(made, "made")
    first, second, third = data["summary"]
    pairs = [row["pairs"] for row in data["rows"]]
    assert (
        f"12.3 million parameters, balanced by chi-ibr, trained in 21 min with 2,000 updates on {sum(pairs):,}" in first
    )
    assert f"3 directions, from {pairs[-1]:,} (aco-en) to {pairs[0]:,} (aaa-en)" in first
    assert "worst direction is aco-en with chrF++ 33.3, 8.3 below the average and 16.7 below the best, aaa-en" in second
    ratios = {row["name"]: row["share"] / row["p"] for row in data["rows"]}
    assert f"{max(ratios, key=ratios.get)} was favoured most" in third


def test_without_scores_the_summary_goes_by_validation(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    (run.folder / "scores.json").unlink()
    data = run_data(run, "copy")
    assert "It is not scored yet; its last validation loss is" in data["summary"][1]
    assert "run `evenglot score`" in texts(data, "scores")[0]
    assert data["scores"] is None


def test_mean_shares_weigh_each_mixture_by_how_long_it_held():
    mixture = Series((0, 10, 40), {"a": (0.5, 0.2, 0.8), "b": (0.5, 0.8, 0.2)})
    whole = mean_shares(mixture, since=0, until=50)
    assert whole["a"] == pytest.approx((10 * 0.5 + 30 * 0.2 + 10 * 0.8) / 50)
    assert sum(whole.values()) == pytest.approx(1)
    assert mean_shares(mixture, since=40, until=50)["a"] == pytest.approx(0.8)
    assert mean_shares(mixture, since=25, until=45)["a"] == pytest.approx((15 * 0.2 + 5 * 0.8) / 20)
    assert mean_shares(Series((0,), {"a": (1.0,)}), since=0, until=0) == {"a": 1.0}
    assert mean_shares(Series((), {}), since=0, until=10) == {}


def test_a_mixture_holds_until_the_last_update(made):
    mixture = run_data(made, "made")["series"]["mixture"]
    assert mixture["steps"][-1] == 2000
    assert all(values[-1] == values[-2] for values in mixture["values"].values())


def test_losses_the_strategy_goes_by_are_shown_where_there_is_a_baseline(made, tmp_path):
    assert "running" in run_data(made, "made")["series"]
    plain = run_data(write_run(tmp_path / "plain", baseline=False), "plain")
    assert "running" not in plain["series"]
    assert plain["baseline"] == {}


def test_warnings_of_training_are_sorted_by_kind(made):
    data = run_data(made, "made")
    assert "validation loss 4.000 has risen" in texts(data, "over-fitting")[0]
    assert len(texts(data, "off-target")) == 3
    assert "20 % of the translations" in texts(data, "off-target")[0]
    assert not texts(data, "unfinished")


def test_a_direction_that_gets_a_fraction_of_its_share_in_the_end_is_starved(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    events = events_of(run)
    p = {name: facts["p"] for name, facts in events[0]["directions"].items()}
    last, small = events[0]["updates"], min(p, key=p.get)
    for event in events:
        if event["event"] == "interval":
            late = event["step"] >= last // 2
            share = {small: p[small] / (6 if late else 1)}
            rest = {name: p[name] * (1 - share[small]) / (1 - p[small]) for name in p if name != small}
            event["mixture"] = event["target"] = {**rest, **share}
    rewrite(run, events)
    found = [warning for warning in warnings(history(events_of(run)), last, None) if warning.kind == "starved"]
    assert [small in warning.text and "6 times less" in warning.text for warning in found] == [True]


def test_a_corpus_that_was_not_read_once_is_told(made):
    story = history(events_of(made))
    names = story.names
    passes = {names[0]: 0.4, names[1]: 6.0, names[2]: 9.0}
    neglected = [each for each in warnings(replace(story, passes=passes), 2000, None) if each.kind == "unread"]
    assert [f"{names[0]}: about 60 % of its" in warning.text for warning in neglected] == [True]
    evenly = replace(story, passes=dict.fromkeys(names, 0.4))
    assert not [each for each in warnings(evenly, 2000, None) if each.kind == "unread"]


def test_a_run_that_did_not_end_is_told_unless_one_watches(tmp_path):
    run = write_run(tmp_path / "run", done=False)
    data = run_data(run, "run")
    assert data["state"] == "running"
    assert "still going on, or was killed" in texts(data, "unfinished")[0]
    assert not texts(run_data(run, "run", live=True), "unfinished")
    events = [*events_of(run), {"event": "done", "step": 2000, "reason": "stopped", "tokens": 1, "seconds": 1.0}]
    rewrite(run, events)
    data = run_data(run, "run")
    assert (data["state"], "was stopped after 2,000 updates" in texts(data, "unfinished")[0]) == ("stopped", True)


def test_a_folder_that_is_no_run_is_told_but_waited_for_when_watching(tmp_path):
    empty = Run(tmp_path / "empty")
    with pytest.raises(ValueError, match="empty: has no log yet"):
        page_data([empty])
    assert page_data([empty], live=True)["runs"][0]["state"] == "waiting"
    empty.folder.mkdir()
    for begun in ("", '{"event": "resu'):
        empty.log_file.write_text(begun)
        assert page_data([empty], live=True)["runs"][0]["state"] == "waiting"
    empty.log_file.write_text("nonsense\n{}\n")
    broken = page_data([empty], live=True)["runs"][0]
    assert (broken["state"], "log.jsonl:1" in broken["message"]) == ("broken", True)
    with pytest.raises(ValueError, match="log.jsonl:1: this line of the log is not JSON"):
        page_data([empty])


def test_scores_that_cannot_be_read_are_told(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    (run.folder / "scores.json").write_text("[]")
    with pytest.raises(ValueError, match="scores.json: cannot be read as scores"):
        run_data(run, "copy")


def test_texts_come_from_the_store_and_a_store_that_is_gone_does_no_harm(conf, made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    config = load_config(conf, check_files=False)
    config.save(run.config_file)
    folder = run.folder / "hypotheses" / "test"
    folder.mkdir(parents=True)
    lines = open_prepared(config).text("aa-en", "test", "target")
    (folder / "aa-en.en").write_text("".join(f"{line}\n" for line in lines))
    shown = run_data(run, "copy")["samples"]
    assert shown["split"] == "test"
    assert shown["directions"]["aa-en"]["best"]["translation"] in lines
    load_config(conf, [f"store.folder={tmp_path / 'gone'}"], check_files=False).save(run.config_file)
    (folder / "more.en").write_text("")  # the folder has changed, so nothing is remembered
    note = run_data(run, "copy")["samples"]["note"]
    assert "The texts cannot be shown" in note
    assert str(tmp_path) not in note


def test_a_log_that_has_just_begun_is_enough(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    (run.folder / "scores.json").unlink()
    rewrite(run, events_of(run)[:1])
    data = run_data(run, "copy", live=True)
    assert (data["state"], data["series"], data["progress"]["step"]) == ("running", {}, 0)
    assert [row["share"] for row in data["rows"]] == [None, None, None]
    assert "0 of 2,000 updates into its training" in data["summary"][0]


def test_runs_of_the_same_name_are_told_apart(tmp_path):
    folders = [tmp_path / "erm" / "seed-1", tmp_path / "chi" / "seed-1", tmp_path / "chi" / "seed-2"]
    assert short_names([Run(folder) for folder in folders]) == ["erm/seed-1", "chi/seed-1", "chi/seed-2"]
    assert short_names([Run(folders[0])]) == ["seed-1"]
    assert short_names([Run(folders[0]), Run(folders[0])]) == ["seed-1", "seed-1"]


def test_thinning_keeps_the_ends_and_the_table(made):
    data = page_data([made])
    thin = thinned(data, points=7, characters=50)
    before, after = data["runs"][0]["series"]["train"], thin["runs"][0]["series"]["train"]
    assert (len(before["steps"]), len(after["steps"]), after["of"]) == (40, 7, 40)
    assert (after["steps"][0], after["steps"][-1]) == (before["steps"][0], before["steps"][-1])
    for name, values in after["values"].items():
        assert values == [before["values"][name][before["steps"].index(step)] for step in after["steps"]]
    assert thin["runs"][0]["rows"] == data["runs"][0]["rows"]


def test_long_texts_are_cut_and_left_out_at_last(made):
    sample = {"source": "x" * 99, "reference": "y", "translation": "z", "chrf": 1.0}
    data = page_data([made])
    data["runs"][0]["samples"] = {"split": "test", "directions": {"a-b": {"best": sample, "looked_at": 3}}}
    best = thinned(data, points=9, characters=20)["runs"][0]["samples"]["directions"]["a-b"]["best"]
    assert best == {**sample, "source": "x" * 19 + "…"}
    assert "left out" in thinned(data, points=9, characters=0)["runs"][0]["samples"]["note"]


def test_numbers_are_short_and_finite():
    odd = {"a": [1.23456789, float("nan"), float("inf"), None, 123456.0], "b": (3, "x", True)}
    assert rounded(odd) == {"a": [1.235, None, None, None, 123500.0], "b": [3, "x", True]}


def test_a_comparison_becomes_lists_in_the_order_of_its_directions():
    given = comparison(directions=5, strategies=5)
    data = page_data([], comparison=given)["comparison"]
    names = [direction["name"] for direction in data["directions"]]
    assert names == list(given["directions"])
    row, source = data["rows"][-1], given["rows"][-1]
    for key in ("bleu", "loss"):
        expected = source["difference"][key]["directions"][names[2]]
        difference, low, high, p_holm = row["difference"][key]["directions"][2]
        assert [difference, low, high] == pytest.approx([expected["difference"], *expected["interval"]], abs=1e-3)
        assert p_holm == expected["p_holm"]
        mean = source["scores"][key]["directions"][names[2]]["mean"]
        assert row["scores"][key]["directions"][2] == pytest.approx(mean, abs=1e-3)
    assert data["rows"][0]["difference"] is None
    best = max(given["rows"], key=lambda each: each["scores"]["bleu"]["mean"]["mean"])
    assert data["summary"]["bleu"].startswith(f"BLEU: {best['name']} is best on average")


def test_lower_losses_are_better_in_the_words_of_a_comparison():
    given = comparison(directions=4, strategies=3)
    for number, row in enumerate(given["rows"]):
        row["scores"]["loss"]["mean"] = {"mean": [1.2, 0.9, 1.1][number], "sd": None}
        row["scores"]["loss"]["worst"] |= {"mean": [1.5, 1.6, 1.3][number], "sd": None}
        if row["difference"]:
            value = [None, -0.3, -0.1][number]
            interval = [value - 0.2, value + 0.2]
            row["difference"]["loss"] |= {"mean": {"difference": value, "interval": interval}, "harmed": []}
    told = page_data([], comparison=given)["comparison"]["summary"]["loss"]
    assert "temperature-2 is best on average (0.9000), temperature-5 by its worst direction (1.3000)" in told
    assert "Beyond chance, temperature-2 is better on average than erm. No direction is harmed." in told
