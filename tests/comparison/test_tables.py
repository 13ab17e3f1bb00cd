"""What `evenglot compare` prints and writes: honest in words, complete on any terminal, in every form."""

import json
import re
from functools import cache

import pytest
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.comparison.compare import compare
from evenglot.comparison.scored_run import Cost
from evenglot.comparison.tables import sheets, show, to_json, to_latex, to_markdown, verdict, write_comparison
from tests.comparison.test_compare import MIXED, result
from tests.comparison.test_scored_run import write_run
from tests.logs import scores_json
from tests.test_tables import cells_of, structure

FORMS = ("text", "markdown", "latex", "json")


def comparison_of(*results, reference=None) -> dict:
    return compare(results, reference, "test").as_json()


@cache
def many(directions: int, strategies: int = 3, seeds: int = 1) -> dict:
    pairs = {f"{chr(97 + i // 26)}{chr(97 + i % 26)}x-en": 1000 - i for i in range(directions)}
    rows = [("erm", 0.5), *((f"strategy-{i}", 0.5 + 0.05 * i) for i in range(1, strategies))]
    return comparison_of(
        *(result(name, quality, seed=seed, pairs=pairs) for name, quality in rows for seed in range(1, seeds + 1))
    )


def sheet_of(comparison: dict, title: str):
    return next(sheet for sheet in sheets(comparison) if sheet.title.startswith(title))


# -------------------------------------------------------------------------------------------------- in words


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter", "loss"])
@pytest.mark.parametrize(("quality", "word"), [(0.7, "better"), (0.3, "worse"), (0.5, None)])
def test_words_say_what_the_interval_says(metric, quality, word):
    (line,) = verdict(comparison_of(result("erm"), result("chi", quality)), metric)
    subject, result_part = line.split(": ", 1)
    label = {"bleu": "BLEU", "chrf": "chrF++", "ter": "TER", "loss": "loss"}[metric]
    assert {"chi", "erm,", label} <= set(subject.split())
    found = re.match(r"(better|worse) \(", result_part)
    assert (found and found[1]) == word


def test_the_headline_says_whether_seeds_are_evidence():
    (alone,) = verdict(comparison_of(result("erm"), result("chi", 0.7)))
    assert "no evidence" in alone
    several = [result(row, quality, seed=seed) for row, quality in (("erm", 0.5), ("chi", 0.7)) for seed in (1, 2, 3)]
    (line,) = verdict(comparison_of(*several))
    assert "no evidence" not in line


def test_lower_losses_are_better_and_their_difference_is_negative():
    (line,) = verdict(comparison_of(result("erm"), result("chi", 0.7)), "loss")
    assert ": better (−" in line
    assert re.findall(r"\d+", line.split(";")[1]) == ["3", "0", "3"]  # better, worse, directions


def test_harm_is_named_also_where_the_mean_is_better():
    quality = {"aa-en": 0.35, "bb-en": 0.8, "cc-en": 0.9}
    (line,) = verdict(comparison_of(result("erm"), result("chi", quality)))
    assert ": better (" in line
    counts = line.split(";")[1]
    assert re.findall(r"\d+", counts) == ["2", "1", "3"]
    assert re.findall(r"\w\w-en", counts) == ["aa-en"]


def test_each_row_but_the_reference_has_a_line_in_chrf():
    lines = verdict(comparison_of(result("erm"), result("a"), result("b", 0.7)))
    assert [line.split()[0] for line in lines] == ["a", "b"]
    assert all("chrF++" in line for line in lines)
    assert verdict(comparison_of(result("erm"))) == []


def test_or_in_what_there_is():
    lines = verdict(comparison_of(result("erm", without=["bleu", "chrf", "ter"]), result("chi")))
    assert "loss per character" in lines[0]


# -------------------------------------------------------------------------------------------------- sheets


def test_scores_have_languages_across_smallest_first_with_their_shares():
    sheet = sheet_of(comparison_of(result("erm"), result("chi", MIXED)), "BLEU (test)")
    assert sheet.columns == ("cc", "bb", "aa", "Avg")
    assert sheet.under == ("0.015", "0.227", "0.758", "")
    assert [name for name, _ in sheet.rows] == ["erm", "chi"]


