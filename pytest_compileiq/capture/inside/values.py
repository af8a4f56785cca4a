"""A function that a program calls, and its arguments: numbers, and memory of a known extent.

Of memory whose extent no object tells the user may say it, in bytes, by the integers that a call is given:
``void blur(const double *in, double *out, long n): in=8*n, out=8*n``, the prototype as a header has it, or the names of
its arguments alone. An expression is integer arithmetic; it is parsed and never executed.
"""

from __future__ import annotations

import ast
import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

_Candidate = TypeVar("_Candidate")


class ForeignFunction:
    """A function of a shared library; the door is what the program called it through. There is one object of each."""

    __slots__ = ("door", "library", "name")

    def __init__(self, library: str, name: str, door: str) -> None:
        self.library = library
        self.name = name
        self.door = door


def at_path(candidates: Iterable[_Candidate], path: str, path_of: Callable[[_Candidate], str]) -> list[_Candidate]:
    """The candidates of the file at ``path``, else of one of that name, as of another checkout."""
    each_once = list(candidates)
    name = os.path.basename(path)
    return [each for each in each_once if path_of(each) == path] or [
        each for each in each_once if os.path.basename(path_of(each)) == name
    ]


class Refused(Exception):
    """What cannot be recorded, and why, as a part of a sentence: ``argument 2 is a callback``."""


class Number(NamedTuple):
    """A number, by its type's code in ctypes and the bytes of its value."""

    code: str
    value: bytes


class Memory(NamedTuple):
    """What a pointer argument may reach."""

    pointer: int  # the address that is handed over
    start: int  # the first byte; lower than ``pointer`` where a stride is negative
    size: int  # in bytes
    dtype: str  # of its elements, as numpy spells it: ``<f8``, or ``|V24`` for what has no simpler type
    extents: tuple[int, ...]  # elements along each axis
    strides: tuple[int, ...]  # bytes along each axis


class Unsized(NamedTuple):
    """An address of memory whose size no object tells; ``why`` is a part of a sentence: ``a bare address``."""

    address: int
    why: str
    dtype: str | None = None  # of its elements, where its type tells


if TYPE_CHECKING:
    Taken = Number | Memory | Unsized | None  # what an argument hands over; None for NULL


def each_taken(arguments: Sequence[Any], kinds: Sequence[Any], take: Callable[..., Taken], name: str) -> list[Taken]:
    """What the arguments of a call hand over, by ``take(argument, declared)``; the declared kinds have a ``name``."""
    if len(kinds) != len(arguments):
        raise Refused(f"it is called with {len(arguments)} arguments, and {len(kinds)} are declared")
    found = []
    for place, argument in enumerate(arguments):
        try:
            found.append(take(argument, kinds[place]))
        except Refused as why:
            raise Refused(f"argument {place + 1} is {why}") from None
        except (TypeError, ValueError, OverflowError):  # as the call itself will say
            raise Refused(f"argument {place + 1} is no {getattr(kinds[place], name, 'c_int')}") from None
    return found


def contiguous(address: int, size: int, dtype: str, *extents: int) -> Memory:
    """``size`` bytes of elements without gaps."""
    strides: list[int] = []
    step = int(dtype.lstrip("<>|fiuV"))
    for extent in reversed(extents):
        strides.insert(0, step)
        step *= extent
    return Memory(address, address, size, dtype, extents, tuple(strides))


def spelt(letter: str, size: int) -> str:
    """A type of elements as numpy spells it: ``<f8``."""
    return f"{'|' if size == 1 else '<' if sys.byteorder == 'little' else '>'}{letter}{size}"


