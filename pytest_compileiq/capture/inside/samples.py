"""Which calls of a function are kept: of each of its few shapes the first, and a random few of the others.

Each call draws a number, and those that drew the smallest are kept: bottom-k sampling (Cohen and Kaplan, PODC 2007).
Which arguments take many values, so that shapes are one, is known only after many calls. Samples of this kind can be
joined then: the smallest draws of two samples are those of all calls of both. Where shapes come apart again, only what
drew less than the bounds of all samples that it was in is still a fair sample, and that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .shapes import by_kind, of_many_values, told_of_shape

if TYPE_CHECKING:
    from .shapes import Shape, Told

MOST_SAMPLES = 32  # of a function, before its shapes are made fewer
_MOST_TOLD = 20_000  # shapes of a function by which it is known which arguments take many values


class Drawn:
    """A call that drew a small number; ``number`` counts the calls of its function from 1."""

    __slots__ = ("draw", "number", "shape")

    def __init__(self, number: int, draw: float, shape: Shape) -> None:
        self.number = number
        self.draw = draw
        self.shape = shape


class Sample:
    """The first call on shapes that count as one, and of the others the ``size`` that drew the smallest numbers.

    Attributes:
        shape: one of its shapes.
        bound: what drew more is not in it.
        calls: the first, and the others.
    """

    def __init__(self, size: int, shape: Shape) -> None:
        self.shape = shape
        self.bound = 1.0
        self.calls: list[Drawn] = []
        self._size = size

    def wants(self, draw: float) -> bool:
        """Whether a call that drew this is one to keep."""
        return not self.calls or draw <= self.bound

    def add(self, call: Drawn) -> Drawn | None:
        """Keep a call; gives the one that is kept no longer, which may be the same."""
        if not self.wants(call.draw):
            return call
        self.calls.append(call)
        dropped = None
        if len(self.calls) > 1 + self._size:
            dropped = max(self.calls[1:], key=lambda each: each.draw)
            self.calls.remove(dropped)
        if len(self.calls) == 1 + self._size:
            self.bound = max((each.draw for each in self.calls[1:]), default=0.0)
        return dropped


class FunctionCalls:
    """The calls that are kept of one function.

    Args:
        size: calls kept of each shape beside the first.
        drop: is given each call that is kept no longer.
    """

    def __init__(self, size: int, drop: Callable[[Drawn], None]) -> None:
        self.seen = 0
        self._size = size
        self._drop = drop
        self._told: dict[Shape, Told] = {}
        self._by_kind: frozenset[int] = frozenset()
        self._samples: dict[Told, Sample] = {}
        self._known: dict[Shape, Sample] = {}  # what was looked up already
        self._may_merge = True

    def sample(self, shape: Shape) -> Sample | None:
        """The sample that takes in calls of this shape; None where there are too many, and no rule makes them fewer."""
        try:
            return self._known[shape]
        except KeyError:
            sample = self._looked_up(shape)
        if sample is not None and shape in self._told:
            self._known[shape] = sample
        return sample

    def add(self, call: Drawn) -> None:
        """Keep a call, if its sample still wants it."""
        sample = self.sample(call.shape)
        if sample is not None and call.shape not in self._told:  # nobody will ask for it
            call.shape = sample.shape
        dropped = call if sample is None else sample.add(call)
        if dropped is not None:
            self._drop(dropped)

    def merge(self) -> None:
        """Make the shapes few, by the rule of the ranking."""
        self._may_merge = False
        before, earlier = self._samples, {shape: self._key(shape) for shape in self._told}
        self._by_kind = of_many_values(self._told.values())
        self._samples, self._known = {}, {}
        for shape, key in earlier.items():
            if key in before:
                sample = self._samples.setdefault(self._key(shape), Sample(self._size, shape))
                sample.bound = min(sample.bound, before[key].bound)
        for call in sorted((call for each in before.values() for call in each.calls), key=lambda call: call.number):
            self.add(call)
        self._may_merge = len(self._samples) < MOST_SAMPLES

    def kept(self, shape: Shape) -> Iterator[Drawn]:
        """What is kept of the calls with exactly this shape."""
        sample = self.sample(shape) if shape in self._told else None
        return (call for call in sample.calls if call.shape == shape) if sample else iter(())

    def _looked_up(self, shape: Shape) -> Sample | None:
        if shape not in self._told and len(self._told) < _MOST_TOLD:
            self._told[shape] = tuple(told_of_shape(shape))
        if self._key(shape) not in self._samples and len(self._samples) >= MOST_SAMPLES and self._may_merge:
            self.merge()
        key = self._key(shape)
        if key not in self._samples and len(self._samples) < MOST_SAMPLES:
            self._samples[key] = Sample(self._size, shape)
        return self._samples.get(key)

    def _key(self, shape: Shape) -> Told:
        told = self._told.get(shape)
        return by_kind(tuple(told_of_shape(shape)) if told is None else told, self._by_kind)
