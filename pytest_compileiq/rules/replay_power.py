"""How often a replay would hold a claim, by the deviation between processes that its own samples show."""

from __future__ import annotations

import math

from scipy.special import nctdtr, stdtrit

from pytest_compileiq.claim import Claim
from pytest_compileiq.rules.comparison import Analysis
from pytest_compileiq.rules.gate import LOOKS, REPLAY_FLOOR, REPLAY_PROVE_TAIL

SMALL = 0.02  # a gain below it: a machine's state moves ratios by half a per cent from day to day
POWER = 0.8


def why_hard_to_hold(claim: Claim) -> str | None:
    """What to say of a gain that replays on this machine may not hold, with what would; None where they do."""
    if claim.kind != "gain" or claim.devices or claim.test is None or claim.speedup is None:
        return None
    analysis = Analysis(claim.scale)
    processes = claim.test.second or claim.test.processes
    low, high = analysis.step(claim.speedup_low or 0.0), analysis.step(claim.speedup_high or 0.0)
    # Between processes, by the claim's 95 % interval.
    deviation = (high - low) / 2 * math.sqrt(processes) / -float(stdtrit(processes - 1, 0.025))
    gain = analysis.step(claim.speedup)
    room = gain - max(gain / 2, analysis.step_of_share(REPLAY_FLOOR))
    power = _power(room, deviation)
    where = "" if claim.workload == "default" else f" on {claim.workload}"
    if power < POWER:
        most = _deviation_for(room)
        remedy = f"at most {most:.2%}: use longer calls or a quieter machine" if most > 0 else "a gain above 0.5%"
        return (
            f"{power:.0%} of replays here would hold the gain in {claim.objective}{where}: processes deviate by "
            f"{deviation:.2%}, and {POWER:.0%} requires {remedy}"
        )
    if claim.speedup - 1 < SMALL:
        return (
            f"replays may not hold the gain in {claim.objective}{where}: it is below {SMALL:.0%}, and a machine drifts "
            f"by about 0.5% a day; min_speedup={1 + SMALL:g} claims no gain so small"
        )
    return None


def _power(room: float, deviation: float) -> float:
    """The probability that the last look puts the gain above the floor that it exceeds by ``room``: noncentral t."""
    if deviation <= 0:
        return float(room > 0)
    most = LOOKS[-1]
    needed = -float(stdtrit(most - 1, REPLAY_PROVE_TAIL))
    return 1 - float(nctdtr(most - 1, room / deviation * math.sqrt(most), needed))


def _deviation_for(room: float) -> float:
    """The largest deviation between processes at which the power is ``POWER``, by bisection; 0 where there is none."""
    if room <= 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _power(room, middle) >= POWER else (low, middle)
    return low
