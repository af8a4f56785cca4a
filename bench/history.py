"""What acf history says of replayed years: false alarms where nothing changed, and who is named where something did.

    python -m bench.history [--years 1000] [--steps 300] [--seed 0]

A day is one replay, drawn from the committed samples under acf/: blocks of neighbouring processes of the proof, and of
each its slots, with replacement. Its noise is then scaled to the standard deviation asked for, which takes away what
the analysis gains from quieter runs. A year is 365 days, analysed after each; on six of them something is known to
have changed (a compiler, a digest) and changes no time.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pytest_compileiq.history.shifts import ChangePoint, change_points
from pytest_compileiq.rules.evidence import gather
from pytest_compileiq.rules.stats import Floats, binomial_interval
from pytest_compileiq.store.store import Store

DAYS, KNOWN_A_YEAR, BLOCK = 365, 6, 4
STEP = 0.03
KINDS = ("tuned", "baseline", "both", "machine, told by kernel or driver", "machine, nothing told")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    lines = list(proofs(Path(__file__).parents[1] / "acf"))
    false = [alarm for year in range(options.years) for alarm in year_of_nothing(lines[year % len(lines)], rng)]
    low, high = binomial_interval(len(false), options.years)
    print(f"{len(false)} false alarms in {options.years} artifact-years (95 %: {low:.2%} to {high:.2%} of years)")
    print(f"{'step of 3 %':<36} {'days before':>11} {'sd 1 %':>14} {'sd 0.75 %':>14} {'sd 0.5 %':>14}")
    for kind in KINDS:
        for before in (30, 90):
            shares = (attributed(kind, before, sd, lines, options.steps, rng) for sd in (0.01, 0.0075, 0.005))
            print(f"{kind:<36} {before:>11} {' '.join(f'{share:>14.1%}' for share in shares)}", flush=True)
    print(f"both arms drift by 3 % in 30 to 120 days, of {options.steps // 3}:", drifts(lines, options.steps // 3, rng))


def proofs(acf: Path) -> Iterator[Floats]:
    """Log slot values of each committed claim, shape (processes, arms, slots)."""
    store = Store(acf)
    for name, target in store.artifacts():
        for claim, rows in store.read_samples(name, store.read(name, target)):
            evidence = gather(rows, claim.direction or "minimize")
            arms = np.stack([evidence.baseline, evidence.tuned], axis=1)
            yield np.log(arms.reshape(*arms.shape[:2], -1))


def replays(proof: Floats, days: int, sd: float, rng: np.random.Generator) -> Floats:
    """Log times of both arms, shape (arms, days), whose deviation between days is ``sd`` in either arm."""
    processes, _, slots = proof.shape
    starts = rng.integers(processes, size=(days, processes // BLOCK, 1))
    chosen = (starts + np.arange(BLOCK)) % processes
    picked = proof[chosen.reshape(days, -1)]  # (days, processes, arms, slots)
    places = rng.integers(slots, size=(*picked.shape[:2], 1, slots))
    values = np.take_along_axis(picked, np.broadcast_to(places, picked.shape), axis=3).mean(axis=(1, 3)).T
    centred = values - values.mean(axis=1, keepdims=True)
    scaled: Floats = centred * sd / centred.std(axis=1, keepdims=True)
    return scaled


def year_of_nothing(proof: Floats, rng: np.random.Generator) -> list[ChangePoint]:
    """What is reported of a year in which no time changed."""
    baseline, tuned = replays(proof, DAYS, 0.01, rng)
    return change_points(baseline, tuned, rng.choice(np.arange(1, DAYS), KNOWN_A_YEAR, replace=False).tolist())


def attributed(kind: str, before: int, sd: float, lines: list[Floats], steps: int, rng: np.random.Generator) -> float:
    """The share of steps of 3 % that are found in five runs, where they are and in the arms that moved."""
    right = 0
    for number in range(steps):
        baseline, tuned = replays(lines[number % len(lines)], before + 5 + DAYS, sd, rng)[:, : before + 5]
        step = STEP * rng.choice((-1, 1))
        baseline[before:] += step * (kind != "tuned")
        tuned[before:] += step * (kind != "baseline")
        found = change_points(baseline, tuned, [] if kind == KINDS[-1] else [before])
        wanted = kind if kind in ("tuned", "baseline") else "alike"
        right += [(change.shape, change.drifts, abs(change.at - before) <= 3) for change in found] == [
            (wanted, False, True)
        ]
    return right / steps


def drifts(lines: list[Floats], count: int, rng: np.random.Generator) -> dict[str, int]:
    """How often a creep of both arms is reported as what."""
    told: Counter[str] = Counter()
    for number in range(count):
        arms = replays(lines[number % len(lines)], 300, 0.01, rng)
        arms = arms + STEP * np.clip((np.arange(300) - 100) / (30, 60, 120)[number % 3], 0, 1)
        found = change_points(*arms)
        if any(change.shape != "alike" for change in found):
            told["a change of one arm"] += 1
        else:
            told[", ".join("drift" if change.drifts else "step" for change in found) or "nothing"] += 1
    return dict(told)


if __name__ == "__main__":
    main()
