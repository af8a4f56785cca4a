"""What ``acf capture`` records, on disk: a directory a kernel, and contents by their digests. Read as untrusted.

::

    acf-capture/
      .gitignore           it holds the program's data, so git is told to leave it out
      gather/kernel.json   the function, its shapes with counts and times, and the recorded calls
      data/3f/3f9c….z      what memory held, by the SHA-256 of the content, deflated
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from pytest_compileiq.errors import StoreError, UserError
from pytest_compileiq.system.files import Unfit, read_regular, replace

SCHEMA = 1
KERNEL_FILE = "kernel.json"
DATA = "data"
LARGEST_CONTENT = 256 << 20  # of a stretch of memory that is kept exactly
LARGEST_KERNEL = 64 << 20
AGAIN = "capture again, to another directory: acf capture --to DIR -- python PROGRAM …"
_LONG_DOUBLE = 16  # bytes; struct does not know it
MOST_BYTES = 1 << 34  # of a stretch of memory
MOST_AT_ONCE = 2 << 30  # bytes of the calls of one shape, which a replay lays out together
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]|^[.-]")
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
_Size = Annotated[int, Meta(ge=0, le=MOST_BYTES)]
_Offset = Annotated[int, Meta(ge=-MOST_BYTES, le=MOST_BYTES)]
_Axes = Annotated[tuple[_Offset, ...], Meta(max_length=64)]
_Hex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*\Z", max_length=1 << 16)]


class RecordedNumber(Struct, frozen=True):
    """A number by its type's code in ctypes (``l``, ``d``) and its bytes, in hexadecimal digits."""

    code: Annotated[str, Meta(pattern=r"^[?cbBhHiIlLqQfdg]\Z")]
    value: Annotated[str, Meta(pattern=r"^([0-9a-f]{2}){1,16}\Z")]


class RecordedMemory(Struct, frozen=True):
    """Where a pointer points: ``offset`` bytes into a region; the elements that its object has there."""

    region: Annotated[int, Meta(ge=0, le=1 << 10)]
    offset: _Size
    dtype: Annotated[str, Meta(pattern=r"^[<>|][fcbiuV][0-9]{1,9}\Z")]
    extents: _Axes
    strides: _Axes


class Argument(Struct, frozen=True):
    """A number, or memory, or neither: NULL."""

    number: RecordedNumber | None
    memory: RecordedMemory | None


class Content(Struct, frozen=True):
    """What a region held: exactly, under its digest, or a ``sample`` of its floats, evenly spaced."""

    kind: Literal["integers", "floats"]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None
    sample: _Hex | None


class RecordedRegion(Struct, frozen=True):
    """A stretch of memory that one or several arguments reach; ``page_offset`` is its address modulo 4096."""

    size: _Size
    page_offset: Annotated[int, Meta(ge=0, lt=4096)]
    before: Content
    after: Content


class Call(Struct, frozen=True):
    """One call, ``number`` counted from 1 among those of its function."""

    number: Annotated[int, Meta(ge=1, le=1 << 62)]
    arguments: Annotated[tuple[Argument, ...], Meta(max_length=1 << 10)]
    regions: Annotated[tuple[RecordedRegion, ...], Meta(max_length=1 << 10)]
    result: RecordedNumber | None

    @property
    def contents(self) -> list[tuple[Content, int]]:
        """What its regions held before and after, each with its size in bytes."""
        return [(content, region.size) for region in self.regions for content in (region.before, region.after)]

    @property
    def is_exact(self) -> bool:
        return all(content.sha256 is not None for content, _ in self.contents)


def bytes_at_once(calls: Iterable[Call]) -> int:
    """Count the memory that ``calls`` take to be made again: regions, and what these held before and after."""
    exact = [call for call in calls if call.is_exact]
    contents = {content.sha256: size for call in exact for content, size in call.contents}
    return sum(region.size for call in exact for region in call.regions) + sum(contents.values())


def fitting(calls: Iterable[Call]) -> tuple[Call, ...]:
    """The first of ``calls`` that can be made again together."""
    kept: list[Call] = []
    for call in calls:
        if bytes_at_once([*kept, call]) > MOST_AT_ONCE:
            break
        kept.append(call)
    return tuple(kept)


