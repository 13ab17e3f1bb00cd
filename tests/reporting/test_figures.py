import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from evenglot.extras import MissingExtraError
from evenglot.reporting.figures import draw_comparison, draw_figures, draw_run, draw_simplex
from evenglot.reporting.figures.canvas import GREY, name_points, picture, settle, spread
from evenglot.reporting.figures.runs import MOST_POINTS
from evenglot.reporting.figures.simplex import ball_outline, draw_course
from evenglot.robust import ChiSquareBall
from evenglot.runs.events import Event, parse, to_json
from evenglot.runs.history import History, history
from evenglot.runs.run import Run

PAIRS = {"tur-en": 182_470, "ces-en": 103_093, "aze-en": 5_946}  # of TED talks
ONLY_MIXTURES = {"step": [], "balance": [], "validation": []}
TAG = "{http://www.w3.org/2000/svg}"


class Svg:
    """What a test asks a picture: the texts in it, and where a line that has an id goes."""

    def __init__(self, path: Path) -> None:
        self.root = ElementTree.parse(path).getroot()
        self.groups = {group.get("id"): group for group in self.root.iter(f"{TAG}g")}

    @property
    def texts(self) -> list[str]:
        return ["".join(text.itertext()) for text in self.root.iter(f"{TAG}text")]

    def place(self, text: str) -> tuple[float, float]:
        found = next(each for each in self.root.iter(f"{TAG}text") if "".join(each.itertext()) == text)
        return tuple(map(float, re.findall(r"rotate\(\S+ (\S+) (\S+)\)", found.get("transform"))[0]))

    def line(self, name: str) -> np.ndarray:
        path = next(self.groups[name].iter(f"{TAG}path"))
        return np.array(re.findall(r"[ML] (\S+) (\S+)", path.get("d")), dtype=float)

    def mark(self, name: str) -> tuple[float, float]:
        use = next(self.groups[name].iter(f"{TAG}use"))
        return float(use.get("x")), float(use.get("y"))

    def style(self, name: str) -> str:
        return next(self.groups[name].iter(f"{TAG}path")).get("style")

    def ids(self, start: str) -> set[str]:
        return {name.removeprefix(start) for name in self.groups if name and name.startswith(start)}


def events(pairs: dict[str, int] = PAIRS, **more: list[dict]) -> list[Event]:
    """The log of a run of two intervals whose second mixture is uniform."""
    total = sum(pairs.values())
    p = {name: size / total for name, size in pairs.items()}
    uniform = {name: 1 / len(pairs) for name in pairs}
    losses = {name: 4 + i / len(pairs) for i, name in enumerate(pairs)}
    baseline = {name: loss - 1 for name, loss in losses.items()}
    facts = {name: {"pairs": size, "p": p[name]} for name, size in pairs.items()}
    by_kind = {
        "config": [{"step": 0, "directions": facts, "strategy": "chi-ibr"}],
        "interval": [{"step": 0, "mixture": p, "pairs": {}}, {"step": 100, "mixture": uniform, "pairs": {}}],
        "step": [{"step": step, "losses": losses} for step in (50, 100, 150)],
        "balance": [{"step": step, "losses": losses, "baseline": baseline} for step in (100, 200)],
        "validation": [{"step": step, "loss": losses} for step in (100, 200)],
    } | more
    return [parse({"event": kind, **event}) for kind, several in by_kind.items() for event in several]


def story(pairs: dict[str, int] = PAIRS, **more: list[dict]) -> History:
    return history(events(pairs, **more))


def affine(places: list[float], values: list[float]) -> bool:
    """Do places on paper stand for these values on a linear scale?"""
    fit = np.polyfit(values, places, 1)
    return bool(np.allclose(np.polyval(fit, values), places, atol=1e-3) and abs(fit[0]) > 1e-6)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> list[Path]:
    """The pictures of that run."""
    return draw_run(story(), tmp_path_factory.mktemp("run") / "new" / "folder")


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> list[Path]:
    """The pictures of a comparison."""
    return draw_comparison(comparison(), tmp_path_factory.mktemp("comparison"))


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory) -> list[Path]:
    """Those of another, by losses."""
    return draw_comparison(comparison(("loss",), sd=None), tmp_path_factory.mktemp("one-seed"))


