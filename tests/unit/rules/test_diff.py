"""What a change means, from values alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_compileiq.artifact import CodePair, CodeTable, Provenance
from pytest_compileiq.claim import ChecksTable, Claim, DecisionRecord, Stress, Summary
from pytest_compileiq.model import Licence
from pytest_compileiq.report.change import facts
from pytest_compileiq.rules.classes import Classed
from pytest_compileiq.rules.diff import EntryStep, Kind, Side, Step, compare, pair_renamed
from tests.unit.artifacts import TARGET, make_artifact

NUMBERS = Summary(n=4, mean=1e-4, std=1e-6, p5=1e-4, p50=1e-4, p95=1e-4, p99=1e-4)
DECISION = DecisionRecord(alpha=0.01, level=0.003, look=1, processes=8, flips=4096, seed=1, finalists=1)


def gain(
    low=1.2, high=1.4, *, device="H200", workload="decode", kind="gain", driver="580.1", objective="runtime", scale=None
) -> Claim:
    return Claim(
        device=device, workload=workload, objective=objective, kind=kind, driver=driver, speedup=(low + high) / 2,
        speedup_low=low, speedup_high=high, p_value=1e-5, cohens_d=3.0, samples="s.csv", test=DECISION,
        baseline=NUMBERS, tuned=NUMBERS, scale=scale, direction="minimize",
    )  # fmt: skip


def lower(low: float, high: float, scale: float | None, kind="gain") -> Claim:
    """A loss that is lower by these shares of ``scale``, or without one by ratios that are as much above 1."""
    return gain(1 + low, 1 + high, objective="loss", scale=scale, kind=kind)


def counted(tuned: int, baseline: int = 10, direction="minimize") -> Claim:
    return Claim(
        device="sm_90a", workload="w", objective="registers", direction=direction, kind="exact",
        baseline_value=baseline, tuned_value=tuned,
    )  # fmt: skip


def side(name="k", target=TARGET, problem="", warnings=(), untraced=(), **changes) -> Side:
    return Side(name, target, make_artifact(target=target, **changes), problem, warnings, untraced)


def told(**changes):
    return make_artifact().controls.model_copy(update=changes)


UNREADABLE = Side("k", TARGET, None, "acf/k/x.toml is not TOML")
PROMOTED = {"outcome": "promoted", "reason": "point 1 of the front, chosen and not proven yet", "claims": ()}
RETIRED = {"outcome": "retired", "reason": "wrong on NaN"}
OTHER_CONTROLS = told(sha256="9" * 64, knobs={"-O": 2})
KINDS = {
    "came": (None, side(), Kind.ADDED),
    "went": (side(), None, Kind.REMOVED),
    "nothing": (side(), side(), Kind.UNCHANGED),
    "other controls": (side(), side(controls=OTHER_CONTROLS), Kind.RETUNED),
    "only a knob that the file does not hold": (side(), side(controls=told(knobs={"-O": True})), Kind.RETUNED),
    "another outcome": (side(), side(outcome="baseline", controls=None, claims=()), Kind.RETUNED),
    "withdrawn": (side(), side(**RETIRED), Kind.RETIRED),
    "another point promoted": (side(), side(**PROMOTED), Kind.PROMOTED),
    "a promoted point proven": (side(**PROMOTED), side(), Kind.RETUNED),
    "still withdrawn": (side(**RETIRED), side(**RETIRED), Kind.UNCHANGED),
    "another compiler line": (side(), side(target="x86-64-v3-gcc13"), Kind.RETARGETED),
    "the same controls in a file of another name": (side(), side(controls=told(file="m.acf")), Kind.REFRESHED),
    "new claims for the same controls": (side(), side(claims=(gain(),)), Kind.REFRESHED),
    "another name": (side(), side(name="m"), Kind.RENAMED),
    "broken": (side(), UNREADABLE, Kind.CORRUPT),
    "added broken": (None, UNREADABLE, Kind.CORRUPT),
    "repaired": (UNREADABLE, side(), Kind.REPAIRED),
    "still broken": (UNREADABLE, UNREADABLE, Kind.UNCHANGED),
    "controls are not those recorded": (side(), side(problem="x"), Kind.CORRUPT),
}


@pytest.mark.parametrize(("old", "new", "kind"), KINDS.values(), ids=KINDS)
def test_every_kind_of_change(old, new, kind):
    assert compare(old, new).kind is kind


def test_a_comparison_of_nothing_is_refused():
    with pytest.raises(ValueError, match="a side"):
        compare(None, None)


TRENDS = {
    "apart above": (gain(1.1, 1.2), gain(1.3, 1.4), "a larger gain"),
    "apart below": (gain(1.3, 1.4), gain(1.1, 1.2), "a smaller gain"),
    "overlapping": (gain(1.1, 1.3), gain(1.2, 1.4), "no clear difference"),
    "touching from below": (gain(1.1, 1.2), gain(1.2, 1.3), "no clear difference"),
    "touching from above": (gain(1.2, 1.3), gain(1.1, 1.2), "no clear difference"),
    "another device": (gain(), gain(device="H100"), "not comparable"),
    "a ratio, then a difference": (lower(0.1, 0.2, None), lower(0.3, 0.4, 1.0), "not comparable: one is a ratio"),
    "a difference, then a ratio": (lower(0.3, 0.4, 1.0), lower(0.1, 0.2, None), "not comparable: one is a ratio"),
    "larger shares of half the scale": (lower(0.1, 0.2, 4.0), lower(0.3, 0.35, 2.0), "no clear difference"),
    "smaller shares of four times the scale": (lower(0.3, 0.4, 1.0), lower(0.2, 0.25, 4.0), "a larger gain"),
    "equal shares of half the scale": (lower(0.3, 0.4, 2.0), lower(0.3, 0.4, 1.0), "a smaller gain"),
    "fewer": (counted(8), counted(7), "better"),
    "more": (counted(7), counted(8), "worse"),
    "as many": (counted(8), counted(8), "the same"),
    "as far above the baseline as it was below": (counted(8), counted(12), "worse"),
    "more where more is better": (counted(12, direction="maximize"), counted(14, direction="maximize"), "better"),
    "less where more is better": (counted(8, direction="maximize"), counted(7, direction="maximize"), "worse"),
}


@pytest.mark.parametrize(("old", "new", "words"), TRENDS.values(), ids=TRENDS)
def test_the_step_of_the_leading_claim_is_judged_by_its_intervals(old, new, words):
    assert compare(side(claims=(old,)), side(claims=(new,))).judgement.startswith(words)


def test_the_gain_with_the_highest_lower_bound_leads():
    claims = (gain(1.1, 1.9), gain(1.3, 1.4, workload="w"), gain(2.0, 2.1, workload="v", kind="non-inferior"))
    assert compare(None, side(claims=claims)).lead.new.workload == "w"


def test_gains_over_different_baselines_are_said_to_be():
    code = {"k": CodePair(baseline=CodeTable(sha256="1" * 64), tuned=CodeTable(sha256="f" * 64))}
    words = compare(side(claims=(gain(),)), side(claims=(gain(),), code=code)).judgement
    assert "the baseline's machine code changed" in words


def test_the_leading_claim_is_compared_with_the_same_claim_of_before():
    old = side(claims=(gain(2.0, 2.1, workload="prefill"), gain(1.1, 1.2)))
    new = side(claims=(gain(1.5, 1.6), gain(1.2, 1.3, workload="prefill")))
    lead = compare(old, new).lead
    assert (lead.old.workload, lead.new.workload, lead.old.speedup_low) == ("decode", "decode", 1.1)


WORSE = {
    "a smaller gain": (gain(1.3, 1.4), gain(1.1, 1.2), "a smaller gain than before"),
    "smaller shares of a larger scale": (lower(0.3, 0.4, 2.0), lower(0.1, 0.12, 4.0), "a smaller gain than"),
    "larger shares of a smaller scale": (lower(0.1, 0.2, 4.0), lower(0.3, 0.35, 1.0), "a smaller gain than"),
    "a smaller difference, perhaps": (lower(0.1, 0.2, 4.0), lower(0.3, 0.35, 2.0), ""),
    "a difference in place of a larger ratio": (lower(0.8, 0.9, None), lower(0.1, 0.2, 1.0), ""),
    "a difference that is no gain any more": (lower(0.8, 0.9, None), lower(-0.1, 0.2, 1.0, "non-inferior"), "was a"),
    "a higher loss": (None, lower(-0.2, -0.1, 2.0, "non-inferior"), "higher than the defaults"),
    "no longer a gain": (gain(1.01, 1.2), gain(0.995, 1.02, kind="non-inferior"), "was a proven gain"),
    "slower than the defaults, and new": (None, gain(0.98, 0.995, kind="non-inferior"), "slower than"),
    "no faster than the defaults, perhaps, and new": (None, gain(0.98, 1.0, kind="non-inferior"), ""),
    "more of what is to be few": (counted(7), counted(8), "worse than before"),
    "as much of what is to be few": (counted(8), counted(8), ""),
    "the same": (gain(), gain(), ""),
    "a smaller gain, perhaps": (gain(1.2, 1.3), gain(1.1, 1.2), ""),
    "a larger gain": (gain(1.1, 1.2), gain(1.3, 1.4), ""),
}


@pytest.mark.parametrize(("old", "new", "words"), WORSE.values(), ids=WORSE)
def test_workloads_that_got_worse_are_named(old, new, words):
    change = compare(side(claims=(old,) if old else ()) if old else None, side(claims=(new,)))
    assert bool(change.worse) is bool(words)
    assert all(step.worse.startswith(words) for step in change.worse)


def test_devices_whose_claims_were_dropped_or_added_are_named():
    change = compare(side(claims=(gain(), gain(device="H100"))), side(claims=(gain(), gain(device="GH200"))))
    assert (change.devices_dropped, change.devices_added) == (("H100",), ("GH200",))


def test_where_it_stood_before_is_said_only_of_what_moved():
    assert compare(side("k"), side("m")).was == f"k/{TARGET}"
    assert compare(side("k"), side("k", "x86-64-v3-gcc13")).was == f"k/{TARGET}"
    assert compare(side(), side()).was == compare(None, side()).was == compare(side(), None).was == ""


def test_the_reason_is_the_newer_side_s():
    assert compare(side(), side(**RETIRED)).reason == "wrong on NaN"
    assert compare(side(**RETIRED), side()).reason == compare(side(**RETIRED), None).reason == ""


def test_metrics_of_a_c_plus_plus_entry_are_told_by_its_name():
    def of(registers: int) -> Side:
        table = CodeTable(sha256="f" * 64, metrics={"registers": registers})
        return side(code={"_Z5scalePf": CodePair(baseline=table, tuned=table)})

    lines = [line for fact in facts(compare(of(32), of(24))) for line in fact.lines]
    assert "scale: registers 32 → 24" in lines


def test_exact_metrics_are_of_the_shipped_code_and_of_the_baseline_for_what_is_new():
    def with_metrics(tuned):
        return {
            "k": CodePair(
                baseline=CodeTable(sha256="e" * 64, metrics={"registers": 40, "spill_bytes": 0}),
                tuned=CodeTable(sha256="f" * 64, metrics={"registers": tuned, "spill_bytes": 0}),
            )
        }

    old, new = side(code=with_metrics(32)), side(code=with_metrics(24))
    assert compare(old, new).metrics == (EntryStep("k: registers", 32, 24, "k"),)
    assert compare(None, new).metrics == (EntryStep("k: registers", 40, 24, "k"),)
    withdrawn = side(code=with_metrics(24), **RETIRED)
    assert compare(new, withdrawn).metrics == (EntryStep("k: registers", 24, 40, "k"),)
    eight = CodeTable(sha256="1" * 64, metrics={"registers": 8})
    further = side(code=with_metrics(24) | {"b": CodePair(baseline=eight, tuned=eight)})
    assert compare(new, further).metrics == (EntryStep("b: registers", None, 8, "b"),)
    assert compare(further, new).metrics == (EntryStep("b: registers", 8, None, "b"),)


def test_an_exact_claim_from_nothing_tells_both_numbers():
    change = compare(side(), side(claims=(gain(), counted(4, 0, direction="maximize"))))
    assert any("registers 4 (defaults: 0)" in str(fact) for fact in facts(change))


def test_the_same_controls_are_no_difference():
    assert compare(side(), side(claims=(gain(),))).controls is None


def test_knobs_and_controls_are_told_apart():
    change = compare(side(), side(controls=told(sha256="9" * 64, knobs={"-O": 2, "-ftracer": ""})))
    assert change.knobs == (Step("-O", 3, 2), Step("-ftracer", None, ""), Step("-funroll-loops", "", None))
    assert change.controls == Step("sha256", make_artifact().controls.sha256, "9" * 64)


def test_compiler_driver_and_inputs_that_made_it_stale_are_told():
    old = make_artifact(claims=(gain(),))
    compiler = old.compiler.model_copy(update={"version": "12.3.0", "command": ("gcc", "-O3", "k.c")})
    sources = {"k.c": "0" * 64, "n.h": "1" * 64}
    fingerprint = old.fingerprint.model_copy(update={"sources": sources, "benchmark": "2" * 64, "command": "3" * 64})
    new = old.model_copy(update={"compiler": compiler, "fingerprint": fingerprint, "claims": (gain(driver="590.2"),)})
    change = compare(Side("k", TARGET, old), Side("k", TARGET, new))
    assert [step.what for step in change.environment] == ["command", "compiler", "driver of H200"]
    text = " ".join(change.inputs)
    for said in (
        "k.c: changed",
        "k.h: no longer read",
        "n.h: now read",
        "the benchmark changed",
        "command changed",
        "another build",
    ):
        assert said in text


def test_entries_whose_machine_code_changed_are_named_arm_by_arm():
    code = {
        "k": CodePair(baseline=CodeTable(sha256="e" * 64), tuned=CodeTable(sha256="0" * 64)),
        "b": CodePair(baseline=CodeTable(sha256="1" * 64), tuned=CodeTable(sha256="2" * 64)),
    }
    assert [step.what for step in compare(side(), side(code=code)).code] == ["b (baseline)", "b (tuned)", "k (tuned)"]


def test_neighbours_that_the_newest_controls_change_are_loud_and_other_functions_are_told():
    code = {
        name: CodePair(baseline=CodeTable(sha256=before * 64), tuned=CodeTable(sha256=after * 64))
        for name, before, after in (("_ZN2ns1kEv", "1", "2"), ("b", "3", "4"), ("c", "5", "5"))
    }
    change = compare(side(), side(code=code, functions=("_ZN2ns1kEv",)))
    assert change.also_changes == ("b",)
    told_of = {fact.label: fact for fact in facts(change)}
    assert told_of["reach"].lines == ("also changes: b, not exercised by this test",) and told_of["reach"].loud
    assert told_of["functions"].lines == ("the test now stands for ns::k",)
    assert compare(side(code=code, functions=("b",)), side()).also_changes == ()


def test_what_is_not_here_as_it_was_tuned_and_a_side_s_own_warnings_reach_the_reviewer():
    dirty = Provenance(commit="1" * 40, dirty=True, tool="x")
    assert compare(None, side(provenance=dirty)).warnings == ()
    files = tuple(f"k{number}.c" for number in range(7))
    warnings = compare(None, side(provenance=dirty, warnings=("samples",), untraced=files)).warnings
    assert warnings[0] == "samples"
    said = "tuned with uncommitted changes, and not here as it was tuned: "
    assert warnings[1] == said + "k0.c, k1.c, k2.c, k3.c, k4.c, and 2 more"


def test_bringing_back_retired_machine_code_is_a_warning():
    assert "wrong on NaN" in compare(side(**RETIRED), side()).warnings[0]
    other = {"k": CodePair(baseline=CodeTable(sha256="e" * 64), tuned=CodeTable(sha256="0" * 64))}
    assert compare(side(**RETIRED), side(code=other)).warnings == ()
    assert compare(side(), side(claims=(gain(),))).warnings == ()


def test_the_evidence_names_device_driver_commit_and_runner():
    made = Provenance(commit="1" * 40, dirty=False, tool="x", runner="run 7")
    assert (
        compare(None, side(claims=(gain(),), provenance=made)).evidence
        == "H200, driver 580.1, commit 111111111111, run 7"
    )


PAIRS = {
    "another name": (side("k"), side("m", benchmark="t.py::m")),
    "another name and another tuning of the same test": (side("k"), side("m", controls=OTHER_CONTROLS)),
    "another compiler line": (side("k"), side("k", "x86-64-v3-gcc13", controls=OTHER_CONTROLS)),
    "another architecture of the same test": (side("k"), side("k", "x86-64-v4-gcc12")),
}


@pytest.mark.parametrize(("old", "new"), PAIRS.values(), ids=PAIRS)
def test_a_rename_is_recognised(old, new):
    assert pair_renamed([old], [new]) == [(old, new)]


def test_what_has_nothing_in_common_stands_alone():
    fingerprint = make_artifact().fingerprint.model_copy(update={"sources": {"other.c": "5" * 64}})
    code = {"o": CodePair(baseline=CodeTable(sha256="5" * 64), tuned=CodeTable(sha256="6" * 64))}
    old, new = side("k"), side("other", benchmark="o.py::o", fingerprint=fingerprint, code=code)
    assert pair_renamed([old], [new]) == [(old, None), (None, new)]
    assert pair_renamed([UNREADABLE], [side("m")]) == [(UNREADABLE, None), (None, side("m"))]


def test_several_of_one_likeness_are_paired_once_each_in_order_of_their_names():
    old, new = [side("k-2"), side("k-1")], [side("m-1"), side("m-2"), side("m-3")]
    assert [(a and a.name, b and b.name) for a, b in pair_renamed(old, new)] == [
        ("k-1", "m-1"), ("k-2", "m-2"), (None, "m-3"),
    ]  # fmt: skip


def classed(*own, licences=(), **changes) -> Side:
    return replace(side(**changes), classed=Classed(dict.fromkeys(own, ("-f",))), licences=licences)


FMA = Licence("contraction", "contraction", "-march=x86-64-v3", "-ffp-contract=off")
LICENSED = {"licences": (FMA,)}
GAINED = {
    "a new artifact gains what is beyond value-safe": (None, classed("environment", "order"), ("environment", "order")),
    "what was there before is no gain": (classed("environment"), classed("environment", "opaque"), ("opaque",)),
    "value-safe is never a gain": (classed("opaque"), classed("value-safe"), ()),
    "a licence widens every control": (classed("value-safe"), classed("value-safe", **LICENSED), ("contraction",)),
    "a licence hides no narrower class": (classed("value-safe", **LICENSED), classed("value-safe", "environment", **LICENSED), ("environment",)),
    "withdrawn controls were not applied": (classed("relaxed-maths", **RETIRED), classed("relaxed-maths"), ("relaxed-maths",)),
    "controls that waited for their proof were not applied": (classed("order", **PROMOTED), classed("order"), ("order",)),
    "withdrawn controls gain nothing": (classed("value-safe"), classed("order", **RETIRED), ()),
    "what cannot be used gains nothing": (classed("value-safe"), classed("order", problem="gone"), ()),
    "what could not be used before": (classed("order", problem="gone"), classed("order"), ("order",)),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "gained"), GAINED.values(), ids=GAINED)
def test_classes_that_are_news_are_told(old, new, gained):
    change = compare(old, new)
    assert change.classes_gained == gained
    told = [fact for fact in facts(change) if fact.label == "classes" and fact.loud]
    assert bool(told) is bool(gained)


@pytest.mark.parametrize("before", [("value-safe",), ("value-safe", "environment")])
def test_classes_and_licences_are_told_whether_or_not_a_class_is_news(before):
    change = compare(classed(*before, **LICENSED), classed("value-safe", "environment", **LICENSED))
    told = {fact.label: fact.lines for fact in facts(change) if not fact.loud}
    assert told["classes"] == ("value-safe, environment (-f); in effect contraction",)
    assert told["licence"] == ("contraction by -march=x86-64-v3; -ffp-contract=off takes it away",)


def test_checks_and_draws_that_are_no_more_are_loud():
    checked = gain().model_copy(
        update={
            "checks": ChecksTable(by="outputs", checks=288, slots=32),
            "stress": Stress(draws=32, usable=32, seed=1),
        }
    )
    lost = {fact.label: fact for fact in facts(compare(side(claims=(checked,)), side(claims=(gain(),))))}["lost"]
    assert lost.loud
    assert lost.lines == (
        "the sampled calls were checked before, and are no more",
        "32 usable draws of acf.rng before, 0 now",
    )
    none_usable = checked.model_copy(update={"stress": Stress(draws=32, usable=0, seed=1)})
    lost = {fact.label: fact for fact in facts(compare(side(claims=(checked,)), side(claims=(none_usable,))))}["lost"]
    assert lost.lines == ("32 usable draws of acf.rng before, 0 now",)
    gained = compare(side(claims=(gain(),)), side(claims=(checked,)))
    assert "lost" not in {fact.label for fact in facts(gained)}


def test_controls_of_which_nothing_was_left_out_are_said_to_be_as_found():
    as_found = side(controls=told(knobs={"-O": 3, "-fone": ""}))
    labelled = {fact.label: fact.lines for fact in facts(compare(None, as_found))}
    assert labelled["reduced"] == ("no: all 2 controls as they were found",)
    assert "reduced" not in {fact.label for fact in facts(compare(None, side(controls=told(knobs={"-O": 3}))))}
