import base64
import hashlib
import json
import math
import re
from itertools import combinations
from pathlib import Path

import pytest

import evenglot.reporting
from evenglot import yaml12
from evenglot.reporting.page import LARGEST, embedded, page, write_report
from evenglot.runs.run import Run
from tests.reporting.synthetic import comparison, write_run, write_scores

HOSTILE = "</script><b>bold</b><!-- <script> & \u2028 שלום 🙂"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    run = write_run(tmp_path_factory.mktemp("runs") / "small", directions=2)
    write_scores(run)
    return run


@pytest.fixture(scope="module")
def html(small, tmp_path_factory):
    return write_report([small], tmp_path_factory.mktemp("page") / "report.html").read_text(encoding="utf-8")


def embedded_data(html):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, flags=re.DOTALL)
    return json.loads(found[1])


def test_the_page_needs_nothing_from_anywhere(html):
    assert re.findall(r'(?:src|href|action)\s*=\s*"(?!#|data:,")[^"]*"', html) == []
    assert "@import" not in html
    assert not re.search(r"url\(\s*['\"]?(?!#)", page().style)
    assert page().policy.startswith("default-src 'none'; ")


def test_the_policy_allows_just_this_script_and_this_style(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1].replace("&#39;", "'")
    for kind in ("script", "style"):
        inside = re.search(rf"<{kind}>(.*?)</{kind}>", html, flags=re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_licence_of_what_is_inside_goes_with_it(html):
    assert "Copyright (c) 2022 Leon Sorokin" in html
    assert "The above copyright notice and this permission notice shall be included" in html
    assert "uPlot (v1.6.32)" in html


def test_whatever_a_text_says_it_stays_a_text(tmp_path):
    run = write_run(tmp_path / "a<b>&c", directions=2)
    run.config_file.write_text(yaml12.dump({"note": HOSTILE}), encoding="utf-8")
    html = write_report([run], tmp_path / "page.html").read_text(encoding="utf-8")
    assert yaml12.parse(embedded_data(html)["runs"][0]["config"])[0] == {"note": HOSTILE}
    assert html.count("</script>") == 2
    assert "<b>" not in html
    assert "a&lt;b&gt;&amp;c · evenglot report</title>" in html
    assert json.loads(embedded({"x": HOSTILE})) == {"x": HOSTILE}


def test_a_reader_without_scripts_gets_the_summary(html):
    inside = re.search(r"<noscript>(.*?)</noscript>", html, flags=re.DOTALL)[1]
    assert "12.3 million parameters" in inside
    assert "chi-ibr" in inside


def test_without_scripts_no_seed_of_a_strategy_is_lost(tmp_path):
    seeds = [write_run(tmp_path / "erm" / f"seed-{seed}", directions=2) for seed in (1, 2)]
    html = write_report(seeds, tmp_path / "page.html", names=["erm", "erm"]).read_text(encoding="utf-8")
    inside = re.search(r"<noscript>(.*?)</noscript>", html, flags=re.DOTALL)[1]
    assert re.findall("<h2>(.*)</h2>", inside) == ["erm seed-1", "erm seed-2"]


def test_several_runs_and_a_comparison(small, tmp_path):
    other = write_run(tmp_path / "other", directions=3)
    html = write_report([small, other], tmp_path / "page.html", comparison=comparison()).read_text(encoding="utf-8")
    data = embedded_data(html)
    named = write_report([small, other], tmp_path / "named.html", names=["ERM", "chi"]).read_text(encoding="utf-8")
    assert [run["name"] for run in embedded_data(named)["runs"]] == ["ERM", "chi"]
    assert [run["name"] for run in data["runs"]] == ["small", "other"]
    assert data["comparison"]["reference"] == "erm"
    assert "<title>small, other · evenglot report</title>" in html


def test_a_hundred_languages_and_200000_updates_stay_below_a_megabyte(tmp_path):
    run = write_run(tmp_path / "large", directions=100, updates=200_000, log_every=200)
    write_scores(run)
    file = write_report([run, run], tmp_path / "page.html", comparison=comparison(directions=100, strategies=8))
    data = embedded_data(file.read_text(encoding="utf-8"))
    assert file.stat().st_size < LARGEST
    series = data["runs"][0]["series"]["train"]
    assert (len(series["values"]), series["of"], series["steps"][-1]) == (100, 1000, 200_000)
    assert len(series["steps"]) >= 60  # still a curve


def test_many_long_translations_are_shortened_until_they_fit(small, tmp_path, monkeypatch):
    def texts(run):
        sample = {"source": "я" * 900, "reference": "字" * 900, "translation": "<" * 900, "score": 1.0}
        three = {"best": sample, "median": sample, "worst": sample, "looked_at": 9}
        return {"split": "test", "directions": {f"x{i}-en": three for i in range(200)}}, []

    monkeypatch.setattr("evenglot.reporting.page_data._samples", texts)
    file = write_report([small], tmp_path / "page.html")
    found = embedded_data(file.read_text(encoding="utf-8"))["runs"][0]["samples"]["directions"]
    assert file.stat().st_size < LARGEST
    assert len(found) == 200
    assert 40 < len(found["x0-en"]["best"]["source"]) < 900


def test_the_file_is_complete_or_what_it_was(small, tmp_path, monkeypatch):
    out = tmp_path / "new" / "folder" / "report.html"
    write_report([small], out)
    before = out.read_bytes()

    def full_disk(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_report([small], out, comparison=comparison())
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_mistakes_leave_no_file(tmp_path):
    with pytest.raises(ValueError, match="^report: "):
        write_report([], tmp_path / "page.html")
    with pytest.raises(ValueError, match="nothing: "):
        write_report([Run(tmp_path / "nothing")], tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def _oklab(colour: str) -> tuple[float, ...]:
    """A colour in Oklab, where distances are as they look."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    cones = (
        0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue,
        0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue,
        0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue,
    )
    long, medium, short = (cone ** (1 / 3) for cone in cones)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def _colours(names: str, dark: bool) -> list[str]:
    """The colours of these variables of the page, in the order in which they are defined."""
    style = (Path(evenglot.reporting.__file__).parent / "page" / "page.css").read_text(encoding="utf-8")
    found = re.findall(rf"--(?:{names}): light-dark\((#\w{{6}}), (#\w{{6}})\)", style)
    return [pair[dark] for pair in found]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_of_curves_can_be_told_apart(dark):
    colours = _colours(r"c\d", dark)
    assert len(colours) == 8
    assert min(math.dist(_oklab(one), _oklab(other)) for one, other in combinations(colours, 2)) > 0.13
    (back,) = _colours("back", dark)
    assert min(math.dist(_oklab(one), _oklab(back)) for one in colours) > 0.3
    assert min(_contrast(one, back) for one in colours) > 3  # WCAG 2.2, 1.4.11


@pytest.mark.parametrize("dark", [False, True])
def test_words_can_be_read_in_every_colour(dark):
    backs = _colours("back|raised|sunk", dark)
    inks = _colours("text|muted|accent|good|bad", dark)
    assert len(backs) == 3
    assert len(inks) == 5
    assert min(_contrast(ink, back) for ink in inks for back in backs) > 4.5  # WCAG 2.2, 1.4.3
    assert _contrast(*_colours("text|warn-back", dark)) > 7
