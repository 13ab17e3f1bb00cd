"""What catches the eye of a person who reads the page, and on a phone. Slow, and skipped where there is no chromium."""

import re

import pytest

from evenglot.reporting.page import write_report
from tests.browser import start_browser
from tests.reporting.synthetic import comparison, write_run, write_scores

pytestmark = pytest.mark.slow

STYLE = """(() => {{
  const style = getComputedStyle(document.querySelector('{}'));
  const [size, weight] = [parseFloat(style.fontSize), +style.fontWeight];
  return {{ size, weight, colour: style.color.match(/[\\d.]+/g).map(Number) }};
}})()"""
TOP = "document.querySelector('{}').getBoundingClientRect().top"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = start_browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    runs = [write_run(folder / "sixteen", 16), write_run(folder / "other", 16)]
    for run in runs:
        write_scores(run)
    return write_report(runs, folder / "page.html", comparison=comparison(16, 2)).as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_warnings_are_as_loud_as_verdicts(page, browser, scheme):
    browser.open(page, scheme=scheme)
    verdict, warning = (browser.run(STYLE.format(f"#comparison-words p{kind}")) for kind in ("", ".warning"))
    back = 0 if scheme == "dark" else 255
    assert warning["size"] >= verdict["size"]
    assert warning["weight"] > verdict["weight"]
    assert abs(warning["colour"][0] - back) >= abs(verdict["colour"][0] - back)
    assert browser.run(TOP.format("#comparison-words .warning")) < browser.run(TOP.format("#metric"))


def test_warnings_about_a_run_follow_its_summary(page, browser):
    browser.open(page)
    sections = browser.run("[...document.querySelectorAll('main > section')].map((each) => each.id)")
    assert sections[:3] == ["comparison", "summary", "warnings"]


def test_sixteen_curves_look_different(page, browser):
    browser.open(page, scheme="dark")
    browser.click("#show-all")
    looks = "[...document.querySelectorAll('.chip:has(:checked) line')].map((each) => {}.outerHTML)"
    assert len(set(browser.run(looks.format("each")))) == 16
    colours = "[...document.querySelectorAll('.chip line')].map((each) => getComputedStyle(each).stroke)"
    assert len(set(browser.run(colours))) == 8  # each whole, and dashed


def test_on_a_phone_there_is_no_talk_of_hovering_or_keys(page, browser):
    words = "document.body.innerText"
    browser.open(page)
    assert re.search("(?i)hover", browser.run(words))
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        browser.open(page, width=390, height=844)
        assert browser.run("matchMedia('(hover: none)').matches")
        assert not re.search("(?i)hover|arrow key|click", browser.run(words))
    finally:
        browser.call("Emulation.setTouchEmulationEnabled", enabled=False)


def test_scores_of_smaller_and_larger_corpora_are_shown(page, browser):
    browser.open(page)
    rows = "[...document.querySelectorAll('#score-means tbody th')].map((cell) => cell.textContent)"
    assert browser.run(rows)[:3] == ["Mean of all directions", "Smaller corpora", "Larger corpora"]
