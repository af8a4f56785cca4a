"""One cubin taken apart, and which functions, constants and globals of it an entry function reaches.

Relocations name their symbols. A linked cubin has none for constants: its code holds bank and offset, which are read
from the instructions. Bank 3 holds ``__constant__`` variables, bank 4 the addresses of globals. Where the offset is in
a register, where the address of a constant is taken, or where the encoding is not known, the whole bank is reached.

The encodings were read from files of ptxas 12.9 to 13.5 for sm_75 to sm_121, and compared with nvdisasm's text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import cache, cached_property
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from pytest_compileiq.machine_code.parts import digest_of, without_module_id

INFO = ".nv.info"  # and .nv.info.FUNCTION
_SIZED_VALUE = 0x04


class Attribute(IntEnum):
    """EIATTR codes of records in ``.nv.info``."""

    CONSTANTS = 0x0A  # the payload begins with the number of the symbol of the function's own constant bank
    EXTERNS = 0x0F  # the numbers of the symbols that the function calls outside the file
    FRAME_SIZE = 0x11
    MIN_STACK_SIZE = 0x12
    ASKED_REGISTERS = 0x1B  # the limit that was asked for; the register count says what each function uses
    MAX_STACK_SIZE = 0x23
    REGISTER_COUNT = 0x2F
    VERSION = 0x37  # of the toolkit
    BARRIERS = 0x4C
    PRE_EXIT = 0x6D  # PREEXIT_USED, which 13.4 adds and says of code what the code says


# Their payload begins with the number of the function that they describe.
_OF_A_FUNCTION = frozenset(
    {Attribute.FRAME_SIZE, Attribute.MIN_STACK_SIZE, Attribute.MAX_STACK_SIZE, Attribute.REGISTER_COUNT}
)


class Record(NamedTuple):
    """One attribute. ``value`` is that of a record without payload."""

    form: int
    code: int
    value: int
    payload: bytes

    @property
    def is_of_a_function(self) -> bool:
        return self.code in _OF_A_FUNCTION and len(self.payload) >= 4

    @property
    def head(self) -> bytes:
        return struct.pack("<BBH", self.form, self.code, self.value)


def caller_of(function: str) -> str:
    """The entry that ``function`` was compiled for: ``scale`` of ``$scale$_Z6helperf``."""
    return function[1:].partition("$")[0] if function.startswith("$") else function


_ENTRY = 0x10  # STO_CUDA_ENTRY, in st_other
_OTHER_OFFSET = 5  # of st_other in an Elf64_Sym
_ABI_OF_WIDE_FLAGS = 8  # since then e_flags holds the architecture above its low byte, before in it
# Types of sections that take memory and hold no bytes in the file: relocatable code has globals and shared memory in
# types of CUDA's own, and what lies in the file at their offset belongs to others.
_WITHOUT_BYTES = frozenset({"SHT_NOBITS", 0x70000007, 0x7000000A})
# Sections that belong to one function carry its name.
_OWNED = re.compile(r"\.(?:text|nv\.constant\d+|nv\.info|nv\.shared|nv\.local)\.(?!reserved)(.+)", re.DOTALL)
_DATA = re.compile(r"\.nv\.(?:constant\d+|global(?:\.init)?)")
# Names that the compiler numbers in the order of the file: texts of printf, unnamed constants.
_NUMBERED = re.compile(r"(?:\$str|__unnamed_)[$\d]*")
# A shared variable of a function in relocatable code: ptxas numbers them in the order of the file.
_SHARED = re.compile(r"(\$__.+)__\d+", re.DOTALL)
_ADDRESS_TAKEN, _CALLS_INDIRECTLY = -2, -3  # what the pairs after such a mark in .nv.callgraph are


class Patch(NamedTuple):
    """One relocation: the number of the symbol whose address is filled in at ``offset``."""

    offset: int
    kind: int
    symbol: int
    addend: int


class Image:
    """The tables of one ELF file.

    Attributes:
        sections: as in the file.
        named: name of a section → its index.
        owners: index of a section → the function that it belongs to.
        data: index → name of the sections that functions share: globals, constants.
        patches: index of a section → its relocations.
    """

    def __init__(self, elf: ELFFile) -> None:
        self.sections: list[Section] = list(elf.iter_sections())
        table = next((section for section in self.sections if isinstance(section, SymbolTableSection)), None)
        self.symbols = list(table.iter_symbols()) if table else []
        self.entries = sorted(_entry_names(table)) if table else []
        matches = ((index, _OWNED.fullmatch(section.name)) for index, section in enumerate(self.sections))
        self.owners = {index: match[1] for index, match in matches if match}
        self.named = {section.name: index for index, section in enumerate(self.sections)}
        self.data = {index: name for name, index in self.named.items() if _DATA.fullmatch(name)}
        self.patches: dict[int, list[Patch]] = {}
        for section in self.sections:
            if isinstance(section, RelocationSection):
                self.patches.setdefault(section["sh_info"], []).extend(_patches(section))
        self.is_relocatable = elf.header["e_type"] == "ET_REL"
        flags = elf.header["e_flags"]
        is_wide = elf.header["e_ident"]["EI_ABIVERSION"] >= _ABI_OF_WIDE_FLAGS
        self.architecture: int = (flags >> 8 if is_wide else flags) & 0xFF

    def section(self, name: str) -> Section | None:
        index = self.named.get(name)
        return None if index is None else self.sections[index]

    def header(self, index: int) -> bytes:
        """Name, alignment and size of a section."""
        section = self.sections[index]
        return f"{without_module_id(section.name)} {section['sh_addralign']} {section['sh_size']}".encode()

    def content(self, index: int) -> bytes:
        """The bytes of a section; of one that holds none in the file, as many zeros as it takes in memory are meant."""
        section = self.sections[index]
        return b"" if section["sh_type"] in _WITHOUT_BYTES else bytes(section.data())

    def records(self) -> Iterator[tuple[str, Record]]:
        """The attributes that kernels are launched by, each with the function whose section it is in, or ""."""
        for index, section in enumerate(self.sections):
            if section.name != INFO and not section.name.startswith(f"{INFO}."):
                continue
            data, at = section.data(), 0
            while at + 4 <= len(data):
                form, code, value = struct.unpack_from("<BBH", data, at)
                at += 4
                payload = b""
                if form == _SIZED_VALUE:
                    payload, at, value = data[at : at + value], at + value, 0
                yield self.owners.get(index, ""), Record(form, code, value, payload)

    def symbol(self, payload: bytes) -> str:
        """The name of the symbol whose number ``payload`` begins with; empty for one that there is not."""
        (number,) = struct.unpack_from("<I", payload)
        return self.symbols[number].name if number < len(self.symbols) else ""

    def stable_name(self, symbol: Symbol) -> str:
        """The name of a symbol, or of the section that it stands for; empty for one that the compiler numbered."""
        name = symbol.name
        if symbol["st_info"]["type"] == "STT_SECTION" and not name:
            name = self.sections[symbol["st_shndx"]].name
        if shared := _SHARED.fullmatch(name):
            name = shared[1]
        return "" if _NUMBERED.fullmatch(name) else without_module_id(name)

    @cached_property
    def calls(self) -> dict[str, set[str]]:
        """Function → those that it may call, by ``.nv.callgraph``; an indirect call, any whose address is taken."""
        edges: dict[str, set[str]] = {}
        taken, indirect = set(), set()
        section, mark = self.section(".nv.callgraph"), 0
        for caller, callee in struct.iter_unpack("<Ii", section.data()) if section else ():
            if caller == 0:
                mark = callee
            elif mark == _ADDRESS_TAKEN:
                taken.add(self.symbols[caller].name)
            elif mark == _CALLS_INDIRECTLY:
                indirect.add(self.symbols[caller].name)
            else:
                edges.setdefault(self.symbols[caller].name, set()).add(self.symbols[callee].name)
        for caller in indirect:
            edges.setdefault(caller, set()).update(taken)
        return edges


def _patches(section: RelocationSection) -> Iterator[Patch]:
    for entry in section.iter_relocations():
        addend = entry["r_addend"] if entry.is_RELA() else 0
        yield Patch(entry["r_offset"], entry["r_info_type"], entry["r_info_sym"], addend)


def _entry_names(table: SymbolTableSection) -> Iterator[str]:
    """Functions that can be launched. ``st_other`` is read raw, since pyelftools drops the bit that marks them."""
    raw, size = table.data(), table["sh_entsize"]
    for number, symbol in enumerate(table.iter_symbols()):
        defined = symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
        if defined and raw[number * size + _OTHER_OFFSET] & _ENTRY:
            yield symbol.name


INSTRUCTION_BYTES = 16  # since sm_70
_DECODED = range(70, 130)
_CONSTANT_FORMS = (3, 5)  # bits 9 to 11 of an instruction with an operand c[bank][offset]
_LDCU = 0x7AC
_NO_REGISTER = {0xB82: 0xFF, _LDCU: 0xFF, 0xABB: -1}  # LDC, LDCU, ULDC by register: the number that means none
_USER, _ADDRESSES = 3, 4
_ADDRESS_BYTES = 8
# Below an architecture: where parameters begin in bank 0, and what lies before them and tells nothing of other banks:
# the dimensions of the launch, the stack, the bases of local and shared memory and of parameters, the barrier of a
# grid, the descriptor of global memory. The rest is not known, or the base of bank 3.
_PARAMETERS = {
    90: (0x160, frozenset({*range(0x2C), 0x40, 0x44, 0x8C, 0x90, 0x118})),
    100: (0x210, frozenset({*range(0x2C), 0x44, 0x48, 0x198, 0x208})),
    _DECODED.stop: (0x380, frozenset({0x254, 0x258, 0x2F8, 0x2FC, *range(0x348, 0x380)})),
}


class Data(NamedTuple):
    """A range of a section that functions share; where ``end`` is 0, the whole section."""

    section: int
    begin: int
    end: int


Node = str | Data  # a function, by name, or data


class Reach:
    """Follows relocations, the call graph, and constant operands through ``image``."""

    def __init__(self, image: Image) -> None:
        self._image = image
        banks = {int(name[12:]): index for index, name in image.data.items() if name.startswith(".nv.constant")}
        self._banks = {bank: index for bank, index in banks.items() if bank in (_USER, _ADDRESSES)}
        self.operands = cache(self._operands)
        self._following = cache(self._next)

    def of(self, entry: str) -> tuple[frozenset[str], list[bytes]]:
        """The functions that ``entry`` reaches, itself included, and a digest of each datum."""
        met: set[Node] = {entry}
        todo: list[Node] = [entry]
        while todo:
            new = self._following(todo.pop()) - met
            met |= new
            todo += new
        data = sorted(self._digest(node) for node in met if isinstance(node, Data))
        return frozenset(node for node in met if isinstance(node, str)), data

    def patches(self, index: int, data: Data | None = None) -> list[bytes]:
        """The relocations of a section, or of ``data`` in it, by name."""
        begin, patches = data.begin if data else 0, self._patches(index, data)
        return sorted(f"{patch.offset - begin} {patch.kind} {self._target(patch)}".encode() for patch in patches)

    def operand_text(self, data: Data) -> bytes:
        """A constant operand by its place and its name."""
        return f"{self._image.data[data.section]} {data.begin} {data.end} {self._name(data)}".encode()

    # ── edges ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _next(self, node: Node) -> frozenset[Node]:
        if isinstance(node, Data):
            return self._symbols(self._patches(node.section, node))
        own = [index for index, owner in self._image.owners.items() if owner == node]
        patched = self._symbols(patch for index in own for patch in self._patches(index, None))
        return patched | self.operands(node) | self._image.calls.get(node, set())

    def _patches(self, index: int, data: Data | None) -> list[Patch]:
        patches = self._image.patches.get(index, [])
        if data is None or not data.end:
            return patches
        return [patch for patch in patches if data.begin <= patch.offset < data.end]

    def _symbols(self, patches: Iterable[Patch]) -> frozenset[Node]:
        return frozenset(node for patch in patches if (node := self._node(patch.symbol)) is not None)

    def _node(self, number: int) -> Node | None:
        """The node of a symbol: the function of its section, or data; None if it is elsewhere, or reserved."""
        symbol = self._image.symbols[number]
        index = symbol["st_shndx"]
        if index in self._image.owners:
            return self._image.owners[index]
        if index not in self._image.data:
            return None
        size = 0 if symbol["st_info"]["type"] == "STT_SECTION" else symbol["st_size"]
        return Data(index, symbol["st_value"], symbol["st_value"] + size) if size else Data(index, 0, 0)

    # ── operands ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _operands(self, function: str) -> frozenset[Data]:
        """The data in banks 3 and 4 that the code of ``function`` reads by offset."""
        index = self._image.named.get(f".text.{function}") if self._banks else None
        return frozenset() if index is None else frozenset(self._read_by(index))

    def _read_by(self, index: int) -> set[Data]:
        architecture, code = self._image.architecture, self._image.content(index)
        whole = {Data(bank, 0, 0) for bank in self._banks.values()}
        if architecture not in _DECODED:
            return whole
        base, harmless = next(found for below, found in _PARAMETERS.items() if architecture < below)
        patched = {patch.offset // INSTRUCTION_BYTES for patch in self._patches(index, None)}
        words = [int.from_bytes(code[at : at + 8], "little") for at in range(0, len(code), INSTRUCTION_BYTES)]
        immediates = {word >> 32 for word in words} | {0}
        read: set[Data] = set()
        for number, word in enumerate(words):
            if word >> 9 & 7 not in _CONSTANT_FORMS or number in patched:
                continue
            operation, bank = word & 0xFFF, word >> 54 & 31
            offset = word >> (37 if operation == _LDCU else 38) & 0xFFFF
            no_register = _NO_REGISTER.get(operation)
            is_indexed = no_register is not None and word >> 24 & 0xFF != no_register
            if bank == 0 and offset < base and (is_indexed or offset not in harmless):
                read |= self._at(_USER, None)
            elif bank == _ADDRESSES and is_indexed:
                # Which address it is was decided at compile time: the register was set to a multiple of 8 by one word.
                slots = range(0, self._size(_ADDRESSES), _ADDRESS_BYTES)
                held = {slot for slot in slots if (slot - offset) & 0xFFFFFFFF in immediates}
                read |= {data for slot in held or [None] for data in self._at(_ADDRESSES, slot)}
            else:
                read |= self._at(bank, None if is_indexed else offset)
        if not read.isdisjoint(self._at(_USER, None)):  # the variable meant is one that the code holds a place in
            places = (place for place in immediates if place < self._size(_USER))
            read |= {data for place in places for data in self._at(_USER, place)}
        return read

    def _size(self, bank: int) -> int:
        return int(self._image.sections[self._banks[bank]]["sh_size"]) if bank in self._banks else 0

    def _at(self, bank: int, offset: int | None) -> set[Data]:
        """The variable or the address at ``offset`` of a bank; all of the bank where that is not known."""
        index = self._banks.get(bank)
        if index is None:
            return set()
        if offset is None or offset >= self._size(bank):
            return {Data(index, 0, 0)}
        if bank == _ADDRESSES:
            begin = offset - offset % _ADDRESS_BYTES
            return {Data(index, begin, begin + _ADDRESS_BYTES)}
        symbols = [(symbol["st_value"], symbol["st_value"] + symbol["st_size"]) for symbol in self._in(index)]
        return {Data(index, begin, end) for begin, end in symbols if begin <= offset < end} or {Data(index, 0, 0)}

    # ── digests ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _digest(self, data: Data) -> bytes:
        return digest_of([self._image.data[data.section].encode(), self._name(data).encode(), *self._held(data)])

    def _held(self, data: Data) -> list[bytes]:
        content, size = self._image.content(data.section), self._image.sections[data.section]["sh_size"]
        # Variables that another kernel adds begin as zeros, mostly.
        part = content[data.begin : data.end] if data.end else content.rstrip(b"\0")
        zeros = 0 if content else (data.end or size) - data.begin
        return [part, str(zeros).encode(), *self.patches(data.section, data)]

    def _in(self, index: int) -> list[Symbol]:
        sized = (symbol for symbol in self._image.symbols if symbol["st_shndx"] == index and symbol["st_size"])
        return [symbol for symbol in sized if symbol["st_info"]["type"] in ("STT_OBJECT", "STT_NOTYPE")]

    def _name(self, data: Data) -> str:
        """The names of the symbols in ``data``; of what has none, or one that the compiler numbered, its content."""
        if not data.end:
            return ""
        symbols = (symbol for symbol in self._in(data.section) if data.begin <= symbol["st_value"] < data.end)
        names = sorted(filter(None, map(self._image.stable_name, symbols)))
        return " ".join(names) or digest_of(self._held(data)).hex()

    def _target(self, patch: Patch) -> str:
        node = self._node(patch.symbol)
        if isinstance(node, Data) and node.end:
            return f"{self._name(node)}+{patch.addend}"
        return f"{self._image.stable_name(self._image.symbols[patch.symbol])}+{patch.addend}"
