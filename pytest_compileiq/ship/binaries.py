"""The machine code in built files: every kernel of cubins and fat binaries, and the host code of object files.

Linking rewrites host code: it fills in addresses and relaxes instructions. So only names are read from a linked file.

A fat binary is a row of containers, each a header and its members; a member is a cubin or PTX, plain or compressed. The
layout was read from files that nvcc 13.3 writes. Compressed members are extracted by ``cuobjdump``, if it is installed.
"""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.machine_code.elf import ObjectCode, entries_of, read_objects
from pytest_compileiq.machine_code.symbols import defined_functions
from pytest_compileiq.model import HOST
from pytest_compileiq.system.files import Unfit, read_regular
from pytest_compileiq.toolchains.nvidia.tools import first_error, installed
from pytest_compileiq.toolchains.steps import ask

CONTAINER_MAGIC = struct.pack("<I", 0xBA55ED50)
_ARCHIVE = b"!<arch>\n"
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of the members
_MEMBER = struct.Struct("<HHIQI")  # kind, version, bytes of this header, bytes stored, of these compressed
_CUBIN_KIND = 2
_SECTIONS = (".nv_fatbin", "__nv_relfatbin")  # the latter holds code that is not linked yet, as of nvcc -rdc=true -c


def fatbin_of(data: bytes, path: Path) -> bytes | None:
    """The containers in ``data``: a whole fat binary, or a host file's section; None without."""
    if data.startswith(CONTAINER_MAGIC):
        return data
    if data.startswith(_ARCHIVE):
        raise BuildError(f"{path} is an archive: give the object files in it, as ar x takes them out", kind="compile")
    try:
        file = ELFFile(BytesIO(data))
        section = next(filter(None, map(file.get_section_by_name, _SECTIONS)), None)
        return section.data() if section else None
    except (ELFError, ValueError, struct.error, UnicodeDecodeError, KeyError) as error:
        message = f"{path}: neither a cubin, a fat binary, nor an ELF library, program or object: {error}"
        raise BuildError(message, kind="compile") from error


def cubins_in(fatbin: bytes, path: Path) -> Iterator[bytes | None]:
    """The cubins in the containers of ``fatbin``, None for a compressed one; raises ``BuildError`` for damage."""
    at = 0
    while at < len(fatbin):
        if not any(fatbin[at : at + 8]):  # containers are aligned
            at += 8
            continue
        if not fatbin.startswith(CONTAINER_MAGIC, at):
            raise _damaged(path, at)
        _, _, header, size = _unpack(_CONTAINER, fatbin, at, path)
        end = at + header + size
        if header < _CONTAINER.size or end > len(fatbin):
            raise _damaged(path, at)
        yield from _cubins_of_one(fatbin, at + header, end, path)
        at = end


def extract_with_cuobjdump(path: Path, directory: Path) -> list[Path] | None:
    """Every cubin in ``path`` as files in ``directory``; None if ``cuobjdump`` is not installed."""
    tool = next(installed("cuobjdump"), None)
    if tool is None:
        return None
    finished = ask([tool.program, "-xelf", "all", str(path.absolute())], cwd=directory)
    if finished.returncode != 0:
        raise BuildError(f"{path}: cuobjdump refuses it: {first_error(finished.output)}", kind="compile")
    return sorted(directory.glob("*.cubin"))


def _cubins_of_one(fatbin: bytes, at: int, end: int, path: Path) -> Iterator[bytes | None]:
    while at < end:
        kind, _, header, stored, compressed = _unpack(_MEMBER, fatbin, at, path)
        start, at = at + header, at + header + stored
        if header < _MEMBER.size or at > end:
            raise _damaged(path, start)
        if kind == _CUBIN_KIND:
            yield None if compressed else fatbin[start:at]


def _unpack(layout: struct.Struct, data: bytes, at: int, path: Path) -> tuple[int, ...]:
    if at + layout.size > len(data):
        raise _damaged(path, at)
    return layout.unpack_from(data, at)


