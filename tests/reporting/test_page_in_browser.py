"""The page as a person uses it. Slow, and skipped where there is no chromium."""

import json
from itertools import pairwise

import pytest

from evenglot.reporting.page import write_report
from evenglot.runs.run import Run
from tests.browser import FITS, start_browser
from tests.reporting.synthetic import comparison, direction_names, watching, write_run, write_scores, write_statistics

pytestmark = pytest.mark.slow

CELLS = (  # without the names of languages, which follow their codes
    "[...document.querySelectorAll('#data-table tbody tr > :nth-child({})')].map((cell) => cell.firstChild.textContent)"
)
SORT = "document.querySelector('#data-table th:has(#data-table-by-{})').getAttribute('aria-sort')"
SHOWN = "[...document.querySelectorAll('.chip input:checked')].map((box) => box.value)"
TIP = "[...document.querySelectorAll('#plot-{} .tip:not([hidden]) div')].map((row) => row.children[1].textContent)"
SCORES = "scores-by-language"
OVERLAY = """(() => {{
  const box = document.querySelector('#overlay');
  box.value = '{}';
  box.dispatchEvent(new Event('change'));
}})()"""
HOSTILE = "</script><img src=x onerror='document.title=1'><b>bold</b> שלום 🙂"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = start_browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    made = {"one": write_run(folder / "one", 1), "eight": write_run(folder / "eight", 8)}
    made |= {"hundred": write_run(folder / "hundred", 100, 20_000, 100)}
    for run in made.values():
        write_scores(run)
    return made


@pytest.fixture(scope="module")
def pages(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    given = {
        "one": ([runs["one"]], None),
        "eight": ([runs["eight"]], None),
        "hundred": ([runs["hundred"]], None),
        "both": ([runs["eight"], runs["hundred"]], comparison(8, 6)),
        "wide": ([runs["hundred"]], comparison(100, 6)),
    }
    files = {name: write_report(some, folder / f"{name}.html", comparison=c) for name, (some, c) in given.items()}
    return {name: file.as_uri() for name, file in files.items()}


@pytest.fixture(autouse=True)
def no_complaints(browser):
    yield
    assert browser.complaints() == []


@pytest.mark.parametrize("name", ["one", "eight", "hundred", "both", "wide"])
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark"), (320, "light")])
def test_it_fits_every_window_and_asks_nobody(pages, browser, name, width, scheme):
    browser.open(pages[name], width, scheme=scheme)
    assert browser.run(FITS)
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.run(FITS)
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.querySelectorAll('.plot canvas').length") == 5


def test_a_table_is_sorted_by_its_headings(pages, browser):
    browser.open(pages["eight"])
    pairs = browser.run(CELLS.format(2))
    numbers = [int(cell.replace(",", "")) for cell in pairs]
    assert numbers == sorted(numbers, reverse=True)
    browser.click("#data-table-by-pairs")
    assert browser.run(SORT.format("pairs")) == "descending"
    browser.click("#data-table-by-pairs")
    assert browser.run(SORT.format("pairs")) == "ascending"
    assert browser.run(CELLS.format(2)) == pairs[::-1]
    browser.run("document.querySelector('#data-table-by-name').focus()")
    browser.press("Enter", 13, "\r")  # from the keyboard as well
    assert browser.run(CELLS.format(1)) == sorted(browser.run(CELLS.format(1)))
    assert browser.run(SORT.format("pairs")) is None
    assert browser.run("document.activeElement.id") == "data-table-by-name"


def test_hovering_shows_the_values_of_visible_directions(pages, runs, browser):
    browser.open(pages["eight"])
    assert browser.run(TIP.format("train")) == []
    browser.hover("#plot-train .u-over", 0.98, 0.5)
    assert sorted(browser.run(TIP.format("train"))) == sorted(browser.run(SHOWN))
    assert browser.run("document.querySelector('#plot-train .tip strong').textContent") == "Update 1,950"
    events = [json.loads(line) for line in runs["eight"].log_file.read_text().splitlines()]
    losses = next(event["losses"] for event in events if event["event"] == "step" and event["step"] == 1950)
    shown = browser.run("document.querySelector('#plot-train .tip div').textContent")
    name = max(losses, key=losses.get)
    assert shown == f"{name}{losses[name]:.3f}"
    assert browser.run(TIP.format("valid")) == []  # the others show a line only


def test_dragging_zooms_in_and_a_double_click_out(pages, browser):
    browser.open(pages["eight"])
    browser.hover("#plot-train .u-over", 0.5, 0.5)
    box = browser.run("document.querySelector('#plot-train .u-over').getBoundingClientRect().toJSON()")
    y = box["top"] + box["height"] / 2
    x = [box["left"] + part * box["width"] for part in (0.5, 0.7, 0.9)]
    mouse = {"button": "left", "buttons": 1, "clickCount": 1}
    browser.call("Input.dispatchMouseEvent", type="mousePressed", x=x[0], y=y, **mouse)
    for place in x[1:]:
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place, y=y, **mouse)
    browser.call("Input.dispatchMouseEvent", type="mouseReleased", x=x[2], y=y, **mouse)
    first = "document.querySelector('#plot-train .tip strong').textContent"
    browser.hover("#plot-train .u-over", 0.02, 0.5)
    assert browser.run(first) in ("Update 1,000", "Update 1,050")
    for clicks in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            at = {"x": x[1], "y": y, "button": "left", "clickCount": clicks}
            browser.call("Input.dispatchMouseEvent", type=kind, **at)
    browser.hover("#plot-train .u-over", 0.02, 0.5)
    assert browser.run(first) == "Update 50"


