"""Digests the functions of ELF objects, independently of paths, dates and addresses.

Objects are read before linking, while every reference is still a relocation by name, so equal code has equal bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import Relocation, RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.object_reach import Function, ObjectReach
from pytest_compileiq.machine_code.parts import digest_of, without_module_id
from pytest_compileiq.machine_code.symbols import FUNCTION_TYPES, opened
from pytest_compileiq.model import CodeDigest

_NAMED_TYPES = FUNCTION_TYPES | {"STT_OBJECT"}
_VISIBLE = frozenset({"STV_DEFAULT", "STV_PROTECTED"})
# Notes hold property bits and build ids; unwind tables repeat what the code already says; device code embedded by nvcc
# is digested from its cubins, and the module id holds the source's location.
_SKIPPED_SECTIONS = (".note", ".eh_frame", ".nv_fatbin", "__nv_relfatbin", "__nv_module_id")


@dataclass(frozen=True)
class MachineCode:
    """The code of a set of objects."""

    entries: Mapping[str, CodeDigest]  # exported function → its digest and code_bytes, sorted by name
    program: CodeDigest  # the digest and code_bytes of all code and data together


Naming = Callable[[Iterable[str]], Collection[str]]
"""Gives, of functions, those that are meant to be called from outside."""


@dataclass
class ObjectCode:
    """The code of one object: a digest of each function, and of each part that its functions share.

    ``reached`` is the digest of each function but local ones with the local functions and the data that it reaches.
    ``inline`` are those of both kinds that any object may define too, of which a link keeps one, and the clones for
    other processors that a compiler makes of one and names after it: ``sum.avx2.0``.
    """

    exported: dict[str, bytes] = field(default_factory=dict)
    hidden: dict[str, bytes] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    inline: set[str] = field(default_factory=set)
    reached: dict[str, bytes] = field(default_factory=dict)
    shared: list[bytes] = field(default_factory=list)
    local: dict[str, bytes] = field(default_factory=dict)  # functions that are among the shared parts, too
    code_bytes: int = 0
    source: str = ""  # as the compiler names it

    def helpers(self, named: Collection[str]) -> set[str]:
        """The inline functions that serve its entries; where there are no others, they are the entries."""
        unnamed = (self.inline & self.exported.keys()).difference(named)
        return unnamed if unnamed < self.exported.keys() else set()

    @property
    def functions(self) -> Mapping[str, bytes]:
        return self.exported | self.hidden | self.local

    @property
    def hidden_parts(self) -> list[bytes]:
        """What its hidden functions bring to the digest of whatever may call them."""
        return [name.encode() + body for name, body in self.hidden.items()]

    def with_entries(self, named: Collection[str]) -> ObjectCode:
        """The same code, with hidden functions of these names among the exported ones."""
        entries = {name: body for name, body in self.hidden.items() if name in named}
        hidden = {name: body for name, body in self.hidden.items() if name not in named}
        return replace(self, exported=self.exported | entries, hidden=hidden) if entries else self


def _none(_names: Iterable[str]) -> Collection[str]:
    return ()


def machine_code(paths: Sequence[Path], naming: Naming = _none, hidden: Naming = _none) -> MachineCode:
    """Digest the objects at ``paths``, in link order; see ``entries_of``.

    Raises:
        BuildError: a file is not an ELF object.
    """
    objects = read_objects(paths)
    whole = digest_of(part for obj in objects for part in (*obj.exported.values(), *obj.hidden_parts, *obj.shared))
    program = CodeDigest(whole.hex(), {"code_bytes": sum(obj.code_bytes for obj in objects)})
    return MachineCode(entries_of(objects, naming, hidden), program)


def read_objects(paths: Iterable[Path]) -> list[ObjectCode]:
    """Take the objects at ``paths`` apart; raises as ``machine_code``."""
    return [_read(path) for path in paths]


def entries_of(objects: Sequence[ObjectCode], naming: Naming, hidden: Naming = _none) -> Mapping[str, CodeDigest]:
    """The exported functions of ``objects``, in link order, with their digests, sorted by name.

    An entry's digest covers the function's own bytes and relocations, and what it reaches without a public name: local
    functions and data of its object, and the hidden functions of all objects. Notes, unwind tables and debug data are
    left out.

    C++ gives inline functions and instantiations of templates a public name, and a COMDAT group in every object that
    uses them. They count as hidden functions, unless ``naming`` says that one is meant to be called from outside, or
    their object has no other entry. Of the hidden functions with one definition, ``hidden`` gives those that are
    entries all the same: whoever links the objects can call them.
    """
    callable_ = hidden({name for obj in objects for name in obj.hidden.keys() - obj.inline})
    objects = [obj.with_entries(callable_) for obj in objects]
    named = naming({name for obj in objects for name in obj.exported})
    helpers = [obj.helpers(named) for obj in objects]
    sizes: Counter[str] = Counter()
    for obj, names in zip(objects, helpers, strict=True):
        sizes.update({name: obj.sizes[name] for name in obj.exported.keys() - names})
    digests, former = _digests(objects, helpers, _reached), _digests(objects, helpers, _with_all_shared)
    return {
        name: CodeDigest(digests[name], {"code_bytes": sizes[name]}, former=(former[name],)) for name in sorted(sizes)
    }


def _reached(obj: ObjectCode, name: str, _is_entry: bool) -> bytes:
    return obj.reached[name]


def _with_all_shared(obj: ObjectCode, name: str, is_entry: bool) -> bytes:
    """As earlier versions did: a record of one still holds."""
    body = obj.exported[name] if name in obj.exported else obj.hidden[name]
    return digest_of([body, *obj.shared]) if is_entry else body


def _digests(
    objects: Sequence[ObjectCode],
    helpers: Sequence[Collection[str]],
    body_of: Callable[[ObjectCode, str, bool], bytes],
) -> dict[str, str]:
    # An object without entries serves those of the others.
    serving: list[bytes] = []
    for obj in objects:
        serving += [name.encode() + body_of(obj, name, False) for name in obj.hidden]
        serving += [] if obj.exported else obj.shared
    for obj, names in zip(objects, helpers, strict=True):
        serving += [name.encode() + body_of(obj, name, False) for name in sorted(names)]
    common = digest_of(serving)
    bodies: dict[str, list[bytes]] = {}
    for obj, names in zip(objects, helpers, strict=True):
        for name in obj.exported.keys() - names:
            bodies.setdefault(name, [common]).append(body_of(obj, name, True))
    return {name: digest_of(body).hex() for name, body in bodies.items()}


def altered_functions(paths: Sequence[Path], others: Sequence[Path]) -> tuple[int, int]:
    """How many functions are other code in the objects ``others``, or not there, and of how many in ``paths``."""
    before, now = (
        {(number, name): body for number, obj in enumerate(read_objects(each)) for name, body in obj.functions.items()}
        for each in (paths, others)
    )
    return sum(now.get(name) != body for name, body in before.items()), len(before)


def global_functions(path: Path) -> list[tuple[str, str, int, int]]:
    """(section, function, start, end) of each function of an object but local ones, in bytes from the section's start.

    Raises:
        BuildError: it is not an ELF object.
    """
    with opened(path) as elf:
        sections, symbols = _tables(elf)
        return [
            (sections[index].name, symbol.name, start, start + size)
            for index, functions in _functions(symbols, sections).items()
            for symbol, start, size in functions
            if symbol["st_info"]["bind"] != "STB_LOCAL"
        ]


def _tables(elf: ELFFile) -> tuple[list[Section], list[Symbol]]:
    sections = list(elf.iter_sections())
    table = next((section for section in sections if isinstance(section, SymbolTableSection)), None)
    return sections, list(table.iter_symbols()) if table else []


_MOST_KEPT = 256
_kept: dict[bytes, ObjectCode] = {}  # SHA-256 of an object → its code: half of what a search builds was built before


def _read(path: Path) -> ObjectCode:
    try:
        content = path.read_bytes()
        key = hashlib.sha256(content).digest()
        if code := _kept.get(key):
            return code
        code = _take_apart(ELFFile(BytesIO(content)))
    except (OSError, ELFError) as error:
        message = f"{path}: not an ELF object whose machine code can be read: {error}"
        raise BuildError(message, kind="compile") from error
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[key] = code
    return code


def _take_apart(elf: ELFFile) -> ObjectCode:
    sections, symbols = _tables(elf)  # read once: many relocations name the same symbol
    relocations = _relocations(sections, symbols)
    functions = _functions(symbols, sections)
    reach = _reach_of(elf, sections, symbols, functions)
    out = ObjectCode(source=next((each.name for each in symbols if each["st_info"]["type"] == "STT_FILE"), ""))
    for index, section in enumerate(sections):
        if not _is_loaded(section):
            continue
        out.code_bytes += section["sh_size"] if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR else 0
        if index not in functions:  # data, or code without a symbol for it: assembly
            out.shared.append(_piece(section, relocations.get(index, []), 0, section["sh_size"]))
            continue
        for symbol, start, size in functions[index]:
            body = _piece(section, relocations.get(index, []), start, size)
            name = without_module_id(symbol.name)
            if symbol["st_info"]["bind"] == "STB_LOCAL":
                out.shared.append(name.encode() + body)
                out.local[name] = body
                continue
            (out.exported if symbol["st_other"]["visibility"] in _VISIBLE else out.hidden)[name] = body
            out.sizes[name] = size
            out.reached[name] = reach.digest(index, start, start + size)
            # A link takes it from one of several objects; a weak function of C has no group.
            if symbol["st_info"]["bind"] == "STB_WEAK" and section["sh_flags"] & SH_FLAGS.SHF_GROUP:
                out.inline.add(name)
    out.inline |= {name for name in out.sizes if "." in name and name.partition(".")[0] in out.sizes}
    return out


def _reach_of(
    elf: ELFFile, sections: Sequence[Section], symbols: Sequence[Symbol], functions: Mapping[int, Sequence[_Function]]
) -> ObjectReach:
    loaded = [index for index, section in enumerate(sections) if _is_loaded(section)]
    ranges = {
        index: [Function(symbol, start, start + size) for symbol, start, size in functions[index]]
        for index in loaded
        if index in functions
    }
    patches: dict[int, list[Relocation]] = {}
    for section in sections:
        if isinstance(section, RelocationSection) and symbols and section["sh_info"] in loaded:
            patches.setdefault(section["sh_info"], []).extend(section.iter_relocations())
    return ObjectReach(elf["e_machine"], sections, symbols, loaded, ranges, patches)


def _is_loaded(section: Section) -> bool:
    loaded = bool(section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"])
    return loaded and not section.name.startswith(_SKIPPED_SECTIONS)


_Function = tuple[Symbol, int, int]


def _functions(symbols: Sequence[Symbol], sections: Sequence[Section]) -> dict[int, list[_Function]]:
    """Section index → its functions as (symbol, start, size), sorted by start and name."""
    by_section: dict[int, list[_Function]] = {}
    for symbol in symbols:
        index = symbol["st_shndx"]
        if isinstance(index, int) and _is_function(symbol, sections[index]):
            by_section.setdefault(index, []).append((symbol, symbol["st_value"], symbol["st_size"]))
    for index, functions in by_section.items():
        functions.sort(key=lambda function: (function[1], function[0].name))
        ends = [start for _, start, _ in functions[1:]] + [sections[index]["sh_size"]]
        # Hand-written assembly often gives no size: such a function ends where the next begins.
        by_section[index] = [
            (symbol, start, size or end - start) for (symbol, start, size), end in zip(functions, ends, strict=True)
        ]
    return by_section


def _is_function(symbol: Symbol, section: Section) -> bool:
    kind, bind = symbol["st_info"]["type"], symbol["st_info"]["bind"]
    executable = section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR
    return kind in FUNCTION_TYPES or bool(kind == "STT_NOTYPE" and bind != "STB_LOCAL" and executable)


_Relocation = tuple[int, str]


def _relocations(sections: Sequence[Section], symbols: Sequence[Symbol]) -> dict[int, list[_Relocation]]:
    """Index of the patched section → its relocations as (offset, type and target), sorted by offset."""
    by_section: dict[int, list[_Relocation]] = {}
    for section in sections:
        if isinstance(section, RelocationSection) and symbols and _is_loaded(sections[section["sh_info"]]):
            entries = [
                (entry["r_offset"], f"{entry['r_info_type']} {_reference(entry, symbols, sections)}")
                for entry in section.iter_relocations()
            ]
            by_section.setdefault(section["sh_info"], []).extend(sorted(entries))
    return by_section


def _reference(entry: Relocation, symbols: Sequence[Symbol], sections: Sequence[Section]) -> str:
    """The target of a relocation: a name if the source gave one, else an offset in a section."""
    symbol = symbols[entry["r_info_sym"]]
    addend = entry["r_addend"] if entry.is_RELA() else 0
    index = symbol["st_shndx"]
    # A compiler numbers its own labels (.LC7) across the file, so their names would depend on neighbouring functions.
    local = symbol["st_info"]["bind"] == "STB_LOCAL" and symbol["st_info"]["type"] not in _NAMED_TYPES
    if local and isinstance(index, int):
        return f"{without_module_id(sections[index].name)}+{symbol['st_value'] + addend}"
    return f"{without_module_id(symbol.name)}+{addend}"


def _piece(section: Section, relocations: Sequence[_Relocation], start: int, size: int) -> bytes:
    """Digest a part of a section: name, alignment, bytes, and relocations with offsets from its start."""
    empty = section["sh_type"] == "SHT_NOBITS"
    content = "" if empty else section.data()[start : start + size].decode("latin-1")
    patches = (f"{offset - start} {what}" for offset, what in relocations if start <= offset < start + size)
    header = f"{without_module_id(section.name)} {section['sh_addralign']} {size}"
    # nvcc's host code holds the names of kernels to register them, with module ids.
    return digest_of([header.encode(), without_module_id(content).encode("latin-1"), *map(str.encode, patches)])
