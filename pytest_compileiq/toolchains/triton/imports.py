"""The project's own modules that a Python file imports, read from the source: nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path


def project_imports(path: Path, roots: Sequence[Path]) -> list[Path]:
    """``path`` and every module under ``roots`` that it imports, directly or indirectly, sorted."""
    modules: set[Path] = set()
    waiting = [path.resolve()]
    while waiting:
        current = waiting.pop()
        if current in modules:
            continue
        modules.add(current)
        for name in _imported(current):
            waiting += [module for root in roots for module in _files(root, name, current)]
    return sorted(modules)


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    """(level, dotted name) of every import that may be a module; ``from a import b`` may mean the module ``a.b``."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # the compiler reports it better
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""
            yield from ((node.level, f"{node.module or ''}.{alias.name}".strip(".")) for alias in node.names)


def _files(root: Path, name: tuple[int, str], importer: Path) -> Iterator[Path]:
    level, dotted = name
    base = root.resolve() if level == 0 else importer.parents[level - 1]
    stem = base.joinpath(*dotted.split(".")) if dotted else base
    for candidate in (stem.with_suffix(".py"), stem / "__init__.py"):
        if candidate.is_file():
            yield candidate.resolve()
