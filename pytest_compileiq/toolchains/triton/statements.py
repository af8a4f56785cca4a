"""A Python file, statement by statement: which module-level names each binds and reads. Nothing is executed.

A table may be filled by whatever is called: ``add(64)``, or a decorator. So a statement binds what the functions that
it names may change, too, however far down they do.
"""

from __future__ import annotations
import __future__

import ast
import dis
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType

from pytest_compileiq.rules.fingerprint import chain_of

STAR = "*"
_READS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_BINDS_GLOBALLY = frozenset({"STORE_GLOBAL"})
_BINDS = _BINDS_GLOBALLY | {"STORE_NAME"}
# What is there wherever Triton is; of its other modules a file may have to ask which ones there are.
_TRITON = re.compile(r"import triton(?:\.language)?(?: as \w+)?|from triton import language(?: as \w+)?")
_DEF = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Statement:
    """A statement at module level; an import of several names is several statements."""

    node: ast.stmt
    source: Source

    @cached_property
    def binds(self) -> frozenset[str]:
        """Bound, or changed: by assigning to a part, by calling a method, or by a function that does."""
        called = {name for read in self.reads for name in self.source.changed_by.get(read, ())}
        assigned, called_on = self._changed
        return self.bound.union(assigned, called_on & self.source.values, called)

    @cached_property
    def bound(self) -> frozenset[str]:
        is_star = isinstance(self.node, ast.ImportFrom) and self.node.names[0].name == STAR
        return frozenset({STAR}) if is_star else _of(self._names[:1], _BINDS)

    @cached_property
    def values(self) -> frozenset[str]:
        """What it binds to something else than a module, a function or a class."""
        others = (name for part in _at_once(self.node) for name in _no_values(part))
        return self.bound.difference(others)

    @cached_property
    def reads(self) -> frozenset[str]:
        """Read when it is executed."""
        return _of(self._names[:1], _READS)

    @cached_property
    def reads_later(self) -> frozenset[str]:
        """Read by its functions, whenever they are called."""
        return _of(self._names[1:], _READS)

    @cached_property
    def changes(self) -> set[str]:
        """Names, of imports too, of objects that it may change itself: ``configs.append(config)``."""
        return set.union(*self._changed)

    @property
    def changes_later(self) -> frozenset[str]:
        """The names that its functions change when they are called, those that they declare ``global`` too."""
        bound = _of(self._names[1:], _BINDS_GLOBALLY)
        parts = list(ast.walk(self.node)) if self.reads_later else []
        return bound | (_assigned_into(parts) | _called_on(parts) & self.source.values) & self.reads_later

    @cached_property
    def chains(self) -> frozenset[tuple[str, ...]]:
        """The dotted names that it reads, each as long as it stands there: ``("tl", "load")``."""
        return frozenset(_chains(self.node))

    @cached_property
    def imports(self) -> tuple[ast.Import | ast.ImportFrom, ...]:
        """Its imports, those of its functions too."""
        return tuple(node for node in ast.walk(self.node) if isinstance(node, ast.Import | ast.ImportFrom))

    @cached_property
    def given_triton(self) -> Mapping[str, str]:
        """Name → the statement that binds it where Triton is installed, of an import of Triton under a condition.

        ``if HAS_TRITON: import triton`` gives ``import triton`` and ``HAS_TRITON = True``. A name that is imported from
        one place or another is none, nor is one of another module: their condition is of another kind.
        """
        if not isinstance(self.node, ast.If | ast.Try):
            return {}
        nodes = (node for node in _at_once(self.node) if isinstance(node, ast.Import | ast.ImportFrom))
        imports: defaultdict[str, set[str]] = defaultdict(set)
        for single in (single for node in nodes for single in _split(node)):
            for name in _no_values(single):
                imports[name].add(ast.unparse(single))
        triton = {name: text for name, (text, *others) in imports.items() if not others and _TRITON.fullmatch(text)}
        return {**{name: is_true(name) for name in self._conditions if triton}, **triton}

    @property
    def _conditions(self) -> tuple[str, ...]:
        """The one name that an ``if`` asks, beside whether types are checked."""
        test = self.node.test if isinstance(self.node, ast.If) else None
        tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
        names = tuple(each.id for each in tests if isinstance(each, ast.Name) and each.id != "TYPE_CHECKING")
        return names if len(names) == 1 and all(isinstance(each, ast.Name) for each in tests) else ()

    @cached_property
    def _changed(self) -> tuple[set[str], set[str]]:
        parts = list(_at_once(self.node))
        return _assigned_into(parts), _called_on(parts)

    @cached_property
    def _names(self) -> list[Mapping[str, set[str]]]:
        """Those of its own code, and of each function inside."""
        return [*map(_names, _codes(compiled_as([self.node], self.source.flags, "")))]


