"""What it costs to propose and to pick, in CPU time for each candidate that is measured, at 100 knobs.

    python bench/picking.py [--evaluations 400]

The machine code is made up: 60 features, each the sum of what every knob adds to it.
"""

import argparse
import time

import numpy as np

from pytest_compileiq.engines.base import Brief, Built, Told
from pytest_compileiq.engines.ga import PickingGa
from pytest_compileiq.rules.built_ahead import MOST
from pytest_compileiq.space import Space, choice, literal

FEATURES = 60
MARKS = (50, 100, 200, 400, 800)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=400)
    evaluations = parser.parse_args().evaluations
    for at_once in (1, 4, 16):
        costs = ", ".join(f"{mark}: {cost:.1f} ms" for mark, cost in costs_of(at_once, evaluations))
        print(f"{at_once:3} at a time, mean up to evaluation {costs}")


def costs_of(at_once: int, evaluations: int) -> list[tuple[int, float]]:
    """(evaluations, milliseconds for each of them so far) at each mark."""
    space = Space.from_mapping(
        {f"-f{number}": literal("", 0.5) for number in range(70)}
        | {f"-p{number}=": choice([1, 2, 4, 8], 0.5) for number in range(30)}
    )
    effects = np.random.default_rng(0).normal(size=(len(space.genes), FEATURES))
    engine, spent_s, done, costs = PickingGa(Brief(space, 0)), 0.0, 0, list[tuple[int, float]]()
    while done < evaluations:
        begun = time.process_time()
        proposed = engine.propose(at_once, MOST * at_once)
        spent_s += time.process_time() - begun
        points = np.array([space.point(candidate.knobs) for candidate in proposed])
        numbers = np.abs((points >= 0) @ effects)
        features = [{f"kind {kind}": float(value) for kind, value in enumerate(row)} for row in numbers]
        built = [Built(candidate, row, known=False) for candidate, row in zip(proposed, features, strict=True)]
        begun = time.process_time()
        picks = engine.pick(built, at_once)
        engine.tell([
            Told(built[pick].candidate, (float(numbers[pick, 0] - numbers[pick, 1]),), features=features[pick])
            for pick in picks
        ])  # fmt: skip
        spent_s += time.process_time() - begun
        costs += [(mark, spent_s / mark * 1e3) for mark in MARKS if done < mark <= done + len(picks)]
        done += len(picks)
    return costs


if __name__ == "__main__":
    main()
