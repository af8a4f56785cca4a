"""A Python file, statement by statement: which module-level names each binds and reads. Nothing is executed."""

from __future__ import annotations
import __future__

import ast
import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType

from pytest_compileiq.rules.ast_names import chain_of

STAR = "*"
_READS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_BINDS = frozenset({"STORE_NAME", "STORE_GLOBAL"})
_DEF = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NO_VALUES = (ast.Import, ast.ImportFrom, *_DEF)


@dataclass(frozen=True)
class Statement:
    """A statement at module level; an import of several names is several statements.

    Attributes:
        binds: the module's names that it binds, or changes by assigning to a part or calling a method.
        reads: the module's names that it reads when it is executed.
        reads_later: those that its functions read, whenever they are called.
    """

    node: ast.stmt
    binds: frozenset[str]
    reads: frozenset[str]
    reads_later: frozenset[str]

    @cached_property
    def chains(self) -> frozenset[tuple[str, ...]]:
        """The dotted names that it reads, each as long as it stands there: ``("tl", "load")``."""
        return frozenset(_chains(self.node))

    @cached_property
    def imports(self) -> tuple[ast.Import | ast.ImportFrom, ...]:
        """Its imports, those of its functions too."""
        return tuple(node for node in ast.walk(self.node) if isinstance(node, ast.Import | ast.ImportFrom))


@dataclass(frozen=True)
class Source:
    """The statements of one file; ``flags`` are those of the compilation that its ``__future__`` imports set."""

    statements: tuple[Statement, ...]
    flags: int

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that any of them binds."""
        return frozenset().union(*(statement.binds for statement in self.statements))


def read_source(path: Path) -> Source:
    """The statements of a Python file; none for a directory, and for what does not parse, which ``Part.code`` says."""
    return _parsed(path.read_bytes()) if path.is_file() else Source((), 0)


@lru_cache(maxsize=256)
def _parsed(source: bytes) -> Source:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return Source((), 0)
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    nodes = [single for node in tree.body if not _runs_as_script(node) for single in _split(node)]
    return Source(tuple(_statements(nodes, flags)), flags)


def _statements(nodes: Sequence[ast.stmt], flags: int) -> Iterator[Statement]:
    compiled = [(node, compiled_as([node], flags, "")) for node in nodes]
    values = {name for node, code in compiled if not isinstance(node, _NO_VALUES) for name in _bound(node, code)}
    by_calls = {node.name: _bound_inside(code) for node, code in compiled if isinstance(node, _DEF)}
    for node, code in compiled:
        now = frozenset(_names(code, _READS))
        later = frozenset(name for inner in _functions(code) for name in _names(inner, _READS))
        called = {name for read in now for name in by_calls.get(read, ())}
        binds = _bound(node, code) | _assigned_into(node) | _called_on(node) & values | called
        yield Statement(node, frozenset(binds), now, later)


def compiled_as(body: list[ast.stmt], flags: int, name: str) -> CodeType:
    """The code of ``body``, a part of the file ``name``; line numbers are those of the file."""
    code: CodeType = compile(ast.Module(body, []), name, "exec", flags=flags, dont_inherit=True)
    return code


def _bound(node: ast.stmt, code: CodeType) -> set[str]:
    is_star = isinstance(node, ast.ImportFrom) and node.names[0].name == STAR
    return {STAR} if is_star else set(_names(code, _BINDS))


def _bound_inside(code: CodeType) -> frozenset[str]:
    """The names of the module that a function binds when it is called: those that it declares ``global``."""
    return frozenset(name for inner in _functions(code) for name in _names(inner, frozenset({"STORE_GLOBAL"})))


def _names(code: CodeType, operations: frozenset[str]) -> Iterator[str]:
    return (one.argval for one in dis.get_instructions(code) if one.opname in operations)


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The code of every function, class and comprehension inside."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _functions(constant)


def _at_once(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what is executed with it: the bodies of its functions are not."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _at_once(child)


def _assigned_into(node: ast.stmt) -> set[str]:
    """Names of whose object it replaces a part: ``table["a"] = 1``, ``settings.fast = True``."""
    parts = (part for part in _at_once(node) if isinstance(part, ast.Attribute | ast.Subscript))
    return {root for part in parts if isinstance(part.ctx, ast.Store) and (root := _root(part))}


def _called_on(node: ast.stmt) -> set[str]:
    """Names whose method it calls and drops the answer: ``configs.append(one)``."""
    calls = (part.value for part in _at_once(node) if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call))
    return {root for call in calls if isinstance(call.func, ast.Attribute) and (root := _root(call.func))}


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _runs_as_script(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _split(node: ast.stmt) -> Iterator[ast.stmt]:
    if not isinstance(node, ast.Import | ast.ImportFrom):
        yield node
        return
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield ast.copy_location(ast.Import([alias]), node)
        elif node.module != "__future__":  # a flag of the compilation
            yield ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node)


def _chains(node: ast.AST) -> Iterator[tuple[str, ...]]:
    if chain := chain_of(node):
        yield chain
        return
    for child in ast.iter_child_nodes(node):
        yield from _chains(child)
