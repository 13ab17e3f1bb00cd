import cProfile
import errno
import os
import pickle
import re
from pstats import Stats

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evenglot.balance import STRATEGIES
from evenglot.config import Config, ConfigError, load_config
from evenglot.config.example import example

DATA = "data: {directions: [no-en, tur-en], train: 'x.{pair}.{lang}'}\n"


def test_a_short_config_has_all_defaults(conf):
    config = conf.load(DATA)
    assert config.clean.max_pieces == 250
    assert config.vocabulary.kind == "separate"
    assert config.store.folder == str(conf.folder / "store")
    assert config.balance.strategy == "fade"
    assert config.balance.options == {"passes": 15.0, "start": "mix:0.75", "end": "mix:0.25"}
    assert config.batches.micro_batches == 16
    assert config.seed == 1


def test_options_of_the_former_default_still_mean_it(conf):
    assert conf.load(DATA + "balance: {rho: 0.1}").balance.strategy == "chi-ibr"
    assert conf.load(DATA + "balance: {p_unit: tokens}").balance.strategy == "fade"


def test_empty_sections_are_sections_of_defaults(conf):
    assert conf.load(DATA + "clean:\nbalance:\nstore:\n") == conf.load(DATA)


def test_nothing_changes_later(conf):
    config = conf.load(DATA)
    with pytest.raises(ValidationError) as caught:
        config.seed = 2
    assert caught.value.errors()[0]["type"] == "frozen_instance"
    with pytest.raises(ValidationError) as caught:
        config.clean.empty = False
    assert caught.value.errors()[0]["type"] == "frozen_instance"


def test_a_config_travels_to_other_processes(conf):
    config = conf.load(DATA)
    assert pickle.loads(pickle.dumps(config)) == config


# ------------------------------------------------------------------------------------------------------------ errors


def test_several_errors_at_once_sorted_by_line(conf):
    errors = conf.errors("""\
        seed: -1
        balance:
          roh: 0.1
          max_upsample: lots
          center: {no-en: x}
          baseline: 3
          start: second
        clean:
          max_pieces: "many"
          max_words: true
          empty: yes
          max_ratio: .nan
        data:
          directions: [no-en]
          trian: x.{lang}
          grouping: pairs
        vocabulary: [1]
        store: {threads: 0, valid_cap: 1.5}
        ballance: 3
    """)
    assert [place_key_and_last(error) for error in errors] == [
        ("conf.yaml:1", "seed", "-1"),
        ("conf.yaml:3", "balance.roh", "'rho'"),
        ("conf.yaml:4", "balance.max_upsample", "'lots'"),
        ("conf.yaml:5", "balance.center.no-en", "'x'"),
        ("conf.yaml:6", "balance.baseline", "3"),
        ("conf.yaml:7", "balance.start", "'second'"),
        ("conf.yaml:9", "clean.max_pieces", "'many'"),
        ("conf.yaml:10", "clean.max_words", "true"),
        ("conf.yaml:11", "clean.empty", "'yes'"),
        ("conf.yaml:12", "clean.max_ratio", "nan"),
        ("conf.yaml:15", "data.trian", "'train'"),
        ("conf.yaml:16", "data.grouping", "'pairs'"),
        ("conf.yaml:17", "vocabulary", "[1]"),
        ("conf.yaml:18", "store.threads", "0"),
        ("conf.yaml:18", "store.valid_cap", "1.5"),
        ("conf.yaml:19", "ballance", "'balance'"),
    ]


def place_key_and_last(error):
    """Place and key of an error, and its last word: the value, or the suggested key."""
    place, key, message = error.split(": ", 2)
    return place, key, message.rstrip("?").split(" ")[-1]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", r"conf\.yaml: data: "),
        ("# nothing\n", r"conf\.yaml: data: "),
        ("- a\n", r"conf\.yaml: .*\['a'\]$"),
        ("data:\n\tdirections: x", r"conf\.yaml:2: .* tab"),
        ("seed: 1\nseed: 2", r"conf\.yaml:2: .*'seed'.* line 1$"),
        ("data:", r"conf\.yaml:1: data\.directions: "),
        ("data: {1: 2, directions: no-en, train: 'x.{lang}'}", r"conf\.yaml:1: data\[1\]: .*directions"),
    ],
)
def test_files_that_are_no_config(conf, text, error):
    (message,) = conf.errors(text)
    assert re.match(error, message)