# One run


def test_a_run_gives_three_pictures_with_all_names_as_text(drawn):
    assert [path.name for path in drawn] == ["mixture.svg", "losses.svg", "validation.svg"]
    for path in drawn:
        assert set(PAIRS) <= set(Svg(path).texts)
    assert sorted(drawn[0].parent.iterdir()) == sorted(drawn)


def test_a_mixture_holds_until_the_next_one_on_a_log_scale(drawn):
    told = story()
    svg = Svg(drawn[0])
    heights, shares = [], []
    for name in PAIRS:
        line = svg.line(f"q.{name}")
        across, up = np.abs(np.diff(line, axis=0)).T
        assert (np.minimum(across, up) == 0).all()  # steps, no slopes
        assert affine([line[0][0], line[1][0], line[-1][0]], [0, 100, 200])  # held to the end of the run
        heights += [line[0][1], line[-1][1]]
        shares += [told.p[name], 1 / 3]
        assert "stroke-dasharray" not in svg.style(f"q.{name}")
        assert "stroke-dasharray" in svg.style(f"q-level.{name}")
        assert np.allclose(svg.line(f"q-level.{name}")[:, 1], line[0][1])  # it began at the share of the data
    assert affine(heights, list(np.log(shares)))


def test_a_share_of_zero_is_drawn_at_the_edge(tmp_path):
    closed = {"tur-en": 0.5, "ces-en": 0.5, "aze-en": 0.0}
    svg = Svg(
        draw_run(story(**ONLY_MIXTURES | {"interval": [{"step": 0, "mixture": closed, "pairs": {}}]}), tmp_path)[0]
    )
    frame = svg.line("patch_2")
    assert svg.line("q.aze-en")[0][1] == pytest.approx(frame[:, 1].max())


def test_running_losses_come_with_baselines_where_there_are_some(drawn, tmp_path):
    svg = Svg(drawn[1])
    assert svg.ids("running-loss.") == svg.ids("running-loss-level.") == set(PAIRS)
    assert "stroke-dasharray" in svg.style("running-loss-level.aze-en")
    losses = dict.fromkeys(PAIRS, 3.0)
    svg = Svg(draw_run(story(balance=[{"step": 100, "losses": losses, "baseline": {}}], validation=[]), tmp_path)[1])
    assert svg.ids("running-loss.") == set(PAIRS)
    assert not svg.ids("running-loss-level.")
    assert not any("baseline" in text for text in svg.texts)


def test_without_running_losses_those_of_training_are_drawn(tmp_path):
    svg = Svg(draw_run(story(balance=[], validation=[]), tmp_path)[1])
    assert svg.ids("training-loss.") == set(PAIRS)
    line = svg.line("training-loss.tur-en")
    assert len(line) == 3
    assert np.allclose(svg.line("leader.tur-en")[0], line[-1], atol=1e-3)  # to its name, from where it ends


def test_what_is_not_known_is_a_gap(tmp_path):
    known = {"tur-en": 3.0, "ces-en": 2.5, "aze-en": None}
    steps = [{"step": 1, "losses": known}, {"step": 2, "losses": known | {"ces-en": float("nan")}}]
    svg = Svg(draw_run(story(balance=[], validation=[], step=[*steps, {"step": 3, "losses": known}]), tmp_path)[1])
    assert svg.ids("training-loss.") == {"tur-en", "ces-en"}
    assert "aze-en" not in svg.texts
    assert len(svg.line("training-loss.ces-en")) == 2
    assert len(svg.line("training-loss.tur-en")) == 3


