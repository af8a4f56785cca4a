"""What ``acf capture`` records, on disk: a directory a kernel, and contents by their digests. Read as untrusted.

::

    acf-capture/
      .gitignore           it holds the program's data, so git is told to leave it out
      gather/kernel.json   the function, its shapes with counts and times, and the recorded calls
      data/3f/3f9c….z      what memory held, by the SHA-256 of the content, deflated
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import msgspec
from msgspec import Meta, Struct

from pytest_compileiq.capture.recorded_calls import (
    MOST_AT_ONCE,
    MOST_BYTES,
    Call,
    Content,
    bytes_at_once,
    fault_in,
)
from pytest_compileiq.errors import StoreError, UserError
from pytest_compileiq.system.files import Unfit, read_regular, replace

SCHEMA = 1
KERNEL_FILE = "kernel.json"
DATA = "data"
LARGEST_CONTENT = 256 << 20  # of a stretch of memory that is kept exactly
LARGEST_KERNEL = 64 << 20
AGAIN = "capture again, to another directory: acf capture --to DIR -- python PROGRAM …"
_Count = Annotated[int, Meta(ge=0, le=1 << 62)]


class _OfSchema(Protocol):
    @property
    def schema(self) -> int: ...


_Stored = TypeVar("_Stored", bound=_OfSchema)


class KernelShape(Struct, frozen=True):
    """The calls with arguments of one shape, of which ``kept`` are recorded.

    Where a part says ``int`` or ``float64[…]``, it varies.
    """

    shape: tuple[int | str, ...]
    calls: _Count
    own_ns: _Count
    kept: tuple[Call, ...]


class UnrecordedShape(Struct, frozen=True):
    """The calls with arguments of a shape of which none is recorded."""

    shape: tuple[int | str, ...]
    calls: _Count


class Kernel(Struct, frozen=True):
    """A function as a program called it; ``share`` is of the program's time.

    ``unrecorded`` are the shapes that ``shapes`` lacks; None where an earlier version did not keep them. ``extents`` is
    what the user said of memory whose size no object tells, in bytes: ``blur(in, out, n): in=8*n, out=8*n``.
    """

    schema: int
    function: str
    library: str
    library_sha256: str | None
    share: float
    shapes: tuple[KernelShape, ...]
    unrecorded: tuple[UnrecordedShape, ...] | None = None
    extents: str | None = None

    @property
    def calls(self) -> int:
        """How many calls the program made of it, as far as that is kept."""
        return sum(shape.calls for shape in self.shapes) + sum(shape.calls for shape in self.unrecorded or ())

    @property
    def kept(self) -> list[Call]:
        """All recorded calls."""
        return [call for shape in self.shapes for call in shape.kept]

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


class _Held:
    """The contents that were read last, by their digest: a search asks for the same ones with every candidate."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._contents: dict[str, bytes] = {}

    def get(self, digest: str, size: int) -> bytes | None:
        data = self._contents.get(digest)
        return data if data is not None and len(data) == size else None

    def add(self, digest: str, data: bytes) -> None:
        self._contents[digest] = data
        self._bytes += len(data)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._contents.pop(next(iter(self._contents))))


_held = _Held(LARGEST_CONTENT)