def _damaged(path: Path, at: int) -> BuildError:
    return BuildError(f"{path}: the fat binary in it is damaged at byte {at}", kind="compile")


UNKNOWN = "unknown"
_MOST_BYTES = 1 << 32
_ARCHITECTURE = re.compile(r"-arch[= ](sm_\w+)")
_ELF = b"\x7fELF"
_MACHINE, _CUDA = slice(18, 20), b"\xbe\0"  # EM_CUDA, 190
# What pyelftools raises, beside its own errors, for a file with damaged tables.
_FROM_A_DAMAGED_ELF = (ArithmeticError, LookupError, AttributeError, TypeError, ValueError, MemoryError)
_TYPE, _RELOCATABLE = slice(16, 18), b"\x01\0"  # ET_REL


@dataclass(frozen=True)
class BuiltEntry:
    """One entry function in the file at ``path``."""

    path: Path
    architecture: str  # e.g. sm_90a; HOST; or UNKNOWN for a cubin that does not say
    entry: str
    sha256: str  # of its machine code, computed as at tuning
    # The digests that it has otherwise: host code in one build of all objects given, where hidden functions count, and
    # where inline functions are entries that an artifact stands for; device code alone.
    others: frozenset[str] = frozenset()
    is_separate: bool = False  # relocatable device code: -rdc=true
    is_linked: bool = False  # and nvlink has filled in its addresses
    command: str = ""  # ptxas's, as it notes it; empty of host code


@dataclass(frozen=True)
class Linked:
    """A linked file of host code, and the functions that it defines."""

    path: Path
    functions: frozenset[str]


@dataclass(frozen=True)
class Contents:
    """The machine code in files."""

    kernels: tuple[BuiltEntry, ...] = ()  # can be compared
    objects: tuple[ObjectCode, ...] = ()  # taken apart
    linked: tuple[Linked, ...] = ()  # host code that cannot be compared
    unreadable: tuple[str, ...] = ()  # sentences


def read_binaries(
    paths: Sequence[Path], recorded: Iterable[tuple[Collection[str], Collection[str], Sequence[str]]] = ()
) -> Contents:
    """The machine code in cubins, fat binaries, host libraries, programs and objects.

    Args:
        recorded: of every artifact, the entries that its test stands for, where it says so, all of its entries, and its
            sources in the order in which they were linked.
    """
    named_by = [(frozenset(stood_for), frozenset(entries), sources) for stood_for, entries, sources in recorded]
    namings = [_NOTHING_NAMED, *(each[:2] for each in named_by)]
    files = [_contents(path, namings) for path in paths]
    objects = tuple(code for file in files for code in file.objects)
    kernels = [kernel for file in files for kernel in file.kernels]
    # The digests of host objects in one build: of them all, and of those of each artifact, since inline functions of
    # any object of a build serve its entries.
    builds = [(objects, namings), *((_of_one(objects, *each[1:]), [each[:2]]) for each in named_by)]
    for together, named in builds if len(objects) > 1 else ():
        digests = _digests(together, named)
        for place, kernel in enumerate(kernels):
            if kernel.architecture == HOST:
                kernels[place] = replace(kernel, others=kernel.others | set(digests.get(kernel.entry, ())))
    return Contents(
        tuple(kernels),
        objects,
        tuple(linked for file in files for linked in file.linked),
        tuple(reason for file in files for reason in file.unreadable),
    )


_Namings = Sequence[tuple[frozenset[str], frozenset[str]]]
_NOTHING_NAMED = frozenset[str](), frozenset[str]()


