"""Digests the entry functions of cubins, independently of the paths and command lines that a cubin records.

A cubin embeds the assembler's command line (``.note.nv.tkinfo``), so files may differ while their code does not. A
digest covers code, constants, shared and global memory, and the attributes that the driver launches by (``.nv.info``:
registers, frame sizes, parameters). Names are compared without the source's location, which nvcc puts into them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.image import INFO, INSTRUCTION_BYTES, Attribute, Image, Reach, Record, caller_of
from pytest_compileiq.machine_code.parts import digest_of, without_module_id
from pytest_compileiq.model import CodeDigest

_MOST_BYTES = 1 << 28
_FACTS = {Attribute.REGISTER_COUNT: "registers", Attribute.FRAME_SIZE: "stack_bytes"}
_NOP = 0x918  # the low 12 bits of the padding after a kernel's last instruction
_FORMAT = b"entry 2"
_RESERVED_SHARED, _RESERVES_SHARED = 1024, 90  # bytes that the system takes of each block, since sm_90
_LEFT_OUT = frozenset({Attribute.ASKED_REGISTERS, Attribute.VERSION, Attribute.PRE_EXIT})


@dataclass(frozen=True)
class Cubin:
    """The content of a cubin.

    Attributes:
        entries: entry function → digest, with ``code_bytes`` and ``instructions`` (padding left out). Keys are names
            without module ids; the second of two entries with the same such name is ``NAME#2``.
        symbols: the same keys → the name in this file, by which the entry is launched.
        assembler: the version line in the note that ptxas leaves; empty without a note.
        command: ptxas's command line in the same note; empty without a note.
        is_separate: relocatable device code (``-rdc=true``), linked by nvlink or to be linked.
        is_linked: nvlink has filled in its addresses.
    """

    entries: Mapping[str, CodeDigest]
    symbols: Mapping[str, str]
    assembler: str
    command: str
    is_separate: bool
    is_linked: bool


def read_cubin(path: Path) -> Cubin:
    """Read the cubin at ``path``.

    Raises:
        BuildError: it is not a cubin.
    """
    try:
        with path.open("rb") as stream:
            if path.stat().st_size > _MOST_BYTES:
                raise BuildError(f"{path}: more than {_MOST_BYTES} bytes", kind="compile")
            return _Reader(ELFFile(stream)).cubin()
    except BuildError:
        raise
    except Exception as error:  # on hostile bytes pyelftools may raise anything
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise BuildError(f"{path}: not a cubin whose machine code can be read: {why}", kind="compile") from error


class _Reader:
    def __init__(self, elf: ELFFile) -> None:
        self._image = Image(elf)
        self._reach = Reach(self._image)
        self._records: dict[str, list[Record]] = {}
        for owner, record in self._image.records():
            of = caller_of(self._image.symbol(record.payload)) if record.is_of_a_function else owner
            self._records.setdefault(of, []).append(record)

    def cubin(self) -> Cubin:
        former = _former_digests(self._image)
        entries = {name: self._code(name, former[name]) for name in self._image.entries}
        # Entries of the same name are numbered in the order of their digests, not of the file.
        symbols: dict[str, str] = {}
        by_code = sorted(entries, key=lambda name: (without_module_id(name), entries[name].sha256))
        for key, namesakes in groupby(by_code, key=without_module_id):
            for number, name in enumerate(namesakes, start=1):
                symbols[key if number == 1 else f"{key}#{number}"] = name
        section = self._image.section(".note.nv.tkinfo")
        note = section.data() if section else b""
        words = [word.decode("utf-8", "replace").strip() for word in note[24:].split(b"\0")]
        return Cubin(
            entries={key: entries[name] for key, name in symbols.items()},
            symbols=symbols,
            assembler=next((word for word in words if word.startswith("Cuda compilation tools")), ""),
            command=next((word for word in reversed(words) if word.startswith("-") or " -" in word), ""),
            is_separate=self._image.is_relocatable or b"nvlink" in note,
            is_linked=b"nvlink" in note and not self._image.is_relocatable,
        )

    def _code(self, entry: str, former: tuple[str, ...]) -> CodeDigest:
        functions, data = self._reach.of(entry)
        own = [self._section(index, owner) for index, owner in self._image.owners.items() if owner in functions]
        records = [record for of in ("", *functions) for record in self._records.get(of, ())]
        sha256 = _digest(own, map(self._record, records), data)
        if self._image.is_relocatable:  # what a link makes of it, where it calls nothing of other files
            former = (_digest(own, map(self._record, map(_as_linked, records)), data), *former)
        return CodeDigest(sha256, self._sizes(entry) | self._launch_facts(entry), former=former)

    def _section(self, index: int, owner: str) -> bytes:
        section = self._image.sections[index]
        if section.name.startswith(INFO):
            return b""
        parts = [self._image.header(index), self._image.content(index), *self._reach.patches(index)]
        if section.name.startswith(".text."):
            parts += [
                str(_barriers(section)).encode(),
                *sorted(map(self._reach.operand_text, self._reach.operands(owner))),
            ]
        return digest_of(parts)

    def _record(self, record: Record) -> bytes:
        """Digest a record, with names for the numbers of symbols; empty for one that does not depend on the code."""
        if record.code in _LEFT_OUT:
            return b""
        payload = record.payload
        if record.code == Attribute.CONSTANTS:
            payload = payload[4:]
        elif record.code == Attribute.EXTERNS:
            numbers = (payload[at : at + 4] for at in range(0, len(payload), 4))
            payload = " ".join(sorted(map(self._image.symbol, numbers))).encode()
        elif record.is_of_a_function:
            payload = without_module_id(self._image.symbol(payload)).encode() + payload[4:]
        return digest_of([record.head, payload])

    def _launch_facts(self, entry: str) -> dict[str, int]:
        """The resources of a launch of ``entry``, named as by ``ptxas -v``; the stack is that of its own frame."""
        facts = {"registers": 0, "stack_bytes": 0, "barriers": _barriers(self._image.section(f".text.{entry}"))}
        for record in self._records.get(entry, ()):
            if record.code in _FACTS and self._image.symbol(record.payload) == entry:
                facts[_FACTS[Attribute(record.code)]] = int.from_bytes(record.payload[-4:], "little")
            elif record.code == Attribute.BARRIERS:
                facts["barriers"] = record.value
        shared = self._image.section(f".nv.shared.{entry}")
        reserved = _RESERVED_SHARED if self._image.architecture >= _RESERVES_SHARED else 0
        return facts | {"shared_bytes": max(shared["sh_size"] - reserved, 0) if shared else 0}

    def _sizes(self, entry: str) -> dict[str, int]:
        section = self._image.section(f".text.{entry}")
        code = section.data() if section else b""
        opcodes = (int.from_bytes(code[at : at + 2], "little") & 0xFFF for at in range(0, len(code), INSTRUCTION_BYTES))
        return {"code_bytes": len(code), "instructions": sum(opcode != _NOP for opcode in opcodes)}


def _digest(*parts: Iterable[bytes]) -> str:
    """A digest of the code, the attributes and the data of an entry."""
    return digest_of([_FORMAT, *(digest_of(sorted(filter(None, each))) for each in parts)]).hex()


def _as_linked(record: Record) -> Record:
    """``record`` of code that is not linked yet, with its stack as a link names it."""
    return record._replace(code=Attribute.MIN_STACK_SIZE) if record.code == Attribute.MAX_STACK_SIZE else record


def _barriers(text: Section | None) -> int:
    """How many a kernel uses, by its section's flags; since ptxas 13 an attribute says it."""
    return text["sh_flags"] >> 20 & 0x7F if text else 0


