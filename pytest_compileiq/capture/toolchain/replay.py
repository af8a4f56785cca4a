"""Recorded calls made again: their memory laid out as it was, and compared with what they left in it."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.capture.bundle import Argument, Bundle, Call, CapturedKernel, KernelShape
from pytest_compileiq.errors import StoreError


def difference(
    got: NDArray[np.uint8], wanted: NDArray[np.uint8], dtype: str, *, rtol: float, atol: float
) -> str | None:
    """In how many values ``got`` differs from ``wanted``, of equally many bytes; None if it does not.

    Floats may differ within the tolerances, as in ``numpy.isclose``, and NaN equals NaN; without tolerances, and for
    all other types, every bit counts.
    """
    if np.array_equal(got, wanted):
        return None
    element = np.dtype(dtype)
    if element.kind not in "fciu" or len(got) % element.itemsize:
        element = np.dtype(np.uint8)
    values, recorded = got.view(element), wanted.view(element)
    is_tolerant = element.kind in "fc" and bool(rtol or atol)
    if is_tolerant:
        close = np.isclose(values, recorded, rtol=rtol, atol=atol, equal_nan=True)
    else:
        close = (got.reshape(-1, element.itemsize) == wanted.reshape(-1, element.itemsize)).all(axis=1)
    if close.all():
        return None
    at = int(np.argmin(close))
    beyond = f" beyond rtol={rtol:g}, atol={atol:g}" if is_tolerant else ""
    first = f"the first at index {at}: {values[at]} instead of {recorded[at]}"
    least = ""  # the relative tolerance that would do
    if element.kind in "fc":
        with np.errstate(all="ignore"):
            relative = np.abs((values - recorded) / recorded)
        if (finite := relative[np.isfinite(relative)]).size:
            least = f"; the largest relative difference is {finite.max():.2g}"
    return f"{np.count_nonzero(~close)} of {len(close)} values{beyond}, {first}{least}"


FLOOR_CALLS = 10  # of each recorded call: the first two of a process often agree, before its threads are all awake
_SMALL_SAMPLE = 4  # some calls show little of how far calls differ
# What right implementations differ by, relative: the defaults of torch.testing.assert_close, by the bytes of a real.
_PRECISION = {2: 1e-3, 4: 1.3e-6, 8: 1e-7, 16: 1e-7}


class Floor:
    """The least tolerances of the places of ``function``, by ``measure``: place → the baseline's ``own_difference``."""

    def __init__(self, function: str, measure: Callable[[], Mapping[str, float]]) -> None:
        self._function = function
        self._own = cache(measure)

    def of(self, place: str, recorded: NDArray[np.uint8], dtype: str) -> float:
        """The absolute tolerance of ``place`` where it held ``recorded``; 0 where the baseline repeats itself."""
        own = self._own().get(place, 0.0)
        if not own:
            return 0.0
        values = _floats(recorded, dtype)
        precision = 0.0 if values is None else _PRECISION[values.real.itemsize]
        if values is None or own > precision:
            raise AssertionError(
                f"{self._function}: {place} of the baseline, called again on the same data, differs from itself by "
                f"{own:.2g} of its largest value, beyond {precision:g}, the precision of its type: it is "
                "nondeterministic, and sets no tolerance; give your own: check(rtol=…, atol=…)"
            )
        return _SMALL_SAMPLE * own * _largest(values)


def own_difference(got: NDArray[np.uint8], before: NDArray[np.uint8], dtype: str) -> float:
    """The largest difference of two calls' floats, relative to the largest value; infinite for all other types."""
    if np.array_equal(got, before):
        return 0.0
    values, others = _floats(got, dtype), _floats(before, dtype)
    if values is None or others is None:
        return np.inf
    with np.errstate(all="ignore"):
        differences = np.abs(values - others)
    same = (values == others) | (np.isnan(values) & np.isnan(others))
    differences[same] = 0.0
    largest = float(differences.max())
    scale = _largest(others)  # not each value's own: cancellation makes small ones differ by any factor
    return largest / scale if np.isfinite(largest) and scale else np.inf if largest else 0.0


def _floats(data: NDArray[np.uint8], dtype: str) -> NDArray[np.floating] | None:
    element = np.dtype(dtype)
    if element.kind not in "fc" or len(data) % element.itemsize:
        return None
    values = data.view(element)
    return values if values.real.itemsize in _PRECISION else None


