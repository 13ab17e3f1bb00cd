import pytest
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.preview.dry_run import dry_run
from evenglot.reporting.figures import draw_history
from tests.corpus.conftest import corpus as corpus

SIZES = {"aa-en": 600, "bb-en": 150, "cc-en": 50}
TOKENS = {name: 6 * size for name, size in SIZES.items()}
ROOMY = {"strategy": "chi-ibr", "max_upsample": 3}


def test_a_dry_run_shows_more_of_what_lags_behind(configure):
    done = dry_run(configure(ROOMY), SIZES, TOKENS, 8)
    assert len(done.simulation.mixtures) == 8
    assert done.simulation.mixtures[0] == pytest.approx(done.simulation.p)
    assert done.simulation.passes["cc-en"] > 8 > done.simulation.passes["aa-en"]
    assert done.temperatures[5].passes["cc-en"] > done.temperatures[2].passes["cc-en"] > 8


def test_the_table_has_a_row_a_group_the_largest_first(configure):
    table = dry_run(configure(ROOMY), SIZES, TOKENS, 8).table
    assert "chi-ibr" in table.title
    cells = {str(column.header): list(column.cells) for column in table.columns}
    assert cells[""] == list(SIZES)
    assert cells["pairs"] == ["600", "150", "50"]
    assert [float(text) for text in cells["p %"]] == [75, 18.8, 6.25]
    assert all(
        float(least) <= float(last) <= float(most)
        for least, last, most in zip(cells["least %"], cells["last %"], cells["most %"], strict=True)
    )


def test_intervals_have_the_length_they_are_given(configure):
    short, long = (dry_run(configure(ROOMY), SIZES, TOKENS, 8, pairs).simulation for pairs in (100, 800))
    assert [sum(drawn.values()) for drawn in short.drawn] == pytest.approx([100] * 8, abs=2)
    assert [sum(drawn.values()) for drawn in long.drawn] == pytest.approx([800] * 8, abs=2)
    assert short.passes["aa-en"] == pytest.approx(long.passes["aa-en"] / 8, rel=0.1)


def test_the_command_simulates_the_run_of_the_configuration(corpus):
    conf = str(corpus / "conf.yaml")
    settings = ["--set", "train.updates=12", "--set", "batches.interval_updates=3", "--set", "balance={strategy: fade}"]
    assert CliRunner().invoke(app, ["prepare", conf]).exit_code == 0
    title, *_ = CliRunner().invoke(app, ["simulate", conf, *settings]).stdout.splitlines()
    assert " 4 intervals" in title
    title, *_ = CliRunner().invoke(app, ["simulate", conf, *settings, "--intervals", "7"]).stdout.splitlines()
    assert " 7 intervals" in title


def test_figures_are_drawn_over_intervals(configure, tmp_path):
    written = draw_history(dry_run(configure(ROOMY), SIZES, TOKENS, 5).history, tmp_path)
    assert [path.name for path in written] == ["mixture.svg", "losses.svg", "simplex.svg"]
    text = written[0].read_text(encoding="utf-8")
    assert ">intervals<" in text
    assert "updates" not in text
    assert "chi-ibr" in text


def test_gradients_cannot_be_made_up(configure):
    with pytest.raises(ValueError, match=r"^balance\.strategy: multidds"):
        dry_run(configure({"strategy": "multidds"}), SIZES, TOKENS, 3)
