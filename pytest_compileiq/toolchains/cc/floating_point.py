"""What a source does with floating point that a compiler may be free to round in another way. Values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Where = str  # file:line
Flags = tuple[str, ...]


@dataclass(frozen=True)
class FloatingPoint:
    """What one source does with floating point; each with the first place where it does.

    Attributes:
        arithmetic: float and double are added, multiplied, divided, or a root is taken.
        products_meet_sums: a type is both multiplied and added, so that the two may become one operation.
        products_meet_both: a type is multiplied, added and subtracted.
        calls: function of the maths library, as the compiler names it → the first call.
        complex_arithmetic: complex numbers are multiplied or divided.
        reductions: a directive asks for, or allows, another order of summation.
        modes: what sets how operations round, or whether they flush denormals to zero.
        bits: the bits of a computed value are read as an integer, or its sign is.
        attributes: the flags that an attribute or a pragma adds for some functions.
        relaxed: what single operations are relaxed by, in the compiler's words.
    """

    arithmetic: Where | None = None
    products_meet_sums: Where | None = None
    products_meet_both: Where | None = None
    calls: Mapping[str, Where] = field(default_factory=dict)
    complex_arithmetic: Where | None = None
    reductions: Mapping[str, Where] = field(default_factory=dict)
    modes: Mapping[str, Where] = field(default_factory=dict)
    bits: Where | None = None
    attributes: Mapping[Flags, Where] = field(default_factory=dict)
    relaxed: Mapping[str, Where] = field(default_factory=dict)

    @property
    def is_absent(self) -> bool:
        """Whether there is none that a compiler could change, however it optimises."""
        return not (self.arithmetic or self.calls or self.complex_arithmetic or self.modes)


def united(first: FloatingPoint, second: FloatingPoint) -> FloatingPoint:
    """What either has; where both have something, the place of the first."""
    return FloatingPoint(
        arithmetic=first.arithmetic or second.arithmetic,
        products_meet_sums=first.products_meet_sums or second.products_meet_sums,
        products_meet_both=first.products_meet_both or second.products_meet_both,
        calls={**second.calls, **first.calls},
        complex_arithmetic=first.complex_arithmetic or second.complex_arithmetic,
        reductions={**second.reductions, **first.reductions},
        modes={**second.modes, **first.modes},
        bits=first.bits or second.bits,
        attributes={**second.attributes, **first.attributes},
        relaxed={**second.relaxed, **first.relaxed},
    )
