"""What a claim records of its stress: how many draws of ``acf.rng``, how far apart the arms were, how accurate."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from pytest_compileiq.model import LARGEST_NUMBER, MOST_DRAWS
from pytest_compileiq.stored import Array, Count, Ratio, Stored, Text

Value = Annotated[str, StringConstraints(max_length=100)]
Share = Annotated[float, Field(ge=0, le=LARGEST_NUMBER, allow_inf_nan=False)]
Draws = Annotated[int, Field(ge=0, le=MOST_DRAWS)]


class Farthest(Stored):
    """Where two runs of the body are farthest apart: the element ``index``, flat, of what it compares as ``output``.

    ``baseline`` and ``other`` are the two values in words. ``relative`` is their distance over the largest magnitude of
    the baseline's output, and ``ulps`` counts the floating-point numbers between them.
    """

    output: Text
    workload: Text
    draw: Count
    index: Count
    baseline: Value
    other: Value
    ulps: Count
    relative: Share


class Accuracy(Stored):
    """One output that the body gives a reference for: on how many draws the tuned arm was farther off, and nearer.

    ``ratio`` is the median over the draws of the tuned arm's error over the baseline's, each at least half an ulp.
    """

    output: Text
    workload: Text
    worse: Draws
    better: Draws
    ratio: Ratio


class Stress(Stored):
    """The body, run with other seeds of ``acf.rng`` than the search's: ``seed``, ``seed + 1``, … .

    ``draws`` is 0 where the body does not read ``acf.rng``. On ``usable`` draws the baseline held, and so did the tuned
    arm: else there were no claim. ``outputs`` counts what the body compares on all workloads. ``largest`` is between
    the arms, None where all bits are the same; ``spread`` is between two runs of the baseline. With
    ``repeats`` the marker says that production repeats its inputs: the gain may be one of remembered input.
    """

    draws: Draws
    usable: Draws = 0
    seed: Count | None = None
    repeats: bool = False
    outputs: Count = 0
    largest: Farthest | None = None
    spread: Farthest | None = None
    accuracy: Annotated[Array[Accuracy], Field(max_length=1000)] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.usable > self.draws:
            raise ValueError(f"{self.usable} draws cannot be usable of {self.draws}")
        if self.draws and self.seed is None:
            raise ValueError(f"{self.draws} draws have no seed")
        if more := [output for output in self.accuracy if output.worse + output.better > self.usable]:
            raise ValueError(f"output {more[0].output!r} differs on more than the {self.usable} usable draws")
        return self
