"""Whether what is shipped is what was proven: machine code in a built file against the artifacts' digests.

Every entry function that an artifact names is compared, in every architecture of it that the file holds. Code that was
linked on the host cannot be compared with what its compiler made, so of host code only objects are.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.errors import BuildError, UserError
from pytest_compileiq.files import Unfit, read_regular
from pytest_compileiq.ship import architectures_of
from pytest_compileiq.store import Store
from pytest_compileiq.toolchains.cubin import read_cubin
from pytest_compileiq.toolchains.elf import machine_code
from pytest_compileiq.toolchains.fatbin import extract_with_cuobjdump, fatbin_of, members

_MOST_BYTES = 1 << 32
_ARCHITECTURE = re.compile(r"-arch[= ](sm_\w+)")
HOST, UNKNOWN = "host", "unknown"
_ELF = b"\x7fELF"
_MACHINE, _EM_CUDA = slice(18, 20), 190
# What pyelftools stumbles over in a file whose tables point anywhere, beside its own errors.
_FROM_A_DAMAGED_ELF = (ArithmeticError, LookupError, AttributeError, TypeError, ValueError, MemoryError)
_TYPE, _ET_REL = slice(16, 18), 1


class Verdict(IntEnum):
    """The command's exit code."""

    RIGHT = 0
    DIFFERS = 1
    CANNOT_TELL = 2


@dataclass(frozen=True)
class Line:
    """One entry function of one file, or one reason, in a sentence."""

    verdict: Verdict
    message: str


@dataclass(frozen=True)
class Kernel:
    """One entry function.

    Attributes:
        path: the file that it is in.
        architecture: ``sm_90a``; ``HOST``; or ``UNKNOWN`` for a cubin that does not say.
        entry: its name.
        sha256: the digest of its machine code, as at tuning.
    """

    path: Path
    architecture: str
    entry: str
    sha256: str


@dataclass(frozen=True)
class Contents:
    """The machine code in a file: what could be read, and in sentences why the rest could not."""

    kernels: tuple[Kernel, ...]
    unreadable: tuple[str, ...] = ()


def verify_file(store: Store, path: Path, names: Sequence[str]) -> list[Line]:
    """Compare the cubin, fat binary, host library, program or object at ``path``.

    Args:
        names: the artifacts that it must hold; () compares with all that name one of its entries.

    Raises:
        UserError: there is no such artifact.
        StoreError: the metadata of one cannot be used.
    """
    return _verify(_contents(path), _artifacts(store, names), path, bool(names))


def verify_triton_cache(store: Store, cache: Path, names: Sequence[str]) -> list[Line]:
    """Compare every cubin in Triton's cache directory with the artifacts of Triton and ptxas kernels.

    Raises:
        UserError: there is no such artifact or directory.
        StoreError: the metadata of one cannot be used.
    """
    if not cache.is_dir():
        raise UserError(f"--triton-cache: there is no directory {cache}")
    found = [_contents(path) for path in sorted(cache.rglob("*.cubin"))]
    kernels = tuple(kernel for one in found for kernel in one.kernels)
    unreadable = tuple(reason for one in found for reason in one.unreadable)
    if not found:
        unreadable = (f"{cache} holds no cubin",)
    artifacts = {
        key: artifact
        for key, artifact in _artifacts(store, names).items()
        if artifact.compiler.name in ("triton", "ptxas")
    }
    return _verify(Contents(kernels, unreadable), artifacts, cache, bool(names))


def verdict(lines: Sequence[Line]) -> Verdict:
    """One wrong entry decides; then one that could not be compared."""
    for worst in (Verdict.DIFFERS, Verdict.CANNOT_TELL):
        if any(line.verdict is worst for line in lines):
            return worst
    return Verdict.RIGHT


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────────

_Artifacts = Mapping[tuple[str, str], Artifact]


def _artifacts(store: Store, names: Sequence[str]) -> _Artifacts:
    if unknown := sorted(set(names) - set(store.names())):
        raise UserError(f"there is no artifact {unknown[0]!r} in {store.root}: acf list shows them all")
    return {
        (name, target): store.read(name, target)
        for name in sorted(names or store.names())
        for target in store.targets(name)
    }


def _verify(contents: Contents, artifacts: _Artifacts, path: Path, named: bool) -> list[Line]:
    lines = [Line(Verdict.CANNOT_TELL, reason) for reason in contents.unreadable]
    met: set[tuple[str, str]] = set()
    for kernel in contents.kernels:
        if kernel.architecture == UNKNOWN and any(kernel.entry in one.code for one in artifacts.values()):
            message = f"{kernel.path}: {kernel.entry} is in a cubin that does not say which architecture it is for"
            lines.append(Line(Verdict.CANNOT_TELL, message))
        rivals = {key: one for key, one in artifacts.items() if _key_in(one, kernel) is not None}
        if rivals:
            met |= rivals.keys()
            lines.append(_compare(kernel, rivals))
    lines += _missing(contents, artifacts, met, path, named)
    if not lines:
        held = ", ".join(sorted({kernel.entry for kernel in contents.kernels})) or "no entry function"
        lines.append(Line(Verdict.CANNOT_TELL, f"{path} holds {held}, which no artifact is for"))
    return lines


