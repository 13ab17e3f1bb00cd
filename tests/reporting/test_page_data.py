import json
import re
import shutil
from dataclasses import replace

import pytest

from evenglot import yaml12
from evenglot.comparison.tables import verdict
from evenglot.config import load_config
from evenglot.corpus.prepared import open_prepared
from evenglot.reporting.page import write_report
from evenglot.reporting.page_data import page_data, rounded, run_data, short_names, thinned, unique_names
from evenglot.reporting.warnings import mean_shares, warnings
from evenglot.runs.history import Series, history
from evenglot.runs.log import read_log
from evenglot.runs.run import Run
from tests.logs import json_events
from tests.reporting.synthetic import comparison, write_run, write_scores


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    run = write_run(tmp_path_factory.mktemp("runs") / "made", directions=3)
    write_scores(run, off_target=0.2)
    return run


def texts(data, kind):
    return [warning["text"] for warning in data["warnings"] if warning["kind"] == kind]


def events_of(run):
    return json_events(run.log_file)


def rewrite(run, events):
    run.log_file.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_the_table_has_what_the_log_and_the_scores_say(made):
    data = run_data(made, "made")
    story = history(read_log(made.log_file))
    assert [row["name"] for row in data["rows"]] == story.names
    for row in data["rows"]:
        name = row["name"]
        assert row["pairs"] == story.pairs[name]
        assert row["p"] == pytest.approx(story.p[name], rel=1e-3)
        assert row["passes"] == pytest.approx(story.passes[name], rel=1e-3)
        assert row["train"] == pytest.approx(story.train_losses.values[name][-1], rel=1e-3)
        assert row["valid"] == pytest.approx(story.valid_losses.values[name][-1], rel=1e-3)
    assert sum(row["share"] for row in data["rows"]) == pytest.approx(1, rel=1e-3)
    assert data["scores"]["low_resource"]["chrf"] == data["scores"]["macro"]["chrf"]  # as in the file
    assert (data["rows"][0]["bleu"], data["rows"][0]["chrf"], data["rows"][0]["lines"]) == (30, 50, 500)
    assert data["state"] == "done"


def test_the_summary_says_what_was_trained_and_where_it_is_worst(made):
    data = run_data(made, "made")
    first, second, third = data["summary"]
    pairs = [row["pairs"] for row in data["rows"]]
    for fact in ("12.3 million", "chi-ibr", "21 min", "2,000 updates", f"{sum(pairs):,}", "3 directions"):
        assert fact in first
    assert first.index(f"{pairs[-1]:,} (aco-en)") < first.index(f"{pairs[0]:,} (aaa-en)")
    worst = second[second.index("aco-en") :]  # the worst direction, its distance to the mean and to the best
    assert [float(number) for number in re.findall(r"\d+\.\d", worst)] == [33.3, 8.3, 16.7]
    assert "aaa-en" in worst
    ratios = {row["name"]: row["share"] / row["p"] for row in data["rows"]}
    assert third.index(max(ratios, key=ratios.get)) < third.index(min(ratios, key=ratios.get))


