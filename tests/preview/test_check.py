import gzip
import json
import re
import subprocess
import sys

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from evenglot.balance import create
from evenglot.config import load_config
from evenglot.config.data_fields import SPLITS
from evenglot.corpus.languages import identifier
from evenglot.corpus.prepare import prepare
from evenglot.corpus.read import CorpusError
from evenglot.preview.check import Check, check, most_passes
from evenglot.preview.tables import _cells, check_summary, shortened
from evenglot.progress import Bars
from tests.corpus.conftest import configure, corpus, sentences
from tests.corpus.test_prepare import BROKEN, break_corpus


def run(*arguments):
    command = [sys.executable, "-m", "evenglot", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rewrite(path, change):
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    path.write_bytes(gzip.compress("\n".join(change(lines)).encode()))


def test_the_table_counts_every_problem_and_what_would_be_done_about_it(configure, corpus):
    leak = next(sentences("en", 1000, 1)).upper()  # stands in the validation set of every direction
    rewrite(corpus / "train.rus-en.en.gz", lambda lines: [leak, *lines[1:5], "", *lines[6:]])
    rewrite(corpus / "train.rus-en.rus.gz", lambda lines: [*lines[:7], "latin letters here", *lines[8:]])
    rows = {row.direction: row for row in check(configure(), Bars()).rows}
    row = rows["rus-en"]
    found = {reason: count for reason, count in row.problems.items() if count}
    assert found == {"leakage": 1, "empty": 1, "wrong_script": 1}
    assert row.removed == {"invalid_utf8": 0, "empty": 1, "leakage": 1}
    assert row.kept == 118
    assert (row.valid, row.test) == (30, 20)
    assert row.scripts == {"rus": ["CYRILLIC"], "en": ["LATIN"]}
    assert sum(row.share for row in rows.values()) == pytest.approx(1)
    assert not any(rows["por-en"].problems.values())


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.integers(2, 80))
def test_sample_lines_fit_the_terminal_whatever_it_takes_for_vowel_signs(line, width):
    found = shortened(line, width)
    beginning = found.removesuffix("…")
    assert found == line or line.startswith(beginning)
    for sign_cells in (0, 1):  # U+0BBE, a vowel sign of Tamil: 1 in tmux, 0 in most other terminals
        assert cell_len(found.replace("\u0bbe", "x" * sign_cells)) <= width


def test_a_tamil_sentence_is_cut_as_if_every_sign_took_a_cell():
    assert shortened("கா" * 50, 80) == "கா" * 39 + "க…"
    assert shortened("கா" * 40, 80) == "கா" * 40
    assert shortened("語" * 50, 80) == "語" * 39 + "…"


def test_passes_follow_the_strategy(configure):
    def of_galician(*overrides):
        row = next(row for row in check(configure(*overrides), Bars()).rows if row.direction == "glg-en")
        return [row.passes, row.most_passes]

    assert of_galician("balance={strategy: proportional}") == pytest.approx([1, 1])
    assert of_galician("balance={strategy: uniform}") == pytest.approx(
        [154 / 40, 154 / 40]
    )  # a third of 460, rounded up
    assert of_galician("balance={strategy: chi-ibr, max_upsample: 4}") == pytest.approx([1, 4])
    assert of_galician("balance={strategy: group-dro}") == pytest.approx([1, 1])  # it reweights
    assert of_galician("balance={strategy: uniform}", "batches.interval_pairs=46") == pytest.approx([16 / 40, 16 / 40])
    assert of_galician("balance={strategy: uniform}", "batches.oversample=released")[0] == pytest.approx(230 / 40)
    in_tokens = of_galician("balance={strategy: chi-ibr, p_unit: tokens, baseline: later.json}")
    assert in_tokens[0] == pytest.approx(1, rel=0.1)
    assert of_galician("data.grouping=target") == pytest.approx([1, 1])  # one group: there is nothing to choose


