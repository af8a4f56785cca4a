"""How long artifacts hold, by what ends them. Values in, shares out.

The maximum likelihood estimate of cumulative incidence by cause where an end is only known to lie between two days:
Hudgens, Satten and Longini, Biometrics 57 (2001), section 3, by the self-consistency of Turnbull (J. R. Stat. Soc. B
38, 1976), whose intervals carry all mass. Where every end is known to the day it is the estimator of Aalen and Johansen
(Scand. J. Stat. 5, 1978). An end that has one of several causes is shared out by what is known of the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pytest_compileiq.outcome import End

LEAST_CLUSTERS = 10  # below, a bootstrap over them says nothing
_DRAWS = 200
_MOST_ROUNDS = 5000
_STILL = 1e-9
_NEARLY_STILL = 1e-5  # of draws, of which whole per cents are told
_TAILS = (0.025, 0.975)
# At one day, in this order: a closed interval opens, intervals end, an open one begins.
_CLOSED, _END, _OPEN = 0, 1, 2

Matrix = npt.NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Lifetime:
    """What is known of one lifetime, in days since its proof.

    Attributes:
        after, until: it held at ``after`` and had ended at ``until``, which is infinite where it goes on. Where they
            are the same, it ended that day.
        ends: what ended it, one of these; nothing where it goes on.
    """

    after: float
    until: float = math.inf
    ends: frozenset[End] = frozenset()

    def __post_init__(self) -> None:
        if not 0 <= self.after <= self.until or (self.until < math.inf) != bool(self.ends):
            raise ValueError(f"{self} is no lifetime")

    @property
    def in_whole_days(self) -> Lifetime:
        """What is known of it, to the day: thousands of lifetimes have hundreds of days, and the estimate is cheap."""
        until = math.ceil(self.until) if self.ends else math.inf
        return Lifetime(until if self.after == self.until else math.floor(self.after), until, self.ends)

    @property
    def left(self) -> tuple[float, int]:
        """Where what is known begins, in the order of all interval ends."""
        return self.after, _CLOSED if self.after == self.until else _OPEN

    @property
    def right(self) -> tuple[float, int]:
        """Where it ends."""
        return self.until, _END


@dataclass(frozen=True)
class _Mass:
    """A place where the estimate has mass: ``end`` within the days from ``left`` to ``right``."""

    end: End | None
    left: tuple[float, int]
    right: tuple[float, int]

    def may_hold(self, lifetime: Lifetime) -> bool:
        """Whether ``lifetime`` may have ended here."""
        has_end = not lifetime.ends or self.end in lifetime.ends
        return has_end and lifetime.left <= self.left and self.right <= lifetime.right

    def share_by(self, days: float, *, before: bool = False) -> float:
        """How much of it lies within ``days``, or ``before`` them: evenly spread, since nothing is known of where."""
        (left, _), (right, _) = self.left, self.right
        if days > right or (days == right and not before):
            return 1.0
        return (days - left) / (right - left) if left < days and right < math.inf else 0.0


@dataclass(frozen=True)
class Curve:
    """The share of lifetimes that one cause ended: ``points`` are days and shares, joined by straight lines."""

    end: End
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Share:
    """A share with its 95 % interval: percentiles of a bootstrap over artifacts, none where these are too few."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Incidence:
    """The estimate: a share for each of the places that may hold mass.

    Attributes:
        followed_days: until then something is known of some lifetime; beyond it there are no shares.
    """

    masses: tuple[_Mass, ...]
    shares: Matrix
    draws: Matrix
    followed_days: float

    def by(self, days: float, ends: Collection[End]) -> Share:
        """The share that had ended by one of ``ends`` within ``days``, which were followed."""
        parts = np.array([mass.share_by(days) * (mass.end in ends) for mass in self.masses])
        value = float(self.shares @ parts)
        if not len(self.draws):
            return Share(value)
        low, high = np.quantile(self.draws @ parts, _TAILS)
        return Share(value, min(float(low), value), max(float(high), value))

    def curves(self) -> tuple[Curve, ...]:
        """The share ended by each cause over the days, the largest first; what has no mass has no curve."""
        curves = []
        for end in {mass.end for mass in self.masses if mass.end is not None}:
            days = {0.0, self.followed_days}
            days |= {day for mass in self.masses if mass.end == end for day, _ in (mass.left, mass.right)}
            own = [(mass, share) for mass, share in zip(self.masses, self.shares, strict=True) if mass.end == end]
            points = [
                (day, float(sum(mass.share_by(day, before=before) * share for mass, share in own)))
                for day in sorted(days)
                for before in (True, False)
            ]
            curves.append(Curve(end, tuple(dict.fromkeys(points))))
        return tuple(sorted(curves, key=lambda curve: -curve.points[-1][1]))