def test_where_losses_are_weighed_nothing_is_said_to_be_shown_more_often(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    run.log_file.write_text(run.log_file.read_text().replace('"strategy": "chi-ibr"', '"strategy": "group-dro"'))
    data = run_data(run, "copy")
    assert data["reweights"]
    assert "weight" in data["summary"][2]
    assert not any("sampled at" in sentence for sentence in data["summary"])


def test_no_direction_is_the_worst_if_all_have_the_same_score(tmp_path):
    run = write_run(tmp_path / "run", directions=3)
    write_scores(run)
    scores = json.loads((run.folder / "scores.json").read_text())
    for row in (*scores["directions"].values(), scores["macro"], scores["worst"]):
        row["chrf"] = 0.0
    (run.folder / "scores.json").write_text(json.dumps(scores))
    assert "worst" not in run_data(run, "run")["summary"][1]


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


def test_losses_the_strategy_goes_by_are_shown_if_it_goes_by_any(made, tmp_path):
    assert "running" in run_data(made, "made")["series"]
    run = write_run(tmp_path / "plain", baseline=False)
    plain = run_data(run, "plain")
    assert ("running" in plain["series"], plain["baseline"]) == (True, {})
    events = events_of(run)
    events[0]["strategy"] = "temperature"
    rewrite(run, events)
    assert "running" not in run_data(run, "plain")["series"]


def test_a_strategy_that_this_version_does_not_know_is_reported_without_running_losses(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    events = events_of(run)
    events[0]["strategy"] = "of-another-version"
    events[0]["config"]["balance"] = {"strategy": "of-another-version", "apply": "reweight"}
    rewrite(run, events)
    data = run_data(run, "copy")
    assert "running" not in data["series"]
    assert not data["reweights"]


def test_a_report_tells_nothing_about_the_machine(conf, made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "runs" / "chi"))
    balance = {"strategy": "chi-ibr", "baseline": str(run.folder.parent / "erm" / "baseline.json")}
    config = load_config(conf, [f"balance={json.dumps(balance)}"], check_files=False)
    config.save(run.config_file)
    events = events_of(run)
    events[0]["config"] = config.model_dump(mode="json", by_alias=True)
    rewrite(run, events)
    data = run_data(run, "chi")
    assert "baseline erm/baseline.json" in dict(data["facts"])["strategy options"]
    shown = yaml12.parse(data["config"])[0]
    assert (shown["balance"]["baseline"], shown["data"]["train"]) == ("erm/baseline.json", "train.{pair}.{lang}")
    assert str(tmp_path) not in json.dumps(data)
    assert str(conf.parent) not in json.dumps(data)
    run.config_file.write_text("a: [")
    assert run_data(run, "chi")["config"] == ""


def test_versions_are_among_the_details_if_the_log_has_them(made, tmp_path):
    assert "libraries" not in dict(run_data(made, "made")["facts"])
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    events = events_of(run)
    events[0]["versions"] = {"python": "3.12.1", "torch": "2.5.0"}
    rewrite(run, events)
    assert dict(run_data(run, "copy")["facts"])["libraries"] == "python 3.12.1, torch 2.5.0"


def test_warnings_of_training_are_sorted_by_kind(made):
    data = run_data(made, "made")
    assert "4.000" in texts(data, "over-fitting")[0]
    assert len(texts(data, "off-target")) == 3
    assert "20 %" in texts(data, "off-target")[0]
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
    found = [warning for warning in warnings(history(read_log(run.log_file)), last, None) if warning.kind == "starved"]
    assert [small in warning.text and " 6 times" in warning.text for warning in found] == [True]


def test_the_worst_direction_is_told_if_it_is_sampled_least_at_the_end(made):
    story = history(read_log(made.log_file))
    first, *others = story.names

    def told(worst, least, per="character", worst_per_token=None):
        def losses(worst):
            return Series((2000,), {name: (3.0 if name == worst else 2.0,) for name in story.names})

        shares = {name: (0.1 if name == least else 0.45,) for name in story.names}
        changed = replace(
            story,
            valid_losses=losses(worst_per_token or worst),
            valid_losses_per_character=losses(worst) if per == "character" else Series((), {}),
            mixture=Series((0,), shares),
        )
        return [each.text for each in warnings(changed, 2000, None) if each.kind == "sampled least"]

    assert [text.startswith(first) for text in told(first, first)] == [True]
    assert told(first, others[0]) == []
    assert ["per token" in text for text in told(first, first, per="token")] == [True]
    assert told(others[0], first, worst_per_token=first) == [], "losses per token of several languages differ by nature"


def test_a_corpus_that_was_not_read_once_is_told(made):
    story = history(read_log(made.log_file))
    names = story.names
    passes = {names[0]: 0.4, names[1]: 6.0, names[2]: 9.0}
    neglected = [each for each in warnings(replace(story, passes=passes), 2000, None) if each.kind == "unread"]
    assert [re.match(rf"{names[0]}: \D*60 %", warning.text) is not None for warning in neglected] == [True]
    evenly = replace(story, passes=dict.fromkeys(names, 0.4))
    assert not [each for each in warnings(evenly, 2000, None) if each.kind == "unread"]


def test_a_run_that_did_not_end_is_told_unless_one_watches(tmp_path):
    run = write_run(tmp_path / "run", done=False)
    data = run_data(run, "run")
    assert data["state"] == "running"
    assert "2,000" in texts(data, "unfinished")[0]
    assert not texts(run_data(run, "run", live=True), "unfinished")
    events = [*events_of(run), {"event": "done", "step": 2000, "reason": "stopped", "tokens": 1, "seconds": 1.0}]
    rewrite(run, events)
    data = run_data(run, "run")
    assert (data["state"], "2,000" in texts(data, "unfinished")[0]) == ("stopped", True)


def test_a_folder_that_is_no_run_is_told_but_waited_for_when_watching(tmp_path):
    empty = Run(tmp_path / "empty")
    with pytest.raises(ValueError, match="empty: no such folder$"):
        page_data([empty])
    assert page_data([empty], live=True)["runs"][0]["state"] == "waiting"
    empty.folder.mkdir()
    for begun in ("", '{"event": "resu'):
        empty.log_file.write_text(begun)
        assert page_data([empty], live=True)["runs"][0]["state"] == "waiting"
    empty.log_file.write_text("nonsense\n{}\n")
    broken = page_data([empty], live=True)["runs"][0]
    assert (broken["state"], "log.jsonl:1" in broken["message"]) == ("broken", True)
    with pytest.raises(ValueError, match="log.jsonl:1: "):
        page_data([empty])


def test_the_time_of_an_unfinished_run_goes_to_its_last_event(tmp_path):
    """Also before the first `step` event, which in a short run is late; a pause before a resume does not count."""
    run = write_run(tmp_path / "run", done=False)
    config = json.loads(run.log_file.read_text().splitlines()[0])
    losses = dict.fromkeys(config["directions"], 1.0)
    later = [
        {"event": "validation", "step": 30, "loss": losses, "time": "2026-01-01T00:01:00+00:00"},
        {
            "event": "step",
            "step": 50,
            "losses": losses,
            "tokens": 9,
            "seconds": 90,
            "time": "2026-01-01T00:01:31+00:00",
        },
        {"event": "resume", "step": 50, "time": "2026-01-03T00:00:00+00:00"},
        {"event": "validation", "step": 60, "loss": losses, "time": "2026-01-03T00:00:30+00:00"},
    ]
    seconds = []
    for count in range(len(later) + 1):
        run.log_file.write_text("".join(json.dumps(event) + "\n" for event in [config, *later[:count]]))
        seconds.append(run_data(run, "run", live=True)["progress"]["seconds"])
    assert seconds == [0, 60, 90, 90, 120]


@pytest.mark.parametrize("time", ["", "yesterday", "2026-01-01T00:02:00"])
def test_the_time_of_an_unfinished_run_needs_no_clock(tmp_path, time):
    run = write_run(tmp_path / "run", done=False)
    config = json.loads(run.log_file.read_text().splitlines()[0])
    losses = dict.fromkeys(config["directions"], 1.0)
    later = [
        {"event": "step", "step": 50, "losses": losses, "seconds": 90, "time": "2026-01-01T00:01:31+00:00"},
        {"event": "validation", "step": 60, "loss": losses, "time": time},
    ]
    run.log_file.write_text("".join(json.dumps(event) + "\n" for event in [config, *later]))
    assert run_data(run, "run", live=True)["progress"]["seconds"] == 90


def test_a_run_that_waits_for_its_reference_run_says_so(tmp_path):
    run = Run(tmp_path / "run")
    before = run_data(run, "run", live=True)
    write_run(run.reference.folder, done=False)
    after = run_data(run, "run", live=True)
    assert before["state"] == after["state"] == "waiting"
    assert "reference" in after["message"]
    assert "reference" not in before["message"]


def test_a_model_that_barely_translates_is_told(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "run"))
    assert texts(run_data(run, "run"), "barely translates") == []
    scores = json.loads((run.folder / "scores.json").read_text())
    scores["macro"]["bleu"] = 2.94
    (run.folder / "scores.json").write_text(json.dumps(scores))
    (text,) = texts(run_data(run, "run"), "barely translates")
    assert "2.9" in text