def test_a_mixture_that_would_be_sampled_long_after_is_warned_of(configure):
    def late(batches, balance="{strategy: group-dro, apply: resample}"):
        """The numbers of updates that are warned of."""
        warnings = check(configure(f"balance={balance}", f"batches={{{batches}}}"), Bars()).warnings
        return [int(found[1].replace(",", "")) for text in warnings if (found := re.search(r"([\d,]+) updates", text))]

    assert late("interval_updates: 5001") == [5000]
    assert late("interval_updates: 5001", "{strategy: group-dro}") == []
    assert late("interval_updates: 1000") == []
    rows = check(configure(), Bars()).rows
    pairs, target = (sum(getattr(row, key) for row in rows) for key in ("kept", "target_tokens"))
    longer = sum(max(row.source_tokens, row.target_tokens) for row in rows)
    small = "tokens_per_batch: 250, tokens_per_update: 250"
    assert late(f"{small}, interval_pairs: {100 * pairs}") == [round(100 * longer / 250) - 1]
    assert late(f"{small}, interval_tokens: {100 * target}") == [round(100 * longer / 250) - 1]
    assert late(f"{small}, interval_pairs: {pairs}") == []


def test_the_most_a_strategy_can_ask_for_is_its_own_bound():
    sizes = {"a": 50, "b": 950}
    draw = {"rule": "cycle", "pairs": None}
    assert most_passes(create("cvar-ibr", sizes, alpha=0.25), "a", draw) == pytest.approx(4)
    assert most_passes(create("chi-ibr", sizes, max_upsample=9, max_ratio=3), "a", draw) == pytest.approx(3)
    assert most_passes(create("chi-ibr", sizes, max_passes=20, intervals=10), "a", draw) == pytest.approx(5)  # some day
    assert most_passes(create("chi-ibr", sizes, max_passes=3, intervals=2), "a", draw) == pytest.approx(3)
    assert most_passes(create("schedule", sizes, points={0: "data", 9: "uniform"}), "a", draw) == pytest.approx(10)
    assert most_passes(create("chi-ibr", sizes, preset="released-wmt"), "a", draw) > 3
    assert most_passes(create("cvar-pd", sizes, alpha=0.25), "a", draw) == pytest.approx(1)  # reweights
    assert most_passes(create("group-dro", sizes, apply="resample"), "a", draw) is None
    assert most_passes(create("multidds", sizes), "a", draw) is None


def test_held_out_sets_are_counted_as_the_store_will_have_them(configure, corpus):
    for split in ("valid", "test"):
        rewrite(corpus / f"{split}.por-en.por.gz", lambda lines: ["", *lines[1:]])
    row = next(row for row in check(configure(), Bars()).rows if row.direction == "por-en")
    store = prepare(configure(), Bars())
    assert (row.valid, row.test) == (len(store.corpus("por-en", "valid_full")), len(store.corpus("por-en", "test")))
    assert (row.valid, row.test) == (29, 20)


def test_warnings_say_what_to_do(configure, corpus):
    rewrite(corpus / "train.por-en.por.gz", lambda lines: [lines[0]] * 30 + lines[30:])
    rewrite(corpus / "train.por-en.en.gz", lambda lines: [lines[0]] * 30 + lines[30:])
    settings = ("balance.strategy=chi-ibr", "data.test=null", "data.valid=null")
    warnings = check(configure(*settings), Bars()).warnings
    assert any(w.startswith("por-en: 10 %") and "clean.duplicates" in w for w in warnings)
    assert any(w.startswith("glg-en: ") and " 40 " in w and "max_passes" in w for w in warnings)
    quiet = check(configure("clean.duplicates=true"), Bars()).warnings
    assert not any("clean.duplicates" in w for w in quiet)
    assert not any("max_passes" in w or "UniMax" in w for w in quiet)  # the default repeats small corpora less and less


def test_missing_validation_sets_are_told_in_one_line(configure):
    def told(*settings):
        return [warning for warning in check(configure(*settings), Bars()).warnings if "no validation" in warning]

    assert not told()
    (of_all,) = told("data.valid=null")
    (of_one,) = told("data.directions=[{from: [por, rus], to: en}, {src: glg, tgt: en, valid: null}]")
    assert of_all.startswith("por-en, ")
    assert "data.valid" in of_all
    assert of_one.startswith("glg-en: ")
    assert "data.valid" not in of_one


