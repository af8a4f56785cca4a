"""A foreign call, whatever it is made through: what it is given, what it returned, and how it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import cffi_arguments, ctypes_arguments
from .extents import with_extents
from .values import Memory, Number, Refused

if TYPE_CHECKING:
    from .extents import Extents
    from .shapes import Shape
    from .tally import Function

RAISED = object()  # in a result's place
_DOORS: dict[str, Any] = {"ctypes": ctypes_arguments, "cffi": cffi_arguments}


class ForeignCall(NamedTuple):
    """A call that has been made.

    Attributes:
        called: the object that the program called.
        result: what it gave, or ``RAISED``.
        own_ns: its time, without the watched calls within it.
        call: makes it again: ``call(called, *arguments)``.
    """

    called: Any
    function: Function
    shape: Shape
    arguments: tuple[Any, ...]
    result: Any
    own_ns: int
    call: Callable[..., Any]

    @property
    def returned(self) -> Number | None:
        """The number that C returned; None for nothing, or where nobody said what it returns.

        Raises:
            Refused: that is not known, or is no number.
        """
        return number_of(self.function, self.called, self.result)


def number_of(function: Function, called: Any, result: Any) -> Number | None:
    """As ``ForeignCall.returned``, of any result of this function."""
    number: Number | None = _DOORS[function.door].returned(called, result)
    return number


def given_to(
    function: Function, called: Any, arguments: tuple[Any, ...], named: dict[str, Any], extents: Extents | None
) -> list[Number | Memory | None]:
    """What a call is about to be given; None for NULL. ``extents`` is what the user said of memory.

    Raises:
        Refused: that cannot be read.
    """
    if named:
        raise Refused("it is called with named arguments")
    return with_extents(_DOORS[function.door].taken(called, arguments), extents)
