"""What claims say in words: what was gained leads, what is worse is called worse, and nothing is a win that is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_compileiq.artifact import Controls, FrontPoint
from pytest_compileiq.claim import Claim
from pytest_compileiq.outcome import ItemReport, RunReport, Verdict
from pytest_compileiq.report.claims import NOW, brief_text, claim_text, estimate_texts, headline, located, results_of
from pytest_compileiq.report.terminal import summary_lines
from tests.unit.report.pages import make_claim

STANDS_ON = "p = 1e-06, d = 4.2, 8 processes"


def timed(speedup: float, *, spread=0.02, kind="gain", objective="runtime", **changes) -> Claim:
    low, high = speedup - spread, speedup + spread
    numbers = {"speedup": speedup, "speedup_low": low, "speedup_high": high}
    return make_claim("cpu", objective=objective, kind=kind, **{"direction": "minimize", **numbers, **changes})


def slower(**changes) -> Claim:
    return timed(0.908, kind="non-inferior", **changes)


def level(**changes) -> Claim:
    return timed(1.005, kind="non-inferior", **changes)


def counted(metric: str, before: int, after: int, direction="minimize", workload="decode") -> Claim:
    return Claim(
        device="sm_90a", workload=workload, objective=metric, direction=direction, kind="exact",
        baseline_value=before, tuned_value=after,
    )  # fmt: skip


TEXTS = {
    "a gain in time": (timed(1.25), "runtime 1.250x faster, 1.230 to 1.270"),
    "a loss in time": (slower(), "worse: runtime 1.101x slower, 1.078 to 1.126"),
    "no difference in time": (level(), "runtime no clear difference, 1.015x slower to 1.025x faster"),
    "not worse, and surely faster": (timed(1.25, kind="non-inferior"), "runtime 1.250x faster, 1.230 to 1.270"),
    "a gain in a tail": (timed(1.25, objective="runtime@p99"), "runtime@p99 1.250x faster, 1.230 to 1.270"),
    "a gain in what is to be low": (timed(1.25, objective="energy"), "energy 1.250x lower, 1.230 to 1.270"),
    "a gain in what is to be high": (
        timed(1.25, objective="rate", direction="maximize"), "rate 1.250x higher, 1.230 to 1.270",
    ),
    "a loss in what is to be high": (
        slower(objective="rate", direction="maximize"), "worse: rate 1.101x lower, 1.078 to 1.126",
    ),
    "fewer": (counted("registers", 40, 32), "registers 40 → 32"),
    "more of what is to be few": (counted("registers", 40, 48), "worse: registers 40 → 48"),
    "as many": (counted("spill_bytes", 0, 0), "spill_bytes 0 → 0, unchanged"),
    "more of what is to be many": (counted("instructions", 10, 12, "maximize"), "instructions 10 → 12"),
    "bounds that nobody measured": (timed(1.25, spread=1.25), "runtime 1.250x faster, 1000000000.000x slower to 2.500x faster"),
}  # fmt: skip


@pytest.mark.parametrize(("claim", "said"), TEXTS.values(), ids=TEXTS)
def test_a_ratio_is_never_below_1_and_a_word_says_which_way(claim, said):
    assert claim_text(claim) == said


LEADS = {
    "the size, where the time is worse": ([slower(), counted("code_bytes", 100, 85)], "code_bytes 100 → 85"),
    "the registers, where nothing spilled": (
        [counted("spill_bytes", 0, 0), counted("registers", 40, 32)], "registers 40 → 32",
    ),
    "the first objective that gained": (
        [timed(1.1), timed(1.9, objective="energy")], "runtime at least 1.080x faster (1.100x, 95 % interval 1.080 to 1.120)",
    ),
    "of its workloads the surest": (
        [timed(1.2, workload="prefill", spread=0.15), timed(1.1)],
        "runtime on decode at least 1.080x faster (1.100x, 95 % interval 1.080 to 1.120)",
    ),
    "a gain whose two-sided interval holds 1, without a bound": (
        [timed(1.012, spread=0.013)], "runtime 1.012x faster, 1.001x slower to 1.025x faster",
    ),
    "nothing, where nothing is claimed": ([], ""),
    "a loss as a loss, should there be nothing else": ([slower()], "worse: runtime 1.101x slower, 1.078 to 1.126"),
}  # fmt: skip


@pytest.mark.parametrize(("claims", "said"), LEADS.values(), ids=LEADS)
def test_what_was_gained_leads_its_lower_bound_first(claims, said):
    assert headline(results_of(claims)) == said


def lines(item: ItemReport) -> list[str]:
    return [text for text, _ in summary_lines(RunReport([item]), failures_shown=True)]


def tuned(*claims: Claim, verdict=Verdict.TUNED, measured=()) -> ItemReport:
    return ItemReport("t.py::t", "k", "gcc12", verdict, "m").with_results(results_of(claims, measured))


def test_the_summary_has_a_line_for_every_result_beyond_the_headline_what_is_worse_first():
    size = [counted("code_bytes", 100, 85, workload=workload) for workload in ("decode", "prefill", "odd")]
    item = tuned(timed(1.3), level(workload="prefill"), slower(workload="odd"), *size)
    assert lines(item)[:-1] == [
        f"k  gcc12  TUNED      runtime on decode at least 1.280x faster (1.300x, 95 % interval 1.280 to 1.320)  {STANDS_ON}",
        "    worse: runtime on odd 1.101x slower, 1.078 to 1.126",
        "    code_bytes 100 → 85",  # of the build, and so the same on every workload
        "    runtime on prefill no clear difference, 1.015x slower to 1.025x faster",
    ]
    (worse,) = [
        markup for text, markup in summary_lines(RunReport([item]), failures_shown=True) if text.startswith("    worse")
    ]
    assert worse == {"yellow": True}


def test_many_results_are_cut_and_counted():
    item = tuned(*(timed(1.3, workload=f"w{number}") for number in range(30)))
    assert len(lines(item)) == 11
    assert lines(item)[9] == "    and 21 more claims: acf show k"
    shown = tuned(*(timed(1.3, workload=f"w{number}") for number in range(9)))
    assert len(lines(shown)) == 9 + 1 and not any("more claim" in each for each in lines(shown))
    one_more = tuned(*(timed(1.3, workload=f"w{number}") for number in range(10)))
    assert lines(one_more)[9] == "    and 1 more claim: acf show k"


def test_what_was_measured_now_leads_and_what_stands_on_record_is_called_so():
    here, there = timed(1.2), timed(1.9, device="H200")
    now = here.model_copy(update={"speedup": 1.1, "speedup_low": 1.09, "speedup_high": 1.11})
    item = tuned(here, there, counted("code_bytes", 100, 120), verdict=Verdict.PROVEN, measured=[now])
    assert lines(item)[:-1] == [
        f"k  gcc12  PROVEN     runtime on cpu at least 1.090x faster (1.100x, 95 % interval 1.090 to 1.110)  {NOW}",
        "    worse: code_bytes 100 → 120",
        "    recorded, runtime on H200 1.900x faster, 1.880 to 1.920",
    ]


def test_a_loss_measured_now_does_not_lead_over_what_is_exact():
    item = tuned(slower(), counted("code_bytes", 100, 85), verdict=Verdict.PROVEN, measured=[slower()])
    assert lines(item)[:2] == [
        "k  gcc12  PROVEN     code_bytes 100 → 85",
        "    worse: runtime 1.101x slower, 1.078 to 1.126",
    ]


def test_a_line_holds_every_objective_and_every_loss_and_counts_the_rest():
    size = counted("code_bytes", 100, 85)
    workloads = [timed(1.2 + number / 10, workload=f"w{number}") for number in range(3)]
    results = results_of([*workloads, slower(workload="odd"), size])
    assert brief_text(results) == (
        "runtime on w2 1.400x faster, 1.380 to 1.420; worse: runtime on odd 1.101x slower, 1.078 to 1.126; "
        "code_bytes 100 → 85; and 2 more"
    )
    assert brief_text(()) == ""


STALE = ItemReport("t.py::t", "old", "gcc12", Verdict.STALE, "k.c (changed)", remedy="run: pytest --tune", failed=True)


def summary(*items: ItemReport, failures_shown=True) -> list[str]:
    return [text for text, _ in summary_lines(RunReport(list(items)), failures_shown=failures_shown)]


def test_what_pytest_told_as_a_failure_is_counted_and_not_told_again():
    proven = tuned(counted("code_bytes", 100, 85), verdict=Verdict.PROVEN)
    assert summary(STALE, proven) == ["k  gcc12  PROVEN     code_bytes 100 → 85", "1 proven, 1 stale"]
    whole = ["old  gcc12  STALE      k.c (changed)", "1 stale", "old: run: pytest --tune"]
    assert summary(STALE, failures_shown=False) == whole
    lenient = replace(STALE, failed=False)
    assert summary(lenient) == whole
    wrong = replace(STALE, verdict=Verdict.WRONG, message="the test fails with the committed controls", remedy="")
    assert summary(wrong)[0] == "old  gcc12  WRONG      the test fails with the committed controls"


def test_a_report_comes_back_from_its_line_of_json():
    item = tuned(timed(1.3), slower(workload="odd"))
    assert ItemReport.from_json(item.to_json()) == item
    assert [located(one, item.results) for one in item.results][1].startswith("worse: runtime on odd")


def test_a_point_of_the_front_speaks_as_claims_do_as_far_as_it_is_on_record_which_way_is_better():
    controls = Controls(kind="options", file="p.acf", sha256="0" * 64, size_bytes=1)
    metrics = {"runtime": 0.8, "rate": 0.8, "code_bytes": 1.0, "other": 0.8}
    better = {"runtime": "minimize", "rate": "maximize", "code_bytes": "minimize"}
    shifts = {"loss": 0.0, "error": 1.0}
    texts = estimate_texts(FrontPoint(controls=controls, metrics=metrics, shifts=shifts), better)
    assert list(texts.values()) == [
        "runtime 1.250x faster",
        "worse: rate 1.250x lower",
        "code_bytes unchanged",
        "other 0.8 of the baseline's",
        "loss unchanged",
        "error higher by 1 of the baseline's magnitude",
    ]