def test_sides_that_are_shifted_in_a_part_of_a_corpus_are_told(configure, corpus):
    found = check(configure(), Bars())
    assert {row.shifted for row in found.rows} == {None}

    def lengthened(lines):
        return [line + " and on" * (11 * number % 17) for number, line in enumerate(lines)]

    for side in ("rus", "en"):
        rewrite(corpus / f"train.rus-en.{side}.gz", lengthened)
    rewrite(corpus / "train.rus-en.rus.gz", lambda lines: [*lines[:40], *lines[41:]])
    rewrite(corpus / "train.rus-en.en.gz", lambda lines: [*lines[:90], *lines[91:]])
    found = check(configure(), Bars())
    shifted = {row.direction: row.shifted for row in found.rows}
    assert shifted.pop("rus-en") == pytest.approx((40, 90), abs=5)
    assert set(shifted.values()) == {None}
    (warning,) = [warning for warning in found.warnings if "shifted" in warning]
    assert warning.startswith("rus-en: ")
    assert not any("max_ratio" in warning for warning in found.warnings)


def test_the_commands_print_tables_or_json(corpus):
    conf = corpus / "conf.yaml"
    table = run("check", conf)
    assert table.returncode == 0, table.stderr
    assert "por-en" in table.stdout
    assert not (corpus / "store").exists()  # looking costs nothing
    rows = json.loads(run("check", conf, "--json").stdout)["rows"]
    assert [row["direction"] for row in rows] == ["por-en", "rus-en", "glg-en"]
    prepared = run("prepare", conf, "--set", "vocabulary.size_other=120")
    assert prepared.returncode == 0, prepared.stderr
    assert "Store:" in prepared.stdout
    assert "size_other: 120" in (corpus / "store" / "config.yaml").read_text()
    assert "data:" in run("example").stdout


@pytest.mark.parametrize("kind", BROKEN)
def test_bad_text_is_one_clear_line_and_exit_code_2(corpus, kind):
    break_corpus(corpus, kind)
    for command in ("check", "prepare"):
        done = run(command, corpus / "conf.yaml")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith("evenglot: ")
        assert "train.glg-en" in done.stderr
    assert not (corpus / "store").exists()


def test_bad_configurations_are_a_line_each_and_exit_code_2(corpus):
    done = run("prepare", corpus / "conf.yaml", "--set", "clean.emty=true", "--set", "seed=many")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 2
    assert "'empty'" in done.stderr
    assert run("prepare", corpus / "nowhere.yaml").returncode == 2
    too_small = run("prepare", corpus / "conf.yaml", "--set", "vocabulary.size_other=16")
    assert too_small.returncode == 2
    assert "vocabulary: 16 " in too_small.stderr


def refusal(path):
    """What is said against the text of a configuration; None if it can be read. Any other error is a defect."""
    try:
        check(load_config(path), Bars())
    except CorpusError as error:
        return str(error)
    return None