def test_directions_that_share_no_language_have_their_whole_names():
    pairs = {"aa-bb": 10, "cc-dd": 5}
    assert sheet_of(comparison_of(result("erm", pairs=pairs)), "BLEU").columns == ("cc-dd", "aa-bb", "Avg")
    pairs = {"en-aa": 10, "en-bb": 5}
    assert sheet_of(comparison_of(result("erm", pairs=pairs)), "BLEU").columns == ("bb", "aa", "Avg")
    assert sheet_of(comparison_of(result("erm", pairs={"aa-en": 1})), "BLEU").columns == ("aa-en", "Avg")


@pytest.mark.parametrize("title", ["BLEU (test)", "chrF++ (test)", "TER (test)", "loss per character (test)"])
def test_the_best_two_of_each_column_are_marked(title):
    rows = [result("erm", 0.3), result("a", 0.5), result("b", 0.7), result("c", 0.9)]
    sheet = sheet_of(comparison_of(*rows), title)
    for column in range(len(sheet.columns)):
        assert [cells[column].rank for _, cells in sheet.rows] == [None, None, 1, 0]


def test_of_two_the_best_is_marked_and_of_one_none():
    two = sheet_of(comparison_of(result("erm"), result("chi", 0.7)), "BLEU (test)")
    assert [cells[0].rank for _, cells in two.rows] == [None, 0]
    one = sheet_of(comparison_of(result("erm")), "BLEU (test)")
    assert one.rows[0][1][0].rank is None


def test_equals_are_marked_alike():
    sheet = sheet_of(comparison_of(result("erm"), result("twin")), "BLEU (test)")
    ranks = [cells[0].rank for _, cells in sheet.rows]
    assert ranks[0] == ranks[1]


def test_stars_mark_significant_differences():
    sheet = sheet_of(comparison_of(result("erm"), result("chi", MIXED)), "BLEU: difference to erm")
    ((name, cells),) = sheet.rows
    assert name == "chi"
    better, same, worse, _ = (cell.text for cell in cells)
    assert re.fullmatch(r"\+\d+\.\d\d\*", better)
    assert same == "+0.00"
    assert re.fullmatch(r"−\d+\.\d\d\*", worse)
    assert "1000" in sheet.notes[0]


def test_the_summary_counts_and_names():
    sheet = sheet_of(comparison_of(result("erm"), result("chi", MIXED)), "BLEU: summary")
    rows = {name: dict(zip(sheet.columns, (cell.text for cell in cells), strict=True)) for name, cells in sheet.rows}
    assert rows["chi"]["w/t/l"] == "1/1/1"
    assert rows["chi"]["harmed"] == "aa"
    assert re.fullmatch(r"\d+\.\d\d aa", rows["chi"]["worst"])
    assert rows["erm"]["w/t/l"] == rows["erm"]["harmed"] == ""


@pytest.mark.parametrize(
    ("rows", "seeds", "said"), [(2, 1, False), (2, 2, True), (2, 4, True), (2, 5, False), (3, 3, False), (5, 2, False)]
)
def test_with_few_runs_it_says_that_none_harmed_is_no_proof(rows, seeds, said):
    names = ("erm", "chi", "a", "b", "c")[:rows]
    runs = [result(name, seed=seed) for name in names for seed in range(1, seeds + 1)]
    notes = sheet_of(comparison_of(*runs), "BLEU: summary").notes
    assert any("`none`" in note for note in notes) == said


def test_spread_is_shown_where_there_are_seeds():
    sheet = sheet_of(comparison_of(*(result("erm", seed=seed) for seed in (1, 2))), "BLEU")
    assert all(re.fullmatch(r"\d+\.\d\d ±\d+\.\d\d", cell.text) for cell in sheet.rows[0][1])
    assert "2 seeds ±" in sheet.notes[0]
    assert "±" not in sheet_of(comparison_of(result("erm")), "BLEU").rows[0][1][0].text


def test_losses_that_nobody_knows_are_a_dash():
    sheet = sheet_of(comparison_of(result("erm", validation={"aa-en": 1.0}), result("chi")), "Validation")
    cells = dict(sheet.rows)["erm"]
    assert [cell.text for cell in cells] == ["-", "-", "1.0000", "-"]


