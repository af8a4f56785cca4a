"""A kernel's arguments as Triton's JIT would specialise them; used in the process that compiles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.spelling import did_you_mean

Kind = Any  # of an argument: a type such as "*fp16:16", None, or a sequence of kinds for a tuple
Path = tuple[int, ...]
_SIZES = re.compile(r"(?<=\[)[^\]]*(?=\])")


def specialised(function: Any, kinds: Mapping[str, Kind], constexprs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the ``ASTSource`` for which Triton's JIT would compile ``function``.

    Args:
        kinds: argument → type, with ``:16`` for a value divisible by 16 and ``:1`` for the value 1.
        constexprs: argument → value; any argument may be None here.

    Raises:
        MarkerError: an argument is missing or unknown, or the JIT would not specialise it this way.
    """
    expect_arguments(function, [*kinds, *constexprs])
    made = _Specialised()
    signature = {}
    for number, parameter in enumerate(function.params):
        name = parameter.name
        if name in kinds:
            _expect_as_the_jit(parameter, kinds[name])
            signature[name] = made.add((number,), kinds[name])
        else:
            made.constants[(number,)] = _constant(function, parameter, constexprs)
            signature[name] = "constexpr"
    return {"signature": signature, "constexprs": made.constants, "attrs": made.attributes}


def expect_arguments(function: Any, names: Sequence[str]) -> None:
    """Raise MarkerError for the first of ``names`` that is no argument of ``function``."""
    known = list(function.arg_names)
    if unknown := sorted(set(names) - set(known)):
        meant = did_you_mean(unknown[0], known)
        raise MarkerError(
            f"{function.__name__} has no argument {unknown[0]!r}{meant}; its arguments: {', '.join(known)}"
        )


def with_sizes(kind: Kind, values: Mapping[str, Any]) -> Kind:
    """A descriptor's kind with its sizes as numbers: ``tensordesc<fp16[BLOCK, 64 // 2]>`` computes with constexprs.

    Raises:
        MarkerError: a size is no integer.
    """
    if isinstance(kind, list):
        return [with_sizes(inner, values) for inner in kind]
    if not isinstance(kind, str) or not kind.startswith("tensordesc<"):
        return kind

    def computed(sizes: re.Match[str]) -> str:
        try:
            numbers = eval(f"({sizes[0]},)", {"__builtins__": {}}, dict(values))  # the test's own text
        except Exception as error:
            raise MarkerError(f"{kind}: {error}: its sizes are numbers, computed with constexprs") from error
        if not all(type(number) is int for number in numbers):
            raise MarkerError(f"{kind}: its sizes are {numbers}: expected integers")
        return ", ".join(map(str, numbers))

    return _SIZES.sub(computed, kind)


@dataclass
class _Specialised:
    """What is known of the arguments, by their place: one number, or several within a tuple."""

    constants: dict[Path, Any] = field(default_factory=dict)
    attributes: dict[Path, list[list[object]]] = field(default_factory=dict)

    def add(self, place: Path, kind: Kind) -> Any:
        """The type of one argument in the signature, a tuple of them for a tuple."""
        if isinstance(kind, list | tuple):
            return tuple(self.add((*place, number), inner) for number, inner in enumerate(kind))
        if kind is None or kind.endswith(":1"):  # the JIT makes a constant of an integer that is 1
            self.constants[place] = None if kind is None else 1
            return "constexpr"
        plain, _, hint = kind.partition(":")
        if hint:
            self.attributes[place] = [["tt.divisibility", int(hint)]]
        return plain


def _constant(function: Any, parameter: Any, constexprs: Mapping[str, Any]) -> Any:
    name = parameter.name
    if name in constexprs:
        if not parameter.is_constexpr and constexprs[name] is not None:
            raise MarkerError(
                f"the argument {name!r} is no tl.constexpr: give its type in signature, 'i32:1' where it is 1"
            )
        return constexprs[name]
    if parameter.has_default and (parameter.is_constexpr or parameter.default is None):
        return parameter.default
    what = "a tl.constexpr, and not in constexprs" if parameter.is_constexpr else "in neither signature nor constexprs"
    raise MarkerError(f"the argument {name!r} of {function.__name__} is {what}")


def _expect_as_the_jit(parameter: Any, kind: Kind) -> None:
    """Raise MarkerError if the JIT would never compile ``parameter`` as ``kind``."""
    name, annotated = parameter.name, parameter.annotation_type
    if parameter.is_constexpr:
        raise MarkerError(f"the argument {name!r} is a tl.constexpr: name it in constexprs")
    if not isinstance(kind, str):
        return
    plain, _, hint = kind.partition(":")
    if annotated and plain != annotated:
        raise MarkerError(f"the kernel annotates {name!r} as {annotated}, and the signature says {plain}")
    if parameter.is_const and not plain.startswith("*k"):
        raise MarkerError(f"the kernel annotates {name!r} as constant: write '*k{plain.removeprefix('*')}'")
    never = parameter.do_not_specialize or (hint == "1" and annotated)
    if hint and (never or (hint == "16" and parameter.do_not_specialize_on_alignment)):
        raise MarkerError(f"the JIT does not specialise {name!r}, as the kernel is declared: write {plain!r}")
