"""Which benchmark the next turn of a night goes to, and how much of the night its proofs need.

The rule is Ansor's task scheduler: Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep
Learning", OSDI 2020, section 6. What a night makes small is the sum of its benchmarks' log-times, each times its
weight, and a turn goes where that sum falls fastest. How fast it will fall is not known: it is the mean of how fast it
fell of late and of an optimistic guess. Ansor guesses that as much time again halves the time. Here that guess is
smaller, and where an engine foresees what its next candidates bring, it is that, as far as its word was good before.
``bench/night.py`` replays recorded searches by this rule, and by the rules that lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

BACKWARD = 0.2  # weight of what was seen against what is guessed: Ansor's alpha
LATE = 0.5  # of a search's spending: how it fell of late is how it fell over this last share
HOPE = 0.2  # log-ratio that as much spending again is guessed to bring
HOPE_BESIDE = 0.3  # of that, which stays where an engine foresees
KEPT_WORD, DOUBT = 0.15, 0.1  # the share of a foreseen fall that comes, held as firmly as a fall of 0.1 foreseen
STARVING = 0.5  # the floor: of an equal share of what is spent so far; who has less comes first
LONGEST_TURN = 1 / 16  # of an equal share of the whole, so that nobody waits for long


@dataclass(frozen=True)
class Foreseen:
    """The forecast of an engine; all falls are of its best score, a log-ratio."""

    rate: float  # the expected fall per unit of spending
    before: float  # the fall foreseen so far
    came: float  # the fall that came in that time

    @property
    def credible(self) -> float:
        """The rate, as far as its word was good so far: few foresee what they find."""
        return self.rate * (self.came + KEPT_WORD * DOUBT) / (self.before + DOUBT)


@dataclass(frozen=True)
class Course:
    """The progress of one benchmark's search. Spending has one unit, seconds or evaluations, in all of a night."""

    weight: float  # of its log-time in the sum
    curve: Sequence[tuple[float, float]]  # (spent, best) after each batch; the best is a log-ratio of at most 0
    foreseen: Foreseen | None = None  # by its engine; None where it tells nothing

    @property
    def spent(self) -> float:
        """What its search has spent."""
        return self.curve[-1][0] if self.curve else 0.0


def gradient(course: Course) -> float:
    """How fast the weighted log-time is expected to fall per unit of spending; infinite where nothing is known."""
    if course.spent <= 0:
        return float("inf")
    guess = HOPE / course.spent
    if course.foreseen is not None:
        guess = course.foreseen.credible + HOPE_BESIDE * guess
    return course.weight * (BACKWARD * _fall_of_late(course) + (1 - BACKWARD) * guess)


def next_course(courses: Sequence[Course]) -> int:
    """The index of the course that the next turn goes to; of those that starve, the one with least."""
    equal = sum(course.spent for course in courses) / len(courses)
    least = min(range(len(courses)), key=lambda index: courses[index].spent)
    if courses[least].spent < STARVING * equal:
        return least
    return max(range(len(courses)), key=lambda index: gradient(courses[index]))


def longest_turn(total: float, benchmarks: int) -> float:
    """The most that one turn may spend of ``total``, beyond its first batch."""
    return LONGEST_TURN * total / max(benchmarks, 1)


def _fall_of_late(course: Course) -> float:
    """The mean fall of the best score per unit, over the last share of what was spent."""
    spent, best = course.curve[-1]
    place = bisect_right(course.curve, (1 - LATE) * spent, key=lambda point: point[0]) - 1
    start, before = course.curve[place] if place >= 0 else (0.0, 0.0)
    return (before - best) / (spent - start)


def closing_s(
    *, blocks: float, block_s: float, starts: float, start_s: float, share: float, search_s: float, least_s: float
) -> float:
    """What it is estimated to take to prove the best of a search, in seconds.

    Args:
        blocks: how many of the search's blocks the play-off and the proofs are worth; each took ``block_s``.
        starts: how many times workers start, one after the other; each takes ``start_s``.
        share: of the search's time ``search_s``, that what follows the proof may take; at least ``least_s``.
    """
    return blocks * block_s + starts * start_s + max(share * search_s, least_s)
