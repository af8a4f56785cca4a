"""The dotted names of a syntax tree."""

from __future__ import annotations

import ast


def chain_of(node: ast.AST) -> tuple[str, ...] | None:
    """The dotted name that ``node`` itself reads: ``("np", "testing", "assert_equal")``; None for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and (names or isinstance(node.ctx, ast.Load)):
        return (node.id, *reversed(names))
    return None