def test_arrow_keys_read_a_chart_aloud(pages, browser):
    browser.open(pages["eight"])
    browser.run("document.querySelector('#plot-train').focus()")
    browser.press("End", 35)
    spoken = "document.querySelector('#plot-train + [role=status]').textContent"
    assert browser.run(spoken).startswith("Update 2,000: aaa-en ")
    browser.press("ArrowLeft", 37)
    assert browser.run(spoken).startswith("Update 1,950: aaa-en ")
    assert len(browser.run(TIP.format("train"))) == 8


def test_directions_can_be_chosen(pages, browser):
    browser.open(pages["eight"])
    assert len(browser.run(SHOWN)) == 8
    browser.click(".chip:has([value=aaa-en])")
    assert "aaa-en" not in browser.run(SHOWN)
    browser.hover("#plot-mixture .u-over", 0.5, 0.5)
    assert "aaa-en" not in browser.run(TIP.format("mixture"))
    assert "aaa-en" not in browser.run("document.querySelector('#plot-mixture').getAttribute('aria-label')")
    browser.run("document.querySelector('#table-valid').open = true")
    browser.wait("document.querySelectorAll('#numbers-valid th[scope=col]').length === 8")
    browser.click("#show-smallest")
    assert browser.run(SHOWN) == browser.run(CELLS.format(1))[-5:]
    assert browser.run("document.querySelectorAll('#numbers-valid th[scope=col]').length") == 6
    browser.click("#show-none")
    assert browser.run("document.querySelectorAll('.plot .empty').length") == 5
    browser.click("#show-all")
    assert browser.run("document.querySelectorAll('.plot canvas').length") == 5


def test_a_hundred_directions_begin_with_ten_and_can_be_filtered(pages, browser):
    browser.open(pages["hundred"])
    names = browser.run(CELLS.format(1))
    assert browser.run(SHOWN) == [*names[:5], *names[-5:]]
    looks = "[...document.querySelectorAll('.chip:has(:checked) line')].map((each) => each.outerHTML)"
    assert len(set(browser.run(looks))) == 10
    browser.run("document.querySelector('#language-filter').focus()")
    browser.call("Input.insertText", text=names[42][:3])
    visible = (
        "[...document.querySelectorAll('.chip input')].filter((box) => box.checkVisibility()).map((box) => box.value)"
    )
    assert browser.run(visible) == [names[42]]
    browser.click(f".chip:has([value={names[42]}])")
    assert names[42] in browser.run(SHOWN)


