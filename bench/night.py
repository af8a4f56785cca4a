"""A night's budget over 20 recorded searches: the scheduler's rule, the rules that lost, equal shares, a clairvoyant.

Every draw takes one recorded search of each benchmark (``bench/night_record.py``), and spends evaluations on them, four
at a time. The gain is the weighted sum of log-speed-ups, without noise. The clairvoyant knows every search to its end
and spends the fewest evaluations that reach a gain. ``means known`` knows how each benchmark's searches go on average,
and not how the one at hand will: what no rule can know that has not seen the benchmark before.

    python bench/night.py [--draws 100] [--first-draw 0] [--share 200]
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from machine import describe
from night_record import BATCH, read
from pytest_compileiq.engines.base import Outlook
from pytest_compileiq.rules.task_scheduler import Course, Foreseen, next_course

SHARES = 0.95, 0.98  # of equal shares' final gain, to which the time is taken


@dataclass
class Recorded:
    """One recorded search by batches: the best score as told and as it is, gains positive, after 0, 1, … of them."""

    told: list[float]
    real: list[float]
    outlooks: list[Outlook | None]
    mean: np.ndarray = field(default_factory=lambda: np.empty(0))
    curve: list[tuple[float, float]] = field(default_factory=list)
    foreseen: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.curve = [(float(BATCH * batch), -gain) for batch, gain in enumerate(self.told)][1:]
        before = came = 0.0
        self.foreseen = [(0.0, 0.0), (0.0, 0.0)]
        for batch, outlook in enumerate(self.outlooks[:-1], start=1):
            if outlook is not None:
                before += BATCH * outlook.improvement
                came += self.told[batch + 1] - self.told[batch]
            self.foreseen.append((before, came))


Choose = Callable[[Sequence[Recorded], Sequence[float], Sequence[int]], int]  # searches, weights, batches done → index


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--first-draw", type=int, default=0, help="others than those that the rule was fitted to")
    parser.add_argument("--share", type=int, default=200, help="evaluations for each benchmark (default: %(default)s)")
    asked = parser.parse_args()
    print(describe())
    recorded = load()
    print(f"{len(recorded)} benchmarks, {asked.share} evaluations for each, {asked.draws} draws\n")
    for title, is_equal in (("equal weights", True), ("unequal weights", False)):
        draws = range(asked.first_draw, asked.first_draw + asked.draws)
        table(title, recorded, asked.share * len(recorded) // BATCH, draws, is_equal=is_equal)


def table(
    title: str, recorded: Sequence[Sequence[Recorded]], batches: int, draws: Sequence[int], *, is_equal: bool
) -> None:
    """One line a rule: its final gain over that of equal shares, and its time over the clairvoyant's."""
    gains: dict[str, list[float]] = {name: [] for name in RULES}
    times: dict[tuple[str, float], list[float]] = {}
    for draw in draws:
        rng = np.random.default_rng(draw)
        searches = [each[rng.integers(len(each))] for each in recorded]
        weights = [1.0] * len(recorded) if is_equal else list(rng.exponential(size=len(recorded)))
        goal = spend(searches, weights, batches, equal_shares)[-1]
        fewest = {share: clairvoyant(searches, weights, share * goal) for share in SHARES}
        for name, rule in RULES.items():
            reached = spend(searches, weights, batches, rule)
            gains[name].append(reached[-1] / goal)
            for share in SHARES:
                after = next((batch for batch, gain in enumerate(reached) if gain >= share * goal - 1e-9), math.inf)
                times.setdefault((name, share), []).append(after / fewest[share])
    print(f"{title:<24}{'final gain: worst':>18}{'median':>8}   time over the clairvoyant's, median, to "
          + " and ".join(f"{share:.0%}" for share in SHARES))  # fmt: skip
    for name, own in gains.items():
        ratios = "".join(f"{statistics.median(times[name, share]):>8.2f}" for share in SHARES)
        print(f"  {name:<22}{min(own):>18.3f}{statistics.median(own):>8.3f}{ratios}", flush=True)
    print()


