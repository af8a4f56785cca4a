"""Which local functions and data of an ELF object a function of it reaches, and its digest together with these.

A relocation by a symbol of its own means that function or variable. The assembler replaces most symbols of a file's own
by their section and an offset, which for data may lie before or behind the variable that is meant (``table[i - 1]``):
such a relocation reaches the whole section, except for merged constants and tables of labels. Calls within a section
have no relocation: any four bytes that are the distance to a local function, and that no relocation fills in, count as
one. What no function refers to (initialisers, exception tables) is reached by all.

Places are told by what is there, so that neither names of a file's own nor neighbours count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice, pairwise
from typing import NamedTuple

from elftools.elf.constants import SH_FLAGS
from elftools.elf.relocation import Relocation
from elftools.elf.sections import Section, Symbol

from pytest_compileiq.machine_code.parts import digest_of, without_module_id

_X86_64 = "EM_X86_64"
# R_X86_64_PC32, PLT32, GOTPCREL, GOTPCRELX, REX_GOTPCRELX: by distance from the four bytes that they patch, behind
# which the instruction ends where it has no other operand.
_BY_DISTANCE = frozenset({2, 4, 9, 41, 42})
_WIDTH = {1: 8, 2: 4, 10: 4, 11: 4}  # of R_X86_64_64, PC32, 32 and 32S in tables
_FILLED = {1: 8, 24: 8, 12: 2, 13: 2, 14: 1, 15: 1}  # bytes, of R_X86_64_64, PC64, 16, PC16, 8 and PC8; 4 of others
_SHORT_JUMPS = frozenset({0xEB, *range(0x70, 0x80)})
_KEPT_FLAGS = SH_FLAGS.SHF_WRITE | SH_FLAGS.SHF_EXECINSTR | SH_FLAGS.SHF_TLS


class Part(NamedTuple):
    """A range of a section: a function, a variable, a constant, a table, or the whole section."""

    section: int
    begin: int
    end: int


class Function(NamedTuple):
    """A function of an object."""

    symbol: Symbol
    begin: int
    end: int


class _Reference(NamedTuple):
    offset: int  # from the beginning of the part that refers
    how: str
    to: Part | None  # None for what other objects may define, which ``how`` names


def _is_local(symbol: Symbol) -> bool:
    return bool(symbol["st_info"]["bind"] == "STB_LOCAL")


def _offset(patch: Relocation) -> int:
    return int(patch["r_offset"])


class ObjectReach:
    """Follows references through an object.

    Args:
        functions: by section, sorted by where they begin.
        patches: by the section that they patch; both of loaded sections alone.
    """

    def __init__(
        self,
        machine: str,
        sections: Sequence[Section],
        symbols: Sequence[Symbol],
        loaded: Iterable[int],
        functions: Mapping[int, Sequence[Function]],
        patches: Mapping[int, Sequence[Relocation]],
    ) -> None:
        self._is_known = machine == _X86_64
        self._sections, self._symbols, self._functions = sections, symbols, functions
        self._loaded = frozenset(loaded)
        self._patches = {index: sorted(each, key=_offset) for index, each in patches.items()}
        self._begins = {index: [each.begin for each in own] for index, own in functions.items()}
        self._places = {index: set(begins) for index, begins in self._begins.items()}
        self._local = {
            index: {each.begin: Part(index, each.begin, each.end) for each in own if _is_local(each.symbol)}
            for index, own in functions.items()
        }
        self._tables = self._find_tables() if self._is_known else {}
        self._table_begins = {index: sorted(tables) for index, tables in self._tables.items()}
        self._references = cache(self._read_references)
        self._content = cache(self._read_content)
        every = [Part(index, each.begin, each.end) for index, own in functions.items() for each in own]
        met = {part.section for part in self._closure(every)}
        self._for_all = [self._whole(index) for index in sorted(self._loaded - met - functions.keys())]

    def digest(self, section: int, begin: int, end: int) -> bytes:
        """The digest of a function with all that it reaches."""
        order = self._closure([Part(section, begin, end), *self._for_all])
        numbers = {part: str(number) for number, part in enumerate(order)}
        return digest_of(
            text
            for part in order
            for text in (
                self._content(part),
                *(f"{offset} {how} {numbers[to] if to else ''}".encode() for offset, how, to in self._references(part)),
            )
        )

    def _closure(self, parts: Iterable[Part]) -> list[Part]:
        """``parts`` and all that they reach, in the order of the references, the parts themselves first."""
        met = dict.fromkeys(parts)
        order = list(met)
        for part in order:  # it grows meanwhile
            new = [reference.to for reference in self._references(part) if reference.to and reference.to not in met]
            met |= dict.fromkeys(new)
            order += dict.fromkeys(new)
        return order

    def _read_content(self, part: Part) -> bytes:
        section = self._sections[part.section]
        empty = section["sh_type"] == "SHT_NOBITS"
        content = "" if empty else section.data()[part.begin : part.end].decode("latin-1")
        head = f"{section['sh_flags'] & _KEPT_FLAGS} {section['sh_addralign']} {part.end - part.begin}"
        # nvcc's host code holds the names of kernels to register them, with module ids.
        return digest_of([head.encode(), without_module_id(content).encode("latin-1")])

    def _read_references(self, part: Part) -> tuple[_Reference, ...]:
        patches = self._patches.get(part.section, [])
        first, last = (bisect_left(patches, place, key=_offset) for place in (part.begin, part.end))
        found = []
        for patch in patches[first:last]:
            how, to = self._target(part.section, patch)
            found.append(_Reference(patch["r_offset"] - part.begin, f"{patch['r_info_type']} {how}", to))
        return (*found, *self._calls_without_relocation(part))

    def _target(self, source: int, patch: Relocation) -> tuple[str, Part | None]:
        """How a relocation of section ``source`` refers to a part; or the name that other objects may define."""
        symbol, kind = self._symbols[patch["r_info_sym"]], patch["r_info_type"]
        addend = patch["r_addend"] if patch.is_RELA() else 0
        index, begin, size = symbol["st_shndx"], symbol["st_value"], symbol["st_size"]
        if not isinstance(index, int) or index not in self._loaded:
            return f"{without_module_id(symbol.name)}+{addend}", None
        is_by_section = symbol["st_info"]["type"] == "STT_SECTION" or not symbol.name
        if is_by_section and not self._is_known:
            return f"+{addend}", self._whole(index)
        is_from_code, is_by_distance = self._is_code(source), self._is_known and kind in _BY_DISTANCE
        place = begin + addend + (4 if is_by_distance and is_from_code else 0)
        name = "" if _is_local(symbol) else without_module_id(symbol.name)
        if self._is_code(index):
            if name:
                return f"{name}+{addend}", None
            if is_by_distance and not is_from_code:  # of a table, whose entries are distances from its beginning
                place -= self._into_table(source, patch["r_offset"])
            return self._in_code(index, place if is_by_section else begin, place)
        if not is_by_section and size:
            return f"{name}+{addend}", Part(index, begin, begin + size)
        if self._sections[index]["sh_flags"] & SH_FLAGS.SHF_MERGE and not (is_by_section and is_by_distance):
            element = self._element(index, begin if not is_by_section else place)
            return f"+{begin + addend - element.begin}", element
        if (table := self._tables.get(index, {}).get(place)) and is_by_section:
            return "table", table
        return f"+{begin + addend}", self._whole(index)

    def _in_code(self, index: int, at: int, place: int) -> tuple[str, Part | None]:
        """The function at ``at``, and where ``place`` is in it."""
        functions = self._functions.get(index, ())
        number = bisect_right(self._begins.get(index, []), at) - 1
        if number < 0 or at >= functions[number].end:
            return f"+{place}", self._whole(index)
        symbol, begin, end = functions[number]
        if not _is_local(symbol):
            return f"{without_module_id(symbol.name)}+{place - begin}", None
        return f"+{place - begin}", Part(index, begin, end)

    def _element(self, index: int, begin: int) -> Part:
        """The constant or string at ``begin`` of a section whose elements a link merges."""
        section = self._sections[index]
        width, content = max(section["sh_entsize"], 1), section.data()
        if not section["sh_flags"] & SH_FLAGS.SHF_STRINGS:
            begin -= begin % width
            return Part(index, begin, begin + width)
        end = begin
        while end < len(content) and any(content[end : end + width]):
            end += width
        return Part(index, begin, min(end + width, len(content)))

    def _calls_without_relocation(self, part: Part) -> Iterable[_Reference]:
        """References to local functions of the same section, which the assembler has resolved."""
        parts = self._local.get(part.section, {})
        if not parts:
            return
        if not self._is_known:
            yield from (_Reference(0, "beside", each) for each in parts.values())
            return
        content = self._sections[part.section].data()[part.begin : part.end]
        near = (
            (shift + 4 * at, 4, distance)
            for shift in range(4)
            for at, distance in enumerate(memoryview(content[shift : shift + (len(content) - shift & ~3)]).cast("i"))
        )
        short = (
            (at, 1, (distance ^ 128) - 128)
            for at, (operation, distance) in enumerate(pairwise(content), start=1)
            if operation in _SHORT_JUMPS
        )
        for at, width, distance in chain(near, short):
            place = part.begin + at
            if (to := parts.get(place + width + distance)) and not self._is_filled(part.section, place, place + width):
                yield _Reference(at, "near" if width == 4 else "short", to)

    def _is_filled(self, index: int, begin: int, end: int) -> bool:
        """Whether a relocation fills in one of these bytes."""
        patches = self._patches.get(index, [])
        near = islice(patches, bisect_left(patches, begin - 7, key=_offset), bisect_left(patches, end, key=_offset))
        return any(patch["r_offset"] + _FILLED.get(patch["r_info_type"], 4) > begin for patch in near)

    def _find_tables(self) -> dict[int, dict[int, Part]]:
        """Section → place → the table of labels that begins there, which code refers to by that place."""
        places: dict[int, set[int]] = {}
        for source, patches in self._patches.items():
            if not self._is_code(source):
                continue
            for patch in patches:
                symbol = self._symbols[patch["r_info_sym"]]
                if symbol["st_info"]["type"] == "STT_SECTION" and symbol["st_shndx"] in self._loaded:
                    behind = 4 if patch["r_info_type"] in _BY_DISTANCE else 0
                    places.setdefault(symbol["st_shndx"], set()).add(patch["r_addend"] + behind)
        return {
            index: {table.begin: table for place in begins if (table := self._table(index, place, begins)).end > place}
            for index, begins in places.items()
            if not self._is_code(index)
        }

    def _table(self, index: int, begin: int, begins: set[int]) -> Part:
        """The labels that follow each other from ``begin`` to where another table begins."""
        end = begin
        patches = self._patches.get(index, [])
        for patch in islice(patches, bisect_left(patches, begin, key=_offset), None):
            symbol, width = self._symbols[patch["r_info_sym"]], _WIDTH.get(patch["r_info_type"])
            if patch["r_offset"] != end or width is None or (end > begin and end in begins):
                break
            if not self._is_code(symbol["st_shndx"]):
                break
            # A label lies within a function; at its beginning is what a table of functions holds.
            into = patch["r_addend"] - (end - begin if width == 4 and patch["r_info_type"] in _BY_DISTANCE else 0)
            if into + symbol["st_value"] in self._places.get(symbol["st_shndx"], ()):
                break
            end += width
        return Part(index, begin, end)

    def _into_table(self, index: int, offset: int) -> int:
        begins = self._table_begins.get(index, [])
        number = bisect_right(begins, offset) - 1
        return offset - begins[number] if number >= 0 else 0

    def _whole(self, index: int) -> Part:
        return Part(index, 0, self._sections[index]["sh_size"])

    def _is_code(self, index: int | str) -> bool:
        return index in self._loaded and bool(self._sections[index]["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)