def test_another_run_and_another_metric_can_be_chosen(pages, browser):
    browser.open(pages["both"])
    assert browser.run("document.querySelector('h1').textContent") == "eight"
    words = browser.run("document.querySelector('#comparison-words').textContent")
    assert "chrF++: " in words
    assert browser.run("document.querySelectorAll('#direction-differences .panel').length") == 5
    assert browser.run("document.querySelectorAll('#direction-differences .panel .dot').length") == 40
    warnings = (
        "[...document.querySelectorAll('#comparison .warning')].map((each) => [each.dataset.kind, each.textContent])"
    )
    ((kind, message),) = browser.run(warnings)
    assert kind == "different-updates"
    assert all(fact in message for fact in ("mild: ", "1,500", "erm", "1,400"))
    joined = browser.run("document.querySelector('.trade .path').getAttribute('points').split(' ').length")
    assert joined == 4  # erm, two temperatures, uniform
    browser.run("document.querySelector('#metric-chrf').focus()")
    browser.press("ArrowRight", 39)
    assert "loss per character: " in browser.run("document.querySelector('#comparison-words').textContent")
    assert browser.run("document.activeElement.id") == "metric-loss"
    browser.run("(at => { at.value = 1; at.dispatchEvent(new Event('change')); })(document.querySelector('#run'))")
    assert browser.run("document.querySelector('h1').textContent") == "hundred"
    assert browser.run("document.querySelectorAll('#data-table tbody tr').length") == 100
    assert "loss per character: " in browser.run("document.querySelector('#comparison-words').textContent")


def table(browser, name):
    cells = f"[...document.querySelectorAll('#{name} tbody tr')].map((row) => [...row.cells].map((c) => c.textContent))"
    return browser.run(cells)


@pytest.mark.parametrize(("metric", "digits", "best"), [("bleu", 2, max), ("loss", 4, min)])
def test_scores_by_language_follow_the_metric_and_mark_the_best_two(pages, browser, metric, digits, best):
    given = comparison(8, 6)
    browser.open(pages["both"])
    browser.click(f"label:has(#metric-{metric})")
    means = {
        row["name"]: [*(each["mean"] for each in row["scores"][metric]["directions"].values()),
                      row["scores"][metric]["mean"]["mean"]]
        for row in given["rows"]
    }  # fmt: skip
    shown = {row[0]: [cell.split("±")[0].replace("−", "-") for cell in row[1:]] for row in table(browser, SCORES)}
    assert shown == {name: [f"{value:.{digits}f}" for value in values] for name, values in means.items()}
    for place, column in enumerate(zip(*means.values(), strict=True)):
        order = sorted(column, reverse=best is max)
        for mark, value in zip((".best", ".second"), order, strict=False):
            found = browser.run(f"document.querySelector('#{SCORES} td:nth-child({place + 2}) {mark}').textContent")
            assert found.replace("−", "-") == f"{value:.{digits}f}"


def test_many_languages_go_down_and_what_was_not_validated_is_a_dash(pages, browser):
    browser.open(pages["wide"])
    assert len(table(browser, SCORES)) == 100
    browser.open(pages["both"])
    rows = {row[0]: row[1:] for row in table(browser, "validation-by-language")}
    assert (rows["erm"][0], rows["temperature-2"][0], rows["temperature-2"][-1]) == ("0.9000", "–", "–")


def test_a_difference_is_told_by_more_than_its_colour(pages, browser):
    browser.open(pages["both"])
    browser.click("label:has(#metric-loss)")
    for row, shown in zip(comparison(8, 6)["rows"][1:], table(browser, "strategies")[1:], strict=True):
        low, high = row["difference"]["loss"]["mean"]["interval"]
        expected = "▲" if high < 0 else "▼" if low > 0 else "+−"
        assert shown[2][0] in expected
    kinds = "[...document.querySelectorAll('#group-differences path')].map((each) => each.getAttribute('class'))"
    assert {"dot better-mark", "dot worse-mark"} == set(browser.run(kinds))
    assert browser.run("document.querySelectorAll('#group-differences .panel').length") == 3