def _compare(kernel: Kernel, rivals: _Artifacts) -> Line:
    """One entry against the artifacts that name it; of several, one that proved this very code is enough."""
    where = f"{kernel.path}: {kernel.entry}" + (f" ({kernel.architecture})" if kernel.architecture != HOST else "")
    baselines, expected = [], []
    for (name, target), artifact in rivals.items():
        pair = artifact.code[_key_in(artifact, kernel) or ""]
        proven = pair.tuned if artifact.outcome == "tuned" and pair.tuned else pair.baseline
        if proven.sha256 == kernel.sha256:
            return Line(Verdict.RIGHT, f"{where} is {_arm(artifact)} of {name} ({target})")
        expected.append(f"{proven.sha256[:8]}… of {name} ({target})")
        if pair.baseline.sha256 == kernel.sha256:
            baselines.append(f"{name} ({target})")
    if baselines:
        return Line(
            Verdict.DIFFERS, f"{where} is the baseline of {', '.join(baselines)}: its controls were not applied"
        )
    return Line(
        Verdict.DIFFERS, f"{where} is neither arm of what was proven: {kernel.sha256[:8]}…, not {', '.join(expected)}"
    )


def _arm(artifact: Artifact) -> str:
    return {
        "tuned": "the proven code",
        "retired": "the baseline, as is right for a retired artifact,",
        "promoted": "the baseline, as is right until the promoted point is proven,",
    }.get(artifact.outcome, "the baseline, which was not beaten,")


def _missing(
    contents: Contents, artifacts: _Artifacts, met: set[tuple[str, str]], path: Path, named: bool
) -> Iterator[Line]:
    """Entries of an artifact that is there in part; and a named artifact that is not there at all."""
    held = {(kernel.entry, kernel.architecture) for kernel in contents.kernels}
    proven = {kernel.sha256 for kernel in contents.kernels}
    for key in sorted(met):
        artifact = artifacts[key]
        codes = {code.sha256 for pair in artifact.code.values() for code in (pair.baseline, pair.tuned) if code}
        if not codes & proven:
            continue  # another artifact's namesake
        for entry in sorted(artifact.code):
            name, _, architecture = entry.partition("@")
            wanted = (architecture,) if architecture else (*architectures_of(artifact.target), HOST)
            if name != "host" and not any((name, one) in held for one in wanted):
                yield Line(Verdict.DIFFERS, f"{path}: {entry} of {key[0]} ({key[1]}) is not in it")
    for name in sorted({name for name, _ in artifacts} - {name for name, _ in met}) if named else ():
        yield Line(Verdict.CANNOT_TELL, f"{path} holds no entry function of {name}")


def _key_in(artifact: Artifact, kernel: Kernel) -> str | None:
    """How ``artifact`` names ``kernel``, or None when it is not for it."""
    if kernel.architecture == HOST:
        # Of a program the recorded digest is of all its code together.
        fits = artifact.compiler.name in ("gcc", "clang") and "-shared" in artifact.compiler.command
    else:
        fits = kernel.architecture in architectures_of(artifact.target)
    if not fits:
        return None
    keys = (kernel.entry, f"{kernel.entry}@{kernel.architecture}")
    return next((key for key in keys if key in artifact.code), None)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _contents(path: Path) -> Contents:
    try:
        data = read_regular(path.resolve(), _MOST_BYTES)
        if _is_cubin(data):
            return Contents(tuple(_kernels(path, path)))
        fatbin = fatbin_of(data, path)
        return _host_object(path, data) if fatbin is None else _device_code(path, fatbin)
    except OSError as error:
        return Contents((), (f"{path} cannot be read: {error.strerror or error}",))
    except Unfit as why:
        return Contents((), (f"{path} {why}",))
    except BuildError as error:
        return Contents((), (str(error),))
    except _FROM_A_DAMAGED_ELF as error:
        return Contents((), (f"{path} is damaged: {type(error).__name__}: {error}",))


def _device_code(path: Path, fatbin: bytes) -> Contents:
    held = list(members(fatbin, path))
    cubins = [one.data for one in held if one.is_cubin]
    if not cubins:
        return Contents((), (f"{path} holds PTX alone, which the driver compiles where it runs",))
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        if None in cubins:
            extracted = extract_with_cuobjdump(path, directory)
            if extracted is None:
                reason = f"{path}: its device code is compressed, and there is no cuobjdump to take it out"
                return Contents((), (f"{reason}: pip install nvidia-cuda-cuobjdump",))
        else:
            extracted = [directory / f"{number}.cubin" for number in range(len(cubins))]
            for file, data in zip(extracted, cubins, strict=True):
                file.write_bytes(data or b"")
        linked = [file for file in extracted if file.read_bytes()[_TYPE] != _ET_REL.to_bytes(2, "little")]
        return Contents(tuple(kernel for file in linked for kernel in _kernels(file, path)))


def _host_object(path: Path, data: bytes) -> Contents:
    if data[_TYPE] != _ET_REL.to_bytes(2, "little"):
        why = "linked host code, which is no more what the compiler made: give the object file"
        return Contents((), (f"{path} holds no device code but {why}",))
    entries = machine_code([path]).entries
    return Contents(tuple(Kernel(path, HOST, name, code.sha256) for name, code in entries.items()))


def _kernels(cubin: Path, path: Path) -> Iterator[Kernel]:
    """The entry functions of ``cubin``, which was found in ``path``."""
    read = read_cubin(cubin)
    named = _ARCHITECTURE.search(read.command)
    for entry, code in read.entries.items():
        yield Kernel(path, named[1] if named else UNKNOWN, entry, code.sha256)


def _is_cubin(data: bytes) -> bool:
    return data.startswith(_ELF) and int.from_bytes(data[_MACHINE], "little") == _EM_CUDA