def test_cost_has_that_of_the_reference_beside_it():
    chi = result("chi", cost=Cost(100, 2.5e6, 60.0, 300, 30.0), passes={"aa-en": 0.5, "bb-en": 2.0, "cc-en": 40.0})
    sheet = sheet_of(comparison_of(result("erm"), chi), "Training cost")
    cells = dict(zip(sheet.columns, (cell.text for cell in dict(sheet.rows)["chi"]), strict=True))
    assert (cells["updates"], cells["+ reference"], cells["M tokens"]) == ("100", "300", "2.5")
    assert cells["time"] != cells["total time"]
    assert cells["passes"] == "0.5 to 40.0"


@pytest.mark.parametrize("directions", [10, 11, 100])
def test_many_languages_go_down(directions):
    content = many(directions, 2)
    for title in ("BLEU (test)", "BLEU: difference", "Validation"):
        sheet = sheet_of(content, title)
        if directions <= 10:
            assert (sheet.corner, len(sheet.columns)) == ("Strategy", directions + 1)
        else:
            assert sheet.corner == "Language"
            assert sheet.columns[0] == "share"
            assert set(sheet.columns[1:]) <= {"erm", "strategy-1"}
            assert len(sheet.rows) == directions + 1
            assert sheet.rows[-1][0] == "Avg"


def test_across_or_down_the_numbers_are_the_same():
    content = many(11)
    sheet = sheet_of(content, "BLEU (test)")
    column = 1 + [row["name"] for row in content["rows"]].index("strategy-2")
    for (language, cells), name in zip(sheet.rows, reversed(content["directions"]), strict=False):
        assert language == name.removesuffix("-en")
        score = next(row for row in content["rows"] if row["name"] == "strategy-2")["scores"]["bleu"]
        assert cells[column].text == f"{score['directions'][name]['mean']:.2f}"


# -------------------------------------------------------------------------------------------------- forms

SHAPES = {"one direction": (1, 2), "three": (3, 3), "eight": (8, 6), "many": (30, 4), "one row": (3, 1)}


@pytest.mark.parametrize("shape", SHAPES)
def test_latex_tables_are_well_formed(shape):
    text = to_latex(many(*SHAPES[shape]))
    tables = [rf"\begin{{table*}}{part}" for part in text.split(r"\begin{table*}")[1:]]
    assert len(tables) == len(sheets(many(*SHAPES[shape])))
    for each in tables:
        structure(each)


@pytest.mark.parametrize("shape", SHAPES)
def test_markdown_tables_have_equal_rows(shape):
    for block in re.split(r"\n\n+", to_markdown(many(*SHAPES[shape]))):
        if block.startswith("|"):
            assert len({len(cells_of(line)) for line in block.splitlines()}) == 1


def test_markdown_has_the_verdict_and_the_signatures():
    text = to_markdown(comparison_of(result("erm"), result("chi", 0.7)))
    assert re.match(r"- chi .* erm.* chrF\+\+: better \(", text)
    assert "BLEU: `b`" in text


def test_files_are_written_complete(tmp_path):
    content = comparison_of(result("erm"), result("chi", MIXED))
    write_comparison(content, tmp_path / "new" / "folder")
    written = {file.name: file.read_text("utf-8") for file in (tmp_path / "new" / "folder").iterdir()}
    assert set(written) == {"comparison.json", "comparison.md", "comparison.tex"}
    assert json.loads(written["comparison.json"]) == json.loads(to_json(content))


@pytest.mark.parametrize(
    ("directions", "strategies", "seeds"),
    [(1, 2, 1), (3, 3, 1), (8, 6, 3), (12, 6, 3)],
)
def test_nothing_is_cut_off_on_a_terminal_of_80_columns(capsys, monkeypatch, directions, strategies, seeds):
    monkeypatch.setenv("COLUMNS", "80")
    content = many(directions, strategies, seeds)
    show(content, "text")
    said = capsys.readouterr().out
    assert "…" not in said
    for sheet in sheets(content):
        for _, cells in sheet.rows:
            assert all(cell.text in said for cell in cells)