def test_colours_follow_the_system_and_the_button(pages, browser):
    back = "getComputedStyle(document.body).backgroundColor"
    browser.open(pages["eight"], scheme="light")
    light = browser.run(back)
    browser.click("#theme")
    dark = browser.run(back)
    assert (light, dark) == ("rgb(252, 251, 249)", "rgb(21, 23, 26)")
    browser.open(pages["eight"], scheme="light")
    assert browser.run(back) == dark  # remembered
    browser.click("#theme")
    assert browser.run(back) == light
    browser.run("localStorage.clear()")
    browser.open(pages["eight"], scheme="dark")
    assert browser.run(back) == dark


def test_everything_has_a_name_for_screen_readers(pages, browser):
    browser.open(pages["both"])
    nameless = (
        "[...document.querySelectorAll('button, select, input, [role=img], [role=region], [role=group]')]"
        ".filter((each) => !(each.getAttribute('aria-label') || each.labels?.length || each.textContent.trim()))"
        ".map((each) => each.outerHTML)"
    )
    assert browser.run(nameless) == []
    ids = browser.run("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(set(ids)) == len(ids)
    levels = browser.run("[...document.querySelectorAll('h1, h2, h3, h4')].map((each) => +each.tagName[1])")
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_texts_are_texts_and_read_in_their_own_direction(runs, browser, tmp_path, monkeypatch):
    sample = {"source": "مرحبا بالعالم", "reference": "hello", "translation": HOSTILE, "score": 12.3}
    three = {"best": sample, "median": sample, "worst": sample, "looked_at": 9}
    found = {"split": "test", "directions": dict.fromkeys(["aaa-en", "abh-en"], three)}
    monkeypatch.setattr("evenglot.reporting.page_data._samples", lambda run: (found, []))
    browser.open(write_report([runs["eight"]], tmp_path / "page.html").as_uri(), 360)
    texts = "[...document.querySelectorAll('.sample dd')].map((each) => each.textContent)"
    assert browser.run(texts)[:3] == [sample["source"], HOSTILE, "hello"]
    assert browser.run("getComputedStyle(document.querySelector('.sample dd')).direction") == "rtl"
    assert browser.run("document.querySelectorAll('.sample b, .sample img').length") == 0
    assert browser.run("document.title").endswith("evenglot report")
    assert browser.run(FITS)
    browser.click("#sample-after")
    assert browser.run("document.querySelector('#sample-direction').value") == "abh-en"


def test_a_word_that_cannot_be_broken_does_not_widen_the_page(runs, browser, tmp_path, monkeypatch):
    sample = {"source": "x", "reference": "x", "translation": "\u0ba8" + "\u0bc8" * 200, "score": 1.0}
    three = {"best": sample, "median": sample, "worst": sample, "looked_at": 9}
    monkeypatch.setattr(
        "evenglot.reporting.page_data._samples", lambda run: ({"split": "test", "directions": {"aaa-en": three}}, [])
    )
    page = write_report([runs["eight"]], tmp_path / "page.html").as_uri()
    for width in (390, 1200):
        browser.open(page, width)
        assert browser.run(FITS)


def append(run, **event):
    with run.log_file.open("a") as log:
        log.write(json.dumps(event) + "\n")


LIVE = "document.querySelector('#live').textContent"


def test_a_live_page_follows_the_run_and_disturbs_nobody(browser, tmp_path):
    run = Run(tmp_path / "live")
    with watching(run) as url:
        browser.open(url)
        assert browser.run("document.querySelector('.words').textContent")
        assert browser.run(LIVE) == "Live: waiting"
        write_run(run.folder, directions=8, done=False)
        browser.wait("document.querySelectorAll('#data-table tbody tr').length === 8")
        browser.wait(f"{LIVE} === 'Live: update 2,000 of 2,000'")

        browser.click("#data-table-by-train")
        browser.click(".chip:has([value=aaa-en])")
        browser.run("document.querySelector('#config').open = true")
        browser.run("document.querySelector('#data-table-by-train').focus({preventScroll: true})")
        browser.run("scrollTo({top: 700, behavior: 'instant'})")
        canvas = "window.canvas ??= document.querySelector('#plot-train canvas')"
        browser.run(f"{canvas}; 0")
        losses = {f"{name}-en": 1.0 + place for place, name in enumerate(["aaa", "abh", "aco", "adv"])}
        append(run, event="step", step=2050, losses=losses, tokens=1, seconds=1.0, total_updates=3000)
        browser.wait(f"/^Live: update 2,050 of 3,000, about [0-9]+ (s|min) left$/.test({LIVE})")
        assert browser.run(CELLS.format(1))[-1] == "aaa-en"  # the new loss, in the chosen order
        assert browser.run(SORT.format("train")) == "descending"
        assert "aaa-en" not in browser.run(SHOWN)
        assert browser.run("document.querySelector('#config').open")
        assert browser.run("document.activeElement.id") == "data-table-by-train"
        assert browser.run("scrollY") == 700
        assert browser.run("document.querySelector('#plot-train canvas') === window.canvas")  # not drawn anew

        append(run, event="done", step=2050, reason="updates", tokens=1, seconds=1.0)
        browser.wait(f"{LIVE} === 'Training has ended.'")


def test_scores_that_come_after_training_are_shown(browser, tmp_path):
    hasty = "{ const wait = setTimeout; window.setTimeout = (what, time) => wait(what, time / 50); }"
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=hasty)["identifier"]
    runs = [write_run(tmp_path / name, directions=2) for name in ("erm", "chi")]
    try:
        with watching(*runs) as url:
            browser.open(url)
            browser.wait(f"{LIVE} === 'Training has ended.'")
            assert browser.run("document.querySelectorAll('#scores, #comparison').length") == 0
            for run in runs:
                write_scores(run)
                write_statistics(run)
            browser.wait("document.querySelectorAll('#scores, #comparison').length === 2")
            assert browser.run(LIVE) == "Training has ended."
            browser.open("about:blank#")
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def test_a_live_page_says_when_the_server_is_gone(browser, tmp_path):
    with watching(write_run(tmp_path / "live", done=False)) as url:
        browser.open(url)
        assert browser.run(LIVE).startswith("Live: ")
    browser.wait(f"{LIVE}.includes('Reload')")
    browser.events.clear()  # failed requests are what this is about