def _digests(objects: Sequence[ObjectCode], namings: _Namings) -> Mapping[str, Sequence[str]]:
    """Host function → its digest where ``namings`` name nothing, and for each other of them in turn."""
    digests: dict[str, list[str]] = {}
    former: dict[str, list[str]] = {}
    hidden = {name for code in objects for name in code.hidden}
    # Where an artifact records a hidden function, its build made entries of all of them.
    named = {(stood_for, frozenset(hidden if entries & hidden else ())) for stood_for, entries in namings}
    for stood_for, callable_ in sorted(named, key=lambda pair: [*map(sorted, pair)]):
        for name, code in entries_of(objects, stood_for.intersection, callable_.intersection).items():
            digests.setdefault(name, []).append(code.sha256)
            former.setdefault(name, []).extend(code.former)
    return {name: [*digests[name], *former[name]] for name in digests}


def _of_one(objects: Sequence[ObjectCode], entries: frozenset[str], sources: Sequence[str]) -> tuple[ObjectCode, ...]:
    """The objects of one artifact, in link order: those that hold entries, and those of its sources without any.

    Inline functions do not count, since any object may hold them.
    """
    place = {Path(source).name: number for number, source in enumerate(sources)}

    def is_of_one(code: ObjectCode) -> bool:
        own = (code.exported.keys() | code.hidden.keys()) - code.inline
        return bool(own & entries) if own else Path(code.source).name in place

    of_one = filter(is_of_one, objects)
    return tuple(sorted(of_one, key=lambda code: place.get(Path(code.source).name, len(place))))


def _contents(path: Path, namings: _Namings) -> Contents:
    try:
        data = read_regular(path, _MOST_BYTES, follow=True)
        if data.startswith(_ELF) and data[_MACHINE] == _CUDA:
            return Contents(tuple(_kernels(path, path)))
        fatbin = fatbin_of(data, path)
        return _host_code(path, data, namings) if fatbin is None else _device_code(path, fatbin)
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror or error}"
    except Unfit as why:
        reason = f"{path} {why}"
    except BuildError as error:
        reason = str(error)
    except _FROM_A_DAMAGED_ELF as error:
        reason = f"{path} is damaged: {type(error).__name__}: {error}"
    return Contents(unreadable=(reason,))


def _device_code(path: Path, fatbin: bytes) -> Contents:
    cubins = list(cubins_in(fatbin, path))
    if not cubins:
        return Contents(unreadable=(f"{path} holds PTX alone, which the driver compiles where it runs",))
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        if None in cubins:
            extracted = extract_with_cuobjdump(path, directory)
            if extracted is None:
                reason = f"{path}: its device code is compressed, and there is no cuobjdump to take it out"
                return Contents(unreadable=(f"{reason}: pip install nvidia-cuda-cuobjdump",))
        else:
            extracted = [directory / f"{number}.cubin" for number in range(len(cubins))]
            for file, data in zip(extracted, cubins, strict=True):
                file.write_bytes(data or b"")
        linked = [file for file in extracted if file.read_bytes()[_TYPE] != _RELOCATABLE]
        return Contents(tuple(kernel for file in linked or extracted for kernel in _kernels(file, path)))


def _host_code(path: Path, data: bytes, namings: _Namings) -> Contents:
    if data[_TYPE] != _RELOCATABLE:
        return Contents(linked=(Linked(path, defined_functions(path)),))
    objects = tuple(read_objects([path]))
    kernels = (
        BuiltEntry(path, HOST, name, sha256, frozenset(others))
        for name, (sha256, *others) in sorted(_digests(objects, namings).items())
    )
    return Contents(tuple(kernels), objects)


def _kernels(cubin: Path, path: Path) -> Iterator[BuiltEntry]:
    """The entry functions of ``cubin``, which came from ``path``."""
    read = read_cubin(cubin)
    named = _ARCHITECTURE.search(read.command)
    for entry, code in read.entries.items():
        architecture, others = named[1] if named else UNKNOWN, frozenset(code.former)
        yield BuiltEntry(path, architecture, entry, code.sha256, others, read.is_separate, read.is_linked, read.command)
