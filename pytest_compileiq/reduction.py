"""Reduction and attribution of the stored controls, as recorded."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pytest_compileiq.model import Direction
from pytest_compileiq.table import Array, Finite, Integer, Seconds, Table, Text

MOST_PARTS = 2001  # the knobs of an artifact, and its ACF
MOST_PROCESSES = 64
Standing = Literal["measured", "exact", "idle", "required", "wrong", "left out"]
Size = Annotated[int, Field(ge=0, le=MOST_PARTS)]


class Loss(Table):
    """What the stored controls lose against all that were found, on the samples of the proof.

    ``loss`` and its 95 % interval are log-ratios, or shares of a magnitude where values may be zero or negative;
    positive is worse.
    """

    objective: Text
    workload: Text
    loss: Finite
    low: Finite
    high: Finite


class Reduction(Table):
    """How many controls were found, how many are stored, and why the others were dropped.

    Attributes:
        before, after: controls that say something else than the baseline; an ACF is one.
        by_code: dropped since the machine code and the parameters are the same without them.
        by_objective: dropped since they bring nothing, counted or measured.
        undecided: stored, and it was not decided in time whether they bring anything.
        seconds: what it took; ``search_seconds`` is what the search took.
        budgets: measured objective → the largest loss that was allowed, as ``Loss`` gives it.
        losses: what was lost by the proof's samples.
        kept_larger: why a smaller set was not stored.
    """

    before: Size
    after: Size
    by_code: Size
    by_objective: Size
    undecided: Size = 0
    seconds: Seconds
    search_seconds: Seconds
    budgets: Annotated[dict[Text, Finite], Field(max_length=32)] = Field(default_factory=dict)
    losses: Annotated[Array[Loss], Field(max_length=1000)] = ()
    kept_larger: Text | None = None

    @property
    def is_open(self) -> bool:
        """Whether to go on with it: some controls are undecided, and what it may lose is not used up by others."""
        return self.undecided > 0 and not (self.by_objective and self.budgets)

    @model_validator(mode="after")
    def _adds_up(self) -> Reduction:
        if self.before != self.after + self.by_code + self.by_objective:
            raise ValueError(
                f"{self.before} controls less {self.by_code} and {self.by_objective} are not the {self.after} that stay"
            )
        if self.undecided > self.after:
            raise ValueError(f"{self.undecided} of {self.after} controls are undecided")
        return self


class Without(Table):
    """One objective without one control, or without several of which none is missed alone.

    Attributes:
        knobs: the names of what is left out.
        acf: whether the ACF is left out.
        standing: ``measured`` and ``exact`` have numbers; ``idle``: the machine code is the same without it;
            ``required``: it cannot be left out, ``wrong``: the result is wrong without it, both with a reason;
            ``left out``: there was no time to measure it.
        losses: of each process, log-ratios or (``by_share``) shares of a magnitude; positive is worse without it.
        loss, low, high: their mean, and its interval, which holds simultaneously with all others of the table.
        value, value_without: of an exact objective.
    """

    knobs: Annotated[Array[Text], Field(max_length=MOST_PARTS)] = ()
    acf: bool = False
    standing: Standing
    reason: Text | None = None
    objective: Text | None = None
    direction: Direction | None = None
    by_share: bool = False
    losses: Annotated[Array[Finite], Field(max_length=MOST_PROCESSES)] = ()
    loss: Finite | None = None
    low: Finite | None = None
    high: Finite | None = None
    value: Integer | None = None
    value_without: Integer | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is left out; an ACF has the name that is none."""
        return (*self.knobs, *([""] if self.acf else []))

    @property
    def step(self) -> float:
        """The loss without it: a log-ratio or, by share, a share of the magnitude; 0 where nothing was taken."""
        if self.standing != "exact":
            return self.loss or 0.0
        ratio = math.log(max(self.value_without or 0, 0.5) / max(self.value or 0, 0.5))
        return ratio if self.direction == "minimize" else -ratio

    @property
    def is_resolved(self) -> bool:
        """Whether the objective surely differs without it."""
        if self.standing == "exact":
            return self.value != self.value_without
        return self.standing == "measured" and not (self.low or 0.0) <= 0 <= (self.high or 0.0)

    @model_validator(mode="after")
    def _complete(self) -> Without:
        if not self.knobs and not self.acf:
            raise ValueError("nothing is left out")
        needed = {"measured": ("loss", "low", "high"), "exact": ("value", "value_without")}.get(self.standing, ())
        numbers = ("loss", "low", "high", "value", "value_without")
        if wrong := [key for key in numbers if (getattr(self, key) is None) == (key in needed)]:
            raise ValueError(
                f"a control that is {self.standing!r} has {', '.join(needed) or 'no numbers'}; look at {wrong[0]}"
            )
        if bool(self.losses) != (self.standing == "measured") or (needed and not (self.objective and self.direction)):
            raise ValueError(
                f"a control that is {self.standing!r} has losses where it is measured, and then an objective"
            )
        return self


class Attribution(Table):
    """What each stored control brings: every objective without it, on samples that no claim and no search has.

    The effects need not multiply to the whole. ``comparisons`` is what Bonferroni's correction counts. The interval of
    each follows from its recorded losses, so that it can be recomputed; the raw samples are not kept.
    """

    device: Text | None = None
    comparisons: Annotated[int, Field(ge=0, le=100_000)]
    seconds: Seconds
    without: Annotated[Array[Without], Field(max_length=10_000)]

    @property
    def open_knobs(self) -> frozenset[str]:
        """The knobs of which it is not known what they bring; an ACF has the name that is none."""
        asked = {name for entry in self.without for name in entry.names if entry.standing in ("measured", "left out")}
        return frozenset(asked.difference(*(entry.names for entry in self.without if entry.is_resolved)))