# The triangle

READ = "document.querySelector('#mixture-read').textContent"
BALL = "document.querySelector('#triangle .ball').getAttribute('points')"


def test_the_triangle_begins_with_where_the_run_is_now(pages, runs, browser):
    browser.open(pages["eight"])
    corners = browser.run("[0, 1, 2].map((corner) => document.querySelector(`#corner-${corner}`).value)")
    names = browser.run(CELLS.format(1))
    assert corners == [names[0], names[4], names[7]]
    events = [json.loads(line) for line in runs["eight"].log_file.read_text().splitlines()]
    last = [event for event in events if event["event"] == "interval"][-1]
    shares = [last["mixture"][name] for name in corners]
    said = browser.run(READ)
    assert said.startswith(f"From update {last['step']:,}: ")
    for name, share in zip(corners, shares, strict=True):
        shown = float(said.split(f"{name} ")[1].split(" %")[0])
        assert shown == pytest.approx(100 * share / sum(shares), abs=0.06)


def test_mixtures_are_read_by_mouse_and_by_keys(pages, browser):
    browser.open(pages["eight"])
    browser.hover("#triangle", 0.5, 0.3)  # on the middle line, where the lower corners have the same share
    said = browser.run(READ)
    assert said.startswith("Here: ")
    one, two, _ = [float(part.rsplit(" ", 1)[1]) for part in said.split(" %")[:3]]
    assert one == pytest.approx(two, abs=0.5)
    browser.run("document.querySelector('#triangle').focus()")
    heard = set()
    for _ in range(40):
        browser.press("ArrowRight", 39)
        heard.add(browser.run(READ).split(":")[0])
    assert {"Data", "Uniform", "τ = 2", "τ = 100"} <= heard
    assert "Uniform: " in _after(browser, "ArrowLeft", 37, "Uniform")
    assert browser.run(READ).count("33.3 %") == 3


def _after(browser, key, code, name):
    """What is read when the keys have come to a name."""
    for _ in range(60):
        browser.press(key, code)
        if browser.run(READ).startswith(name):
            break
    return browser.run(READ)