def _largest(values: NDArray[np.floating]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


_SEED = 22
_TEXTS = 8  # of different content, so that no branch is learned
_TEXT_BYTES = 64 << 10


class CallsInTurn:
    """Recorded calls: ``calls()`` makes one of them, and ``reset()`` goes on to the next.

    In the program other code runs between two calls, and the next one has other data. A call that is made again and
    again on the same data has its branches learned and its memory in the caches, and a candidate may gain twice there
    what it gains in the program (bench/captured_alone.py). So ``reset`` also has 64 KiB deflated, untimed: that takes a
    processor's caches and branch predictor for its own.
    """

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self._calls = calls
        self._resets = 0

    def __call__(self) -> Any:
        """Make the call; gives what it returns."""
        return self._current()

    def restore(self) -> None:
        """Put what the call changes back as it was before."""
        self._current.restore()

    def reset(self) -> None:
        """Go on to the next call, as it was before, and have what the processor has learned of it forgotten."""
        self._resets += 1
        self._current.restore()
        zlib.compress(_OTHER_WORK[self._resets % _TEXTS], 1)

    def check(self, *, rtol: float = 0.0, atol: float = 0.0) -> None:
        """As ``RecordedCall.check``, of the call that was made."""
        self._current.check(rtol=rtol, atol=atol)

    @property
    def _current(self) -> RecordedCall:
        return self._calls[self._resets % len(self._calls)]


_OTHER_WORK = [
    np.random.default_rng((_SEED, number)).integers(97, 117, _TEXT_BYTES, np.uint8).tobytes()
    for number in range(_TEXTS)
]

_PAGE = 4096
_NUMBERS = "bool char byte ubyte short ushort int uint long ulong longlong ulonglong float double longdouble"
_SIMPLE: dict[str, Any] = {kind._type_: kind for kind in (getattr(ctypes, f"c_{name}") for name in _NUMBERS.split())}


class RecordedKernel:
    """A function, and the calls that a program made of it. Shapes are in the order of the time that they took.

    Where the baseline differs from itself on the same data, that is the least tolerance of every comparison of floats.
    """

    def __init__(
        self, bundle: Bundle, kernel: CapturedKernel, function: Any, baseline: Callable[[], Any] | None = None
    ) -> None:
        self._bundle = bundle
        self._kernel = kernel
        self._function = function
        self._floor = Floor(kernel.function, lambda: self._own_differences(baseline()) if baseline else {})

    @property
    def shapes(self) -> Sequence[tuple[int | str, ...]]:
        """What is known of the arguments: ``(1000, "float64[1000]")``."""
        return [shape.shape for shape in self._kernel.shapes]

    def call(self, shape: int = 0) -> CallsInTurn:
        """The calls of a shape that were recorded exactly, to be made in turn.

        Raises:
            StoreError: there is no such shape, or no call of it is exact.
        """
        exact = [self._ready(call) for call in self._shape(shape).kept if call.is_exact]
        if exact:
            return CallsInTurn(exact)
        name = self._kernel.function
        raise StoreError(f"{name}: no call on shape {shape} is recorded exactly: the floats of each are samples")

    def check(self, shape: int | None = None, *, rtol: float = 0.0, atol: float = 0.0) -> None:
        """Make every call twice that was recorded exactly, and check that it repeats itself and the record.

        With ``shape``, those of one shape: for a body that runs once for each. Floats may differ within the tolerances,
        and always within the floor: four times what the baseline, called ten times on the same data, differs from
        itself.

        Raises:
            AssertionError: one leaves or returns something else than was recorded, or differs from itself beyond the
                floor, or the baseline does beyond its type's precision, which is no floor but nondeterminism.
            StoreError: there is no such shape, no call was recorded exactly, or none shows what the function does.
        """
        name = self._kernel.function
        kept = self._kernel.kept if shape is None else self._shape(shape).kept
        exact = [call for call in kept if call.is_exact]
        if not exact:
            raise StoreError(f"no call of {name} was recorded exactly: nothing can be compared")
        if not self._kernel.shows_its_work:
            raise StoreError(
                f"no recorded call of {name} changes memory or has a result, so nothing can be compared: set restype "
                "in the program, and capture again"
            )
        for call in exact:
            again = self._ready(call)
            again.check_repeats(rtol=rtol, atol=atol)
            again.check(rtol=rtol, atol=atol)

    def _shape(self, shape: int) -> KernelShape:
        try:
            return self._kernel.shapes[shape]
        except IndexError:
            raise StoreError(
                f"{self._kernel.function} was captured with {len(self._kernel.shapes)} shapes, and there is no {shape}"
            ) from None

    def _ready(self, call: Call) -> RecordedCall:
        return RecordedCall(self._bundle, self._kernel, call, self._function, self._floor)

    def _own_differences(self, function: Any) -> dict[str, float]:
        """How far ``function`` differs from itself in each place, over all recorded calls."""
        largest: dict[str, float] = {}
        for call in (call for call in self._kernel.kept if call.is_exact):
            again = RecordedCall(self._bundle, self._kernel, call, function)
            for place, own in again.own_differences(FLOOR_CALLS).items():
                largest[place] = max(own, largest.get(place, 0.0))
        return largest


class RecordedCall:
    """One call, ready to be made again as often as wanted: ``call()``, and ``restore()`` before the next."""

    def __init__(
        self, bundle: Bundle, kernel: CapturedKernel, call: Call, function: Any, floor: Floor | None = None
    ) -> None:
        self._floor = floor
        self._name = f"{kernel.function}, call {call.number}"
        self._call = call
        self._before = [bundle.content(region.before, region.size) for region in call.regions]
        self._after = [bundle.content(region.after, region.size) for region in call.regions]
        self._buffers = [_as_it_lay(region.size, region.page_offset) for region in call.regions]
        self._changed = [at for at, region in enumerate(call.regions) if region.before != region.after]
        self._arguments = [self._argument(argument) for argument in call.arguments]
        self._returns: Any = _SIMPLE[call.result.code] if call.result else None
        self._result: Any = None
        function.restype = self._returns
        self._function = function
        for buffer, data in zip(self._buffers, self._before, strict=True):
            buffer[:] = np.frombuffer(data, np.uint8)

    def __call__(self) -> Any:
        """Make the call; gives what it returns."""
        self._result = self._function(*self._arguments)
        return self._result

    def restore(self) -> None:
        """Put what the call changes back as it was before."""
        for at in self._changed:
            self._buffers[at][:] = np.frombuffer(self._before[at], np.uint8)

    def check(self, *, rtol: float = 0.0, atol: float = 0.0) -> None:
        """Hold memory and result against the record: floats within the tolerances and the floor, all else bit for bit.

        Raises:
            AssertionError: something differs.
        """
        result = [bytes.fromhex(self._call.result.value)] if self._call.result else []
        recorded = [np.frombuffer(data, np.uint8) for data in (*self._after, *result)]
        self._require(recorded, rtol, atol, "the record")

    def check_repeats(self, *, rtol: float = 0.0, atol: float = 0.0) -> None:
        """Make the call twice on the same data, and hold the second against the first.

        Raises:
            AssertionError: it is nondeterministic; the message has the least tolerance that would do.
        """
        first = self._made()
        self._made()
        self._require(first, rtol, atol, "the same call before, so it is nondeterministic,")

    def own_differences(self, calls: int) -> dict[str, float]:
        """Where ``calls`` calls on the same data differ from the first, and how far at most: see ``own_difference``."""
        largest = {place: 0.0 for place, _ in self._places}
        first = self._made()
        for _ in range(calls - 1):
            for (place, dtype), got, before in zip(self._places, self._made(), first, strict=True):
                largest[place] = max(largest[place], own_difference(got, before, dtype))
        return largest

    def _made(self) -> list[NDArray[np.uint8]]:
        self.restore()
        self()
        return [left.copy() for left in self._left]

    @property
    def _left(self) -> list[NDArray[np.uint8]]:
        """What is in memory now, and what the call returned."""
        result = [] if self._returns is None else [np.frombuffer(bytes(self._returns(self._result)), np.uint8)]
        return [*self._buffers, *result]

    def _require(self, wanted: Sequence[NDArray[np.uint8]], rtol: float, atol: float, what: str) -> None:
        for (place, dtype), got, expected in zip(self._places, self._left, wanted, strict=True):
            told = difference(got, expected, dtype, rtol=rtol, atol=atol)
            if told and self._floor and (least := self._floor.of(place, expected, dtype)):
                told = difference(got, expected, dtype, rtol=rtol, atol=atol + least)
            if told:
                raise AssertionError(f"{self._name}: {place} differs from {what} in {told}")

    @cached_property
    def _places(self) -> list[tuple[str, str]]:
        """What stands in ``_left``, in words, and its type."""
        places = []
        for region in range(len(self._call.regions)):
            memories = {
                at: each.memory
                for at, each in enumerate(self._call.arguments, 1)
                if each.memory and each.memory.region == region
            }
            dtypes = {memory.dtype for memory in memories.values()}
            places.append((f"argument {min(memories)}", dtypes.pop() if len(dtypes) == 1 else "|u1"))
        if self._call.result is not None:
            kind = "f" if self._call.result.code in "fdg" else "i"
            places.append(("the result", f"<{kind}{ctypes.sizeof(self._returns)}"))
        return places

    def _argument(self, argument: Argument) -> Any:
        if argument.memory is not None:
            return ctypes.c_void_p(self._buffers[argument.memory.region].ctypes.data + argument.memory.offset)
        return argument.number and _SIMPLE[argument.number.code].from_buffer_copy(bytes.fromhex(argument.number.value))


def _as_it_lay(size: int, page_offset: int) -> NDArray[np.uint8]:
    """Memory of ``size`` bytes that begins where the recorded one began within its page."""
    room = np.empty(size + _PAGE, np.uint8)
    start = (page_offset - room.ctypes.data) % _PAGE
    return room[start : start + size]