def test_files_that_cannot_be_read(tmp_path):
    for name, content, facts in [
        ("latin.yaml", b"a: 1\nb: \xe9\n", ("latin.yaml:2: ", "0xe9")),
        ("large.yaml", b"#" * (1 << 20) + b"\n", ("large.yaml: ", "1,048,576")),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            load_config(tmp_path / name)
        assert all(fact in str(caught.value) for fact in facts)
    for path, place, reason in [
        (tmp_path / "absent.yaml", "absent.yaml: ", os.strerror(errno.ENOENT)),
        (tmp_path, f"{tmp_path}: ", os.strerror(errno.EISDIR)),
        ("a\0b", r"a\x00b: ", "null byte"),
    ]:
        with pytest.raises(ConfigError) as caught:
            load_config(path)
        assert place in str(caught.value)
        assert reason.lower() in str(caught.value)


def test_a_byte_order_mark_is_not_text(tmp_path):
    (tmp_path / "conf.yaml").write_text(DATA, encoding="utf-8-sig")
    assert load_config(tmp_path / "conf.yaml", check_files=False)


def test_every_error_is_one_line(conf):
    errors = conf.errors('"new\\nline": 1\ndata: {directions: ["a\\nb"], train: "x\\n{lang}"}\n', check_files=True)
    assert [error.split(":")[0] for error in errors] == ["conf.yaml"] * 2


# ----------------------------------------------------------------------------------------------- sections that disagree


@pytest.mark.parametrize("digits", ["9" * 6000, "0x" + "f" * 6000, "0o" + "7" * 6000])
@pytest.mark.parametrize("text", ["seed: {}", "balance: {{strategy: chi-ibr, rho: {}}}", "{}: 1"])
def test_a_number_with_thousands_of_digits_has_a_line(conf, text, digits):
    (error,) = conf.errors(DATA + text.format(digits) + "\n")
    assert error.startswith(f"conf.yaml:{DATA.count(chr(10)) + 1}: ")
    assert len(error) < 200


def test_the_effort_of_errors_grows_with_their_number_and_no_faster(conf):
    def calls(keys):
        profile = cProfile.Profile()
        with profile:
            assert len(conf.errors(DATA + "".join(f"key_{number}: 1\n" for number in range(keys)))) == keys
        return Stats(profile).total_calls

    assert calls(1000) < 2.3 * calls(500)


def test_many_to_many_needs_a_joint_vocabulary(conf):
    text = "data: {directions: [no-en, en-no], train: 'x.{pair}.{lang}'}\n"
    for section, place in (("", "conf.yaml"), ("vocabulary:\n  kind: separate", "conf.yaml:3")):
        (error,) = conf.errors(text + section)
        assert error.startswith(f"{place}: vocabulary.kind: ")
    assert conf.load(text, "vocabulary.kind=joint").vocabulary.kind == "joint"


def test_batches_must_hold_the_longest_sentence_and_fill_an_update(conf):
    errors = conf.errors(DATA + "batches: {tokens_per_batch: 200, tokens_per_update: 100}")
    assert len(errors) == 2
    assert re.match(r"conf\.yaml:2: batches\.tokens_per_batch: 200 .*clean\.max_pieces = 250", errors[0])
    assert re.match(r"conf\.yaml:2: batches\.tokens_per_update: .*tokens_per_batch = 200", errors[1])


def test_drawing_follows_the_preset_unless_told_otherwise(conf):
    assert conf.load(DATA).draw_options == {"rule": "cycle", "pairs": None, "max_scale_up": 1.5}
    assert conf.load(DATA, "batches.interval_pairs=1000").draw_options["pairs"] == 1000
    released = conf.load(DATA, "balance.preset=released-wmt")
    assert released.draw_options == {"rule": "released", "pairs": None, "max_scale_up": 1.0}
    assert conf.load(DATA, "balance.preset=released-wmt", "batches.oversample=cycle").draw_options["rule"] == "cycle"
    for key in ("interval_pairs", "interval_tokens", "interval_updates"):
        (error,) = conf.errors(DATA, "balance.preset=released-wmt", f"batches.{key}=1000")
        assert error.startswith(f"--set batches.{key}: ")


def test_validation_losses_need_validation_text(conf):
    for option, value in (("signal", "valid"), ("strategy", "multidds")):
        (error,) = conf.errors(DATA + f"balance:\n  {option}: {value}")
        assert error.startswith(f"conf.yaml:3: balance.{option}: ")
        assert "no-en, tur-en" in error
        assert "data.valid" in error
    assert conf.load(DATA, "balance.signal=valid", "data.valid=v.{pair}.{lang}")


# ----------------------------------------------------------------------------------------------------------- balance

NEEDED = {
    "temperature": {"tau": 5},
    "mix": {"alpha": 0.5},
    "unimax": {"passes": 4, "budget": 1e6},
    "schedule": {"points": {0: "tau:5", 9: "data"}},
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_can_be_configured(conf, strategy):
    options = NEEDED.get(strategy, {})
    config = conf.load(DATA, f"balance={ {'strategy': strategy, **options} }", "data.valid=v.{pair}.{lang}")
    balancer = config.balance.create({"no-en": 1000, "tur-en": 9_000_000})
    assert sum(balancer.mixture.sample.values()) == pytest.approx(1)
    if options:
        (missing, *_) = options
        (error,) = conf.errors(DATA + f"balance:\n  strategy: {strategy}")
        assert error.startswith(f"conf.yaml:2: balance.{missing}: ")


def test_options_reach_the_balancer(conf):
    config = conf.load(DATA + "balance: {rho: 1e-3, floor: 0.5, baseline: {no-en: 2, tur-en: 1.5}}")
    balancer = config.balance.create({"no-en": 10, "tur-en": 90})
    assert balancer.rule.rho == 1e-3
    assert balancer.rule.floor == 0.5
    assert balancer.baseline.tolist() == [2, 1.5]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("strategy: chi-ib", "balance.strategy: .*'chi-ib'.*'chi-ibr'"),
        ("{strategy: fastdro, alpha: 2}", "balance.alpha: "),
        ("strategy: 5", "balance.strategy: .*'5'"),
        ("strategy: {a: b}", "balance.strategy: "),
        ("{strategy: uniform, rho: 1}", "balance.rho: .*strategy, p_unit"),
        ("rho: -1", "balance.rho: .*-1"),
        ("{rho: 1, max_upsample: 3}", "balance.max_upsample: .*rho"),
        ("max_upsample: 1e200", "balance: "),
        ("preset: papper", "balance.preset: .*'recommended', 'paper', 'released-ted' or 'released-wmt'.*'papper'"),
        ("preset: paper", "balance.rho: "),
        ("estimator: mean", "balance.estimator: .*'ema', 'token-ema' or 'interval-mean'.*'mean'"),
        ("center: tau:none", "balance.center: 'tau:none'"),
        ("center: {no-en: 1}", "balance.center: .*tur-en"),
        ("baseline: {no-en: 1}", "balance.baseline: .*tur-en"),
        ("baseline: auto:tau", "balance.baseline: 'tau': "),
        ("baseline: auto:erm", "balance.baseline: .*'data', 'uniform', 'tau:3', 'mix:0.5', 'unimax:20'"),
        ("p_unit: words", "balance.p_unit: .*'sentences' or 'tokens'.*'words'"),
        ("{strategy: schedule, points: {x: data}}", "balance.points.x: .*'x'"),
    ],
)
def test_bad_options_are_found_before_anything_is_spent(conf, options, error):
    (message,) = conf.errors(DATA + f"balance:\n  {options}")
    assert re.match(error, message.split(": ", 1)[1])


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ("batches: {interval_tokens: 5000}\ntrain: {intervals: 7}", "batches.interval_pairs"),
        ("batches: {interval_updates: 5000}\ntrain: {intervals: 7}", "batches.interval_pairs"),
        ("batches: {oversample: released}\ntrain: {intervals: 7}", "released"),
        ("train: {updates: 500}", "train.intervals"),
        ("train: {schedule: linear}", "max_ratio"),
        ("train: {cooldown: 9}", "max_ratio"),
    ],
)
def test_a_limit_on_passes_needs_the_number_and_size_of_intervals(conf, other, error):
    (message,) = conf.errors(DATA + "balance: {strategy: chi-ibr, max_passes: 20}\n" + other)
    place, key, advice = message.split(": ", 2)
    assert place == f"conf.yaml:{DATA.count(chr(10)) + 1}"
    assert key == "balance.max_passes"
    assert error in advice


