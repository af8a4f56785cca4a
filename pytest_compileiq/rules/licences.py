"""When equal bits are promised: controls keep every value, and nothing else lets the compiler change one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pytest_compileiq.model import ControlClass, Licence
from pytest_compileiq.rules.classes import SAFE


def promises_bits(classes_used: Iterable[ControlClass], licences: Collection[Licence]) -> bool:
    """Whether both arms must give the same bits on the same inputs, NaN being equal to NaN.

    They must where every control keeps the values that the language defines, and neither the baseline nor the source
    already lets the compiler change them.
    """
    return not licences and set(SAFE).issuperset(classes_used)
