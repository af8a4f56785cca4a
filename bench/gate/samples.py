"""Two samples of a proof and two measurements of a refutation, where the truth is known: errors, power, coverage."""

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from scipy.special import stdtrit

from gate.families import told
from gate.judges import gate
from gate.simulate import near_the_floor
from gate.trials import Floats
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.gate import (
    LOOKS,
    QUADS,
    REPLAY_FLOOR,
    REPLAY_PROVE_TAIL,
    REPLAY_REFUTE_TAIL,
    confirm_gain,
)

FLOOR = 0.005
CORRELATIONS = (0.0, 0.25, 0.4)  # of neighbouring processes: 0.16 to 0.30 was measured 0.2 s apart
POWERS = ((0.02, 0.01), (0.02, 0.015), (0.01, 0.01))  # a true gain, and the deviation between processes
WITHIN = 0.02  # of the variance of processes: noise of their slots, which no neighbour shares
COMMITTED, PROCESS_SD, SHIFT_SD = 0.02, 0.01, 0.005  # of replays; a day shifts all processes of a measurement
REPLAYS_A_YEAR = 36_500
CLAIMS = ((COMMITTED, PROCESS_SD), (0.05, 0.03))  # a committed gain, the deviation between processes
DEFAULT = Thresholds()
AT_ONCE = 500


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="gate samples", description=__doc__)
    parser.add_argument("--nulls", type=int, default=20_000, help="trials at the floor (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=4_000, help="of each power (default: %(default)s)")
    parser.add_argument("--years", type=int, default=10, help="of replays (default: %(default)s)")
    asked = parser.parse_args(arguments)
    for correlation in CORRELATIONS:
        first, both, _ = proofs(FLOOR, 0.01, correlation, asked.nulls)
        told(f"at the floor, neighbours correlate by {correlation}: first sample", first, asked.nulls)
        told(f"at the floor, neighbours correlate by {correlation}: both", both, asked.nulls)
    for gain, sd in POWERS:
        first, both, covered = proofs(gain, sd, 0.0, asked.trials)
        told(f"gain {gain:.1%}, sd {sd:.1%}: first sample", first, asked.trials)
        told(f"gain {gain:.1%}, sd {sd:.1%}: both", both, asked.trials)
        told(f"gain {gain:.1%}, sd {sd:.1%}: the stored interval holds it", covered, both)
    replays = asked.years * REPLAYS_A_YEAR
    for shared in (1.0, 0.5, 0.0):
        once, twice = refutations(COMMITTED, shared, replays)
        print(f"intact, shifts correlate by {shared}: a year REFUTED once {once / asked.years:.0f}, twice", end=" ")
        told(f"{twice / asked.years:.0f}", twice, replays)
    for claim in CLAIMS:
        once, twice = refutations(0.0, 0.5, REPLAYS_A_YEAR, *claim)
        gone = "{:.0%} at an sd of {:.0%} are gone: REFUTED".format(*claim)
        told(f"{gone} once, in one replay", once, REPLAYS_A_YEAR)
        told(f"{gone} twice, in one replay", twice, REPLAYS_A_YEAR)


def proofs(gain: float, sd: float, correlation: float, trials: int) -> tuple[int, int, int]:
    """Proven by the first sample, by both, and how often the interval of the second then holds the gain."""
    random = np.random.default_rng([int(1e6 * gain), int(1e6 * sd), int(100 * correlation)])
    first = both = covered = 0
    for begun in range(0, trials, AT_ONCE):
        baseline, tuned = arms(random, gain, sd, correlation, min(AT_ONCE, trials - begun))
        for place in np.flatnonzero(near_the_floor(baseline, tuned, DEFAULT)):
            found = gate(baseline[place], tuned[place], DEFAULT, seed=begun + int(place))
            if not found.proven:
                continue
            first += 1
            # Later by thirty processes and more: of an autoregressive state nothing is left.
            again = arms(random, gain, sd, correlation, 1)
            second = Evidence(*(arm[0][: found.processes] for arm in again))
            decision = confirm_gain(second, DEFAULT)
            if decision.verdict is Verdict.PROVEN:
                both += 1
                covered += decision.speedup_low <= 1 + gain <= decision.speedup_high
    return first, both, covered


def arms(random: Generator, gain: float, sd: float, correlation: float, trials: int) -> tuple[Floats, Floats]:
    """Slot values of shape (trials, processes, QUADS, 2), processes in the order in which they run."""
    slots = sd * np.sqrt(WITHIN * QUADS) * random.standard_normal((2, trials, LOOKS[-1], QUADS, 2))
    shocks = random.standard_normal((trials, LOOKS[-1]))
    shared = correlation / (1 - WITHIN)
    for process in range(1, LOOKS[-1]):
        shocks[:, process] = shared * shocks[:, process - 1] + np.sqrt(1 - shared**2) * shocks[:, process]
    # To both arms alike: the veto of a wider spread, which sees one arm's, is not what is asked here.
    dealt = sd * np.sqrt(1 - WITHIN) / 2 * shocks[..., None, None]
    return np.exp(slots[0] - dealt), np.exp(slots[1] + dealt) / (1 + gain)


def refutations(
    gain: float, shared: float, replays: int, committed: float = COMMITTED, sd: float = PROCESS_SD
) -> tuple[int, int]:
    """Replays that a first measurement refutes, and those that a second one refutes, too."""
    random = np.random.default_rng(int(10 * shared))
    shift = SHIFT_SD * random.standard_normal(replays)
    other = shared * shift + np.sqrt(1 - shared**2) * SHIFT_SD * random.standard_normal(replays)
    once = refuted(random, np.log1p(gain) + shift, committed, sd)
    return int(once.sum()), int(refuted(random, np.log1p(gain) + other[once], committed, sd).sum())


def refuted(random: Generator, means: Floats, committed: float, sd: float) -> np.ndarray:
    """Whether a replay of each mean log gain ends in REFUTED: Student's bounds at the gate's levels, look by look."""
    floor = max(np.log1p(committed) / 2, np.log1p(REPLAY_FLOOR))
    draws = means[:, None] + sd * random.standard_normal((len(means), LOOKS[-1]))
    said, open_ = np.zeros(len(means), bool), np.ones(len(means), bool)
    for look in LOOKS:
        mean, error = draws[:, :look].mean(axis=1), draws[:, :look].std(axis=1, ddof=1) / np.sqrt(look)
        proven = mean + stdtrit(look - 1, REPLAY_PROVE_TAIL) * error > floor
        below = mean - stdtrit(look - 1, REPLAY_REFUTE_TAIL) * error < floor
        said |= open_ & ~proven & below
        open_ &= ~(proven | below)
    return said