def test_a_run_that_has_only_begun_gives_what_there_is(tmp_path):
    assert [path.name for path in draw_run(story(**ONLY_MIXTURES), tmp_path)] == ["mixture.svg"]


@pytest.mark.parametrize(("count", "named"), [(2, 2), (12, 12), (100, 6)])
def test_names_are_few_enough_to_be_read(tmp_path, count, named):
    pairs = {f"l{i:02d}-en": int(1e6 * 0.9**i) for i in range(count)}
    svg = Svg(draw_run(story(pairs, **ONLY_MIXTURES), tmp_path)[0])
    shown = [name for name in pairs if name in svg.texts]
    assert shown == (list(pairs) if named == count else [*list(pairs)[:3], *list(pairs)[-3:]])
    assert svg.ids("q.") == set(pairs)
    assert sum(GREY in svg.style(f"q.{name}") for name in pairs) == count - named
    heights = sorted(svg.place(name)[1] for name in shown)  # all end at the same height: uniform
    assert min(np.diff(heights)) > 9


def test_long_series_are_thinned(tmp_path):
    moves = [{"step": i, "mixture": {}, "target": dict.fromkeys(PAIRS, 0.1 + i % 7 / 10)} for i in range(3000)]
    svg = Svg(draw_run(story(**ONLY_MIXTURES | {"interval": [], "step": moves}), tmp_path)[0])
    line = svg.line("q.aze-en")
    assert MOST_POINTS / 2 < len(line) <= 2 * MOST_POINTS + 1
    assert line[0][0] == svg.line("patch_2")[:, 0].min()
    assert line[-1][0] == svg.line("patch_2")[:, 0].max()


# A comparison


def found(difference: float, p_holm: float = 1.0) -> dict:
    return {"difference": difference, "interval": [difference - 0.5, difference + 0.4], "p": p_holm, "p_holm": p_holm}


def comparison(metrics=("bleu", "chrf"), sd: float | None = 0.2, groups: bool = True) -> dict:
    directions = {"tur-en": "high", "ces-en": None, "aze-en": "low"}
    rows = []
    strategies = {"erm": 1.0, "uniform": "inf", "warm <5>": 5, "chi-ibr $a$": None}
    for i, (name, tau) in enumerate(strategies.items()):
        scored = {"mean": 20.0 + i, "sd": sd}
        scores = {
            "directions": dict.fromkeys(directions, scored),
            "mean": scored,
            "worst": {"direction": "aze-en", **scored},
            "low_resource": {"mean": 10.0 + i * i, "sd": sd} if groups else None,
            "high_resource": {"mean": 30.0 - i, "sd": sd} if groups else None,
        }
        differences = {
            "directions": {"tur-en": found(-i, 0.01), "ces-en": found(0.1), "aze-en": found(2 * i, 0.01)},
            "mean": found(i / 2),
            "low_resource": found(i) if groups else None,
            "high_resource": found(-i) if groups else None,
        }
        rows.append(
            {
                "name": name,
                "strategy": name,
                "tau": tau,
                "seeds": [1] if sd is None else [1, 2],
                "scores": dict.fromkeys(metrics, scores),
                "difference": dict.fromkeys(metrics, differences) if i else None,
            }
        )
    about = {
        "bleu": {"label": "BLEU", "higher_is_better": True, "digits": 2, "from_text": True},
        "chrf": {"label": "chrF++", "higher_is_better": True, "digits": 2, "from_text": True},
        "loss": {"label": "loss per character", "higher_is_better": False, "digits": 4, "from_text": False},
    }
    return {
        "split": "test",
        "reference": "erm",
        "metrics": {metric: about[metric] for metric in metrics},
        "directions": {name: {"pairs": PAIRS[name], "resource": kind} for name, kind in directions.items()},
        "rows": rows,
    }


