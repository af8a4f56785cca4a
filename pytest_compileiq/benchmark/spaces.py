"""What the marker's ``space=`` and ``where=`` mean for one compiler."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_compileiq.benchmark.digest import Closure, free_variables
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import CONTROL_CLASSES, ControlClass, Knobs, KnobValue
from pytest_compileiq.rules.fingerprint import canonical_text, digest, parsed, undecorated
from pytest_compileiq.space import OpaqueSpace, Predicate, Space
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.base import BaseSpace, Builder
from pytest_compileiq.toolchains.macros import macro_of, params_in
from pytest_compileiq.toolchains.options import options_of

_MOST_VALUES = 1000  # of an option that are compared with the baseline's
_BASES: Sequence[BaseSpace] = ("default", "options")


def parts_of(given: object) -> Sequence[object]:
    """What ``space=`` joins."""
    return ["default"] if given is None else given if isinstance(given, list | tuple) else [given]


def check_names(given: object, builder: Builder, nodeid: str) -> None:
    """Check that ``builder`` has the spaces that ``space=`` names, without making any."""
    for part in parts_of(given):
        if isinstance(part, str) and part not in (*_names(builder), *CONTROL_CLASSES):
            raise _no_space(part, builder, nodeid)


def space_of(given: object, builder: Builder, nodeid: str) -> Space:
    """The space that ``space=`` asks for.

    Classes of options are one space with the compiler's own, so that a knob with values of two classes stands in it
    once.

    Raises:
        MarkerError: there is no such space, or it is not usable.
    """
    parts = parts_of(given)
    classes = [name for name in CONTROL_CLASSES if name in parts]
    if not classes:
        return Space.merge(*(_space(part, builder, nodeid) for part in parts))
    base = next((name for name in reversed(_BASES) if name in parts), None)
    others = [part for part in parts if part != base and part not in classes]
    return Space.merge(
        _with_classes(base, classes, builder, nodeid), *(_space(part, builder, nodeid) for part in others)
    )


def baseline_values(builder: Builder, space: Space) -> dict[str, KnobValue]:
    """The values that knobs of ``space`` have in the baseline, and so in candidates that leave them off."""
    baseline = params_in(builder, {})
    params = {gene.name: macro_of(gene.name) or gene.name for gene in space.knob_genes}
    with_value = {knob: param for knob, param in params.items() if knob == param or knob.endswith("=")}
    said = {
        gene.name: value
        for gene in space.knob_genes
        if gene.name.startswith("-") and gene.name == params[gene.name] and len(gene.values) <= _MOST_VALUES
        for value in gene.values
        if builder.says(f"{gene.name}{value}")
    }
    return said | {knob: baseline[param] for knob, param in with_value.items() if param in baseline}


def is_same_value(known: KnobValue | None, value: KnobValue) -> bool:
    """Whether a knob has the value that is known: 1 and True differ."""
    return type(known) is type(value) and known == value


def without_baseline_values(knobs: Knobs, space: Space, builder: Builder, known: Knobs) -> Knobs:
    """``knobs`` without those at the baseline's value, ``known``; a group that is on as a whole stays whole.

    An option stays where others change its value in the baseline: ``-fno-tree-vectorize`` beside ``-O3``.
    """
    alone = {gene.name for gene in space.knob_genes if gene.parent is None}
    idle = {name for name, value in knobs.items() if name in alone and is_same_value(known.get(name), value)}
    left = {name: value for name, value in knobs.items() if name not in idle}
    options = {name: f"{name}{knobs[name]}" for name in idle if name.startswith("-") and not macro_of(name)}
    # All are asked about beside what is left by then: a compiler answers once for a set of options.
    while changed := {name for name in options.keys() - left if not builder.says(options[name], options_of(left))}:
        left |= {name: knobs[name] for name in changed}
    return {name: value for name, value in knobs.items() if name in left}


def with_baseline_values(knobs: Knobs, space: Space, known: Callable[[], Knobs]) -> Knobs:
    """``knobs`` with what the space always has and they leave to the baseline, whose values are ``known``."""
    always = {gene.name for gene in space.knob_genes if gene.parent is None and gene.knockout_prob == 0} - knobs.keys()
    # Of most spaces nothing is asked: to know the baseline's values may take a compiler.
    return {**{name: value for name, value in known().items() if name in always}, **knobs} if always else knobs


def _with_classes(base: BaseSpace | None, classes: Sequence[ControlClass], builder: Builder, nodeid: str) -> Space:
    offered = builder.option_classes or ()
    if lacking := [name for name in classes if name not in offered]:
        has = f"it has {', '.join(map(repr, offered))}" if offered else "its options have no classes here"
        raise MarkerError(
            f"{nodeid}: space={lacking[0]!r}: {builder.compiler.name} has no option of this class that this tool knows "
            f"and that the baseline's flags leave open: {has}"
        )
    return builder.space_with(base, classes)


def _space(part: object, builder: Builder, nodeid: str) -> Space:
    if part == "default":
        return _usable(builder.default_space(), builder, nodeid)
    if part == "options":
        return _usable(builder.option_space(), builder, nodeid)
    if isinstance(part, OpaqueSpace):
        return Space((), part)
    if isinstance(part, Mapping):
        return Space.from_mapping(part)
    if isinstance(part, str) and part in builder.spaces:
        return builder.spaces[part]()
    raise _no_space(part, builder, nodeid)


def _usable(space: Space | None, builder: Builder, nodeid: str) -> Space:
    if space is None or not (space.genes or space.opaque):
        raise MarkerError(f"{nodeid}: {builder.compiler.name} has no space of its own: give the marker space={{…}}")
    return space


def _names(builder: Builder) -> Sequence[str]:
    classes = () if builder.option_classes is None else CONTROL_CLASSES
    return (*_BASES, *builder.spaces, *classes)


def _no_space(part: object, builder: Builder, nodeid: str) -> MarkerError:
    names = _names(builder)
    return MarkerError(
        f"{nodeid}: space={part!r}{did_you_mean(str(part), names)}: expected a dict of knobs, "
        f"{', '.join(map(repr, names))}, PtxasSearchSpace(), NvccSearchSpace(), or a list of these"
    )


_MOST_TEXT = 200
_PLAIN = (bool, int, float, complex, str, bytes, types.NoneType)

Call = Callable[[Mapping[str, KnobValue]], object]
_Definition = ast.Lambda | ast.FunctionDef


def read_predicate(call: Call, rootdir: Path) -> Predicate:
    """``call`` with its text and its identity."""
    function, given = _function(call)
    node = _definition(function)
    closure = Closure(rootdir)
    closure.add_names(function, ast.walk(node))
    values = sorted(f"{name} = {text}" for name, text in [*given, *_outside(function, node)])
    parts = sorted(f"{place} {sha}" for place, sha in closure.parts.items())
    return Predicate(
        call, _condition(node), digest([canonical_text(undecorated(node)), "values", *values, "parts", *parts])
    )


def _function(call: object) -> tuple[types.FunctionType, list[tuple[str, str]]]:
    """The function that is called in the end, and the plain values that are bound to it on the way."""
    if isinstance(call, types.FunctionType):
        return call, []
    if isinstance(call, functools.partial):
        function, given = _function(call.func)
        return function, [*given, ("partial", repr(_plain([*call.args])) + repr(_plain(call.keywords)))]
    bound = call if isinstance(call, types.MethodType) else getattr(call, "__call__", None)  # noqa: B004 - its function
    if isinstance(bound, types.MethodType) and isinstance(bound.__func__, types.FunctionType):
        attributes = getattr(bound.__self__, "__dict__", {})
        return bound.__func__, [(f"self.{name}", text) for name, text in _plain_values(attributes)]
    raise MarkerError(f"tune(where={call!r:.100}): expected a lambda or a function written in Python")


def _definition(function: types.FunctionType) -> _Definition:
    """The syntax tree of the function, by where its code stands: one line may hold two lambdas."""
    code = function.__code__
    try:
        tree = parsed(Path(code.co_filename).read_bytes())
    except (OSError, SyntaxError, ValueError):
        raise _unreadable(function) from None
    nodes = [node for node in ast.walk(tree) if isinstance(node, _Definition) and _begins_where(node, code)]
    if len(nodes) > 1:
        around = [node for node in nodes if all(_holds(node, *place) for place in _places(code))]
        # A lambda within another holds less; without positions (python -X no_debug_ranges) all would be held.
        nodes = sorted(around, key=lambda node: len(ast.unparse(node)))[:1] if _places(code) else nodes
    if len(nodes) != 1:
        raise _unreadable(function)
    return nodes[0]


def _unreadable(function: types.FunctionType) -> MarkerError:
    code = function.__code__
    return MarkerError(
        f"tune(where=…): the source of {function.__qualname__} is not found at {code.co_filename}:"
        f"{code.co_firstlineno}: write it as a function in a file of the project"
    )


def _begins_where(node: _Definition, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return node.name == code.co_name and first == code.co_firstlineno


def _places(code: types.CodeType) -> list[tuple[int, int]]:
    """Line and column of every instruction that comes of an expression."""
    return [
        (line, column)
        for line, _, column, end in code.co_positions()
        if line is not None and column is not None and (column, end) != (0, 0)
    ]


def _holds(node: _Definition, line: int, column: int) -> bool:
    end = (node.end_lineno or 0, node.end_col_offset or 0)
    return (node.lineno, node.col_offset) <= (line, column) < end


def _outside(function: types.FunctionType, node: ast.AST) -> Iterator[tuple[str, str]]:
    """The plain values that the function takes from its defaults, from around it and from its module."""
    code = function.__code__
    yield "defaults", repr(_plain([*(function.__defaults__ or ())])) + repr(_plain(function.__kwdefaults__ or {}))
    named = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} - set(code.co_varnames)
    values = {**function.__globals__, **free_variables(function)}
    yield from _plain_values({name: value for name, value in values.items() if name in named})


def _plain_values(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, repr(plain)) for name, value in values.items() if (plain := _plain(value)) is not None]


def _plain(value: object) -> object:
    """``value`` in a form whose text says all of it, with None in the place of what is not plain."""
    if isinstance(value, _PLAIN):
        return type(value).__name__, value
    if isinstance(value, list | tuple | range):
        inner = [*map(_plain, value)]
    elif isinstance(value, set | frozenset):
        inner = sorted(map(_plain, value), key=repr)
    elif isinstance(value, dict):
        inner = [(_plain(key), _plain(held)) for key, held in value.items()]
    else:
        return None
    return type(value).__name__, inner


def _condition(node: _Definition) -> str:
    """The condition, as a message shows it."""
    if isinstance(node, ast.Lambda):
        text = ast.unparse(node.body)
    else:
        statements = [statement for statement in node.body if not isinstance(statement, ast.Expr)]  # no docstring
        match statements:
            case [ast.Return(value=ast.expr() as returned)]:
                text = ast.unparse(returned)
            case _:
                text = f"{node.name}(k)"
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
