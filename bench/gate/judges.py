"""Who says "faster": this package's gate through its looks, and the recipes in use, each on samples that it may expect.

Samples are seconds, the last axis in the order taken; leading axes are trials.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gate.trials import Floats
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.claims import Expected
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.gate import LOOKS, Decision, judge_gain, judge_replay

Bools = NDArray[np.bool_]
GATE = "this gate"
BLOCK = "Welch, in blocks"
INTERLEAVED = "Welch, interleaved"
COMPARE_FAIL = "compare-fail=mean:5%"
MANN_WHITNEY = "Mann-Whitney"
REPETITIONS = 10  # google-benchmark asks for 9 at least


@dataclass(frozen=True)
class Gated:
    """What the gate said, and after how many processes."""

    decision: Decision
    processes: int

    @property
    def proven(self) -> bool:
        return self.decision.verdict is Verdict.PROVEN


def gate(baseline: Floats, tuned: Floats, thresholds: Thresholds, seed: int) -> Gated:
    """Look by look as ``prove.py`` does for one finalist: until proven, or until the floor is surely out of reach.

    Args:
        baseline, tuned: slot values, shape (LOOKS[-1], QUADS, 2).
    """
    for processes in LOOKS:
        evidence = Evidence(baseline[:processes], tuned[:processes])
        decision = judge_gain(evidence, thresholds, level=thresholds.alpha / len(LOOKS), seed=seed)
        if decision.verdict is Verdict.PROVEN or decision.speedup_high < thresholds.min_speedup:
            break
    return Gated(decision, processes)


def replay(baseline: Floats, tuned: Floats, committed: float) -> Gated:
    """Does a committed gain, known to half a per cent, still stand? Look by look, as ``prove.py`` asks."""
    for processes in LOOKS:
        decision = judge_replay(
            Evidence(baseline[:processes], tuned[:processes]),
            Expected(committed, committed - 0.005, committed + 0.005),
            last_look=processes == LOOKS[-1],
        )
        if decision.verdict is not Verdict.INCONCLUSIVE:
            break
    return Gated(decision, processes)


def slots(samples: Floats) -> Floats:
    """The median of each slot's samples, the last axis, in double precision as the gate has it."""
    medians: Floats = np.median(samples.astype(np.float64), axis=-1)
    return medians


def welch(baseline: Floats, tuned: Floats) -> Bools:
    """The published recipe: Welch's p < 0.05 (two-sided), Cohen's d > 0.2 and the better mean, on raw samples."""
    p_value = stats.ttest_ind(baseline, tuned, axis=-1, equal_var=False).pvalue
    better = baseline.mean(axis=-1) - tuned.mean(axis=-1)
    spread = np.sqrt((baseline.var(axis=-1, ddof=1) + tuned.var(axis=-1, ddof=1)) / 2)
    said: Bools = (p_value < 0.05) & (better > 0.2 * spread)
    return said


def compare_fail(baseline: Floats, tuned: Floats) -> Bools:
    """pytest-benchmark's --benchmark-compare-fail=mean:5%, asked whether going back to the baseline would fail."""
    said: Bools = baseline.mean(axis=-1) / tuned.mean(axis=-1) * 100 - 100 > 5
    return said


def mann_whitney(baseline: Floats, tuned: Floats) -> Bools:
    """google-benchmark's compare.py: two-sided U test at 0.05 over repetitions, each the mean of its iterations."""
    a, b = (arm.reshape(*arm.shape[:-1], REPETITIONS, -1).mean(axis=-1) for arm in (baseline, tuned))
    p_value = stats.mannwhitneyu(a, b, axis=-1, alternative="two-sided").pvalue
    said: Bools = (p_value < 0.05) & (a.mean(axis=-1) > b.mean(axis=-1))
    return said


RECIPES = {BLOCK: welch, COMPARE_FAIL: compare_fail, MANN_WHITNEY: mann_whitney}  # all on samples in blocks
JUDGES = (GATE, BLOCK, INTERLEAVED, COMPARE_FAIL, MANN_WHITNEY)