def test_differences_by_group_stand_where_they_should(compared):
    assert [path.name for path in compared] == ["differences.svg", "languages.svg", "tradeoff.svg"]
    svg = Svg(compared[0])
    assert {"uniform", "warm <5>", "chi-ibr $a$", "low-resource", "high-resource", "mean of all"} <= set(svg.texts)
    assert {"BLEU minus erm", "chrF++ minus erm"} <= set(svg.texts)
    assert "erm" not in svg.texts  # the reference has no line
    for metric in ("bleu", "chrf"):
        places = [svg.mark(f"{metric}.low_resource.{row}")[0] for row in range(3)]
        places += [svg.mark(f"{metric}.high_resource.{row}")[0] for row in range(3)]
        assert affine(places, [1, 2, 3, -1, -2, -3])


def test_differences_by_language_show_what_is_significant(compared):
    svg = Svg(compared[1])
    assert {"tur-en (182,470)", "ces-en (103,093)", "aze-en (5,946)"} <= set(svg.texts)
    assert affine([svg.mark(f"0.{name}")[0] for name in PAIRS], [-1, 0.1, 2])
    colours = [re.search(r"#\w+", _mark_style(svg, f"0.{name}"))[0] for name in PAIRS]
    assert colours[1] == GREY
    assert len(set(colours)) == 3  # worse, unclear, better


def test_a_smaller_loss_is_better(compared, one_seed):
    by_bleu = Svg(compared[1])
    by_loss = Svg(one_seed[1])
    assert _mark_style(by_bleu, "0.tur-en") == _mark_style(by_loss, "0.aze-en")
    assert "loss per character minus erm (lower is better)" in by_loss.texts


def test_the_trade_off_joins_static_temperatures_in_their_order(compared):
    svg = Svg(compared[2])
    assert svg.texts.count("chi-ibr $a$") == 2  # a panel for each metric
    assert any("sd over seeds" in text for text in svg.texts)
    line = svg.line("bleu.temperatures")
    assert np.allclose(line, [svg.mark(f"bleu.{row}") for row in (0, 2, 1)], atol=1e-3)  # tau 1, 5, inf
    assert affine([svg.mark(f"bleu.{row}")[0] for row in range(4)], [30, 29, 28, 27])
    assert affine([svg.mark(f"bleu.{row}")[1] for row in range(4)], [10, 11, 14, 19])


def test_one_seed_has_no_error_bars(compared, one_seed):
    svg = Svg(one_seed[2])
    assert not any("sd over seeds" in text for text in svg.texts)
    assert not svg.ids("LineCollection")
    assert Svg(compared[2]).ids("LineCollection")


def test_a_metric_that_is_not_there_is_not_drawn(tmp_path):
    written = draw_comparison(comparison(("chrf", "loss")), tmp_path)
    assert len(written) == 3
    for path in written:
        assert not any("BLEU" in text or "character" in text for text in Svg(path).texts)


def test_without_groups_there_is_no_trade_off(tmp_path):
    written = draw_comparison(comparison(("bleu",), groups=False), tmp_path)
    assert [path.name for path in written] == ["differences.svg", "languages.svg"]
    assert "low-resource" not in Svg(written[0]).texts


def _mark_style(svg: Svg, name: str) -> str:
    return next(svg.groups[name].iter(f"{TAG}use")).get("style")


# The simplex


@settings(max_examples=30)
@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.floats(0.001, 3))
def test_an_outline_is_at_the_radius_of_the_ball(sizes, rho):
    p = np.array(sizes) / sum(sizes)
    ball = ChiSquareBall(p, rho)
    outline = ball_outline(p, rho, points=25)
    assert np.allclose(outline.sum(axis=1), 1)
    assert np.allclose([ball.divergence(q) for q in outline], rho, rtol=1e-9)
    inside = outline[(outline > 0).all(axis=1)]
    assert all(ball.contains(q) for q in inside)