# ── the digests that earlier versions made: a record of one still holds ──────────────────────────────────────────

# Codes of the records that a format left out; and whether it left out the numbers of symbols, which count the file's
# other symbols, and the records of functions that other entries call.
_FORMER_FORMATS = (
    (_LEFT_OUT, True),
    (frozenset({Attribute.ASKED_REGISTERS}), True),
    (frozenset({Attribute.ASKED_REGISTERS}), False),
)


def _former_digests(image: Image) -> dict[str, tuple[str, ...]]:
    """Entry → its digests, the latest first. They covered all functions, constants and globals of the file."""
    hashed = {
        index: _former_section(image, index)
        for index in (*image.owners, *image.data)
        if not image.sections[index].name.startswith(INFO)
    }
    formats = [_of_format(image, hashed, *form) for form in _FORMER_FORMATS]
    return {name: tuple(digests[name] for digests in formats) for name in image.entries}


def _of_format(image: Image, hashed: Mapping[int, bytes], left_out: Collection[int], is_alone: bool) -> dict[str, str]:
    own: dict[str, list[bytes]] = {name: [] for name in image.entries}
    shared: list[bytes] = []
    for index, section in hashed.items():
        own.get(image.owners.get(index, ""), shared).append(section)
    for owner, record in image.records():
        if record.code in left_out:
            continue
        function = image.symbol(record.payload) if record.is_of_a_function else ""
        of = caller_of(function) if is_alone else function
        begins_with_number = record.is_of_a_function or (is_alone and record.code == Attribute.CONSTANTS)
        payload = record.payload[4 if begins_with_number else 0 :]
        digest = digest_of([record.head, without_module_id(function).encode(), payload])
        own.get(of or owner, shared).append(digest)
    common = digest_of(sorted(shared))
    return {name: digest_of([common, *sorted(parts)]).hex() for name, parts in own.items()}


def _former_section(image: Image, index: int) -> bytes:
    patches = (
        f"{patch.offset} {patch.kind} {without_module_id(image.symbols[patch.symbol].name)}+{patch.addend}"
        for patch in image.patches.get(index, ())
    )
    return digest_of([image.header(index), image.content(index), *(patch.encode() for patch in sorted(patches))])
