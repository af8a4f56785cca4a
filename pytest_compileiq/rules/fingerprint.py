"""Canonical text of Python source: the same on every supported Python, blind to comments and formatting."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable

# Fields that say where, how it was written, or what only some Pythons have.
_IGNORED = frozenset(
    {"ctx", "kind", "type_comment", "type_ignores", "lineno", "col_offset", "end_lineno", "end_col_offset"}
)


def canonical_text(node: ast.AST) -> str:
    """The syntax tree as text. ``ast.dump`` is not used: its text differs between 3.11, 3.12 and 3.13.

    Docstrings are left out everywhere, and empty fields, so that a field that a later Python adds changes nothing.
    """
    return json.dumps(_plain(node), separators=(",", ":"), ensure_ascii=True)


def digest(parts: Iterable[str]) -> str:
    """SHA-256 over the parts, in order; no two different lists of parts give the same bytes."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def undecorated(node: ast.AST) -> ast.AST:
    """A function or class without its decorators (the node itself is not changed)."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        fields = {name: value for name, value in ast.iter_fields(node) if name != "decorator_list"}
        return type(node)(**fields, decorator_list=[])
    return node


def _plain(value: object) -> object:
    if isinstance(value, ast.JoinedStr):
        return ["JoinedStr", [_plain(part) for part in _merged(value.values)]]
    if isinstance(value, ast.AST):
        fields = [
            [name, _plain(_body(value, name, inner))] for name, inner in ast.iter_fields(value) if name not in _IGNORED
        ]
        return [type(value).__name__, *[field for field in fields if field[1] not in (None, [])]]
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str):
        return value
    return [type(value).__name__, repr(value)]


def _body(node: ast.AST, name: str, inner: object) -> object:
    """A body without its docstring."""
    holds = isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    if not (holds and name == "body" and isinstance(inner, list) and inner):
        return inner
    first = inner[0]
    is_docstring = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return inner[1:] if is_docstring else inner


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
