"""What ``measure(outputs=…)`` names: arrays in the host's memory or a GPU's, as bytes to read and to overwrite."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from pytest_compileiq.errors import BodyError, CompileIQError

if TYPE_CHECKING:
    from pytest_compileiq.timing.cuda_context import Driver, Flip

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_EXPECTED = (
    "arrays that the call writes: numpy or ctypes arrays, anything else with a writable buffer, DeviceArrays, torch "
    "tensors, or what has __cuda_array_interface__ or DLPack"
)


class Output(Protocol):
    """One array that a call writes."""

    name: str  # outputs[0]
    item_bytes: int  # of one value
    size: int  # of the whole, in bytes
    dtype: np.dtype[Any] | None  # of one value; None where numpy has no such type

    def now(self) -> Bytes:
        """The content: of the host's memory that memory itself, of a GPU's a copy."""

    def write(self, content: Bytes) -> None:
        """Overwrite the content."""

    def flip(self, bits: Bytes | np.uint8) -> None:
        """Overwrite each byte by itself with these bits flipped."""

    def flip_of(self, bits: Bytes) -> Flip | None:
        """The same, to be enqueued on a GPU; None in the host's memory."""


def as_outputs(given: Any) -> tuple[Output, ...]:
    """The arrays that ``measure`` was given."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes | bytearray | memoryview):
        raise BodyError(f"acf.measure(outputs={_shown(given)}): expected a list of {_EXPECTED}")
    return tuple(_as_output(f"outputs[{place}]", thing) for place, thing in enumerate(given))


def _as_output(name: str, thing: Any) -> Output:
    try:
        output = _torch(name, thing) or _on_gpu(name, thing) or _in_host_memory(name, thing)
    except CompileIQError:
        raise
    except Exception as error:  # whatever a framework's array says to being asked for its memory
        raise BodyError(f"acf.measure: {name}, {_shown(thing)}, gives no memory: {error}") from error
    if output is None:
        raise BodyError(f"acf.measure: {name} is {_shown(thing)}: expected {_EXPECTED}")
    return output


class _Host:
    def __init__(
        self, name: str, content: Bytes, item_bytes: int, owner: Any, dtype: np.dtype[Any] | None = None
    ) -> None:
        self.name, self.item_bytes, self.size, self.dtype = name, item_bytes, content.size, dtype
        self._content, self._owner = content, owner

    def now(self) -> Bytes:
        return self._content

    def write(self, content: Bytes) -> None:
        self._content[:] = content

    def flip(self, bits: Bytes | np.uint8) -> None:
        np.bitwise_xor(self._content, bits, out=self._content)

    def flip_of(self, bits: Bytes) -> None:
        return None


class _Gpu:
    def __init__(
        self, name: str, address: int, size: int, item_bytes: int, owner: Any, dtype: np.dtype[Any] | None = None
    ) -> None:
        self.name, self.item_bytes, self.size, self.dtype = name, item_bytes, size, dtype
        self._address, self._owner = address, owner

    @cached_property
    def _driver(self) -> Driver:
        from pytest_compileiq.timing.cuda_context import Driver, cuda_core, visible_gpu

        visible_gpu(cuda_core()).set_current()
        return Driver()

    def now(self) -> Bytes:
        content = np.empty(self.size, np.uint8)
        self._driver.finish()
        self._driver.copy_to_host(content.ctypes.data, self._address, self.size)
        return content

    def write(self, content: Bytes) -> None:
        given = np.ascontiguousarray(content)
        self._driver.copy_from_host(self._address, given.ctypes.data, self.size)
        self._driver.finish()

    def flip(self, bits: Bytes | np.uint8) -> None:
        self.write(self.now() ^ bits)

    def flip_of(self, bits: Bytes) -> Flip:
        from pytest_compileiq.timing.cuda_context import Flip

        return Flip(self._address, bits)


def _torch(name: str, thing: Any) -> Output | None:
    """A torch tensor, of any dtype and on either side: its other interfaces know no bfloat16."""
    if not all(hasattr(thing, attribute) for attribute in ("data_ptr", "element_size", "is_contiguous", "is_cuda")):
        return None
    item_bytes = int(thing.element_size())
    size = int(thing.numel()) * item_bytes
    _expect_bytes(name, thing, size, contiguous=bool(thing.is_contiguous()))
    known = getattr(np, str(getattr(thing, "dtype", "")).removeprefix("torch."), None)
    dtype = np.dtype(known) if isinstance(known, type) and issubclass(known, np.generic) else None
    if thing.is_cuda:
        return _Gpu(name, thing.data_ptr(), size, item_bytes, thing, dtype)
    return _Host(name, _at(thing.data_ptr(), size), item_bytes, thing, dtype)


def _on_gpu(name: str, thing: Any) -> Output | None:
    if not hasattr(thing, "__cuda_array_interface__"):
        return None
    known = thing.__cuda_array_interface__
    dtype = np.dtype(known["typestr"])
    item_bytes = dtype.itemsize
    address, read_only = known["data"]
    size = math.prod(known["shape"]) * item_bytes
    packed = _packed_strides(known["shape"], item_bytes)
    contiguous = known.get("strides") in (None, packed)
    _expect_bytes(name, thing, size, contiguous=contiguous, writable=not read_only)
    return _Gpu(name, address, size, item_bytes, thing, dtype)


def _packed_strides(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    return tuple(item_bytes * math.prod(shape[place + 1 :]) for place in range(len(shape)))


def _in_host_memory(name: str, thing: Any) -> Output | None:
    if isinstance(thing, ctypes._Pointer) or getattr(thing, "_type_", None) in ("P", "z", "Z"):
        raise BodyError(f"acf.measure: {name} is a pointer, which does not say to how much: give the array itself")
    if not isinstance(thing, np.ndarray):
        try:
            view = memoryview(thing)
        except TypeError:
            return _by_dlpack(name, thing)
        _expect_bytes(name, thing, view.nbytes, contiguous=view.c_contiguous, writable=not view.readonly)
        return _Host(name, np.frombuffer(thing, np.uint8), view.itemsize, thing, _dtype_of(view))
    array = thing if thing.flags.c_contiguous else thing.T
    if array.dtype.hasobject:
        raise BodyError(f"acf.measure: {name} holds Python objects: expected an array of numbers")
    _expect_bytes(name, thing, array.nbytes, contiguous=array.flags.c_contiguous, writable=array.flags.writeable)
    return _Host(name, array.reshape(-1).view(np.uint8), array.itemsize, thing, array.dtype)


def _dtype_of(view: memoryview) -> np.dtype[Any] | None:
    try:
        return np.asarray(view).dtype
    except (TypeError, ValueError, RuntimeError, NotImplementedError):  # as of pointers
        return None


def _by_dlpack(name: str, thing: Any) -> Output | None:
    if not hasattr(thing, "__dlpack__"):
        return None
    array = np.from_dlpack(thing)
    _expect_bytes(name, thing, array.nbytes, contiguous=array.flags.c_contiguous)
    # numpy calls the memory of most frameworks read-only, since DLPack did not say what it is.
    return _Host(name, _at(array.ctypes.data, array.nbytes), array.itemsize, (thing, array), array.dtype)


def _at(address: int, size: int) -> Bytes:
    return np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), np.uint8)


def _expect_bytes(name: str, thing: Any, size: int, *, contiguous: bool, writable: bool = True) -> None:
    why = (
        "is empty" if not size
        else "is read-only" if not writable
        else "is a view with gaps: give the array that it is a view of" if not contiguous
        else None
    )  # fmt: skip
    if why:
        raise BodyError(f"acf.measure: {name}, {_shown(thing)}, {why}")


def _shown(thing: Any) -> str:
    return f"{type(thing).__name__}({thing!r:.60})" if isinstance(thing, str | int | float) else type(thing).__name__


# ── what calls write there, and how it is overwritten before one that is looked at ───────────────────────────────

_MOST_APART = 0.1  # of the values
POISONS = (0xFF, 0x00)  # floating-point NaN, and zero


class WrittenOutput(Struct):
    """One output after a call."""

    output: Output
    content: Bytes  # what the call leaves there
    written: Mask | None  # the bytes to overwrite before a call, those that it writes; None for all

    @property
    def written_bytes(self) -> int:
        """How many bytes calls write."""
        return self.content.size if self.written is None else int(self.written.sum())

    @property
    def own_bytes(self) -> Bytes:
        """What calls write, without what they leave alone."""
        return self.content if self.written is None else self.content[self.written]

    def left_of(self, other: WrittenOutput) -> Mask | None:
        """Which bytes the other arm's call writes and this one's leaves; None where there are none."""
        if self.written is None or self.content.size != other.content.size:
            return None
        left = ~self.written if other.written is None else other.written & ~self.written
        return left if left.any() else None

    def why_apart(self, other: WrittenOutput) -> str | None:
        """How these values differ from the baseline's, in words; None where few do, or numpy lacks their type."""
        from pytest_compileiq.rules.accuracy import share_apart

        if (dtype := self.output.dtype) is None or dtype != other.output.dtype or self.output.size != other.output.size:
            return None
        written = [arm.written for arm in (self, other) if arm.written is not None]
        whole = [mask.reshape(-1, dtype.itemsize).all(axis=1) for mask in written]
        own, its = (
            arm.content.view(dtype)[whole[0] & whole[-1]] if whole else arm.content.view(dtype) for arm in (self, other)
        )
        if (share := share_apart(its, own)) < _MOST_APART:
            return None
        return (
            f"{share:.0%} of the values in {self.output.name} differ from the baseline's by more than a tenth of its "
            "largest value; if both are correct, define correct outputs by measure(check=…)"
        )

    def poison_also(self, left: Mask | None) -> None:
        """Overwrite these bytes, too, lest the other arm's are taken for this one's."""
        if self.written is not None and left is not None:
            self.written = self.written | left

    def poison(self) -> None:
        """Overwrite what calls write."""
        poisoned = filled(self.output, POISONS[0])
        if self.written is not None:
            poisoned[~self.written] = self.output.now()[~self.written]
        self.output.write(poisoned)

    def overwrite(self, flipped: int) -> None:
        """Overwrite the bytes that calls write by themselves with these bits flipped; 0 is as much work and traffic."""
        self.output.flip(np.uint8(flipped) if self.written is None else self.written * np.uint8(flipped))

    def flip_of_all(self) -> Flip | None:
        """What flips all bits of the bytes that calls write on a GPU; None in the host's memory."""
        bits = filled(self.output, 0xFF)
        return self.output.flip_of(bits if self.written is None else self.written * bits)


def filled(output: Output, value: int) -> Bytes:
    """As many bytes of this value as ``output`` has."""
    return np.full(output.size, value, np.uint8)


def equal(one: Bytes, other: Bytes, where: Mask | None) -> bool:
    """Whether both hold the same bytes, or do where ``where`` is true."""
    if where is not None:
        return not ((one != other) & where).any()
    whole = one.size - one.size % 8  # eight bytes at a time take a third of the time
    return bool(
        (one[:whole].view(np.uint64) == other[:whole].view(np.uint64)).all() and (one[whole:] == other[whole:]).all()
    )


def difference(output: Output, one: Bytes, other: Bytes, where: Mask | None) -> str:
    """How many values of ``output`` differ, and where the first one is, in words."""
    differs = (one != other) if where is None else (one != other) & where
    values = np.unique(np.flatnonzero(differs) // output.item_bytes)
    return f"{values.size} of {one.size // output.item_bytes} values, the first at index {values[0]}"
