"""Which functions, constants and globals of a cubin an entry function reaches.

Relocations name their symbols. A linked cubin has none for constants: its code holds bank and offset, which are read
from the instructions. Bank 3 holds ``__constant__`` variables, bank 4 the addresses of globals. Where the offset is in
a register, where the address of a constant is taken, or where the encoding is not known, the whole bank is reached.

The encodings were read from files of ptxas 12.9 to 13.5 for sm_75 to sm_121, and compared with nvdisasm's text.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from elftools.elf.sections import Symbol

from pytest_compileiq.machine_code.image import Image, Patch
from pytest_compileiq.machine_code.parts import digest_of

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
