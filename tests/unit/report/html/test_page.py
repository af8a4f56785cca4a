"""The page as text: nothing in it is obeyed, nothing is left out, nothing grows without bound."""

from __future__ import annotations

import ast
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

import pytest_compileiq.report as package
from pytest_compileiq.outcome import RunReport, Verdict
from pytest_compileiq.report.committed import read_committed, report_of_store, slots_of
from pytest_compileiq.report.html.markup import Html, escape, tag
from pytest_compileiq.report.html.page import render_page, write_html
from pytest_compileiq.store.store import Store
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact, make_rows
from tests.unit.report.pages import HOSTILE, VERDICTS, make_claim, make_committed, make_item, make_run

PROVEN = make_item(VERDICTS.index(Verdict.PROVEN), Verdict.PROVEN).speedup
ENVIRONMENT = {"Python": "3.12"}


class Parsed(HTMLParser):
    """Tags, attributes, ids and text of a page, as a browser would read them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += attributes
        if name not in ("meta", "input"):
            self._open.append(name)

    def handle_endtag(self, name):
        assert self._open.pop() == name

    def handle_data(self, data):
        self.text += data

    def all(self, attribute: str) -> list[str | None]:
        return [value for name, value in self.attributes if name == attribute]


def page_of(text: str) -> str:
    report, committed = make_run(text)
    return render_page(report, committed, {"Python": text}, title=text)


def test_hostile_texts_everywhere_add_no_element_and_no_attribute():
    tame, hostile = Parsed(page_of("tame")), Parsed(page_of(HOSTILE))
    assert hostile.tags == tame.tags
    assert [name for name, _ in hostile.attributes] == [name for name, _ in tame.attributes]
    assert hostile.all("href") == tame.all("href")
    assert "img" not in hostile.tags and hostile.tags.count("script") == 1


def test_a_hostile_text_is_shown_with_what_is_not_printable_spelt_out():
    page = page_of(HOSTILE)
    assert "<img src=x onerror=alert(1)>'\"&amp;\\x1b[31m\\u202e\\ud800\n<b>" in Parsed(page).text
    assert "\x1b" not in page and "\u202e" not in page
    page.encode("utf-8")


def test_every_verdict_has_a_row_a_section_its_message_and_its_remedy():
    parsed = Parsed(page_of("because of this"))
    for place, verdict in enumerate(VERDICTS):
        assert verdict in parsed.text and f"kernel-{place:03}" in parsed.text
    assert parsed.tags.count("article") == len(VERDICTS)
    assert "run: pytest --tune because of this" in parsed.text


@pytest.mark.parametrize(
    "said",
    [
        "1 PROVEN",
        f"runtime on decode at least {PROVEN - 0.03:.3f}x faster",
        f"{PROVEN:.3f}x, 95 % interval {PROVEN - 0.03:.3f} to {PROVEN + 0.03:.3f}",
        "on decode, measured now",
        "worse: runtime on prefill 1.250x slower, 1.176 to 1.333",
        "3 invalid (compile): because of this",  # why candidates were invalid
        f"{len(VERDICTS)} × speed: because of this",  # what was not checked
        "driver 580.1, power limit 700 W",
        "12,010",
        "9,040 (-24.7%)",
        "cccccccccccc",  # fingerprint
        "30 evaluations in 1.5 s",
        "3 candidates: 2 compile, 1 crash",
        "Best gain over the baseline so far: 1.1 x after 2; 1.255 x after 17 evaluations.",
        "Pareto front, estimated by the search: because of this against runtime",
        "estimates of the search, not proven",
        "runtime 1.250x faster",
        "because of this 1.500x higher",
        "p1.acf, committed",
        "acf/x is a link",
        "old-because of this",
        "Python",
    ],
)
def test_the_page_says(said):
    assert said in Parsed(page_of("because of this")).text


def test_what_failed_stands_first():
    text = Parsed(page_of("x")).text
    places = [text.index(f"kernel-{place:03}", text.index("Verdicts; headings")) for place in range(len(VERDICTS))]
    failed = [place for place, verdict in zip(places, VERDICTS, strict=True) if make_item(0, verdict).failed]
    assert max(failed) < min(set(places) - set(failed))


def test_ids_are_unique_and_every_reference_has_one():
    parsed = Parsed(page_of("x"))
    ids = parsed.all("id")
    assert len(ids) == len(set(ids))
    references = [href.removeprefix("#") for href in parsed.all("href")]
    references += [*parsed.all("aria-labelledby"), *parsed.all("aria-describedby"), *parsed.all("for")]
    assert set(references) <= set(ids)


def test_nothing_is_fetched_and_the_policy_forbids_it():
    page = page_of("x")
    parsed = Parsed(page)
    assert not {"link", "img", "iframe", "base", "object"} & set(parsed.tags)
    assert not parsed.all("src") and all(href.startswith("#") for href in parsed.all("href"))
    assert not re.search(r"url\(|@import|https?:", page)
    assert any("default-src 'none'" in content for content in parsed.all("content") if content)


@pytest.mark.parametrize(("claims", "processes"), [(2, 8), (1, 32)])
def test_two_hundred_artifacts_stay_under_five_megabytes(claims, processes):
    items = [make_item(place, Verdict.PROVEN) for place in range(200)]
    one = make_committed(claims=claims, processes=processes, front=True)
    committed = {(item.name, item.target): one for item in items}
    page = render_page(RunReport(items), committed, ENVIRONMENT, title="t")
    assert len(page.encode()) < 5_000_000


def test_an_artifact_of_a_thousand_claims_knobs_and_sources_is_cut_and_says_so():
    committed = make_committed(claims=1000)
    artifact = committed.artifact
    controls = artifact.controls.model_copy(update={"knobs": {f"-f{place}": "" for place in range(1000)}})
    sources = artifact.fingerprint.model_copy(update={"sources": {f"{place}.c": "c" * 64 for place in range(1000)}})
    artifact = artifact.model_copy(update={"controls": controls, "fingerprint": sources})
    item = make_item(0, Verdict.PROVEN)
    found = {(item.name, item.target): type(committed)(artifact, committed.slots)}
    page = render_page(RunReport([item]), found, ENVIRONMENT, title="t")
    assert len(page.encode()) < 300_000
    assert "940 more are not shown" in page and "The samples of 992 more claims are not drawn" in page


def test_a_run_without_tuned_tests_is_a_page_too():
    assert "No tuned test ran" in Parsed(render_page(RunReport(), {}, {}, title="t")).text


def test_the_same_run_gives_the_same_bytes():
    assert page_of("x") == page_of("x")


# ── the store alone ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "acf")
    made.write(
        "kernel", make_artifact(claims=(make_claim("cpu", workload="w"),)), controls=[CONTROLS], samples=make_rows()
    )
    return made


def test_a_slot_is_the_median_of_its_samples_in_run_order():
    rows = make_rows()
    slots = slots_of(reversed(rows))
    assert [(slot.process, slot.arm) for slot in slots] == [
        (process, arm) for process in range(2) for arm in ("baseline", "tuned", "tuned", "baseline")
    ]
    assert slots[0].value == pytest.approx((rows[0].value + rows[1].value) / 2)


def test_the_stores_page_shows_claims_and_samples_and_says_what_it_did_not_do(store, tmp_path):
    report = report_of_store(store)
    (item,) = report.items
    assert item.verdict == "COMMITTED" and item.speedup_low == 1.37 and not item.failed
    write_html(report, store, tmp_path / "new" / "page.html", title="t")
    page = (tmp_path / "new" / "page.html").read_text()
    assert "acf check recomputes claims" in page and page.count('class="chart"') == 3


def test_a_changed_samples_file_is_corrupt_in_the_stores_page_and_is_not_drawn(store):
    (samples,) = (store.root / "kernel").glob("*.csv")
    samples.write_text(samples.read_text().replace("baseline", "tuned", 1))
    report = report_of_store(store)
    (item,) = report.items
    assert (item.verdict, item.failed) == ("CORRUPT", True) and samples.name in item.message
    assert read_committed(store, [("kernel", TARGET)])["kernel", TARGET].slots == {}
    assert not report.store_problems


def test_what_belongs_to_no_artifact_is_named(store):
    (store.root / "stray.txt").write_text("?")
    assert "stray.txt" in report_of_store(store).store_problems[0]


# ── markup ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_text_is_escaped_once_and_markup_never():
    inner = tag("b", "<&>", title='"')
    assert inner == '<b title="&quot;">&lt;&amp;&gt;</b>'
    assert tag("p", inner, Html("<br>")) == f"<p>{inner}<br></p>"
    assert escape(escape("<")) == "&lt;"


def test_absent_attributes_are_left_out_and_bare_ones_have_no_value():
    assert tag("input", hidden=True, id=None, open=False, for_="x", aria_label="y") == (
        '<input hidden for="x" aria-label="y">'
    )


def test_markup_is_trusted_in_one_module_only():
    """``Html(...)`` of anything but a literal is how a hole would come about."""
    trusted: Counter[str] = Counter()
    for path in Path(package.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            made = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Html"
            if made and not all(isinstance(argument, ast.Constant) for argument in node.args):
                trusted[path.name] += 1
    assert trusted == {"markup.py": 5}
