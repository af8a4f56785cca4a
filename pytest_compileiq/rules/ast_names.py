"""The dotted names of a syntax tree. Trees are read from files and never changed, so that each is walked once."""

from __future__ import annotations

import ast
import functools


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
