"""The prototype of a C or C++ function, from the debug information (DWARF 5) of a library built with ``-g``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

Kind = Literal["void", "integer", "character", "bool", "float", "array", "pointer", "other"]

_AROUND = ("DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type", "DW_TAG_typedef")
_ENCODINGS: dict[int, tuple[Kind, bool]] = {  # DW_ATE_…, figure 5.1 of the standard: (kind, whether it is signed)
    0x02: ("bool", False), 0x04: ("float", True), 0x05: ("integer", True), 0x06: ("character", True),
    0x07: ("integer", False), 0x08: ("integer", False),
}  # fmt: skip
_DEEPEST = 32  # typedefs and qualifiers around one type


@dataclass(frozen=True)
class CType:
    """The type of an argument or result.

    Attributes:
        kind: ``array`` for a pointer to numbers or ``void``, whose ``element`` is the kind of these; ``pointer`` for
            one to anything else; ``other`` for structures and the like.
        bytes: the size of the number, or of one that the pointer points to; of ``void`` 1.
        is_constant: whether the function only reads what the pointer points to.
    """

    kind: Kind
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
    die, _ = _bare(_target(holder))
    if die is None or die.tag != "DW_TAG_pointer_type":
        return _number(die)
    pointed, is_constant = _bare(_target(die))
    number = _number(pointed)
    if number.kind == "other":
        return CType("pointer")
    return replace(number, kind="array", bytes=number.bytes or 1, element=number.kind, is_constant=is_constant)


def _number(die: Any) -> CType:
    if die is None:
        return CType("void")
    size = die.attributes.get("DW_AT_byte_size")
    if die.tag not in ("DW_TAG_base_type", "DW_TAG_enumeration_type") or size is None or size.value > 8:
        return CType("other")
    encoding = 0x05 if die.tag == "DW_TAG_enumeration_type" else die.attributes["DW_AT_encoding"].value
    kind, is_signed = _ENCODINGS.get(encoding, ("other", False))
    return CType(kind, int(size.value), is_signed)


def _bare(die: Any) -> tuple[Any, bool]:
    """A type without typedefs and qualifiers, and whether it is constant."""
    is_constant = False
    for _ in range(_DEEPEST):
        if die is None or die.tag not in _AROUND:
            break
        is_constant |= die.tag == "DW_TAG_const_type"
        die = _target(die)
    return die, is_constant


def _target(die: Any) -> Any:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def _name(die: Any) -> str:
    name = die.attributes.get("DW_AT_name")
    return "" if name is None else name.value.decode()
