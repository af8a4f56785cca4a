"""Words of messages, help texts and reports: a noun, not a relative clause in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pytest_compileiq

PACKAGE = Path(pytest_compileiq.__file__).parent
CLAUSES = re.compile(
    r"(?:^|[.:;,(] |\b(?:of|by|for|with|from|in|to|than|and|says?|is|are|not|that) )(?:what|whatever|whoever|wherever) \w"
    r"|\bthose that\b|\bwhose it is\b|\bit is of\b",
    re.IGNORECASE,
)


def clauses_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string of several words, docstrings apart, that holds such a clause."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented)]
    statements = [statement for body in bodies for statement in body if isinstance(statement, ast.Expr)]
    docstrings = {id(statement.value) for statement in statements}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        if is_text and CLAUSES.search(node.value):
            yield node.lineno, node.value


def everywhere(found_in: Callable[[str], Iterator[tuple[int, str]]]) -> list[str]:
    """File, line and text of each finding in a source of the package."""
    return [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in found_in(path.read_text(encoding="utf-8"))
    ]


def test_strings_with_relative_clause_for_noun_are_named_with_file_and_line():
    found = everywhere(clauses_in)
    assert not found, "write the noun:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("say what is right", True),
        ("what was found cannot be stored", True),
        ("cannot store: what was found", True),
        ("options beyond those that this tool knows", True),
        ("the result cannot be stored", False),
        ("an artifact whose test is gone", False),
    ],
)
def test_clause_is_found_only_in_place_of_noun(text, is_found):
    assert bool(list(clauses_in(f"raise Error({text!r})"))) == is_found


_COMMAND = re.compile(r"\bpytest (?:--?[\w=-]+ )*$|\bgit checkout -- $")
_QUOTED = {"for_shell", "quote", "join"}


def unquoted_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each value that stands as it is in a command that is printed."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for before, value in zip(node.values, node.values[1:], strict=False):
            is_command = isinstance(before, ast.Constant) and _COMMAND.search(str(before.value))
            if is_command and isinstance(value, ast.FormattedValue) and not _is_quoted(value.value):
                yield node.lineno, ast.unparse(value.value)


def _is_quoted(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _QUOTED


def test_values_in_printed_commands_are_quoted_for_a_shell():
    found = everywhere(unquoted_in)
    assert not found, "quote with for_shell:\n" + "\n".join(found)
    assert list(unquoted_in('f"run: pytest --tune {nodeid}"')) == [(1, "nodeid")]
    assert not list(unquoted_in('f"run: pytest --tune {for_shell(nodeid)}"'))