@pytest.mark.parametrize("extension", ["gz", "zst", "plain", "tsv"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)), split=st.sampled_from(SPLITS))
def test_whatever_a_file_holds_it_is_read_or_refused_in_a_line(corpus, extension, content, split):
    folder = corpus / "fuzz"
    folder.mkdir(exist_ok=True)
    pattern = {"gz": "{lang}.gz", "zst": "{lang}.zst", "plain": "{lang}", "tsv": "both.tsv"}[extension]
    files = {}
    for part in SPLITS:
        files[part] = f"fuzz/{part}.{pattern}"
        for language in ("por", "en"):
            text = "\n".join(sentences(language, 1000 * SPLITS.index(part), 20)).encode()
            if extension == "tsv":
                pairs = zip(sentences("por", 0, 20), sentences("en", 0, 20), strict=True)
                text = "\n".join("\t".join(pair) for pair in pairs).encode()
            if part == split and language == "por":
                text = content
            packed = {"gz": gzip.compress, "zst": zstandard.compress}.get(extension, bytes)(text)
            if part == split and language == "por" and content[:1] < b"\x40":
                packed = content  # not even compressed
            (corpus / files[part].replace("{lang}", language)).write_bytes(packed)
    patterns = ", ".join(f"{part}: '{path}'" for part, path in files.items())
    (corpus / "fuzz.yaml").write_text(f"data: {{directions: [por-en], {patterns}}}\n")
    done = refusal(corpus / "fuzz.yaml")
    assert done is None or ("\n" not in done and str(folder) in done)


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["balance={strategy: chi-ibr}", "train.updates=3"], "batches.interval_pairs"),
        (
            ["balance={strategy: chi-ibr, estimator: ema}", "batches={tokens_per_batch: 512, tokens_per_update: 1024}"],
            "balance.estimator",
        ),
        (["train={updates: 30, warmup: 30}"], "train.warmup"),
    ],
)
def test_it_knows_what_training_will_warn_of(configure, overrides, key):
    assert any(key in warning for warning in check(configure(*overrides), Bars()).warnings)
    assert not any(key in warning for warning in check(configure("balance={strategy: proportional}"), Bars()).warnings)


REAL = {
    "en": "The house is near the river. My brother bought three new books. Where did you put the keys of the car?",
    "por": "A casa fica perto do rio. Meu irmão comprou três livros novos. Onde você pôs as chaves do carro?",
    "tur": "Ev nehrin yanında. Kardeşim üç yeni kitap satın aldı. Arabanın anahtarlarını nereye koydun?",
    "rus": "Дом стоит у реки. Мой брат купил три новые книги. Куда ты положил ключи от машины?",
}