def load() -> list[list[Recorded]]:
    """Benchmark → its recorded searches."""
    by_name: dict[str, list[Recorded]] = {}
    for name, _, finds, outlooks, evaluations in read():
        told, real = [0.0] * (evaluations // BATCH + 1), [0.0] * (evaluations // BATCH + 1)
        for find in finds:
            for batch in range(-(-find.evaluation // BATCH), len(told)):
                told[batch], real[batch] = -find.told, -find.real
        by_name.setdefault(name, []).append(Recorded(told, real, outlooks))
    for searches in by_name.values():
        shortest = min(len(search.outlooks) for search in searches) + 1
        mean = np.mean([np.maximum.accumulate(search.real[:shortest]) for search in searches], axis=0)
        for search in searches:
            search.mean = mean
    return list(by_name.values())


def spend(searches: Sequence[Recorded], weights: Sequence[float], batches: int, rule: Choose) -> list[float]:
    """The gain after 0, 1, … batches; every search gets its first one, in order."""
    done = [0] * len(searches)
    reached = [0.0]
    held = [0.0] * len(searches)
    for batch in range(batches):
        if batch < len(searches):
            chosen = batch
        else:
            open_ = [index for index, search in enumerate(searches) if done[index] < len(search.outlooks)]
            if not open_:
                break
            among = [[every[index] for index in open_] for every in (searches, weights, done)]
            chosen = open_[rule(*among)]
        done[chosen] += 1
        held[chosen] = weights[chosen] * searches[chosen].real[done[chosen]]
        reached.append(math.fsum(held))
    return reached + reached[-1:] * (batches + 1 - len(reached))


def clairvoyant(searches: Sequence[Recorded], weights: Sequence[float], goal: float) -> int:
    """The fewest batches that reach ``goal``: a knapsack over the batches that each search is given, solved exactly."""
    most = np.zeros(1)
    for search, weight in zip(searches, weights, strict=True):
        gains = weight * np.maximum.accumulate(search.real)
        steps = [0, *(batch for batch in range(1, len(gains)) if gains[batch] > gains[batch - 1])]
        grown = np.zeros(len(most) + steps[-1])
        for batch in steps:
            grown[batch : batch + len(most)] = np.maximum(grown[batch : batch + len(most)], most + gains[batch])
        most = np.maximum.accumulate(grown)
    return int(np.argmax(most >= goal - 1e-9))


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_this_package(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    return next_course([_course(*each, foresees=True) for each in zip(searches, weights, done, strict=True)])


def by_curve_alone(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    """The same rule for engines that foresee nothing."""
    return next_course([_course(*each, foresees=False) for each in zip(searches, weights, done, strict=True)])


def _course(search: Recorded, weight: float, done: int, *, foresees: bool) -> Course:
    outlook = search.outlooks[done - 1] if foresees else None
    foreseen = Foreseen(outlook.improvement, *search.foreseen[done]) if outlook else None
    return Course(weight, search.curve[:done], foreseen)


def equal_shares(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    return min(range(len(done)), key=lambda index: done[index])


def one_after_the_other(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    """As ``--tune-budget=200``: each its share, in order."""
    return next((index for index, batches in enumerate(done) if batches < 200 // BATCH), 0)


def by_weight(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    return max(range(len(done)), key=lambda index: weights[index] / done[index])


def ansor(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    """Ansor's own constants on log-time: alpha 0.2, a window of 3, and as much time again halves the time: 1/t."""

    def gradient(index: int) -> float:
        told, batches = searches[index].told, done[index]
        fall = (told[batches] - told[max(batches - 3, 0)]) / 3
        return weights[index] * (0.2 * fall + 0.8 / batches)

    return max(range(len(done)), key=gradient)


def by_gain_so_far(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    """As before, but as much time again is guessed to bring what was found until now."""

    def gradient(index: int) -> float:
        told, batches = searches[index].told, done[index]
        fall = (told[batches] - told[max(batches - 3, 0)]) / 3
        return weights[index] * (0.2 * fall + 0.8 * told[batches] / batches)

    return _unless_starving(done, gradient)


def by_fall_of_late(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    """Greedy: the fall over the last half of the search, and nothing else."""

    def gradient(index: int) -> float:
        told, batches = searches[index].told, done[index]
        return weights[index] * (told[batches] - told[batches // 2]) / (batches - batches // 2)

    return _unless_starving(done, gradient)


def by_logarithm(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    """Records become rarer as 1/t: the best falls as a logarithm, whose scale is fitted to all of the search."""

    def gradient(index: int) -> float:
        told, batches = searches[index].told, done[index]
        scale = (told[batches] - told[1] + 0.05) / (math.log(batches) + 1)
        return weights[index] * scale / batches

    return _unless_starving(done, gradient)


def by_outlook_alone(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    """What the engine foresees, taken at its word."""

    def gradient(index: int) -> float:
        outlook = searches[index].outlooks[done[index] - 1]
        return weights[index] * (outlook.improvement if outlook else 1.0)

    return _unless_starving(done, gradient)


def means_known(searches: Sequence[Recorded], weights: Sequence[float], done: Sequence[int]) -> int:
    def gradient(index: int) -> float:
        mean, batches = searches[index].mean, done[index]
        ahead = (mean[batches + 1 :] - mean[batches]) / np.arange(1, len(mean) - batches)
        return weights[index] * float(ahead.max(initial=0.0))

    return max(range(len(done)), key=gradient)


def _unless_starving(done: Sequence[int], gradient: Callable[[int], float]) -> int:
    least = equal_shares([], [], done)
    return least if done[least] < 0.25 * sum(done) / len(done) else max(range(len(done)), key=gradient)


RULES: dict[str, Choose] = {
    "this package's": of_this_package,
    "  engines foresee nothing": by_curve_alone,
    "equal shares": equal_shares,
    "one after the other": one_after_the_other,
    "by weight": by_weight,
    "Ansor's constants": ansor,
    "by the gain so far": by_gain_so_far,
    "by the fall of late": by_fall_of_late,
    "by a logarithm": by_logarithm,
    "by outlook alone": by_outlook_alone,
    "means known": means_known,
}

if __name__ == "__main__":
    main()