@dataclass(frozen=True)
class Source:
    """The statements of one file; what they bind and read is found out when it is asked for."""

    nodes: tuple[ast.stmt, ...]  # the statements, without what runs in scripts alone
    flags: int  # those of the compilation that its __future__ imports set

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        return tuple(Statement(node, self) for node in self.nodes)

    @cached_property
    def values(self) -> frozenset[str]:
        """The names of objects other than modules, functions and classes."""
        return frozenset().union(*(each.values for each in self.statements))

    @cached_property
    def changed_by(self) -> Mapping[str, frozenset[str]]:
        """Name → the names of this module that may change where it is used, as by a call."""
        return _changed_by(self.statements)

    @cached_property
    def bound(self) -> frozenset[str]:
        return frozenset().union(*(statement.binds for statement in self.statements))

    @cached_property
    def imports(self) -> Mapping[str, Sequence[ast.Import | ast.ImportFrom]]:
        """Name → the imports of the statements that bind it."""
        by_name: dict[str, list[ast.Import | ast.ImportFrom]] = {}
        for statement in self.statements:
            for name in statement.binds if statement.imports else ():
                by_name.setdefault(name, []).extend(statement.imports)
        return by_name

    @cached_property
    def given_triton(self) -> Mapping[str, str]:
        given: dict[str, str] = {}
        for statement in reversed(self.statements):
            given |= statement.given_triton
        return given

    @property
    def imports_relatively(self) -> bool:
        return any(isinstance(node, ast.ImportFrom) and node.level for top in self.nodes for node in ast.walk(top))


def is_true(name: str) -> str:
    """The statement that takes ``name`` to be true."""
    return f"{name} = True"


def read_source(path: Path) -> Source:
    """The statements of a Python file; none for a directory, nor for a file that does not parse."""
    return _parsed(path.read_bytes()) if path.is_file() else _NOTHING


_NOTHING = Source((), 0)


class _WithoutPruners(ast.NodeTransformer):
    """Puts a built-in function for each that prunes configs: it takes a launch, so it is never called here.

    What it reads often reaches a whole package, such as the cache of the configs that were found on a GPU.
    """

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        if node.arg == "prune_configs_by" and isinstance(node.value, ast.Dict):
            values = node.value.values
            values[:] = [each if isinstance(each, ast.Constant) else _never_called(each) for each in values]
        self.generic_visit(node)
        return node


def _never_called(node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Name("print", ast.Load()), node)


@lru_cache(maxsize=512)  # files: of one package a definition may name 300
def _parsed(source: bytes) -> Source:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return _NOTHING
    if b"prune_configs_by" in source:
        tree = _WithoutPruners().visit(tree)
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    return Source(tuple(single for node in tree.body if not _runs_as_script(node) for single in _split(node)), flags)


def _names(code: CodeType) -> Mapping[str, set[str]]:
    """Operation → the names that a code does it with."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for each in dis.get_instructions(code):
        if each.opname in _READS | _BINDS:
            names[each.opname].add(each.argval)
    return names


def _of(codes: Iterable[Mapping[str, set[str]]], operations: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*(names.get(operation, ()) for names in codes for operation in operations))


def _changed_by(statements: Sequence[Statement]) -> dict[str, frozenset[str]]:
    """Name → what changes where it is used: what its functions change, and all that is used in its definition."""
    users: defaultdict[str, set[str]] = defaultdict(set)
    for each in statements:
        for read in each.reads | each.reads_later:
            users[read] |= each.bound
    waiting = [(name, each.changes_later) for each in statements for name in each.bound]
    changed: dict[str, frozenset[str]] = {}
    while waiting:
        name, changes = waiting.pop()
        if not changes <= changed.get(name, frozenset()):
            changed[name] = changed.get(name, frozenset()) | changes
            waiting += ((user, changes) for user in users[name])
    return changed


def compiled_as(body: list[ast.stmt], flags: int, name: str) -> CodeType:
    """The code of ``body``, a part of the file ``name``; line numbers are those of the file."""
    code: CodeType = compile(ast.Module(body, []), name, "exec", flags=flags, dont_inherit=True)
    return code


def _codes(code: CodeType) -> Iterator[CodeType]:
    """``code``, and that of every function, class and comprehension inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _at_once(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what is executed with it: the bodies of its functions are not."""
    yield node
    if not isinstance(node, (*_DEF, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from _at_once(child)


def _no_values(node: ast.AST) -> Iterator[str]:
    """The names that ``node`` itself binds to a module, a function or a class."""
    if isinstance(node, _DEF):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _assigned_into(nodes: Iterable[ast.AST]) -> set[str]:
    """Names with a part of their object replaced: ``table["a"] = 1``, ``settings.fast = True``."""
    parts = (node for node in nodes if isinstance(node, ast.Attribute | ast.Subscript))
    return {root for part in parts if isinstance(part.ctx, ast.Store) and (root := _root(part))}


def _called_on(nodes: Iterable[ast.AST]) -> set[str]:
    """Names whose method is called for what it changes: ``configs.append(config)``, ``@kernels.register``."""
    called = (function for node in nodes for function in _called(node))
    return {root for function in called if isinstance(function, ast.Attribute) and (root := _root(function))}


def _called(node: ast.AST) -> Iterator[ast.expr]:
    """The functions that ``node`` calls for their effect, with the decorators of a definition."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node.value.func
    elif isinstance(node, _DEF):
        yield from (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)


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