def write_real(corpus, sides, split="train"):
    """A configuration of pairs of real sentences into English; `sides`: the languages in the files of each corpus."""
    for pair, languages in sides.items():
        for code, language in zip(pair.split("-"), languages, strict=True):
            lines = [f"{REAL[language]} {split} {number}." for number in range(40)]
            (corpus / f"real.{split}.{pair}.{code}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    there = [each for each in SPLITS if list(corpus.glob(f"real.{each}.*"))]
    paths = ", ".join(f"{each}: 'real.{each}.{{pair}}.{{lang}}'" for each in there)
    file = corpus / "real.yaml"
    file.write_text(f"data: {{directions: [{', '.join(sides)}], {paths}}}\n", encoding="utf-8")
    return load_config(file)


def of_languages(corpus, sides, split="train"):
    """The directions that are warned of because of their languages, and the languages named there."""
    warnings = check(write_real(corpus, sides, split), Bars()).warnings
    marks = ("swapped", "reads like", "is written in")
    return {text.split(": ")[0]: text for text in warnings if any(mark in text for mark in marks)}


RIGHT = {"por-en": ("por", "en"), "tur-en": ("tur", "en"), "rus-en": ("rus", "en")}


def test_corpora_in_the_right_languages_raise_no_doubts(corpus):
    assert of_languages(corpus, RIGHT) == {}


@pytest.mark.parametrize("identified", [True, False])
def test_a_swapped_corpus_is_the_only_one_to_be_warned_of(corpus, monkeypatch, identified):
    monkeypatch.setattr("evenglot.preview.sides.can_identify", lambda: identified)
    found = of_languages(corpus, RIGHT | {"rus-en": ("en", "rus")})
    assert list(found) == ["rus-en"]
    assert "swapped" in found["rus-en"]
    assert of_languages(corpus, {"en-rus": ("rus", "en"), "en-tur": ("en", "tur")}).keys() == {"en-rus"}


def test_swapped_sides_in_one_script_are_found_by_language_identification(corpus):
    found = of_languages(corpus, RIGHT | {"tur-en": ("en", "tur")})
    assert list(found) == ["tur-en"]
    assert "swapped" in found["tur-en"]


@pytest.mark.parametrize(
    ("sides", "words"), [(("en", "en"), ("source", "en", "por")), (("tur", "en"), ("source", "tur", "por"))]
)
def test_a_side_in_another_language_is_named(corpus, sides, words):
    found = of_languages(corpus, RIGHT | {"por-en": sides})
    assert list(found) == ["por-en"]
    assert set(words) <= set(re.findall(r"\w+", found["por-en"]))


@pytest.mark.parametrize("identified", [True, False])
@pytest.mark.parametrize("split", ["valid", "test"])
def test_swapped_sides_of_a_held_out_set_are_found(corpus, monkeypatch, split, identified):
    monkeypatch.setattr("evenglot.preview.sides.can_identify", lambda: identified)
    write_real(corpus, RIGHT)
    assert of_languages(corpus, RIGHT, split) == {}
    found = of_languages(corpus, RIGHT | {"rus-en": ("en", "rus"), "tur-en": ("en", "tur")}, split)
    assert list(found) == (["tur-en", "rus-en"] if identified else ["rus-en"])
    assert {"swapped", {"valid": "validation"}.get(split, split)} <= set(re.findall(r"\w+", found["rus-en"]))


def test_one_cause_is_warned_of_once(corpus):
    for split in SPLITS:
        config = write_real(corpus, {"rus-en": ("en", "rus"), "tur-en": ("en", "tur")}, split)
    warnings = [text for text in check(config, Bars()).warnings if text.startswith("rus-en: ")]
    assert sum("swapped" in text for text in warnings) == 1
    assert not any("clean.wrong_script" in text for text in warnings), "it would remove all text"


def test_pairs_of_every_corpus_are_shown(corpus):
    for row in check(write_real(corpus, RIGHT), Bars()).rows:
        assert len(row.examples) == 2
        for source, target in row.examples:
            assert source.split()[-1] == target.split()[-1]  # the same line of both files
            assert source.startswith(REAL[row.direction[:3]])
    shown = run("check", corpus / "real.yaml").stdout
    assert shown.count(REAL["en"][:30]) == 6


def test_passes_of_short_intervals_and_of_the_whole_run_are_told(configure):
    done = check(configure("batches.interval_pairs=5", "train={intervals: 9, updates: 9}"), Bars())
    assert 0 < done.rows[0].passes < 0.05
    assert not any("warn_passes" in warning for warning in done.warnings)
    assert not any(cells[3] == "0.0" for cells in map(_cells, done.rows))
    long = check(configure("train={intervals: 60}", "balance={strategy: proportional}"), Bars()).warnings
    (warning,) = [text for text in long if "warn_passes" in text]
    assert " 60 times" in warning


def test_passes_of_the_default_are_those_of_its_fading_mixture(configure):
    def times(*overrides):
        warnings = check(configure("train.updates=3000", *overrides), Bars()).warnings
        (warning,) = [text for text in warnings if "warn_passes" in text]
        return float(re.search(r"up to ([\d,]+) times", warning)[1].replace(",", ""))

    at_the_end = times("balance={strategy: mix, alpha: 0.25}")  # which holds for nearly all of so long a run
    assert times() == pytest.approx(at_the_end, rel=0.05)
    assert times("balance={strategy: proportional}") < times() < times("balance={strategy: mix, alpha: 0.75}") / 1.5


def test_losses_per_token_of_several_target_languages_are_doubted(corpus, configure):
    def doubted(*overrides):
        return any("loss_per" in text for text in check(configure(*overrides), Bars()).warnings)

    into_many = "data.directions={from: en, to: [por, rus]}"
    chi = "balance.strategy=chi-ibr"
    assert doubted(into_many, chi)
    assert not doubted(into_many, chi, "balance.loss_per=character")
    assert not doubted(into_many, "balance={strategy: proportional}")
    assert not doubted(into_many)
    assert not doubted(chi)


def test_missing_language_identification_is_told(monkeypatch):
    empty = Check([], [], [])
    assert "langid" not in check_summary(empty)
    monkeypatch.setitem(sys.modules, "py3langid", None)  # whoever imports it gets a ModuleNotFoundError
    identifier.cache_clear()
    try:
        assert '"evenglot[langid]"' in check_summary(empty)
    finally:
        identifier.cache_clear()