def test_radius_and_corners_are_chosen(pages, browser):
    browser.open(pages["eight"])
    before = browser.run(BALL)
    browser.run("document.querySelector('#radius').focus()")
    browser.press("End", 35)
    assert browser.run(BALL) != before
    assert browser.run("document.querySelector('#radius-read').textContent").startswith("ρ = 10:")
    assert browser.run("[...document.querySelectorAll('#mixtures figcaption span')].at(-1).hidden")
    choose = "(() => { const box = document.querySelector('#corner-0'); box.value = document.querySelector"
    browser.run(choose + "('#corner-2').value; box.dispatchEvent(new Event('change')); })()")
    corners = browser.run("[0, 1, 2].map((corner) => document.querySelector(`#corner-${corner}`).value)")
    names = browser.run(CELLS.format(1))
    assert corners == [names[7], names[4], names[0]]  # two have changed places
    assert names[7] in browser.run("[...document.querySelectorAll('#triangle text')].at(-3).textContent")  # on the left


def test_without_three_directions_there_is_no_triangle(pages, browser):
    browser.open(pages["one"])
    assert browser.run("document.querySelector('#triangle')") is None
    assert browser.run("[...document.querySelectorAll('nav a')].map((link) => link.textContent)").count("Mixtures") == 0


def test_corners_that_were_never_shown_leave_the_page_whole(runs, browser, tmp_path):
    events = [json.loads(line) for line in runs["eight"].log_file.read_text().splitlines()]
    names = list(events[0]["directions"])
    for event in events:
        if event["event"] == "interval":
            alone = {name: float(name == names[1]) for name in names}
            event["mixture"] = event["target"] = alone
    run = Run(tmp_path / "run")
    run.folder.mkdir()
    run.log_file.write_text("".join(json.dumps(event) + "\n" for event in events))
    browser.open(write_report([run], tmp_path / "page.html").as_uri())
    assert browser.run(READ).startswith("Data: ")
    assert browser.run("document.querySelectorAll('.plot canvas').length") == 5


def test_every_metric_that_a_run_was_scored_in_has_a_column(browser, tmp_path):
    """The first run was scored by a version without TER."""
    old, new = (write_run(tmp_path / name, 3) for name in ("old", "new"))
    for run in (old, new):
        write_scores(run)
    content = json.loads((new.folder / "scores.json").read_text())
    for part in (*content["directions"].values(), content["macro"], content["worst"]):
        part["ter"] = 61.25
    content["signature"]["ter"] = "tok:tercom"
    (new.folder / "scores.json").write_text(json.dumps(content))
    browser.open(write_report([old, new], tmp_path / "page.html").as_uri())
    headings = "[...document.querySelectorAll('#score-means th[scope=col]')].map((cell) => cell.textContent)"
    in_data = "document.querySelector('#data-table-by-{}') !== null"
    assert browser.run(headings) == ["", "BLEU", "chrF++"]
    assert [browser.run(in_data.format(key)) for key in ("bleu", "chrf", "ter")] == [True, True, False]
    browser.run("chosen = document.querySelector('#run'), chosen.value = 1, chosen.dispatchEvent(new Event('change'))")
    assert browser.run(headings) == ["", "BLEU", "chrF++", "TER"]
    assert browser.run(in_data.format("ter"))
    assert browser.run("document.querySelector('#score-means td:nth-child(4)').textContent") == "61.25"
    signatures = "[...document.querySelectorAll('#scores .signature')].map((line) => line.textContent)"
    assert browser.run(signatures)[-1] == "TER tok:tercom"