def test_a_limit_on_passes_is_planned_for_the_intervals_of_the_run(conf):
    limited = "balance: {strategy: chi-ibr, max_passes: 20}\nbatches: {interval_pairs: 500}\ntrain: {intervals: 7}"
    balancer = conf.load(DATA + limited).balancer({"no-en": 1000, "tur-en": 9000})
    assert (balancer.caps.intervals, balancer.caps.interval_size) == (7, 500)
    fixed = conf.load(DATA + "balance: {strategy: uniform}\ntrain: {intervals: 7}")  # has no such parameters
    assert fixed.balancer({"no-en": 1000, "tur-en": 9000}).strategy == "uniform"


def test_a_key_that_is_nothing_is_unknown(conf):
    with pytest.raises(ConfigError) as caught:
        conf.load(DATA + "~: 2\n")
    assert len(caught.value.lines) == 1


def test_braces_in_the_name_of_the_folder_are_refused(tmp_path):
    """Saved configurations have absolute paths, in which they would be fields."""
    folder = tmp_path / "a {lang} b"
    folder.mkdir()
    (folder / "conf.yaml").write_text("data: {directions: [aa-en], train: 'train.{lang}'}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(folder / "conf.yaml", check_files=False)
    assert caught.value.keys == [("data", "train")]
    assert f"{folder}: " in str(caught.value)
    (folder / "saved.yaml").write_text("data: {directions: [aa-en], train: '/text/train.{lang}'}\n")
    assert load_config(folder / "saved.yaml", check_files=False).data.train == "/text/train.{lang}"


def test_a_baseline_file_stands_beside_the_config_and_may_come_later(conf):
    config = conf.load(DATA + "balance: {baseline: run/baseline.json}")
    assert config.balance.options["baseline"] == str(conf.folder / "run/baseline.json")


# --------------------------------------------------------------------------------------------------------- overrides


def test_overrides_follow_the_rules_of_the_file(conf):
    overrides = [
        "balance.rho=1e-3",
        "data.directions=[no-en]",
        "clean.max_words=",
        "store.folder=/a",
        "seed=3",
        "seed=4",
    ]
    config = conf.load(DATA + "clean: {max_words: 9}", *overrides)
    assert config.balance.options["rho"] == 1e-3
    assert [direction.name for direction in config.data.directions] == ["no-en"]
    assert config.clean.max_words is None
    assert config.store.folder == "/a"
    assert config.seed == 4


@pytest.mark.parametrize(
    ("override", "error"),
    [
        ("clean.emty=true", "--set clean.emty: .*'empty'"),
        ("cleen.empty=true", "--set cleen.empty: cleen: .*'clean'"),
        ("clean.max_pieces=1e3", "--set clean.max_pieces: .*1000.0"),
        ("balance={roh: 1}", "--set balance: balance.roh: .*'rho'"),
        ("seed", "--set seed: .*section.key=value"),
        ("=3", "--set =3: .*section.key=value"),
        ("a..b=3", "--set a..b=3: .*section.key=value"),
        ("seed.x=3", "--set seed.x: .*--set seed="),
        ("data.directions.0=no-en", "--set data.directions.0: .*--set data.directions="),
        ("seed=[1", "--set seed: .*YAML"),
        ("data.train=5", "--set data.train: .*5"),
    ],
)
def test_bad_overrides_are_named(conf, override, error):
    (message,) = conf.errors(DATA + "seed: 1", override)
    assert re.match(error, message)


def test_another_strategy_leaves_no_error_for_each_option_of_the_old_one(conf):
    conf.load(DATA).save(conf.folder / "saved.yaml")
    saved = (conf.folder / "saved.yaml").read_text(encoding="utf-8")
    (error,) = conf.errors(saved, "balance.strategy=proportional")
    assert error.startswith("--set balance.strategy: ")
    assert "--set balance='{strategy: proportional}'" in error
    assert conf.load(saved, "balance={strategy: proportional}").balance.options == {}
    (typo,) = conf.errors(DATA + "balance: {roh: 1}", "balance.strategy=chi-ibr")
    assert "balance.roh" in typo


def test_an_override_mends_what_is_wrong_in_the_file(conf):
    assert conf.load(DATA + "seed: x", "seed=1").seed == 1
    errors = conf.errors(DATA + "clean: {a: 1}", "clean.b=2")
    assert [error.split(": ")[0] for error in errors] == ["conf.yaml:2", "--set clean.b"]


# -------------------------------------------------------------------------------------------------------- round trip


def test_a_resolved_config_means_the_same_elsewhere(conf):
    config = conf.load(DATA, "balance.baseline=b.json")
    run = conf.folder / "runs" / "a"
    run.mkdir(parents=True)
    config.save(run / "config.yaml")
    assert load_config(run / "config.yaml", check_files=False) == config
    assert [path.name for path in run.iterdir()] == ["config.yaml"]


codes = st.sampled_from(["no", "on", "en", "por", "zh_Hans", "null_x", "yes", "off"])
names = st.text(min_size=1, max_size=8).filter(lambda text: text.strip() and not set("{}\0") & set(text))
patterns = names.map(lambda name: f"x/{name}.{{src}}.{{tgt}}.{{lang}}")
entries = st.fixed_dictionaries(
    {"src": codes | st.lists(codes, min_size=1, max_size=3, unique=True), "tgt": st.sampled_from(["de", "fr"])},
    optional={"label": names, "train": patterns},
)
configs = st.fixed_dictionaries(
    {
        "data": st.fixed_dictionaries(
            {"directions": st.lists(entries, min_size=1, max_size=2), "train": patterns},
            optional={"valid": patterns, "invalid_utf8": st.sampled_from(["error", "drop"])},
        ),
        "vocabulary": st.just({"kind": "joint", "tau": float("inf")}),
    },
    optional={
        "clean": st.fixed_dictionaries({}, optional={"max_ratio": st.floats(1.01, 1e300), "max_words": st.integers(1)}),
        "balance": st.fixed_dictionaries({}, optional={"rho": st.floats(0, 1e-300) | st.none(), "baseline": names}),
        "store": st.fixed_dictionaries({}, optional={"folder": names, "valid_cap": st.none() | st.integers(1)}),
        "seed": st.integers(0, 2**32 - 1),
    },
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(raw=configs)
def test_what_is_saved_is_loaded_again(tmp_path, raw):
    try:
        config = Config.model_validate(raw)
    except ValueError:
        assume(False)  # a direction declared twice
    config.save(tmp_path / "config.yaml")
    again = load_config(tmp_path / "config.yaml", check_files=False)
    assert again == config
    assert again.to_yaml() == config.to_yaml()


# -------------------------------------------------------------------------------------------------------------- fuzz


def error_of(path, overrides=(), check_files=True):
    try:
        load_config(path, overrides, check_files=check_files)
    except ConfigError as error:
        return str(error)
    return None


pieces = st.sampled_from(example().split("\n")) | st.text(max_size=20)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    content=st.binary() | st.text().map(str.encode) | st.lists(pieces, max_size=30).map(lambda p: "\n".join(p).encode())
)
def test_any_file_is_a_config_or_an_error(tmp_path, content):
    (tmp_path / "conf.yaml").write_bytes(content)
    error = error_of(tmp_path / "conf.yaml")
    assert error is None or all(line.startswith(str(tmp_path)) for line in error.split("\n"))


keys = st.sampled_from(
    ["data", "data.directions", "data.train", "balance", "balance.center", "clean", "seed", "x", "store.folder"]
)
texts = st.text(max_size=10) | st.sampled_from(
    ["[no-en]", "{from: [a, b], to: no}", "{}", "x.{lang}", "~", "1e-3", "{1: {2: 3}}"]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(overrides=st.lists(st.builds("{}={}".format, keys, texts) | st.text(), max_size=4))
def test_any_override_is_a_config_or_an_error(tmp_path, overrides):
    (tmp_path / "conf.yaml").write_text(DATA)
    assert error_of(tmp_path / "conf.yaml", overrides, check_files=False) != ""


@pytest.mark.parametrize(
    ("section", "error"),
    [
        ("model: {heads: 3}", "model.heads: .*512.* 3 "),
        ("model: {size: tiny, dim: 7, heads: 1}", "model.dim: .*7"),
        ("model: {share_embeddings: true}", "model.share_embeddings: .*joint"),
        ("train: {average: 3}", "train.average: .* 2 .*keep_last"),
        ("train: {schedule: linear, intervals: 3}", "train.intervals: schedule: linear .*train.updates"),
        ("train: {updates: 10, warmup: 5, cooldown: 6}", "train.cooldown: .*warmup.*10 "),
        ("train: {precision: float16, device: cpu}", "train.precision: .*CPU.*float32"),
        ("train: {keep_last: 1}", "train.keep_last: .*1$"),
        ("batches: {interval_tokens: 5, interval_pairs: 5}", "batches.interval_tokens: .*interval_pairs"),
        ("batches: {interval_updates: 5, interval_pairs: 5}", "batches.interval_updates: .*interval_pairs"),
        ("batches: {interval_updates: 5, interval_tokens: 5}", "batches.interval_updates: .*interval_tokens"),
    ],
)
def test_what_cannot_be_trained_is_refused(conf, section, error):
    (found,) = conf.errors(DATA + section)
    assert re.match(error, found.split(": ", 1)[1])


def test_an_error_lists_the_keys_at_fault(conf):
    with pytest.raises(ConfigError) as caught:
        conf.load(DATA + "balance:\n  rho: -1")
    assert caught.value.keys == [("balance", "rho")]
