"""The Triton kernels of a capture, on disk: a file a kernel, and PTX by its digest. Read as untrusted.

::

    acf-capture/
      softmax/launches.json   the kernel, what it was specialised for, and how often it was launched so
      data/3f/3f9c….z         PTX, by the SHA-256 of the text, deflated
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from pytest_compileiq.capture.bundle import AGAIN, DATA, Bundle, read_kernel, write_kernel
from pytest_compileiq.capture.recorded_calls import Content
from pytest_compileiq.errors import StoreError
from pytest_compileiq.store.ptx_anneal import LARGEST_PTX
from pytest_compileiq.system.files import Unfit, read_regular, replace

SCHEMA = 1
LAUNCHES_FILE = "launches.json"
_LARGEST_KERNEL = 16 << 20
_DEEPEST = 8  # of a tuple in a tuple
_LONGEST = 1 << 12  # of a text
_Count = Annotated[int, Meta(ge=0, le=1 << 62)]
_Text = Annotated[str, Meta(max_length=_LONGEST)]
_Named = Annotated[dict[_Text, Any], Meta(max_length=1 << 10)]


class Ptx(Struct, frozen=True):
    """A PTX text by its digest; ``size`` in bytes."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    size: Annotated[int, Meta(ge=0, le=LARGEST_PTX)]


class Launch(Struct, frozen=True):
    """Launches of one grid on arguments of one shape: of integers the values, of tensors type and extents."""

    grid: Annotated[tuple[int, ...], Meta(max_length=3)]
    arguments: Annotated[tuple[int | _Text, ...], Meta(max_length=1 << 10)]
    calls: Annotated[int, Meta(ge=1, le=1 << 62)]


class Specialisation(Struct, frozen=True):
    """What a kernel was compiled for, as ``Triton(…)`` takes it, and its launches; ``others`` are told by no launch.

    Attributes:
        signature: argument → type with ``:16`` or ``:1``, None, or a list of these.
        constexprs: argument → value; a tuple is a list, a dtype ``"tl.float16"``.
        options: the launch options that are not Triton's defaults, and the warps and stages.
        capability: of the architecture, such as 90.
        ptx_options: what ptxas was given besides: put back controls, which are no part of what a kernel is.
        why: why no ``Triton(…)`` can say it, in words that continue after ``it``, so that it is its PTX alone; or None.
    """

    signature: _Named
    constexprs: _Named
    options: _Named
    capability: Annotated[int, Meta(ge=10, le=999)]
    ptx_options: _Text | None
    ptx: Ptx
    others: _Count
    calls: Annotated[tuple[Launch, ...], Meta(max_length=1 << 12)]
    why: _Text | None = None

    @property
    def launches(self) -> int:
        """How often it was launched."""
        return self.others + sum(each.calls for each in self.calls)

    def identity(self, ptx_digest: str) -> bytes:
        """What tells it from other specialisations of its kernel; its PTX, by a digest, where that is all there is."""
        parts = [self.signature, self.constexprs, self.options, self.capability, ptx_digest if self.why else None]
        return msgspec.json.encode(parts, order="sorted")

    @property
    def architecture(self) -> str:
        """As Triton names its target: from capability 90 on the ``a`` variant."""
        return f"sm_{self.capability}{'a' if self.capability >= 90 else ''}"


class LaunchedKernel(Struct, frozen=True):
    """A ``@triton.jit`` function as a program launched it; ``share`` is of all launches.

    Attributes:
        file: the absolute path of the file that defines it.
        module: the name that the program had for that.
        triton: the version that compiled it.
    """

    schema: int
    function: Annotated[str, Meta(min_length=1, max_length=_LONGEST)]
    file: _Text
    module: _Text
    triton: _Text
    share: float
    specialisations: tuple[Specialisation, ...]

    @property
    def launches(self) -> int:
        """How often it was launched."""
        return sum(each.launches for each in self.specialisations)


def write(bundle: Bundle, kernels: Mapping[str, LaunchedKernel], contents: Path) -> None:
    """Write ``kernels`` by their names into ``bundle``, which may be there; their PTX lies in files of ``contents``.

    Raises:
        StoreError: PTX is missing or has changed.
    """
    if kernels:
        bundle.root.mkdir(parents=True, exist_ok=True)
        replace(bundle.root / ".gitignore", b"*\n", is_lasting=False)
    for name, kernel in kernels.items():
        for each in kernel.specialisations:
            _write_ptx(bundle, each.ptx, contents)
        write_kernel(bundle.root / name / LAUNCHES_FILE, kernel)


def names(bundle: Bundle) -> list[str]:
    """The Triton kernels of a capture; none where there is no capture."""
    return sorted(path.parent.name for path in bundle.root.glob(f"*/{LAUNCHES_FILE}"))


def read(bundle: Bundle, name: str) -> LaunchedKernel:
    """A kernel.

    Raises:
        StoreError: it cannot be read, or is not what this version writes.
    """
    path = bundle.root / name / LAUNCHES_FILE
    kernel = read_kernel(path, LaunchedKernel, _LARGEST_KERNEL, SCHEMA)
    if fault := next((fault for each in kernel.specialisations if (fault := fault_in(each))), None):
        raise StoreError(f"{path} is no captured kernel: {fault}; {AGAIN}")
    return kernel


def ptx_of(bundle: Bundle, ptx: Ptx) -> str:
    """The text.

    Raises:
        StoreError: it is missing or damaged.
    """
    text = bundle.content(Content(kind="integers", sha256=ptx.sha256, sample=None), ptx.size)
    return text.decode(errors="replace")


def fault_in(each: Specialisation) -> str | None:
    """What no marker could say of a specialisation that has the right types, or None."""
    for what in (each.signature, each.constexprs, each.options):
        for name, value in what.items():
            if not name.isidentifier():
                return f"{name!r:.100} is no name"
            if not _is_plain(value, _DEEPEST):
                return f"{name} is {value!r:.100}"
    return None


def _is_plain(value: Any, deepest: int) -> bool:
    if isinstance(value, list):
        return deepest > 0 and len(value) <= _LONGEST and all(_is_plain(inner, deepest - 1) for inner in value)
    return isinstance(value, bool | int | float | None) or (isinstance(value, str) and len(value) <= _LONGEST)


def _write_ptx(bundle: Bundle, ptx: Ptx, contents: Path) -> None:
    path = bundle.root / DATA / ptx.sha256[:2] / f"{ptx.sha256}.z"
    if path.exists():
        return
    try:
        text = read_regular(contents / ptx.sha256, LARGEST_PTX)
    except Unfit as why:
        raise StoreError(f"the PTX {ptx.sha256} of the program {why}: run it again") from why
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, zlib.compress(text, 3), is_lasting=False)


def ptx_bytes(kernel: LaunchedKernel) -> int:
    """How much PTX its specialisations have, each once."""
    return sum({each.ptx.sha256: each.ptx.size for each in kernel.specialisations}.values())


def calls_by_frequency(each: Specialisation) -> Iterator[Launch]:
    """Its launches, the most frequent first."""
    yield from sorted(each.calls, key=lambda launch: -launch.calls)
