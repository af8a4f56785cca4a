"""How right the explanation of a search is, on objectives whose every effect is known, and what it costs.

    OMP_NUM_THREADS=1 nice python bench/explanation.py [--seeds 20]

prints the tables of docs/adr/0022-the-model-explains-the-best-candidate.md.
"""

import argparse
import statistics
import time
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from machine import describe
from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.ga.explanation import explain
from pytest_compileiq.engines.registry import make
from pytest_compileiq.explained import BAND
from pytest_compileiq.space import OFF, Space, choice, literal
from pytest_compileiq.tuning.explained import simultaneous_reach

FLAGS, CHOICES = 55, 5
SPACE = Space.from_mapping(
    {f"-f{at}": literal("", knockout_prob=0.5) for at in range(FLAGS)}
    | {f"-p{at}=": choice([1, 2, 4, 8], knockout_prob=0.7) for at in range(CHOICES)}
)
OF_FLAGS = (-0.2, -0.15, -0.1, -0.08, -0.05, 0.1, 0.2, 0.05)
OF_VALUES = (-0.02, -0.06, -0.09, 0.05)
LARGE = 0.08  # a log-ratio


@dataclass
class Objective:
    """A sum of effects, and with ``joined`` two pairs of flags that matter together."""

    seed: int
    noise: float
    joined: bool
    effects: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.flags = self.random.choice(FLAGS, len(OF_FLAGS), replace=False)
        self.effects = [np.zeros(len(gene.values) + 1) for gene in SPACE.genes]
        for flag, effect in zip(self.flags, OF_FLAGS, strict=True):
            self.effects[flag][1] = effect
        self.effects[FLAGS][1:] = OF_VALUES

    def exactly(self, point) -> float:
        """The score without noise."""
        score = sum(effect[option + 1] for effect, option in zip(self.effects, point, strict=True))
        if self.joined:
            on = [point[flag] != OFF for flag in self.flags]
            score += 0.15 * (on[0] and on[5]) - 0.1 * (on[2] and on[3])
        return float(score)

    def measured(self, point) -> float:
        """A score as a search gets it."""
        return self.exactly(point) + self.noise * float(self.random.standard_normal())


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="searches of each kind (default: %(default)s)")
    seeds = parser.parse_args().seeds
    print(f"{describe()}; {seeds} searches a row, {len(SPACE.genes)} knobs")
    print(
        "| engine | evaluations | effects | noise | all intervals hold | none wrong | large ones found | in the band |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for engine in ("ga", "random"):
        for evaluations in (60, 200):
            for joined in (False, True):
                for noise in (0.0, 0.01, 0.03):
                    rows = [judged(engine, evaluations, Objective(seed, noise, joined)) for seed in range(seeds)]
                    shares = " | ".join(f"{100 * statistics.fmean(column):.0f} %" for column in zip(*rows, strict=True))
                    kind = "joined" if joined else "added"
                    print(f"| {engine} | {evaluations} | {kind} | {100 * noise:g} % | {shares} |", flush=True)
    print("\n| evaluations | s of the processor |\n|---|---|")
    for evaluations in (60, 200, 400, 10_000):
        points, scores = searched("random", evaluations, Objective(0, 0.01, joined=True))
        begun = time.process_time()
        explain(SPACE, points, scores)
        print(f"| {evaluations} | {time.process_time() - begun:.2f} |", flush=True)


def searched(engine: str, evaluations: int, objective: Objective) -> tuple[np.ndarray, np.ndarray]:
    """Points and scores, in the order told."""
    asking = make(engine, Brief(SPACE, objective.seed, 1, evaluations))
    points: list[tuple[int, ...]] = []
    scores: list[float] = []
    while len(points) < evaluations and (asked := asking.ask(4)):
        for candidate in asked:
            points.append(SPACE.point(candidate.knobs))
            scores.append(objective.measured(points[-1]))
        asking.tell([Told(candidate, (score,)) for candidate, score in zip(asked, scores[-len(asked) :], strict=True)])
    return np.array(points, dtype=np.int64), np.array(scores)


def judged(engine: str, evaluations: int, objective: Objective) -> tuple[float, float, float, float]:
    """Whether all intervals hold the truth and nothing is told apart wrongly; large effects told apart; in the band."""
    points, scores = searched(engine, evaluations, objective)
    told = explain(SPACE, points, scores)
    best = points[int(np.argmin(scores))]
    others = [np.where(np.arange(len(best)) == effect.gene, effect.instead, best) for effect in told.effects]
    true = np.array([objective.exactly(other) - objective.exactly(best) for other in others])
    loss, deviation = (np.array([getattr(effect, name) for effect in told.effects]) for name in ("loss", "deviation"))
    reach = simultaneous_reach(told) * deviation
    apart, large = abs(loss) > reach, abs(true) >= LARGE
    right = np.sign(loss) == np.where(abs(true) < 1e-9, 0, np.sign(true))
    known = ~np.isnan(told.expected)
    within = abs(scores - told.expected) <= NormalDist().inv_cdf((1 + BAND) / 2) * told.deviation
    return (
        float((abs(loss - true) <= reach).all()),
        float(right[apart].all()),
        float(apart[large].mean()) if large.any() else 1.0,
        float(within[known].mean()),
    )


if __name__ == "__main__":
    main()