def fault_in(call: Call) -> str | None:
    """What is inconsistent in a call that has the right types, or None."""
    reached = {argument.memory.region for argument in call.arguments if argument.memory}
    if unreached := set(range(len(call.regions))) - reached:
        return f"region {min(unreached)} is reached by no argument"
    for number in (call.result, *(argument.number for argument in call.arguments)):
        if number is None:
            continue
        size = _LONG_DOUBLE if number.code == "g" else struct.calcsize(number.code)
        if len(number.value) != 2 * size:
            return f"{number.value} is no number of type {number.code}"
    for place, argument in enumerate(call.arguments, 1):
        memory = argument.memory
        if memory is None:
            continue
        if argument.number is not None:
            return f"argument {place} is a number and memory"
        if memory.region >= len(call.regions):
            return f"argument {place} is in region {memory.region}, which is not there"
        low, high = _reach(memory)
        if memory.offset + low < 0 or memory.offset + high > call.regions[memory.region].size:
            return f"argument {place} reaches out of its region"
    for content, _ in call.contents:
        if (content.sha256 is None) == (content.sample is None) or (content.sample and content.kind != "floats"):
            return "a region is neither kept nor sampled as floats"
    return None


def _reach(memory: RecordedMemory) -> tuple[int, int]:
    """The first byte and the one behind the last, from where the pointer points."""
    if len(memory.extents) != len(memory.strides) or any(extent < 0 for extent in memory.extents):
        return -1 << 62, 0
    if 0 in memory.extents:
        return 0, 0
    ends = [stride * (extent - 1) for extent, stride in zip(memory.extents, memory.strides, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + int(memory.dtype[2:])


class KernelShape(Struct, frozen=True):
    """The calls with arguments of one shape, where ``int`` and ``float64[…]`` vary; ``kept`` are recorded."""

    shape: tuple[int | str, ...]
    calls: Count
    own_ns: Count
    kept: tuple[Call, ...]


class UnrecordedShape(Struct, frozen=True):
    """The calls with arguments of a shape of which none is recorded."""

    shape: tuple[int | str, ...]
    calls: Count


class StoredKernel(Struct, frozen=True):
    """What a file of a capture holds."""

    schema: int


class CapturedKernel(StoredKernel, frozen=True):
    """A function as a program called it; ``share`` is of the program's time."""

    function: str
    library: str
    library_sha256: str | None
    share: float
    shapes: tuple[KernelShape, ...]
    # the shapes that ``shapes`` lacks; None where an earlier version did not keep them
    unrecorded: tuple[UnrecordedShape, ...] | None = None
    extents: str | None = None  # what the user said of memory of unknown size: ``blur(in, n): in=8*n``

    @property
    def calls(self) -> int:
        """How many calls the program made of it, as far as that is kept."""
        return sum(shape.calls for shape in self.all_shapes)

    @property
    def all_shapes(self) -> list[KernelShape | UnrecordedShape]:
        """What the program called it on, as far as that is kept; first what is recorded."""
        return [*self.shapes, *(self.unrecorded or ())]

    @property
    def kept(self) -> list[Call]:
        return [call for shape in self.shapes for call in shape.kept]

    @property
    def contents(self) -> dict[str, int]:
        """The digest of each content that is kept exactly → its size in bytes."""
        return {content.sha256: size for call in self.kept for content, size in call.contents if content.sha256}

    @property
    def shows_its_work(self) -> bool:
        """Whether an exactly recorded call changed memory or returned a number: else another kernel would pass too."""
        exact = (call for call in self.kept if call.is_exact)
        return any(call.result or any(each.before != each.after for each in call.regions) for call in exact)

    @property
    def data_sha256(self) -> str:
        """A digest of all that a replay does with it: the calls in their order, and not how long they took."""
        calls = [self.function, [(shape.shape, shape.kept) for shape in self.shapes]]
        return hashlib.sha256(msgspec.json.encode(calls)).hexdigest()


_held: dict[str, bytes] = {}  # contents that were read last: a search asks for the same ones with every candidate


class Bundle:
    """A capture at ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def require_absent(self) -> None:
        if self.root.exists():
            raise UserError(f"{self.root} is there already: remove it, or name another directory with --to")

    def create(self) -> None:
        """Make its directory, whose content git leaves out."""
        self.root.mkdir(parents=True, exist_ok=True)
        replace(self.root / ".gitignore", b"*\n", is_lasting=False)

    def write(self, kernels: Mapping[str, CapturedKernel], contents: Path) -> None:
        """Write ``kernels`` by their names; what memory held lies in files of ``contents``, by its digest."""
        if kernels:
            self.require_absent()  # the program may have made it meanwhile
            self.create()
        for name, kernel in kernels.items():
            for digest in kernel.contents:
                self.add_content(digest, contents, MOST_BYTES)
            self.add_kernel(self.root / name / KERNEL_FILE, kernel)

    def add_kernel(self, path: Path, kernel: StoredKernel) -> None:
        """Write what ``read_kernel`` reads, into a directory of its own."""
        path.parent.mkdir()
        replace(path, msgspec.json.format(msgspec.json.encode(kernel), indent=1), is_lasting=False)

    def add_content(self, digest: str, contents: Path, largest: int) -> None:
        path = self._path(digest)
        if not path.exists():
            data = read_regular(contents / digest, largest)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, zlib.compress(data, 3), is_lasting=False)

    def names(self) -> list[str]:
        if not self.root.is_dir():
            raise UserError(f"{self.root} is no capture: acf capture -- python PROGRAM … makes one")
        return sorted(path.parent.name for path in self.root.glob(f"*/{KERNEL_FILE}"))

    def read(self, name: str) -> CapturedKernel:
        """Read a kernel, whose calls are consistent in themselves."""
        path = self.root / name / KERNEL_FILE
        kernel = read_kernel(path, CapturedKernel, LARGEST_KERNEL, SCHEMA)
        for call in kernel.kept:
            if fault := fault_in(call):
                raise StoreError(f"{path}: in call {call.number} {fault}; {AGAIN}")
        if (most := max((bytes_at_once(shape.kept) for shape in kernel.shapes), default=0)) > MOST_AT_ONCE:
            raise StoreError(f"{path}: the calls of a shape take {most} bytes, and at most {MOST_AT_ONCE}; {AGAIN}")
        return kernel

    def content(self, content: Content, size: int) -> bytes:
        """What a region of ``size`` bytes held, if it is kept exactly."""
        assert content.sha256 is not None
        data = _held.get(content.sha256)
        if data is None or len(data) != size:
            data = _held[content.sha256] = self._read(content.sha256, size)
            while sum(map(len, _held.values())) > LARGEST_CONTENT:
                del _held[next(iter(_held))]
        return data

    def _read(self, digest: str, size: int) -> bytes:
        path = self._path(digest)
        if size > LARGEST_CONTENT:
            raise StoreError(f"{path} would have {size} bytes, and at most {LARGEST_CONTENT} are captured; {AGAIN}")
        try:  # deflate adds less where nothing can be made smaller
            packed = read_regular(path, size + size // 100 + 1024)
            data = zlib.decompressobj().decompress(packed, size + 1)
        except (Unfit, zlib.error) as why:
            raise StoreError(f"{path} {why}; {AGAIN}") from why
        if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
            raise StoreError(f"{path} does not hold what its name says; {AGAIN}")
        return data

    def verify(self, kernel: CapturedKernel) -> None:
        for digest, size in {(content.sha256, size) for call in kernel.kept for content, size in call.contents}:
            if digest is not None:
                self._read(digest, size)

    def size_bytes(self) -> int:
        return sum(path.lstat().st_size for path in self.root.rglob("*") if path.is_file())

    def _path(self, digest: str) -> Path:
        return self.root / DATA / digest[:2] / f"{digest}.z"


def free_name(function: str, taken: Collection[str], origin: str) -> str:
    """Name a kernel's directory after its function, with a digest of ``origin`` where that is ``taken``."""
    name = _UNSAFE.sub("_", function)[:100]
    if name not in (*taken, DATA):
        return name
    return f"{name}-{hashlib.sha256(origin.encode()).hexdigest()[:8]}"


_Stored = TypeVar("_Stored", bound=StoredKernel)


def read_kernel(path: Path, kind: type[_Stored], largest: int, schema: int) -> _Stored:
    """Read a kernel of whatever kind that a capture holds, of at most ``largest`` bytes."""
    try:
        kernel = msgspec.json.decode(read_regular(path, largest), type=kind)
    except Unfit as why:
        raise StoreError(f"{path} {why}; {AGAIN}") from why
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"{path} is no captured kernel: {error}; {AGAIN}") from error
    if kernel.schema != schema:
        raise StoreError(f"{path} has schema {kernel.schema}, and this acf reads {schema}; {AGAIN}")
    return kernel
