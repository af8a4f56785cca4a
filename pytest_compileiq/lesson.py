"""What one artifact of this repository teaches a search of another kernel, or of the same one elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_compileiq.model import KnobValue

MOST_LESSONS = 8  # of one search


@dataclass(frozen=True)
class Lesson:
    """The controls that were proven there, as far as they lie in the space of the search here.

    Attributes:
        artifact: its name and target, as in ``lz4/x86-64-v3-gcc12``.
        digest: SHA-256 of the artifact's metadata.
        knobs: a point of the space here.
        weight: how much its kernel is like the one here, above 0 and at most 1.
    """

    artifact: str
    digest: str
    knobs: Mapping[str, KnobValue]
    weight: float