def test_best_responses_lie_on_the_outline():
    p = np.array([0.1, 0.3, 0.6])
    outline = ball_outline(p, 0.02, points=20_001)
    for v in np.random.default_rng(5).normal(size=(20, 3)):
        nearest = np.abs(outline - ChiSquareBall(p, 0.02).best_response(v)).max(axis=1).min()
        assert nearest < 1e-4


def test_the_simplex_has_balls_temperatures_and_answers(tmp_path):
    path = tmp_path / "simplex.svg"
    excess = {"aze-en": 0.9, "tur-en": 0.2, "ces-en": 0.3}
    draw_simplex(PAIRS, path, rhos=(0.05, 0.3, 30), taus=(1, 5, 100, np.inf), excess=excess)
    svg = Svg(path)
    total = sum(PAIRS.values())
    assert {f"{name} ({100 * size / total:.3g} %)" for name, size in PAIRS.items()} <= set(svg.texts)
    assert {"data (tau = 1)", "uniform", "tau = 5", "tau = 100", "best response"} <= set(svg.texts)
    assert "tau = inf" not in svg.texts  # that is uniform
    assert "chi-square ball, rho = 30 (all mixtures)" in svg.texts
    assert svg.ids("rho.") == {"0.05", "0.3", "30"}
    assert svg.ids("answer.") == {"0.05", "0.3", "30"}
    outline, centre = svg.line("rho.0.05"), np.array(svg.mark("data"))
    assert np.allclose((outline.min(axis=0) + outline.max(axis=0)) / 2, centre, atol=0.1)


def test_the_course_of_a_run_goes_from_the_data_to_where_it_ended(tmp_path):
    pairs = {"tur-en": 182_470, "rus-en": 150_000, "ces-en": 103_093, "glg-en": 10_000, "aze-en": 5_946}
    draw_course(story(pairs), tmp_path / "simplex.svg")  # to uniform
    svg = Svg(tmp_path / "simplex.svg")
    assert [name for name in pairs if any(text.startswith(f"{name} (") for text in svg.texts)] == [*PAIRS]
    course = svg.line("course")
    assert np.allclose(course[0], svg.mark("data"), atol=0.1)
    assert np.allclose(course[-1], svg.mark("uniform"), atol=0.1)
    assert svg.mark("last") == pytest.approx(svg.mark("uniform"))
    assert "this run" in svg.texts


def test_a_course_that_leaves_the_three_languages_is_drawn_where_it_can_be(tmp_path):
    gone, one = dict.fromkeys(PAIRS, 0.0), {"tur-en": 0.0, "ces-en": 0.0, "aze-en": 0.01}
    draw_simplex(PAIRS, tmp_path / "simplex.svg", course=[gone, one, gone])
    corner = next(Svg(tmp_path / "simplex.svg").groups["last"].iter(f"{TAG}use"))
    assert float(corner.get("y")) == pytest.approx(min(Svg(tmp_path / "simplex.svg").line("patch_2")[:, 1]))
    draw_simplex(PAIRS, tmp_path / "simplex.svg", course=[gone])


def test_a_ball_that_holds_all_mixtures_says_so(tmp_path):
    draw_simplex({"a": 1, "b": 1, "c": 1}, tmp_path / "simplex.svg", rhos=(0.5, 1), taus=())
    svg = Svg(tmp_path / "simplex.svg")
    assert {"chi-square ball, rho = 0.5", "chi-square ball, rho = 1 (all mixtures)"} <= set(svg.texts)


@pytest.mark.parametrize("sizes", [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 0}])
def test_a_triangle_has_three_corners(tmp_path, sizes):
    with pytest.raises(ValueError, match="^simplex: "):
        draw_simplex(sizes, tmp_path / "simplex.svg")


# Everything at once


