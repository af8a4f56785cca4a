"""How well a search ranks its candidates, against what measuring them costs: one quad each, several, or a race.

A search of 200 candidates is simulated whose true log-ratios are known: a third are drawn at random, the others lie
near an optimum that comes nearer. What a quad of a candidate gives is a recorded quad of a real kernel
(``racing_record.py``), moved by the true value; or one with heavy tails (Student's t with 2 degrees of freedom, 1 % at
the scale of a quad). The eight best are then measured again, as seldom as a play-off ever does, and one is chosen.

Reported are calls for each candidate (of both arms, discarded ones too); how often the true best
is among the eight; how far the search's own best and the chosen one are from the true best; how far off the score of
the search's best is; and how often a score is within two of its standard errors. Last, equal arms: how large a
gain the best of 200 equal candidates seems to have.

    python bench/racing.py kernels.json [--searches 100]
"""

import argparse
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_compileiq.rules.stopping import FIRST_QUADS, QUADS, Noise, score_of
from pytest_compileiq.search.finalists import FEWEST_ROUNDS, PLAYOFF

CANDIDATES = 200
ARMS = ("baseline", "tuned")
# How quads are drawn: number of quads → (steps, halves), in logarithms, of arms that are equal.
Draw = Callable[[int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Rule:
    """How a candidate is measured.

    Attributes:
        quads: of all, or of those that win their race.
        first: quads after which a race is decided; None where there is none. One half is half a quad.
        samples: of a slot; of the first quads of a race.
        slack: by how many standard errors one may be behind and is measured on.
    """

    quads: int
    first: float | None = None
    samples: int = 3
    slack: float = 0.0


RULES = {
    "one quad": Rule(1),
    "one quad of 2 samples": Rule(1, samples=2),
    "two quads": Rule(2),
    "four quads": Rule(4),
    "race to 4 (built)": Rule(QUADS, first=FIRST_QUADS),
    "race to 3": Rule(3, first=1),
    "race to 8": Rule(8, first=1),
    "race to 4, 2 samples first": Rule(4, first=1, samples=2),
    "race to 4, 1 sample first": Rule(4, first=1, samples=1),
    "race to 4, slack 1": Rule(4, first=1, slack=1.0),
    "race to 4, slack 2": Rule(4, first=1, slack=2.0),
    "race to 4 from half a quad": Rule(4, first=0.5),
    "the same, slack 3": Rule(4, first=0.5, slack=3.0),
}


@dataclass(frozen=True)
class Search:
    """What one simulated search gave, for each candidate."""

    scores: np.ndarray
    errors: np.ndarray
    calls: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", type=Path, nargs="?")
    parser.add_argument("--searches", type=int, default=100)
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    kinds = {"heavy tails": {samples: heavy_tails(random, samples) for samples in (1, 2, 3)}}
    if asked.recorded:
        kernels = json.loads(asked.recorded.read_text())
        for name, kernel in kernels.items():
            kinds[name] = {samples: recorded(random, kernel["candidates"], samples) for samples in (1, 2, 3)}
    for kind, draws in kinds.items():
        print(f"\n{kind}: {asked.searches} searches of {CANDIDATES}")
        print(
            f"{'rule':<30}{'calls':>7}{'best in 8':>11}{'regret':>9}{'chosen':>9}{'off':>8}{'in 2 se':>9}{'equal':>8}"
        )
        truths = [truth(random) for _ in range(asked.searches)]
        for name, rule in RULES.items():
            print(row(name, rule, draws, truths), flush=True)


def row(name: str, rule: Rule, draws: dict[int, Draw], truths: Sequence[np.ndarray]) -> str:
    calls, among, regret, chosen, off, covered, equal = ([] for _ in range(7))
    for true in truths:
        found = search(rule, true, draws)
        first = np.argsort(found.scores)[:PLAYOFF]
        settled = [score_of((true[place] + draws[3](FEWEST_ROUNDS)[0]).tolist()) for place in first]
        calls.append(found.calls.mean())
        among.append(true.argmin() in first)
        regret.append(true[first[0]] - true.min())
        chosen.append(true[first[int(np.argmin(settled))]] - true.min())
        off.append(true[first[0]] - found.scores[first[0]])
        covered.append((abs(found.scores - true) <= 2 * found.errors).mean())
        equal.append(-search(rule, np.zeros(CANDIDATES), draws).scores.min())
    means = [f"{np.mean(values):.2%}" for values in (regret, chosen, off)]
    return (
        f"{name:<30}{np.mean(calls):>7.1f}{np.mean(among):>11.2f}{means[0]:>9}{means[1]:>9}"
        f"{means[2]:>8}{np.mean(covered):>9.2f}{np.mean(equal):>8.2%}"
    )


def search(rule: Rule, true: np.ndarray, draws: dict[int, Draw]) -> Search:
    """Measure all candidates by a rule, in order."""
    noise, best = Noise(), 0.0
    found = Search(*(np.zeros(len(true)) for _ in range(3)))
    for place, value in enumerate(true):
        begun = math.ceil(rule.first or rule.quads)
        steps, halves = draws[rule.samples](begun)
        for pair in halves.tolist():
            noise.learn((pair[0], pair[1]))
        calls, score, error = 4 * begun * (1 + rule.samples), value + score_of(steps.tolist()), noise.error(begun)
        if rule.first == 0.5:
            calls, score, error = calls / 2, value + halves[0, 0], error * math.sqrt(2)
        if rule.first is not None and score - rule.slack * error < best:
            later, halves = draws[3](rule.quads - begun)
            for pair in halves.tolist():
                noise.learn((pair[0], pair[1]))
            calls = 4 * begun * (1 + rule.samples) + 16 * (rule.quads - begun)
            score, error = value + score_of([*steps.tolist(), *later.tolist()]), noise.error(rule.quads)
            best = min(best, score)
        found.scores[place], found.errors[place], found.calls[place] = score, error, calls
    return found


def truth(random: np.random.Generator) -> np.ndarray:
    """True log-ratios of a search's candidates, in the order of asking."""
    near = -0.5 * (1 - np.exp(-np.arange(CANDIDATES) / 60)) + np.abs(random.normal(0, 0.04, CANDIDATES))
    return np.where(random.random(CANDIDATES) < 0.3, random.normal(0.05, 0.15, CANDIDATES), near)


def heavy_tails(random: np.random.Generator, samples: int) -> Draw:
    scale = 0.01 * (3 / samples) ** 0.5

    def draw(quads: int) -> tuple[np.ndarray, np.ndarray]:
        halves = scale * 2**0.5 * random.standard_t(2, (quads, 2))
        return halves.mean(axis=1), halves

    return draw


def recorded(random: np.random.Generator, candidates: Sequence, samples: int) -> Draw:
    """Quads of a real kernel, each taken as off from the median of its candidate's."""
    steps, halves = [], []
    for blocks in candidates:
        taken = [step_and_halves(quad, samples) for block in blocks for quad in quads_of(block)]
        level = np.median([step for step, _ in taken])
        steps += [step - level for step, _ in taken]
        halves += [pair - level for _, pair in taken]
    steps, halves = np.array(steps), np.array(halves)

    def draw(quads: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = random.integers(len(steps), size=quads)
        return steps[chosen], halves[chosen]

    return draw


def quads_of(block: Sequence) -> Iterable[Sequence]:
    return (block[first : first + 4] for first in range(0, len(block), 4))


def step_and_halves(quad: Sequence, samples: int) -> tuple[float, np.ndarray]:
    """Of the first samples of each slot: from the baseline to the tuned arm, in all and in each half."""

    def step(slots: Sequence) -> float:
        baseline, tuned = (
            np.median([value for own, values in slots if own == arm for value in values[:samples]]) for arm in ARMS
        )
        return float(np.log(tuned / baseline))

    return step(quad), np.array([step(quad[:2]), step(quad[2:])])


if __name__ == "__main__":
    main()