@pytest.mark.parametrize(("scored_at", "told"), [(2000, 0), (1000, 1)])
def test_scores_of_an_earlier_checkpoint_are_told(made, tmp_path, scored_at, told):
    run = Run(shutil.copytree(made.folder, tmp_path / "run"))
    scores = json.loads((run.folder / "scores.json").read_text())
    (run.folder / "scores.json").write_text(json.dumps({**scores, "made": {"which": "best", "step": scored_at}}))
    *events, done = run.log_file.read_text().splitlines()
    done = json.dumps({**json.loads(done), "best_step": 2000})
    run.log_file.write_text("\n".join([*events, done]) + "\n")
    found = texts(run_data(run, "run"), "scores")
    assert len(found) == told
    assert all("1,000 updates" in text for text in found)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"made": {"which": "best", "step": "1000"}}, r"made\.step"),
        ({"low_resource": {"directions": ["aaa-en"], "chrf": "high"}, "high_resource": {}}, "no number for chrf"),
    ],
)
def test_numbers_of_scores_that_are_none_are_refused(made, tmp_path, damage, told):
    run = Run(shutil.copytree(made.folder, tmp_path / "run"))
    scores = json.loads((run.folder / "scores.json").read_text())
    (run.folder / "scores.json").write_text(json.dumps({**scores, **damage}))
    with pytest.raises(ValueError, match=rf"scores\.json: .*{told}"):
        run_data(run, "run")


