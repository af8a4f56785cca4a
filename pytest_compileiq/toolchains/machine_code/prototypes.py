"""The prototype of a C or C++ function, from the debug information (DWARF 5) of a library built with ``-g``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["void", "integer", "character", "bool", "float", "array", "other"]

_QUALIFIERS = {"DW_TAG_const_type": "const", "DW_TAG_volatile_type": "volatile", "DW_TAG_restrict_type": "restrict"}
_RECORDS = {"DW_TAG_structure_type": "struct", "DW_TAG_union_type": "union", "DW_TAG_enumeration_type": "enum"}
_ENCODINGS: dict[int, tuple[Kind, bool]] = {  # DW_ATE_…, figure 5.1 of the standard: (kind, whether it is signed)
    0x02: ("bool", False), 0x04: ("float", True), 0x05: ("integer", True), 0x06: ("character", True),
    0x07: ("integer", False), 0x08: ("character", False),
}  # fmt: skip
_DEEPEST = 32  # typedefs, qualifiers and pointers around one type
_VOID = 1  # byte of each element that a ``void *`` points to


@dataclass(frozen=True)
class CType:
    """The type of an argument or result.

    Attributes:
        kind: ``array`` for a pointer to numbers or ``void``, whose ``element`` is the kind of these; ``other`` for what
            the type alone does not tell how to make.
        spelled: as C spells it.
        bytes: the size of the number, or of one that the pointer points to.
        is_constant: whether the function only reads what the pointer points to.
    """

    kind: Kind
    spelled: str
    bytes: int = 0
    is_signed: bool = False
    element: Kind = "void"
    is_constant: bool = False


@dataclass(frozen=True)
class Prototype:
    """A function's result, and (name, type) of each argument."""

    result: CType
    arguments: tuple[tuple[str, CType], ...]
    is_variadic: bool = False

    @property
    def spelled(self) -> str:
        """The arguments, as C spells them."""
        listed = [f"{kind.spelled} {name}".replace("* ", "*").strip() for name, kind in self.arguments]
        return ", ".join([*listed, *(["..."] if self.is_variadic else [])])


def prototypes_of(library: Path, name: str) -> list[Prototype]:
    """The prototypes of the public functions called ``name``, a namespace before it left out; [] where none is told."""
    from elftools.common.exceptions import DWARFError, ELFError  # heavy
    from elftools.elf.elffile import ELFFile

    try:
        with library.open("rb") as stream:
            elf = ELFFile(stream)
            units = elf.get_dwarf_info().iter_CUs() if elf.has_dwarf_info() else ()
            return [_prototype(die, named) for die, named in _functions(units) if _name(named) == name]
    except (OSError, ELFError, DWARFError, ValueError, KeyError, UnicodeDecodeError):
        return []


def _functions(units: Any) -> Iterator[tuple[Any, Any]]:
    """Each function with code of its own, and the entry that names it."""
    for unit in units:
        for die in unit.iter_DIEs():
            if die.tag == "DW_TAG_subprogram" and "DW_AT_declaration" not in die.attributes:
                named = die
                for origin in ("DW_AT_abstract_origin", "DW_AT_specification"):
                    named = named.get_DIE_from_attribute(origin) if origin in named.attributes else named
                has_code = "DW_AT_low_pc" in die.attributes or "DW_AT_ranges" in die.attributes
                if has_code and "DW_AT_external" in named.attributes:
                    yield die, named


def _prototype(die: Any, named: Any) -> Prototype:
    holder = die.get_DIE_from_attribute("DW_AT_abstract_origin") if "DW_AT_abstract_origin" in die.attributes else die
    children = list(holder.iter_children())
    arguments = tuple((_name(child), _type(child)) for child in children if child.tag == "DW_TAG_formal_parameter")
    variadic = any(child.tag == "DW_TAG_unspecified_parameters" for child in children)
    return Prototype(_type(holder if "DW_AT_type" in holder.attributes else named), arguments, variadic)


def _type(holder: Any) -> CType:
    spelled = _spelled(_target(holder))
    die = _bare(_target(holder))
    if die is None:
        return CType("void", spelled)
    if die.tag == "DW_TAG_pointer_type":
        return _pointer(die, spelled)
    kind, signed = _number(die)
    return CType(kind, spelled, _size(die), signed)


def _pointer(die: Any, spelled: str) -> CType:
    pointed = _target(die)
    element, constant = _bare(pointed), False
    for _ in range(_DEEPEST):
        if pointed is None or pointed.tag not in (*_QUALIFIERS, "DW_TAG_typedef"):
            break
        constant |= pointed.tag == "DW_TAG_const_type"
        pointed = _target(pointed)
    if element is None:
        return CType("array", spelled, _VOID, element="void", is_constant=constant)
    kind, signed = _number(element)
    if kind == "other":
        return CType("other", spelled)
    return CType("array", spelled, _size(element), signed, kind, constant)


def _number(die: Any) -> tuple[Kind, bool]:
    if die.tag == "DW_TAG_enumeration_type":
        return "integer", True
    if die.tag != "DW_TAG_base_type" or _size(die) > 8:
        return "other", False
    return _ENCODINGS.get(die.attributes["DW_AT_encoding"].value, ("other", False))


def _bare(die: Any) -> Any:
    for _ in range(_DEEPEST):
        if die is None or die.tag not in (*_QUALIFIERS, "DW_TAG_typedef"):
            return die
        die = _target(die)
    return die


def _spelled(die: Any, depth: int = 0) -> str:
    if die is None or depth > _DEEPEST:
        return "void"
    if die.tag in _QUALIFIERS:
        inner, qualifier = _spelled(_target(die), depth + 1), _QUALIFIERS[die.tag]
        return f"{inner} {qualifier}" if inner.endswith("*") else f"{qualifier} {inner}"
    if die.tag == "DW_TAG_pointer_type":
        inner = _spelled(_target(die), depth + 1)
        return f"{inner}*" if inner.endswith("*") else f"{inner} *"
    if die.tag in ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"):
        return f"{_spelled(_target(die), depth + 1)} &"
    if die.tag == "DW_TAG_subroutine_type":
        return "function"
    return f"{_RECORDS.get(die.tag, '')} {_name(die) or '…'}".strip()


def _target(die: Any) -> Any:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def _size(die: Any) -> int:
    size = die.attributes.get("DW_AT_byte_size")
    return 0 if size is None else int(size.value)


def _name(die: Any) -> str:
    name = die.attributes.get("DW_AT_name")
    return "" if name is None else name.value.decode()