class Bundle:
    """A capture at ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def require_absent(self) -> None:
        """Ensure that nothing is replaced.

        Raises:
            UserError: there is something.
        """
        if self.root.exists():
            raise UserError(f"{self.root} is there already: remove it, or name another directory with --to")

    def write(self, kernels: Mapping[str, Kernel], contents: Path) -> None:
        """Write ``kernels`` by their names; what memory held lies in files of ``contents``, by its digest."""
        if kernels:
            self.root.mkdir(parents=True)
            replace(self.root / ".gitignore", b"*\n", is_lasting=False)
        for name, kernel in kernels.items():
            self._write_contents(kernel, contents)
            write_kernel(self.root / name / KERNEL_FILE, kernel)

    def names(self) -> list[str]:
        """The kernels.

        Raises:
            UserError: there is no capture.
        """
        if not self.root.is_dir():
            raise UserError(f"{self.root} is no capture: acf capture -- python PROGRAM … makes one")
        return sorted(path.parent.name for path in self.root.glob(f"*/{KERNEL_FILE}"))

    def read(self, name: str) -> Kernel:
        """A kernel, whose calls are consistent in themselves.

        Raises:
            StoreError: it cannot be read, or is not what this version writes.
        """
        path = self.root / name / KERNEL_FILE
        kernel = read_kernel(path, Kernel, LARGEST_KERNEL, SCHEMA)
        for call in kernel.kept:
            if fault := fault_in(call):
                raise StoreError(f"{path}: in call {call.number} {fault}; {AGAIN}")
        if (most := max((bytes_at_once(shape.kept) for shape in kernel.shapes), default=0)) > MOST_AT_ONCE:
            raise StoreError(f"{path}: the calls of a shape take {most} bytes, and at most {MOST_AT_ONCE}; {AGAIN}")
        return kernel

    def content(self, content: Content, size: int) -> bytes:
        """What a region of ``size`` bytes held, if it is kept exactly.

        Raises:
            StoreError: it is missing or damaged.
        """
        assert content.sha256 is not None
        held = _held.get(content.sha256, size)
        if held is None:
            held = self._read(content.sha256, size)
            _held.add(content.sha256, held)
        return held

    def _read(self, digest: str, size: int) -> bytes:
        path = self._path(digest)
        if size > LARGEST_CONTENT:
            raise StoreError(f"{path} would have {size} bytes, and at most {LARGEST_CONTENT} are captured; {AGAIN}")
        try:
            packed = read_regular(
                path, size + size // 100 + 1024
            )  # deflate adds less where nothing can be made smaller
            data = zlib.decompressobj().decompress(packed, size + 1)
        except (Unfit, zlib.error) as why:
            raise StoreError(f"{path} {why}; {AGAIN}") from why
        if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
            raise StoreError(f"{path} does not hold what its name says; {AGAIN}")
        return data

    def verify(self, kernel: Kernel) -> None:
        """Read all that a kernel's calls refer to.

        Raises:
            StoreError: something is missing or damaged.
        """
        for content, size in set(_exact(kernel)):
            self._read(str(content.sha256), size)

    def size_bytes(self) -> int:
        """What it takes on disk."""
        return sum(path.lstat().st_size for path in self.root.rglob("*") if path.is_file())

    def _path(self, digest: str) -> Path:
        return self.root / DATA / digest[:2] / f"{digest}.z"

    def _write_contents(self, kernel: Kernel, contents: Path) -> None:
        for content, _ in _exact(kernel):
            path = self._path(str(content.sha256))
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                data = read_regular(contents / str(content.sha256), MOST_BYTES)
                replace(path, zlib.compress(data, 3), is_lasting=False)


def read_kernel(path: Path, kind: type[_Stored], largest: int, schema: int) -> _Stored:
    """A kernel of whatever kind that a capture holds, of at most ``largest`` bytes.

    Raises:
        StoreError: it cannot be read, is of another form, or of another schema.
    """
    try:
        kernel = msgspec.json.decode(read_regular(path, largest), type=kind)
    except Unfit as why:
        raise StoreError(f"{path} {why}; {AGAIN}") from why
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"{path} is no captured kernel: {error}; {AGAIN}") from error
    if kernel.schema != schema:
        raise StoreError(f"{path} has schema {kernel.schema}, and this acf reads {schema}; {AGAIN}")
    return kernel


def write_kernel(path: Path, kernel: Struct) -> None:
    """Write what ``read_kernel`` reads, into a directory of its own."""
    path.parent.mkdir()
    replace(path, msgspec.json.format(msgspec.json.encode(kernel), indent=1), is_lasting=False)


def data_bytes(kernel: Kernel) -> int:
    """How much memory its calls hold, each content once."""
    return sum({content.sha256: size for content, size in _exact(kernel)}.values())


def _exact(kernel: Kernel) -> Iterator[tuple[Content, int]]:
    for call in kernel.kept:
        for region in call.regions:
            yield from ((content, region.size) for content in (region.before, region.after) if content.sha256)
