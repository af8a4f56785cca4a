"""Families of comparisons with a known truth: true gains that Holm has to find, and losses at the margin."""

import argparse
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr

from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.gate import LOOKS, QUADS, REPLAY_PROVE_TAIL, judge_gains
from pytest_compileiq.rules.stats import binomial_interval

SD = 0.005  # between processes, and of a slot
GAIN = 0.1
COMPARISONS = (3, 21, 90)
FINALISTS = (1, 2, 3)
DEFAULT = Thresholds()
AT_ONCE = 20_000


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="gate families", description=__doc__)
    parser.add_argument("--families", type=int, default=40, help="of true gains, each size (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=200_000, help="at the margin (default: %(default)s)")
    asked = parser.parse_args(arguments)
    for comparisons in COMPARISONS:
        told(f"{comparisons} true gains, all proven at the first look", *all_proven(comparisons, asked.families))
    for finalists in FINALISTS:
        level = DEFAULT.alpha / len(LOOKS) / finalists
        told(f"{finalists} at the margin, one not worse", *at_the_margin(level, asked.trials, finalists))
    told("a replay at its floor, PROVEN", *at_the_margin(REPLAY_PROVE_TAIL, asked.trials))


def told(what: str, said: int, trials: int) -> None:
    low, high = binomial_interval(said, trials)
    print(f"{what}: {said} of {trials} ({low:.2%} to {high:.2%})", flush=True)


def all_proven(comparisons: int, families: int) -> tuple[int, int]:
    """How many families of true gains are proven whole."""
    random, whole = np.random.default_rng(comparisons), 0
    for number in range(families):
        field = [arms(random) for _ in range(comparisons)]
        decisions = judge_gains(field, DEFAULT, level=DEFAULT.alpha / len(LOOKS), seed=number)
        whole += all(decision.verdict is Verdict.PROVEN for decision in decisions)
    return whole, families


def arms(random: np.random.Generator) -> Evidence:
    slots = SD * random.standard_normal((2, LOOKS[0], QUADS, 2))
    dealt = SD * random.standard_normal((LOOKS[0], 1, 1))
    return Evidence(np.exp(slots[0]), np.exp(slots[1] + dealt) / (1 + GAIN))


def at_the_margin(level: float, trials: int, finalists: int = 1) -> tuple[int, int]:
    """How often any of so many finalists, each exactly at the margin, is said to be above it at some look."""
    random, said = np.random.default_rng(finalists), 0
    for first in range(0, trials, AT_ONCE):
        draws = random.standard_normal((min(AT_ONCE, trials - first), finalists, LOOKS[-1]))
        any_look = np.zeros(len(draws), bool)
        for look in LOOKS:
            seen = draws[..., :look]
            statistic = seen.mean(axis=-1) / (seen.std(axis=-1, ddof=1) / np.sqrt(look))
            any_look |= (stdtr(look - 1, -statistic) <= level).any(axis=-1)
        said += int(any_look.sum())
    return said, trials