def test_scores_that_cannot_be_read_are_told(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    (run.folder / "scores.json").write_text("[]")
    with pytest.raises(ValueError, match="scores.json: "):
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
    (folder / "aa-en.en").rename(folder / "aa-xx.xx")  # a direction that this store does not have
    empty = run_data(run, "copy")["samples"]
    assert (list(empty), "test" in empty["note"]) == (["note"], True)
    assert shown["directions"]["aa-en"]["best"]["translation"] in lines
    load_config(conf, [f"store.folder={tmp_path / 'gone'}"], check_files=False).save(run.config_file)
    (folder / "more.en").write_text("")  # the folder has changed, so nothing is remembered
    gone = run_data(run, "copy")["samples"]
    assert list(gone) == ["note"]
    assert str(tmp_path) not in gone["note"]


def test_translations_that_are_left_out_are_told_in_the_page_and_by_the_one_who_writes_it(conf, made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    config = load_config(conf, check_files=False)
    config.save(run.config_file)
    folder = run.folder / "hypotheses" / "test"
    folder.mkdir(parents=True)
    store, said = open_prepared(config), []
    for name in store.directions:
        lines = store.text(name, "test", "target")
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
    assert texts(run_data(run, "copy"), "translations") == []
    (folder / "bb-en.en").unlink()
    data = run_data(run, "copy")
    (text,) = texts(data, "translations")
    assert "bb-en" in text
    assert str(tmp_path) not in text
    assert sorted(data["samples"]["directions"]) == ["aa-en", "cc-en"]
    write_report([run], tmp_path / "page.html", warn=said.append)
    assert said == [f"{run.folder}: {text}"]
    (run.folder / "scores.json").unlink()
    missing, also = texts(run_data(run, "copy"), "translations")
    assert "scores.json" in missing
    assert also == text


def test_scores_that_a_single_run_lacks_are_told_by_the_one_who_writes_it(tmp_path):
    runs, said = [write_run(tmp_path / name) for name in ("one", "other")], []
    write_report(runs, tmp_path / "page.html", warn=said.append)
    assert said == [], "the comparison says it"
    write_report(runs[:1], tmp_path / "page.html", warn=said.append)
    assert [f"{tmp_path / 'one'}: " in text and "evenglot score" in text for text in said] == [True]
    write_scores(runs[0])
    write_report(runs[:1], tmp_path / "page.html", warn=said.append)
    assert len(said) == 1


def test_a_configuration_that_is_no_text_is_named(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    run.config_file.write_bytes(b"seed: \xf0")
    with pytest.raises(ValueError, match=str(run.config_file)):
        run_data(run, "copy")


def test_a_log_that_has_just_begun_is_enough(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "copy"))
    (run.folder / "scores.json").unlink()
    rewrite(run, events_of(run)[:1])
    data = run_data(run, "copy", live=True)
    assert (data["state"], data["series"], data["progress"]["step"]) == ("running", {}, 0)
    assert [row["share"] for row in data["rows"]] == [None, None, None]
    assert "0 of 2,000 updates" in data["summary"][0]


def test_runs_of_the_same_name_are_told_apart(tmp_path):
    folders = [tmp_path / "erm" / "seed-1", tmp_path / "chi" / "seed-1", tmp_path / "chi" / "seed-2"]
    assert short_names([Run(folder) for folder in folders]) == ["erm/seed-1", "chi/seed-1", "chi/seed-2"]
    assert short_names([Run(folders[0])]) == ["seed-1"]
    assert short_names([Run(folders[0]), Run(folders[0])]) == ["seed-1", "seed-1"]


def test_every_run_has_a_name_of_its_own(tmp_path):
    seeds = [Run(tmp_path / "erm" / f"seed-{seed}") for seed in (1, 2)]
    other = Run(tmp_path / "chi" / "seed-1")
    assert unique_names([*seeds, other], ["erm", "erm", "chi"]) == ["erm seed-1", "erm seed-2", "chi"]
    assert unique_names([seeds[0], other], ["x", "x"]) == ["erm/seed-1", "chi/seed-1"]
    assert unique_names([seeds[0], seeds[0]]) == ["seed-1", "seed-1 (2)"]
    assert unique_names([*seeds, other]) == ["erm/seed-1", "erm/seed-2", "chi/seed-1"]


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
    sample = {"source": "x" * 99, "reference": "y", "translation": "z", "score": 1.0}
    data = page_data([made])
    data["runs"][0]["samples"] = {"split": "test", "directions": {"a-b": {"best": sample, "looked_at": 3}}}
    best = thinned(data, points=9, characters=20)["runs"][0]["samples"]["directions"]["a-b"]["best"]
    assert best == {**sample, "source": "x" * 19 + "…"}
    assert list(thinned(data, points=9, characters=0)["runs"][0]["samples"]) == ["note"]


def test_numbers_are_short_and_finite():
    odd = {"a": [1.23456789, float("nan"), float("inf"), None, 123456.0], "b": (3, "x", True)}
    assert rounded(odd) == {"a": [1.235, None, None, None, 123500.0], "b": [3, "x", True]}


def test_scores_are_not_rounded_twice(made, tmp_path):
    run = Run(shutil.copytree(made.folder, tmp_path / "run"))
    scores = json.loads((run.folder / "scores.json").read_text())
    scores["macro"]["bleu"], scores["directions"]["aaa-en"]["bleu"] = 1.9046, 100.43
    (run.folder / "scores.json").write_text(json.dumps(scores))
    data = run_data(run, "run")
    assert f"{data['scores']['macro']['bleu']:.2f}" == "1.90"
    assert data["rows"][0]["bleu"] == 100.43


def compared(given):
    return page_data([], comparison=given)["comparison"]


def test_a_comparison_becomes_lists_in_the_order_of_its_directions():
    given = comparison(directions=5, strategies=5)
    data = compared(given)
    names = [direction["name"] for direction in data["directions"]]
    assert names == list(given["directions"])
    row, source = data["rows"][-1], given["rows"][-1]
    for key in ("bleu", "loss"):
        expected = source["difference"][key]["directions"][names[2]]
        difference, low, high, p_holm, significant = row["difference"][key]["directions"][2]
        assert [difference, low, high] == pytest.approx([expected["difference"], *expected["interval"]], abs=1e-3)
        assert (p_holm, significant) == (expected["p_holm"], expected["p_holm"] < 0.05)
        scores = source["scores"][key]["directions"][names[2]]
        assert row["scores"][key]["directions"][2] == pytest.approx([scores["mean"], scores["sd"]], abs=1e-3)
        assert row["difference"][key]["mean"]["clear"] == (expected_sign(source["difference"][key]["mean"]) != 0)
    assert row["validation"] == pytest.approx([source["validation"][name] for name in names], abs=1e-5)
    assert data["rows"][1]["validation"][0] is None
    assert data["rows"][0]["difference"] is None


def expected_sign(part):
    low, high = part["interval"]
    return (low > 0) - (high < 0)


def test_rounding_never_decides_what_is_significant():
    given = comparison(directions=2, strategies=2)
    name = next(iter(given["directions"]))
    found = given["rows"][1]["difference"]["bleu"]
    for p, significant in ((50 / 1001, 1), (0.04999999, 1), (0.05, 0)):
        found["directions"][name]["p_holm"] = p
        assert compared(given)["rows"][1]["difference"]["bleu"]["directions"][0][4] == significant
    found["mean"] = {"difference": 0.4, "interval": [1e-9, 0.8], "p": 0.04}
    assert compared(given)["rows"][1]["difference"]["bleu"]["mean"]["clear"] is True


def set_means(given, key, values, harmed=()):
    for row, value in zip(given["rows"][1:], values, strict=True):
        part = {"difference": value, "interval": [value - 0.2, value + 0.2], "p": 0.01}
        row["difference"][key] |= {"mean": part, "harmed": list(harmed), "losses": len(harmed)}


def test_the_words_are_those_of_compare_whoever_wins():
    given = comparison(directions=4, strategies=3)
    set_means(given, "bleu", [-0.9, 0.1], harmed=["aaa-en"])
    told = compared(given)["summary"]["bleu"]
    assert told == verdict(given, "bleu")
    assert re.match(r"temperature-2 .* erm.* BLEU: worse \(−0.90", told[0])
    assert "(aaa-en)" in told[0]
    assert not re.search(r": (better|worse) \(", told[1])


def test_lower_losses_are_better_in_the_words_of_a_comparison():
    given = comparison(directions=4, strategies=3)
    set_means(given, "loss", [-0.3, 0.3])
    first, second, harm = compared(given)["summary"]["loss"]
    assert "loss per character: better" in first
    assert "loss per character: worse" in second
    assert "-en" not in harm  # no direction is harmed


def test_of_many_strategies_only_those_that_differ_get_a_sentence():
    given = comparison(directions=4, strategies=7)
    set_means(given, "bleu", [0.1, -0.9, 0.0, 0.7, 0.1, 0.0], harmed=["aaa-en"])
    worse, better, others, harm = compared(given)["summary"]["bleu"]
    assert re.match(r"temperature-5 .* erm.* BLEU: worse", worse)
    assert re.match(r"chi-ibr .* erm.* BLEU: better", better)
    assert others.startswith("4 ")
    assert "erm" in others
    assert "temperature-2, temperature-5, uniform, chi-ibr" in harm
    set_means(given, "bleu", [0.1] * 6)
    others, harm = compared(given)["summary"]["bleu"]
    assert others.startswith("No ")
    assert "erm" in others
    assert harm.startswith("No ")


def test_a_strategy_alone_is_compared_with_nothing():
    (told,) = compared(comparison(directions=2, strategies=1))["summary"]["bleu"]
    assert "erm" in told