def test_several_runs_have_folders_of_their_own(tmp_path):
    folders = {"erm/a": "erm/seed-1", "chi": "chi/seed-1", "..": "odd"}
    named = [(name, Run(tmp_path / "runs" / folder)) for name, folder in folders.items()]
    named.append(("chi", Run(tmp_path / "runs/chi/seed-2")))
    for _, run in named:
        run.folder.mkdir(parents=True)
        run.log_file.write_text("".join(json.dumps(to_json(event)) + "\n" for event in events(**ONLY_MIXTURES)))
    alone = comparison(("bleu",))
    alone["rows"] = alone["rows"][:1]  # the reference differs from nothing
    written = draw_figures(named, alone, tmp_path / "out")
    subfolders = ("erm-a", "chi-seed-1", "run", "chi-seed-2")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in written] == [
        *(f"{each}/{picture}.svg" for each in subfolders for picture in ("mixture", "simplex")),
        "tradeoff.svg",
    ]
    alone = draw_figures(named[:1], None, tmp_path / "one")
    assert alone == [tmp_path / "one/mixture.svg", tmp_path / "one/simplex.svg"]


# What all share


def test_the_same_input_gives_the_same_bytes_whatever_the_user_has_set(drawn, compared, tmp_path):
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.hashsalt": None}):
        again = [*draw_run(story(), tmp_path), *draw_comparison(comparison(), tmp_path)]
        assert matplotlib.rcParams["font.size"] == 30  # and they find it as it was
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in (*drawn, *compared)]


def test_png(tmp_path):
    written = draw_run(story(step=[], balance=[]), tmp_path, "png")
    assert [path.name for path in written] == ["mixture.png", "validation.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_another_format_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"mixture\.gif: .*\.svg.*\.png"):
        draw_run(story(), tmp_path, "gif")


def test_a_file_is_complete_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "simplex.svg"
    path.write_text("old")

    def fail(self, file, **options):
        file.write(b"<svg>")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        draw_simplex(PAIRS, path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("simplex.svg", "old")]


def test_matplotlib_is_imported_when_a_picture_is_drawn():
    program = "import sys, evenglot.reporting.figures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_no_matplotlib_is_one_clear_line(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for error in (ValueError, ModuleNotFoundError):  # the command line prints a ValueError as one line
        with pytest.raises(error, match=r'^matplotlib is not installed: pip install "evenglot\[figures\]"$'):
            draw_run(story(), tmp_path)
    with pytest.raises(MissingExtraError):
        draw_simplex(PAIRS, tmp_path / "simplex.svg")
    assert not list(tmp_path.iterdir())


def test_letters_the_font_lacks_are_no_error(tmp_path):
    draw_simplex({"日本語": 1, "ქართული": 2, "አማርኛ": 3}, tmp_path / "simplex.svg")
    assert any(text.startswith("日本語") for text in Svg(tmp_path / "simplex.svg").texts)


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(-1, 2), max_size=15), st.floats(0.01, 0.2))
def test_names_are_spread_in_their_order(heights, gap):
    free = spread(heights, gap)
    order = sorted(heights, key=lambda name: (heights[name], name))
    assert list(free) == order
    places = [free[name] for name in order]
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(places))
    if all(heights[b] - heights[a] >= gap for a, b in itertools.pairwise(order)):
        assert places == [heights[name] for name in order]  # nothing clashes: nothing moves
    assert sum(places) == pytest.approx(sum(heights.values()), abs=1e-6)


def test_names_of_near_points_do_not_cover_each_other(tmp_path):
    points = {f"strategy {i}": (0.5 + 0.02 * np.cos(i), 0.5 + 0.02 * np.sin(i)) for i in range(8)}
    with picture(tmp_path / "points.png", 5, 5) as figure:
        axis = figure.subplots()
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
        settle(figure)
        name_points(axis, points, dict.fromkeys(points, "#000000"))
        frame = axis.get_window_extent()
        figure.draw_without_rendering()
        boxes = [Text.get_window_extent(text) for text in axis.texts]  # without the leaders
    assert len(boxes) == 8
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)
