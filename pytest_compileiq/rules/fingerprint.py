"""What a benchmark is, as digests that are equal on every supported Python and ignore the source's formatting."""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_compileiq.spelling import first_of

if TYPE_CHECKING:
    from pytest_compileiq.artifact import FingerprintTable
    from pytest_compileiq.model import Fingerprint

    Recorded = Fingerprint | FingerprintTable


def chain_of(node: ast.AST) -> tuple[str, ...] | None:
    """The dotted name that ``node`` itself reads: ``("np", "testing", "assert_equal")``; None for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and (names or isinstance(node.ctx, ast.Load)):
        return (node.id, *reversed(names))
    return None


@functools.lru_cache(maxsize=64)
def parsed(source: bytes) -> ast.Module:
    """The syntax tree of a file's content: many tests share a file."""
    return ast.parse(source)


@functools.lru_cache(maxsize=4096)  # nodes are equal by identity; many tests share a helper
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of ``tree``, as ``ast.walk`` gives them."""
    return tuple(ast.walk(tree))


@functools.lru_cache(maxsize=4096)
def chains_in(tree: ast.AST) -> tuple[tuple[str, ...], ...]:
    """The dotted names that ``tree`` reads, sorted: ``helpers.reference`` gives it and its head alone."""
    return tuple(sorted({chain for node in nodes_of(tree) if (chain := chain_of(node))}))


_DOCUMENTED = ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
# Fields that hold positions or spelling, or that only some Pythons have.
_IGNORED = frozenset(
    {"ctx", "kind", "type_comment", "type_ignores", "lineno", "col_offset", "end_lineno", "end_col_offset"}
)


def canonical_text(node: ast.AST) -> str:
    """The syntax tree as text. ``ast.dump`` is not used: its text differs between 3.11, 3.12 and 3.13.

    Docstrings are left out, and so are empty fields, so that a field that a later Python adds changes nothing.
    """
    return json.dumps(_plain(node), separators=(",", ":"), ensure_ascii=True)


def digest(parts: Iterable[str]) -> str:
    """SHA-256 over the parts, in order; no two different lists of parts give the same bytes."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


@functools.lru_cache(maxsize=4096)
def undecorated(node: ast.AST) -> ast.AST:
    """A copy of a function or class without its decorators."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        fields = {name: value for name, value in ast.iter_fields(node) if name != "decorator_list"}
        return type(node)(**fields, decorator_list=[])
    return node


# ── definitions in a file ────────────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(maxsize=4096)
def definition_digest(tree: ast.Module, qualname: str, *, decorated: bool = False) -> str | None:
    """The digest of a dotted name's definitions in ``tree``, with their decorators or without; None without any."""
    nodes = list(definitions(tree, qualname.split(".")))
    return digest([canonical_text(node if decorated else undecorated(node)) for node in nodes]) if nodes else None


