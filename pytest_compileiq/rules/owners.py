"""Whether the test that an artifact was made for still exists: by the text of its file, not by one run's collection."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pytest_compileiq.rules.fingerprint import definitions, nodes_of, parsed


def path_within(nodeid: str) -> tuple[str, tuple[str, ...]]:
    """The file of a test, and its dotted name there without the parameters: ``test_k.py::TestK::test_k[1]``."""
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
    return bool(names) and not any(_defines(tree, names[: end + 1], names) for end in range(len(names)))


def _defines(tree: ast.Module, path: Sequence[str], names: Sequence[str]) -> bool:
    """Whether ``path`` is the test itself, or a class that may inherit it; an import may bring either."""
    if len(path) == 1 and any(_imports(node, path[0]) for node in nodes_of(tree)):
        return True
    found = list(definitions(tree, path))
    if len(path) == len(names):
        return bool(found)
    return any(not isinstance(node, ast.ClassDef) or node.bases or node.decorator_list for node in found)


def _imports(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return False
    return any(alias.name == "*" or (alias.asname or alias.name) == name for alias in node.names)
