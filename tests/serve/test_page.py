"""The page in a real browser."""

from __future__ import annotations

import re

import pytest

from evenglot.inference.translate import Translation
from tests.browser import FITS, Browser, start_browser
from tests.serve.clients import FOREIGN, Held, serving


class Translating(Browser):
    """A person at the page."""

    def open(self, url, width=1200, height=900, scheme="light"):
        super().open(url, width, height, scheme)
        self.wait("!!document.querySelector('#go:enabled, #error:not([hidden])')")

    def write(self, text):
        """Replace the source text as a person would."""
        self.run("document.getElementById('text').focus(); document.getElementById('text').select()")
        self.call("Input.insertText", text=text)

    def translated(self):
        self.wait("!document.getElementById('busy').checkVisibility()")
        return self.run("[...document.querySelectorAll('.best')].map((each) => each.textContent)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = start_browser(tmp_path_factory.mktemp("browser"), Translating)
    yield made
    made.close()


ERROR = "((at) => at.checkVisibility() ? at.textContent : '')(document.getElementById('error'))"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_a_person_can_translate(url, translator, browser, width, scheme):
    browser.open(url, width, scheme=scheme)
    assert browser.run("[...document.getElementById('from').options].map((o) => o.value)") == ["aa", "bb", "cc"]
    assert browser.run("[...document.getElementById('to').options].map((o) => o.value)") == ["en"]
    lines = [*FOREIGN["aa"][:5], "", *FOREIGN["aa"][5:40]]  # a long text, with an empty line
    browser.write("\n".join(lines))
    browser.press("Enter", 13, modifiers=2)
    browser.wait("document.querySelectorAll('.best').length === 41")
    assert browser.translated() == translator.translate(lines, source="aa")
    sources = "[...document.querySelectorAll('#results .source')].map((each) => each.textContent)"
    assert browser.run(sources) == lines
    assert "41 sentences in" in browser.run("document.getElementById('status').textContent")
    assert browser.run(FITS)
    browser.run("document.querySelector('details summary').click()")
    assert browser.run("document.querySelectorAll('details[open] td').length") == 6


@pytest.mark.slow
def test_the_page_shows_mistakes_and_empty_text(url, browser):
    browser.open(url, 360)
    browser.write("  ")
    browser.run("document.getElementById('go').click()")
    assert browser.run(ERROR)  # it is visible
    browser.write("x" * 6000)
    browser.run("document.getElementById('go').click()")
    browser.wait(f"{ERROR}.includes('6000 characters')")
    assert browser.run(FITS)
    browser.write("abc")
    browser.run("document.getElementById('go').click()")
    browser.wait("document.querySelectorAll('.best').length === 1")
    assert not browser.run(ERROR)


@pytest.mark.slow
def test_text_is_text_and_reads_in_its_own_direction(model, browser):
    class Echo(Held):
        def stream(self, sentences, direction, options, warn):
            return iter([[Translation(text, -1.0)] for text in sentences])

    lines = ["שלום, עולם!", "مرحبا بالعالم", "<img src=x onerror='document.title=1'><b>bold</b>", "hello"]
    with serving(Echo(), model) as url:
        browser.open(url)
        browser.write("\n".join(lines))
        browser.run("document.getElementById('go').click()")
        browser.wait("document.querySelectorAll('.best').length === 4")
        assert browser.translated() == lines
        directions = "[...document.querySelectorAll('.best, #text')].map((each) => getComputedStyle(each).direction)"
        assert browser.run(directions) == ["rtl", "rtl", "rtl", "ltr", "ltr"]
        assert browser.run("document.querySelectorAll('#results b, #results img').length") == 0
        assert browser.run("document.title").startswith("Translate")
        browser.open(url, 390)
        browser.write("\u0ba8" + "\u0bc8" * 200)  # one letter with many vowel signs: cannot be broken
        browser.run("document.getElementById('go').click()")
        browser.wait("document.querySelectorAll('.best').length === 1")
        assert browser.run(FITS)
    browser.run("document.getElementById('go').click()")
    browser.wait(f"{ERROR} !== ''")


@pytest.mark.slow
def test_only_directions_of_the_model_can_be_chosen(model, browser):
    several = model.model_copy(update={"directions": ["aa-en", "bb-en", "bb-zh_Hans"]})
    chosen = "[...document.getElementById('to').options].map((each) => each.textContent)"
    with serving(Held(False), several) as url:
        browser.open(url)
        assert browser.run(chosen) == ["English (en)"]
        browser.run(
            "document.getElementById('from').value = 'bb';"
            "document.getElementById('from').dispatchEvent(new Event('change'))"
        )
        assert browser.run(chosen) == ["English (en)", "Simplified Chinese (zh_Hans)"]


@pytest.mark.slow
def test_a_phone_is_told_of_no_keys(url, browser):
    shortcut = "document.getElementById('shortcut').checkVisibility()"
    browser.open(url)
    assert browser.run(shortcut)
    assert re.fullmatch(r"run \w+ · strategy [\w-]+ · update [\d,]+", browser.run("at('model').textContent"))
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        browser.open(url, 390)
        assert not browser.run(shortcut)
    finally:
        browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