def definitions(tree: ast.AST, path: Sequence[str]) -> Iterator[ast.AST]:
    """Every definition or assignment of the dotted name ``path`` (a name may be defined under several ifs)."""
    head, *rest = path
    for node in _scope(tree).get(head, ()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from definitions(node, rest) if rest else [node]
        elif not rest:
            yield node


def assigns(tree: ast.AST, name: str) -> bool:
    """Whether a statement of this scope assigns to ``name``."""
    return any(name in targets(node) for node in _scope(tree).get(name, ()))


@functools.lru_cache(maxsize=256)  # trees are equal by identity; many tests share a file
def _scope(tree: ast.AST) -> Mapping[str, Sequence[ast.stmt]]:
    """Name → the statements of this scope that define it or assign to it, in order."""
    naming: dict[str, list[ast.stmt]] = {}
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = {node.name}
        else:
            names = targets(node)
        for name in names:
            naming.setdefault(name, []).append(node)
    return naming


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements of this scope, inside ``if``, ``try``, ``with`` and loops too, but not of inner scopes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from statements(node)


def targets(node: ast.stmt) -> set[str]:
    """The names that an assignment binds."""
    if isinstance(node, ast.Assign):
        return {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    if isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


# ── the parts of a benchmark ─────────────────────────────────────────────────────────────────────────────────────

_IN_FILES = ("test", "fixture", "helper")  # named FILE::NAME


def part_place(name: str) -> tuple[str, str] | None:
    """The file and the dotted name of a part that is in a file; None for a workload and for the objectives."""
    role, _, place = name.partition(" ")
    file, _, qualname = place.partition("::")
    return (file, qualname) if role in _IN_FILES else None


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of the parts that differ or are on one side only."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def are_moved(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether two records are of the same parts, some of them in other files; the test may have another name too."""

    def without_files(parts: Mapping[str, str]) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
        filed, others = [], []
        for name, sha in parts.items():
            role, place = name.partition(" ")[0], part_place(name)
            if place is None and role != "data":
                others.append((name, sha))
            else:
                filed.append((role, place[1] if place is not None and role != "test" else "", sha))
        return sorted(filed), others

    return bool(before) and without_files(before) == without_files(now)  # older records have no parts


def is_same_benchmark(before: Recorded, now: Recorded) -> bool:
    """Whether two records are of one benchmark on one input; an older one has no values to compare."""
    return before.benchmark == now.benchmark and (not before.values or before.values == now.values)


def changed_benchmark(before: Recorded, now: Recorded) -> str:
    """Which parts and values of a benchmark changed, in words; older records have none to tell apart."""
    old, new = ({**each.parts, **(each.values if before.values else {})} for each in (before, now))
    if not old or not new:
        return "the test's code, a fixture or helper it uses, a workload or an objective"
    names = changed_parts(old, new)
    told = [name + (" (added)" if name not in old else "" if name in new else " (gone)") for name in names]
    return ", ".join(first_of(told)) or "the order of its workloads"


def changed_environment(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Which variables have other values than those recorded, in words; empty where none has."""

    def told(values: Mapping[str, str], name: str) -> str:
        return repr(values[name]) if name in values else "not set"

    names = changed_parts(before, now)
    return "; ".join(first_of([f"{name} was {told(before, name)} and is {told(now, name)}" for name in names]))


# ── what a fingerprint covers of a file ──────────────────────────────────────────────────────────────────────────


def covered_files(sources: Iterable[str], parts: Iterable[str]) -> list[str]:
    """The files that a fingerprint looks into, sorted: sources as a whole, definitions of the others."""
    return sorted({*sources, *(place[0] for place in map(part_place, parts) if place is not None)})


def holds(content: bytes | None, file: str, sources: Mapping[str, str], parts: Mapping[str, str]) -> bool:
    """Whether ``content`` (None: no such file) matches everything that a fingerprint covers of ``file``."""
    if content is None or (file in sources and hashlib.sha256(content).hexdigest() != sources[file]):
        return False
    defined = {place[1]: sha for name, sha in parts.items() if (place := part_place(name)) and place[0] == file}
    return not defined or defined == defined_in(content, defined)


def defined_in(content: bytes, names: Iterable[str], *, decorated: bool = False) -> dict[str, str | None]:
    """The digests of definitions in a Python file; None for a name that it does not define, or if it does not parse."""
    try:
        tree = parsed(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return dict.fromkeys(names)
    return {name: definition_digest(tree, name, decorated=decorated) for name in names}


# ── canonical text ───────────────────────────────────────────────────────────────────────────────────────────────


def _plain(value: object) -> object:
    if isinstance(value, ast.JoinedStr):
        return ["JoinedStr", [_plain(part) for part in _merged(value.values)]]
    if isinstance(value, ast.AST):
        documented = isinstance(value, _DOCUMENTED) and ast.get_docstring(value, clean=False) is not None
        fields = [
            [name, _plain(inner[1:] if documented and name == "body" else inner)]
            for name, inner in ast.iter_fields(value)
            if name not in _IGNORED
        ]
        return [type(value).__name__, *[field for field in fields if field[1] not in (None, [])]]
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str):
        return value
    return [type(value).__name__, repr(value)]


def _merged(parts: list[ast.expr]) -> list[ast.AST]:
    """Parts of an f-string with neighbouring constants joined, since Pythons split them differently."""
    merged: list[ast.AST] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
            merged[-1] = ast.Constant(f"{last.value!s}{part.value!s}")
        else:
            merged.append(part)
    return merged


# ── whether a test still exists: by the text of its file, not by one run's collection ────────────────────────────


def path_within(nodeid: str) -> tuple[str, tuple[str, ...]]:
    """The file of a test such as ``test_k.py::TestK::test_k[1]``, and its names there without the parameters."""
    file, *names = nodeid.partition("[")[0].split("::")
    return file, tuple(names)


def is_gone(content: bytes | None, names: Sequence[str]) -> bool:
    """Whether a file's text no longer defines the test ``names``. A text that cannot tell holds it.

    Args:
        content: of the file; None where there is no such file.
        names: the classes and the function, outermost first.
    """
    if content is None:
        return True
    try:
        tree = parsed(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if not names:
        return False
    # An import may bring the test, or a class that holds it.
    imports = (node for node in nodes_of(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    if any(alias.name == "*" or (alias.asname or alias.name) == names[0] for node in imports for alias in node.names):
        return False
    outer = itertools.chain.from_iterable(definitions(tree, names[:end]) for end in range(1, len(names)))
    may_inherit = (not isinstance(node, ast.ClassDef) or node.bases or node.decorator_list for node in outer)
    return not any(may_inherit) and not any(True for _ in definitions(tree, names))
