"""The HTML report in a real browser, from disk and without a network; and the flags that write it."""

from __future__ import annotations

import json

import pytest

from pytest_compileiq.cli.main import main
from pytest_compileiq.outcome import RunReport
from pytest_compileiq.report.html.page import render_page
from tests.e2e.browser import find_browser, open_browser
from tests.projects import naming
from tests.unit.report.pages import HOSTILE, VERDICTS, make_committed, make_item, make_run

pytestmark = pytest.mark.slow

needs_browser = pytest.mark.skipif(
    find_browser() is None, reason="no Chromium or Chrome on PATH: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(find_browser() or "", tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def tab(browser):
    """The browser, with what earlier tests made it say forgotten."""
    browser.errors.clear()
    browser.requests.clear()
    browser.blocked.clear()
    browser.show(width=1200)
    return browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    report, committed = make_run()
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(report, committed, {"Python": "3.12"}, title="A run"), encoding="utf-8")
    return path


SHOWN = "[...document.querySelectorAll('#rows tr')].filter(row => !row.hidden).map(row => row.querySelector('a').textContent)"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@needs_browser
def test_it_opens_from_disk_asks_for_nothing_and_says_nothing_to_the_console(tab, page):
    tab.open(page)
    assert tab.evaluate("document.querySelectorAll('#rows tr').length") == len(VERDICTS)
    assert tab.requests == [page.as_uri()]
    assert tab.errors == []


@needs_browser
def test_hostile_names_are_text_and_run_nothing(tab, tmp_path):
    report, committed = make_run(HOSTILE)
    path = tmp_path / "hostile.html"
    path.write_text(render_page(report, committed, {"Python": HOSTILE}, title=HOSTILE), encoding="utf-8")
    tab.open(path)
    assert tab.evaluate("document.images.length + document.querySelectorAll('body b b, iframe').length") == 0
    assert "<img src=x onerror=alert(1)>" in tab.evaluate("document.querySelector('article').textContent")
    assert tab.evaluate("document.title").startswith("</script></style>")
    assert tab.errors == [] and tab.requests == [path.as_uri()]


@needs_browser
def test_the_policy_stops_what_would_get_past_the_escaping(tab, page, tmp_path):
    path = tmp_path / "holed.html"
    hole = (
        "<script>document.title = 'owned'</script><img src='http://127.0.0.1:9/x' onerror=\"document.title = 'owned'\">"
    )
    path.write_text(page.read_text(encoding="utf-8").replace("<header>", f"{hole}<header>"), encoding="utf-8")
    tab.open(path)
    assert tab.evaluate("document.title") == "A run"
    assert tab.blocked == ["csp"]
    assert any("Content Security Policy" in error for error in tab.errors)


@needs_browser
def test_typing_filters_rows_and_sections_and_says_how_many(tab, page):
    tab.open(page)
    tab.evaluate("document.getElementById('filter').focus()")
    tab.type("stale 86-64")
    assert tab.evaluate(SHOWN) == [f"kernel-{VERDICTS.index('STALE'):03}"]
    assert tab.evaluate("[...document.querySelectorAll('article')].filter(one => !one.hidden).length") == 1
    assert tab.evaluate("document.getElementById('count').textContent") == f"1 of {len(VERDICTS)} artifacts shown"
    tab.press("Escape")
    assert len(tab.evaluate(SHOWN)) == len(VERDICTS)
    tab.type("no such thing")
    assert tab.evaluate(SHOWN) == []


@needs_browser
def test_headings_sort_both_ways_and_what_has_no_number_stays_last(tab, page):
    tab.open(page)
    gains = "[...document.querySelectorAll('#rows tr')].map(row => row.cells[3].dataset.key)"
    heading = "document.querySelectorAll('.verdicts thead button')[3]"
    for direction in ("ascending", "descending"):
        tab.evaluate(f"{heading}.focus()")
        tab.press("Enter")
        keys = tab.evaluate(gains)
        numbers = [float(key) for key in keys if key]
        assert len(numbers) == 4 and numbers == sorted(numbers, reverse=direction == "descending")
        assert keys[len(numbers) :] == [""] * (len(keys) - len(numbers))
        assert tab.evaluate(f"{heading}.parentElement.getAttribute('aria-sort')") == direction


