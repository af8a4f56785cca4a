"""What in the samples themselves kept a gate from deciding: spread, drift, differences between processes."""

from __future__ import annotations

import math

import numpy as np

from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.fleet import within_sd
from pytest_compileiq.rules.stats import Floats

SPREAD = 0.10
DRIFT = 0.02
BETWEEN = 0.01


def advice(evidence: Evidence) -> list[str]:
    """One sentence for each disturbance, in the order in which to mend them; empty for quiet samples.

    Values that may be zero or negative are no times: nothing is said of them.
    """
    if evidence.analysis.scale is not None:
        return []
    slots = evidence.compared[0].reshape(len(evidence.baseline), -1)
    slots = slots[np.count_nonzero(~np.isnan(slots), axis=1) > 1]  # a process whose quads were dropped says nothing
    if not slots.size:
        return []
    sentences = []
    within = float(np.median(np.nanstd(slots, axis=1, ddof=1)))
    if within > SPREAD:
        sentences.append(f"slots of one process vary by {within:.0%}: let a sample last longer, or find what else runs")
    drifted = drift(slots)
    if abs(drifted) > DRIFT:
        way = "slower" if drifted > 0 else "faster"
        sentences.append(f"the baseline got {abs(drifted):.1%} {way} over the run: heat or a changing clock frequency")
    between = within_sd(evidence.devices) if evidence.by_process.size > len(evidence.devices) else 0.0
    if between > BETWEEN:
        sentences.append(
            f"the gain varies by {between:.1%} between processes: buffers from fixtures, shared by both arms, vary less"
        )
    return sentences


def drift(baseline: Floats) -> float:
    """The relative change of the baseline from the first process to the last, by Theil and Sen's slope; 0 when unsure.

    It is unsure while the Mann-Kendall statistic is within two standard deviations of 0 (Kendall, Biometrika 30, 1938).
    """
    means = np.nanmean(baseline.reshape(len(baseline), -1), axis=1)
    count = len(means)
    if count < 6:
        return 0.0
    earlier, later = np.triu_indices(count, 1)
    steps = means[later] - means[earlier]
    concordance = float(np.sign(steps).sum())
    if abs(concordance) < 2 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18):
        return 0.0
    slope = float(np.median(steps / (later - earlier)))
    return math.expm1(slope * (count - 1))
