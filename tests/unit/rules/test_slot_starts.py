"""Gains that single calls lose: by their content, by a pause, or unknown; and honest ones, which keep theirs."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.claims import Expected
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.gate import LOOKS, confirm_gain, judge_gain, judge_replay

LEVEL = 0.01 / len(LOOKS)


def evidence(slots, starts, *, processes=16, call_s=1e-5, noise=0.05, seed=0) -> Evidence:
    """A gain of ``slots``, and of each kind of single call that of ``starts``; those vary by ``noise``."""
    rng = np.random.default_rng(seed)
    baseline = call_s * np.exp(rng.normal(0, 0.01, (processes, 4, 2)))
    single = {
        kind: 1.3 * call_s * np.exp(rng.normal(0, noise, (processes, 2))) / np.array([1, gain])
        for kind, gain in starts.items()
    }
    return Evidence(baseline, baseline.mean() * np.exp(rng.normal(0, 0.01, baseline.shape)) / slots, starts=single)


def gain_of(evidence: Evidence):
    return judge_gain(evidence, Thresholds(), level=LEVEL, seed=1)


def replay_of(evidence: Evidence):
    return judge_replay(evidence, Expected(1.5, 1.4, 1.6), last_look=True)


def second_of(evidence: Evidence):
    return confirm_gain(evidence, Thresholds())


CONTENT = {"dirty": 1.0, "sham": 2.0, "pause": 2.0}
CLOCK = {"dirty": 1.0, "sham": 1.0, "pause": 1.0}


@pytest.mark.parametrize("judge", [gain_of, replay_of, second_of])
@pytest.mark.parametrize(("starts", "said"), [
    (CONTENT, "content loss"), (CLOCK, "pause loss"), ({"bare": 1.0}, "pause loss"),
])  # fmt: skip
def test_gain_lost_in_single_calls_is_refuted_at_sixteen_processes(judge, starts, said):
    decision = judge(evidence(2.0, starts, noise=1e-3))
    assert decision.verdict is Verdict.REFUTED and decision.skipped
    assert said in decision.reason and "do the work in every call" in decision.reason
    few = judge(evidence(2.0, starts, processes=8, noise=1e-3))
    assert few.verdict is Verdict.INCONCLUSIVE and said in few.reason, "eight processes are too few to refuse"


def test_lost_content_names_both_speed_ups():
    reason = gain_of(evidence(2.0, CONTENT, noise=1e-4)).reason
    assert "1x on outputs that were overwritten with other bytes, and 2x with the same bytes" in reason


@pytest.mark.parametrize("starts", [
    {"dirty": 2.0, "sham": 2.0, "pause": 2.0},
    {"dirty": 0.6, "sham": 0.6, "pause": 1.9},  # streaming stores: no content, but the memory
    {"dirty": 1.4, "sham": 1.6, "pause": 1.6},
    {"bare": 1.8},
    {},  # as in artifacts from before
])  # fmt: skip
def test_gain_that_single_calls_keep_is_proven(starts):
    for seed in range(2):
        for processes in (8, 16):
            one = evidence(2.0, starts, processes=processes, seed=seed)
            assert gain_of(one).verdict is replay_of(one).verdict is Verdict.PROVEN


def test_small_gain_and_short_call_are_left_alone():
    assert gain_of(evidence(1.09, CONTENT)).verdict is Verdict.PROVEN
    assert gain_of(evidence(2.0, CLOCK, call_s=1e-6)).verdict is Verdict.PROVEN
    assert gain_of(evidence(2.0, CONTENT, call_s=1e-6)).verdict is Verdict.REFUTED, "content needs no bar"


def test_large_gain_of_calls_that_nothing_guards_is_open():
    decision = gain_of(evidence(11.0, {"bare": 11.0}))
    assert decision.verdict is Verdict.INCONCLUSIVE and not decision.skipped
    assert "outputs=[…]" in decision.reason and "check= or reset=" in decision.reason
    assert gain_of(evidence(9.0, {"bare": 9.0})).verdict is Verdict.PROVEN
    assert gain_of(evidence(11.0, {"pause": 11.0})).verdict is Verdict.PROVEN


def test_process_without_a_kind_of_call_does_not_count():
    one = evidence(2.0, CONTENT, processes=17)
    one.starts["dirty"][3] = np.nan  # its quad was dropped
    assert gain_of(one).verdict is Verdict.REFUTED