def test_on_a_terminal_a_note_is_told_once_and_no_table_ends_in_a_lonely_column(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    content = many(8, 2)
    show(content, "text")
    said = capsys.readouterr().out
    assert said.count("w/t/l: ") == said.count("* significant") == said.count("share of the training pairs") == 1
    assert "continued" not in said
    losses = said[said.index("Validation loss per character") :].splitlines()
    heads = next(line for line in losses if "erm" in line)
    assert heads.split() == ["erm", "strategy-1"], "languages go down where they do not fit across"
    shown = {line.split()[0]: line.split()[1:] for line in losses if line.startswith((" aax", " ahx", " Avg"))}
    validation = {row["name"]: row["validation"] for row in content["rows"]}
    assert shown["aax"][1:] == [f"{validation[name]['aax-en']:.4f}" for name in ("erm", "strategy-1")]
    assert len(shown) == 3


# -------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def runs(tmp_path):
    """Folders that `compare` reads, with made-up scores."""
    folders = []
    qualities = {"erm": {"aa-en": 0.5, "bb-en": 0.5}, "chi": {"aa-en": 0.3, "bb-en": 0.5}}
    for name, strategy in {"erm": "proportional", "chi": "chi-ibr"}.items():
        run = write_run(tmp_path / name, {"strategy": strategy})
        made = result(name, qualities[name], pairs={"aa-en": 100, "bb-en": 25})
        made.statistics.save(run.folder / "statistics.npz")
        (run.folder / "scores.json").write_text(scores_json(signature={"bleu": "sig-b", "chrf": "sig-c"}))
        folders.append(str(run.folder))
    return folders


def command(*arguments):
    return CliRunner().invoke(app, ["compare", *arguments])


@pytest.mark.parametrize("form", FORMS)
def test_the_command_prints_every_form(runs, form):
    done = command(*runs, "--format", form)
    assert done.exit_code == 0, done.output
    if form == "json":
        assert json.loads(done.stdout)["reference"] == "erm"
    elif form == "latex":
        assert done.stdout.count(r"\begin{table*}") == done.stdout.count(r"\end{table*}") > 5
    else:
        assert re.search(r"^(- )?chi .* erm.* chrF\+\+: worse", done.stdout, re.MULTILINE)
    (warning,) = [line.removeprefix("warning ") for line in done.stderr.splitlines() if "seed" in line]
    assert (warning in done.stdout) == (form != "text")  # in text it would be printed twice


def test_it_takes_names_a_reference_and_a_folder(runs, tmp_path):
    out = tmp_path / "written"
    done = command(f"plain={runs[0]}", f"robust={runs[1]}", "--reference", "robust", "--out", str(out), "--format=json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert [row["name"] for row in content["rows"]] == ["robust", "plain"]
    assert json.loads((out / "comparison.json").read_text()) == content


def test_one_run_is_compared_with_nobody(runs):
    done = command(runs[0])
    assert done.exit_code == 0, done.output
    assert "difference" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["nowhere"], ["nowhere: "]),
        (["{erm}", "--reference", "x"], ["--reference x: ", "erm"]),
        (["{erm}", "--split", "valid"], ["{erm}: ", "`evenglot score {erm} --split valid`"]),
    ],
)
def test_it_refuses_with_a_reason(runs, arguments, facts):
    done = command(*(argument.format(erm=runs[0]) for argument in arguments))
    assert isinstance(done.exception, ValueError)  # `main` prints it and ends with 2
    assert all(fact.format(erm=runs[0]) in str(done.exception) for fact in facts)
    assert "\n" not in str(done.exception)


def test_an_unknown_form_is_refused(runs):
    assert command(*runs, "--format", "html").exit_code == 2


def test_a_grid_file_is_sent_to_the_grid_command(runs, tmp_path):
    file = tmp_path / "grid.yaml"
    file.write_text("base: conf.yaml\nstrategies: {erm: {}}\n")
    for arguments in ([file], [runs[0], file]):
        done = command(*map(str, arguments))
        assert isinstance(done.exception, ValueError)
        assert f"evenglot grid {file}" in str(done.exception)
        assert "\n" not in str(done.exception)


def test_another_file_is_not_taken_for_a_grid(runs, tmp_path):
    file = tmp_path / "conf.yaml"
    file.write_text("balance: {strategy: proportional}\n")
    done = command(str(file))
    assert isinstance(done.exception, ValueError)
    assert "evenglot grid" not in str(done.exception)
