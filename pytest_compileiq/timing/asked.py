"""What ``measure`` was given besides the callable: what it writes, what judges that, and what restores its input."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pytest_compileiq.errors import BodyError
from pytest_compileiq.model import CheckedBy

if TYPE_CHECKING:
    from pytest_compileiq.timing.outputs import Output


class MeasureArguments(Struct, frozen=True):
    """What ``measure`` was given besides the callable."""

    outputs: tuple[Output, ...] = ()  # what the callable writes
    # Raises where the outputs are wrong; without it, they have to be the same after every call.
    check: Callable[[], object] | None = None
    reset: Callable[[], object] | None = None  # restores what the callable works on

    @property
    def by(self) -> CheckedBy | None:
        """What decides; None where nothing is looked at."""
        return "check" if self.check is not None else "outputs" if self.outputs else None

    @property
    def is_bare(self) -> bool:
        """Whether nothing tells whether a timed call does its work."""
        return self.by is None and self.reset is None


def expect_callables(call: object, **optional: object) -> None:
    """Hold what ``measure`` was given to what it calls.

    Raises:
        BodyError: ``call`` cannot be called, or one of the others is neither None nor callable, or needs arguments.
    """
    if not callable(call):
        raise BodyError(f"acf.measure({call!r}): expected a callable, e.g. acf.measure(lambda: run(kernel))")
    _expect_no_arguments("", call)
    for name, value in optional.items():
        if value is None:
            continue
        if not callable(value):
            raise BodyError(f"acf.measure({name}={value!r:.80}): expected a callable without arguments, or None")
        _expect_no_arguments(f"{name}=", value)


def _expect_no_arguments(parameter: str, given: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # what is written in C often has none
        return
    try:
        signature.bind()
    except TypeError as error:
        raise BodyError(
            f"acf.measure({parameter}…): it is called without arguments, but is {error}; the result "
            "of a call is not handed over: keep it where check= can see it"
        ) from None


def asked_for(
    outputs: Sequence[Any], check: Callable[[], object] | None, reset: Callable[[], object] | None
) -> MeasureArguments:
    """What ``measure`` was given, with its outputs as memory.

    Raises:
        BodyError: an output is no array that can be overwritten.
    """
    if isinstance(outputs, tuple | list) and not outputs:
        return MeasureArguments((), check, reset)
    from pytest_compileiq.timing.outputs import as_outputs  # heavy: numpy

    return MeasureArguments(as_outputs(outputs), check, reset)