@needs_browser
def test_the_keyboard_reaches_everything_in_reading_order_with_a_visible_focus(tab, page):
    tab.open(page)
    tab.evaluate("document.body.focus()")
    reached = []
    for _ in range(9):
        tab.press("Tab")
        reached.append(tab.evaluate("document.activeElement.textContent || document.activeElement.id"))
        assert float(tab.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")) >= 2
    headings = ["Artifact", "Target", "Verdict", "Gain", "95 % interval", "Found"]
    assert reached[:8] == ["Skip to the verdicts", "filter", *headings]
    tab.press("Enter")
    assert tab.evaluate("location.hash") == "#artifact-1"
    assert tab.evaluate("document.activeElement.id") == "artifact-1"


@needs_browser
def test_a_screen_reader_is_told_tables_headers_charts_and_the_count(tab, page):
    tab.open(page)
    tab.evaluate("document.querySelector('article:last-of-type').scrollIntoView()")
    nodes = tab.accessible()
    roles = {(node["role"], node["name"]) for node in nodes}
    assert ("table", "Verdicts; headings sort, names lead to the details") in roles
    assert any(role == "searchbox" and name.startswith("Filter") for role, name in roles)
    assert {name for role, name in roles if role == "columnheader"} >= {"Gain", "Workload"}
    charts = [node for node in nodes if node["role"] == "image"]
    assert charts and all(node["name"] and node["description"] for node in charts)
    assert any(node.get("live") == "polite" for node in nodes)
    tab.show(width=390)  # rows become cards, and stay rows of a table
    assert {node["role"] for node in tab.accessible()} >= {"table", "row", "columnheader", "rowheader", "cell"}


CONTRAST = """
(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(one => one / 255).map(one => one <= .04045 ? one / 12.92 : ((one + .055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [.2126, .7152, .0722][at], 0);
  const back = element => { for (; element; element = element.parentElement) {
    const colour = rgb(getComputedStyle(element).backgroundColor); if (colour[3] !== 0) return colour; } return [255, 255, 255]; };
  let worst = [99, ""];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || element.closest("script, svg") || !element.checkVisibility()) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(back(element))].sort((a, b) => b - a);
    const ratio = (a + .05) / (b + .05);
    if (ratio < worst[0]) worst = [ratio, element.outerHTML.slice(0, 200)];
  }
  return worst;
})()
"""


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_contrast_in_light_and_dark_mode(tab, page, tmp_path, dark):
    tab.show(width=1200, dark=dark)
    tab.open(page)
    ratio, where = tab.evaluate(CONTRAST)
    assert ratio >= 4.5, where  # WCAG 2.2, success criterion 1.4.3
    red, green, blue = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (red + green + blue < 200) is dark
    assert len(tab.screenshot(tmp_path / "page.png")) > 10_000


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_scrolls_down_and_never_sideways(tab, page, tmp_path, dark):
    tab.show(width=360, dark=dark)
    tab.open(page)
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert tab.evaluate(OVERFLOW) <= 0
    assert len(tab.screenshot(tmp_path / "phone.png")) > 10_000


@needs_browser
def test_it_is_whole_without_scripts(tab, page):
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(page)
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.evaluate("document.querySelector('.filter').checkVisibility()") is False
    assert len(tab.evaluate(SHOWN)) == len(VERDICTS)


@needs_browser
def test_two_hundred_artifacts_open_and_filter(tab, tmp_path):
    items = [make_item(place, VERDICTS[place % len(VERDICTS)]) for place in range(200)]
    one = make_committed(claims=2)
    committed = {(item.name, item.target): one for item in items}
    path = tmp_path / "large.html"
    path.write_text(render_page(RunReport(items), committed, {}, title="t"), encoding="utf-8")
    tab.open(path)
    tab.evaluate("document.getElementById('filter').focus()")
    tab.type("kernel-19")
    assert tab.evaluate("document.getElementById('count').textContent") == "10 of 200 artifacts shown"


# ── the flags ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_search_writes_why_candidates_were_invalid(project):
    source = (
        "import pytest\nfrom pytest_compileiq import Cc, choice, minimize\n\n\n"
        "@pytest.mark.tune(Cc('k.c', flags='-O3'), objectives=[minimize('code_bytes')],\n"
        "                  space={'-O': choice(['s']), '-mgeneral-regs-only': choice([''], knockout_prob=0.5)})\n"
        "def test_k(acf):\n    acf.build()\n"
    )
    made = project(
        {
            "k.c": "double k(const double *x, int n) { double s = 0; while (n--) s += x[n]; return s; }\n",
            "test_k.py": source,
        }
        | naming("-mgeneral-regs-only")
    )
    made.pytest("--tune", "--tune-engine=grid", "--acf-html=run.html", code=0)
    assert "invalid (compile)" in (made.root / "run.html").read_text(encoding="utf-8")


def test_a_run_writes_its_page_beside_its_json_from_the_controller_alone(tuned):
    pytest.importorskip("xdist")
    flags = ("--acf-check=replay", "--acf-html=out/run.html", "--acf-report=out/run.json")
    tuned.pytest("-p", "xdist", "-n1", *flags, code=0)
    page = (tuned.root / "out" / "run.html").read_text(encoding="utf-8")
    (item,) = json.loads((tuned.root / "out" / "run.json").read_text())["items"]
    assert item["verdict"] in page and item["nodeid"] in page
    assert page.count("<article") == 1 and page.count('class="chart"') == 3
    assert "--acf-check=replay" in page  # why speed was not checked


def test_a_page_that_cannot_be_written_is_a_sentence_and_a_bad_exit_code(tuned):
    output = tuned.pytest("--acf-check=replay", "--acf-html=kernel.c/page.html", code=4)
    assert "kernel.c could not be written for the report" in output


def test_acf_report_writes_the_stores_page(tuned, capsys, tmp_path):
    assert main(["--acf-dir", str(tuned.root / "acf"), "report", str(tmp_path / "page.html")]) == 0
    assert "1 artifact, as committed" in capsys.readouterr().out
    assert "COMMITTED" in (tmp_path / "page.html").read_text(encoding="utf-8")
    tuned.one("acf/kernel/*.csv").unlink()
    assert main(["--acf-dir", str(tuned.root / "acf"), "report", str(tmp_path / "page.html")]) == 1
    assert "CORRUPT" in (tmp_path / "page.html").read_text(encoding="utf-8")
