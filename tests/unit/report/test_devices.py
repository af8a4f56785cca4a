"""A claim over several devices, wherever it is shown: which ones, what each of them showed, and which is strange."""

from __future__ import annotations

import json

from pytest_compileiq.outcome import ItemReport, RunReport, Verdict
from pytest_compileiq.report.artifact import artifact_lines, artifacts_json
from pytest_compileiq.report.change import change_json, terminal_lines
from pytest_compileiq.report.claims import headline, report_on
from pytest_compileiq.report.committed import report_of_store
from pytest_compileiq.report.html.page import write_html
from pytest_compileiq.report.markdown import markdown_text, summary_text
from pytest_compileiq.report.terminal import summary_lines
from pytest_compileiq.rules.diff import compare
from pytest_compileiq.store.store import Store
from tests.unit.artifacts import CONTROLS, GPUS, TARGET, make_artifact, make_rows, measured_claim, over_devices
from tests.unit.rules.test_diff import side

ALONE = measured_claim("H200")
THREE = over_devices(ALONE, *GPUS[:3], speedups=(1.09, 1.1, 1.4), outliers=(GPUS[2],))
SIX = over_devices(ALONE, *GPUS[:6])
ON_THREE, OF_SIX = "on these 3 devices", "for the fleet (6 devices; another one: 1.020 to 1.090)"
STRANGE = "GPU-2a2b3c4d 1.400x faster, 1.380 to 1.420, 4 processes, an outlier among them"


def report_of(claim) -> ItemReport:
    return report_on("t.py::t", "k", TARGET, Verdict.TUNED, "", make_artifact(claims=(claim,)))


def test_the_line_of_a_run_says_which_devices_its_gain_is_about():
    for claim, scope in ((THREE, ON_THREE), (SIX, OF_SIX)):
        item = report_of(claim)
        lines = [text for text, _ in summary_lines(RunReport([item]), failures_shown=False)]
        assert f"runtime at least 1.050x faster (1.100x, 95 % interval 1.050 to 1.200), {scope}" in lines[0]
    assert "device" not in headline(report_of(ALONE).results)


def test_an_outlier_is_a_note_of_its_own():
    assert f"{STRANGE}: not of a kind with the other devices on w (runtime)" in report_of(THREE).notes
    assert not any("of a kind" in note for note in report_of(SIX).notes)


def test_a_report_names_the_devices_for_a_program_and_older_reports_are_read():
    item = report_of(THREE)
    (result,) = json.loads(item.to_json())["results"]
    assert (result["scope"], result["devices"]) == (ON_THREE, list(GPUS[:3]))
    assert ItemReport.from_json(item.to_json()) == item
    older = json.loads(report_of(ALONE).to_json())
    del older["results"][0]["scope"], older["results"][0]["devices"]
    assert ItemReport.from_json(json.dumps(older)) == report_of(ALONE)


def test_show_tells_what_each_device_showed():
    lines = list(artifact_lines("k", make_artifact(claims=(THREE,))))
    assert f"  claim      gain on w: runtime 1.100x faster, 1.050 to 1.200, {ON_THREE}" in lines
    assert f"    {STRANGE}" in lines and "    GPU-0a2b3c4d 1.090x faster, 1.070 to 1.110, 4 processes" in lines
    (artifact,) = json.loads(artifacts_json("k", [make_artifact(claims=(SIX,))]))["artifacts"]
    assert (
        artifact["claims"][0]["devices"][5]["unit"] == GPUS[5] and artifact["claims"][0]["fleet"]["another_low"] == 1.02
    )


def test_a_diff_shows_in_every_format_that_a_claim_speaks_for_fewer_devices():
    change = compare(side(claims=(SIX,)), side(claims=(THREE,)))
    terminal = "\n".join(terminal_lines("a", "b", [change], ()))
    assert f"! worse     H200, w: runtime 1.100x faster, 1.050 to 1.200, {OF_SIX}" in terminal
    assert f"was for a fleet, now only {ON_THREE}" in terminal
    assert "no longer on GPU-3a2b3c4d, GPU-4a2b3c4d, GPU-5a2b3c4d" in terminal
    markdown = markdown_text("a", "b", [change], ())
    assert f"was for a fleet, now only {ON_THREE}" in markdown and "**worse**" in markdown
    (told,) = json.loads(change_json("a", "b", [change], ()))["changes"]
    assert "was for a fleet" in told["claims"][0]["worse"]
    assert [device["unit"] for device in told["claims"][0]["new"]["devices"]] == list(GPUS[:3])


def test_the_page_and_the_job_summary_show_devices(tmp_path):
    store = Store(tmp_path / "acf")
    store.write("k", make_artifact(claims=(THREE,)), controls=[CONTROLS], samples=make_rows("H200"))
    write_html(report_of_store(store), store, tmp_path / "page.html", title="k")
    page = (tmp_path / "page.html").read_text()
    assert f"H200, {ON_THREE}" in page and "Results by device" in page
    assert "GPU-2a2b3c4d" in page and "1.380 to 1.420" in page and "an outlier" in page
    assert ON_THREE in summary_text(RunReport([report_of(THREE)]))
