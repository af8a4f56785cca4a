"""The single timed call that a slot of samples begins with; ``rules.slot_starts`` judges it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

StartKind = Literal["dirty", "sham", "pause", "bare"]  # what comes before the call


class SlotStart(Struct, frozen=True):
    """The single timed call that a slot begins with.

    Attributes:
        kind: ``dirty``: every byte that calls write was overwritten with another one, and the call was looked at;
            ``sham``: with the same one; ``pause``: nothing was called for about as long; ``bare``: a pause, where
            neither outputs, nor a check, nor a reset tell whether calls do their work.
        seconds: that the call took.
    """

    kind: StartKind
    seconds: float