# ------------------------------------------------------------------------------------------------ several runs


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Two runs with the same directions, whose codes are languages, and other steps."""
    folder = tmp_path_factory.mktemp("several")
    runs = [write_run(folder / "first", 3), write_run(folder / "second", 3, 3000, 75)]
    for run in runs:
        text = run.log_file.read_text()
        for ours, theirs in zip(direction_names(3), ("por-en", "tur-en", "xxq-en"), strict=True):
            text = text.replace(ours, theirs)
        run.log_file.write_text(text)
    return write_report(runs, folder / "page.html", comparison=comparison(8, 2)).as_uri()


def test_several_runs_open_on_the_comparison(pages, several, browser):
    first = "document.querySelector('main > section').id"
    browser.open(several)
    assert browser.run(first) == "comparison"
    assert browser.run("document.querySelector('#nav a').getAttribute('href')") == "#comparison"
    browser.open(pages["eight"])
    assert browser.run(first) == "summary"


def test_curves_of_several_runs_are_drawn_over_one_another(several, browser):
    browser.open(several)
    browser.run(OVERLAY.format("tur-en"))
    browser.hover("#plot-train .u-over", 0.98, 0.5)
    assert browser.run(TIP.format("train")) == ["second"], "the first has ended"
    browser.hover("#plot-valid .u-over", 0.5, 0.5)
    assert sorted(browser.run(TIP.format("valid"))) == ["first", "second"]
    assert browser.run("document.querySelector('#languages').checkVisibility()") is False
    legend = "[...document.querySelectorAll('#overlaid .chip')].map((chip) => [chip.innerText, {}])"
    ink = "getComputedStyle(chip.querySelector('line')).stroke"
    named = dict(browser.run(legend.format(ink)))
    assert sorted(named) == ["first", "second"]
    assert len(set(named.values())) == 2
    browser.run(OVERLAY.format(""))
    assert browser.run("document.querySelector('#overlaid').checkVisibility()") is False
    browser.hover("#plot-train .u-over", 0.9, 0.5)
    assert sorted(browser.run(TIP.format("train"))) == ["por-en", "tur-en", "xxq-en"]


def test_languages_have_names_where_the_browser_knows_them(several, browser):
    browser.open(several)
    cells = browser.run(CELLS.format(1).replace("firstChild.", ""))
    assert sorted(cells) == ["por-enPortuguese → English", "tur-enTurkish → English", "xxq-enxxq → English"]
    titles = browser.run("[...document.querySelectorAll('#comparison th [title]')].map((each) => each.title)")
    told = [title for title in titles if "→" in title]
    assert len({title.split(" → ")[0] for title in told}) == 8
    assert all(title.split(", ")[1].endswith(" pairs") for title in told)


def test_a_table_that_scrolls_shows_it(pages, browser):
    browser.open(pages["eight"], 360)
    cue = "document.querySelector('#data-table-box').classList.contains('more-right')"
    browser.wait(cue)
    browser.run("document.querySelector('#data-table-box').scrollTo({left: 9999, behavior: 'instant'})")
    browser.wait(f"!{cue}")
    browser.open(pages["eight"], 1600)
    browser.wait(f"!{cue}")


def test_a_tooltip_lists_the_curves_around_the_cursor(pages, browser):
    """Of many, the largest values would hide those that the cursor points at."""
    browser.open(pages["hundred"])
    browser.click("#show-all")
    browser.hover("#plot-mixture .u-over", 0.5, 0.97)
    rows = "[...document.querySelectorAll('#plot-mixture .tip:not([hidden]) div')]"
    values = f"{rows}.map((row) => parseFloat(row.children[2].textContent.replace('< ', '')))"
    low = browser.run(values)
    browser.hover("#plot-mixture .u-over", 0.5, 0.05)
    assert max(low) < max(browser.run(values))


@pytest.mark.parametrize("chart", ["train", "mixture"])
def test_a_tooltip_hides_neither_the_cursor_nor_the_points_it_tells_of(browser, tmp_path, chart):
    """Of a short run, whose points are far from one another."""
    browser.open(write_report([write_run(tmp_path / "short", 8, 350, 100)], tmp_path / "page.html").as_uri())
    of = (
        f"(what) => [...document.querySelectorAll('#plot-{chart} ' + what)].map((each) => each.getBoundingClientRect())"
    )
    for place in (0.2, 0.4, 0.6, 0.7, 0.8, 0.9):
        browser.hover(f"#plot-{chart} .u-over", place, 0.5)
        ((left, right),) = browser.run(f"({of})('.tip').map((box) => [box.left, box.right])")
        points = browser.run(f"({of})(':is(.u-cursor-pt, .u-cursor-x)').map((box) => (box.left + box.right) / 2)")
        assert len(points) >= 9
        assert not [point for point in points if left <= point <= right]