_PROTOTYPE = re.compile(
    r"\s*(?:[\w\s*]*[\s*])?(?P<function>\w+)\s*\((?P<parameters>[^()]*)\)\s*:(?P<sizes>.+)", re.DOTALL
)
_NAME = re.compile(r"(\w+)\s*(?:\[\w*\])?\s*$")
_LARGEST = 2000  # characters
_FLOATS = {"float": spelt("f", 4), "double": spelt("f", 8)}
_OPERATORS: dict[type, Callable[..., int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "abs": abs}
_SIGNED = "bhilq"
_INTEGERS = _SIGNED + "BHILQ?"


class Extents(NamedTuple):
    """What the user said of a function's arguments."""

    function: str
    names: tuple[str, ...]  # of all arguments, in their order
    sizes: Mapping[int, Callable[[Mapping[str, int]], int]]  # the place of an argument, from 0 → its size in bytes
    dtypes: Mapping[int, str]  # the same place → the type of its elements, where the prototype tells floats


def parsed(text: str) -> Extents:
    """Parse ``blur(in, out, n): in=8*n, out=8*n``."""
    found = _PROTOTYPE.fullmatch(text) if len(text) <= _LARGEST else None
    if found is None:
        raise ValueError("expected 'FUNCTION(ARGUMENTS): ARGUMENT=BYTES, …', as in 'blur(in, out, n): out=8*n'")
    parameters = [each.strip() for each in found["parameters"].split(",")]
    names = tuple(shown[1] if (shown := _NAME.search(each)) else "" for each in parameters)
    first, *parts = re.split(r"(?:^|,)\s*(\w+)\s*=", found["sizes"])
    if first.strip() or len(parts) < 2:
        raise ValueError(f"expected ARGUMENT=BYTES, …, not {found['sizes'].strip()!r}")
    sizes, dtypes = {}, {}
    for name, expression in zip(parts[::2], parts[1::2]):  # noqa: B905 - for Python 3.9
        if name not in names:
            raise ValueError(f"{found['function']} has no argument {name!r}, but {', '.join(filter(None, names))}")
        place = names.index(name)
        if parameters[place].count("*") > 1:
            raise ValueError(f"{parameters[place]!r} points to pointers, which are not recorded")
        try:
            sizes[place] = _computing(ast.parse(expression.strip(), mode="eval").body, names)
        except (SyntaxError, RecursionError, MemoryError):
            raise ValueError(f"{expression.strip()!r} is no expression of integers") from None
        for word in set(_FLOATS) & set(re.findall(r"\w+", parameters[place])[:-1]):
            dtypes[place] = _FLOATS[word]
    return Extents(found["function"], names, sizes, dtypes)


def _computing(node: ast.expr, names: Sequence[str]) -> Callable[[Mapping[str, int]], int]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        value = node.value
        return lambda _: value
    if isinstance(node, ast.Name):
        name = node.id
        if name not in names:
            raise ValueError(f"{name!r} is none of its arguments, which are {', '.join(filter(None, names))}")
        return lambda integers: integers[name]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        compute, parts = _OPERATORS[type(node.op)], [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        compute, parts = operator.neg, [node.operand]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and node.args:
        compute, parts = _FUNCTIONS[node.func.id], node.args
        if node.keywords or (len(parts) == 1) != (node.func.id == "abs"):
            raise ValueError(f"{ast.unparse(node)!r} is not how {node.func.id} is called")
    else:
        raise ValueError(f"{ast.unparse(node)!r} is not of integers, arguments, + - * // %, min, max and abs")
    operands = []
    for part in parts:  # a comprehension would nest twice as deep, before Python 3.12
        operands.append(_computing(part, names))  # noqa: PERF401

    def computed(integers: Mapping[str, int]) -> int:
        values = []
        for operand in operands:
            values.append(operand(integers))  # noqa: PERF401
        return compute(*values)

    return computed


def with_extents(arguments: Sequence[Taken], extents: Extents | None) -> list[Number | Memory | None]:
    """The arguments, with what ``extents`` says of those whose memory no object tells."""
    unsized = any(isinstance(argument, Unsized) for argument in arguments)
    if unsized and extents and len(extents.names) != len(arguments):
        raise Refused(f"it is called with {len(arguments)} arguments, and --extents names {len(extents.names)}")
    return [
        _sized(place, argument, arguments, extents) if isinstance(argument, Unsized) else argument
        for place, argument in enumerate(arguments)
    ]


def _sized(place: int, argument: Unsized, arguments: Sequence[Any], extents: Extents | None) -> Memory:
    if extents is None or place not in extents.sizes:
        raise Refused(f"argument {place + 1} is {argument.why}")
    integers = {
        extents.names[at]: int.from_bytes(given.value, sys.byteorder, signed=given.code in _SIGNED)
        for at, given in enumerate(arguments)
        if isinstance(given, Number) and given.code in _INTEGERS
    }
    try:
        size = extents.sizes[place](integers)
    except KeyError as name:
        raise Refused(f"argument {place + 1} has a size, by --extents, of {name}, which is no integer here") from None
    except ZeroDivisionError:
        raise Refused(f"argument {place + 1} has a size, by --extents, that divides by 0") from None
    if size < 0 or not _is_mapped(argument.address, size):
        raise Refused(f"argument {place + 1} has {size} bytes, by --extents, which are not all memory of the program")
    dtype = argument.dtype or extents.dtypes.get(place, "|u1")
    return contiguous(argument.address, size, dtype, size // int(dtype[2:]))


def _is_mapped(address: int, size: int) -> bool:
    """Whether all of it can be read, as Linux knows; taken for granted elsewhere."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            ranges = [line.split(maxsplit=2)[:2] for line in maps]
    except OSError:
        return True
    end = address
    for bounds, rights in ranges:  # by address
        low, high = (int(bound, 16) for bound in bounds.split("-"))
        if low <= end < high and rights.startswith("r"):
            end = high
    return end >= address + size