def incidence_of(lifetimes: Sequence[Lifetime], clusters: Sequence[Key]) -> Incidence | None:
    """The estimate from ``lifetimes``; None where nothing is known of any.

    Args:
        clusters: whose lifetime each is. Those of one artifact are alike, so that whole artifacts are drawn again.
    """
    lifetimes = [each.in_whole_days for each in lifetimes]
    followed = max((day for each in lifetimes for day in (each.after, each.until) if day < math.inf), default=0.0)
    if not followed:
        return None
    kinds = list(dict.fromkeys(lifetimes))
    masses = _masses(kinds)
    may_hold = np.array([[mass.may_hold(each) for mass in masses] for each in kinds], dtype=float)
    kind_of = np.array([kinds.index(each) for each in lifetimes])
    counted = [np.bincount(kind_of, weights, len(kinds)) for weights in (None, *_redrawn(clusters))]
    first, others = np.split(np.array(counted, dtype=float), [1])
    shares = _self_consistent(may_hold, first, _STILL)
    draws = _self_consistent(may_hold, others, _NEARLY_STILL)
    return Incidence(tuple(masses), shares[0], draws, followed)


def _masses(lifetimes: Sequence[Lifetime]) -> list[_Mass]:
    """Turnbull's intervals of every cause, and what is still to come where the last of them is outlived.

    Of a cause, the intervals that begin with some lifetime's left end and end with the next right end of a lifetime
    that it may have ended: mass elsewhere could be moved into one of them, and no lifetime would be less likely.
    """
    masses = []
    for end in sorted({end for each in lifetimes for end in each.ends}):
        lefts = {each.left for each in lifetimes if not each.ends or end in each.ends}
        rights = {each.right for each in lifetimes if end in each.ends}
        ordered = sorted(lefts | rights)
        for place, following in itertools.pairwise(ordered):
            if place in lefts and following in rights:
                masses.append(_Mass(end, place, following))
    going_on = max((each.left for each in lifetimes if not each.ends), default=None)
    if going_on is not None and all(mass.left < going_on for mass in masses):
        masses.append(_Mass(None, going_on, (math.inf, _END)))
    return masses


def _redrawn(clusters: Sequence[Key]) -> list[Matrix]:
    """How often each lifetime counts when clusters are drawn again: one array a draw."""
    names = list(dict.fromkeys(clusters))
    if len(names) < LEAST_CLUSTERS:
        return []
    numbers = np.array([names.index(cluster) for cluster in clusters])
    rng = np.random.default_rng(0)
    return [
        np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))[numbers].astype(float)
        for _ in range(_DRAWS)
    ]


def _self_consistent(may_hold: Matrix, counted: Matrix, still: float) -> Matrix:
    """The shares for each row of ``counted``, by expectation and maximisation, until they stand still.

    ``may_hold`` is kinds of lifetimes × places, ``counted`` draws × kinds, how often each kind is there, and the result
    draws × places, each of whose rows sums to 1.
    """
    shares = np.full((len(counted), may_hold.shape[1]), 1 / may_hold.shape[1])
    total = counted.sum(axis=1, keepdims=True)
    for _ in range(_MOST_ROUNDS if len(counted) else 0):
        likely = shares @ may_hold.T
        better = shares * ((counted / np.maximum(likely, 1e-300)) @ may_hold) / total
        step = np.abs(better - shares).max()
        shares = better
        if step < still:
            break
    return shares
