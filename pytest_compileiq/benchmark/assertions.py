"""Whether a test's body checks what it times: the code at and after ``acf.measure``, read from the source.

Lenient, since it only advises: whatever may be a check counts as one, and a source that cannot be read is passed over.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq.benchmark.digest import Closure, unwrapped
from pytest_compileiq.rules.fingerprint import chain_of, nodes_of

_WORDS = ("assert", "check", "compare", "fail", "raise", "valid", "verify")
_UNCHECKED_AFTER = (
    "no assertion stands after acf.measure, so a kernel that is wrong in some of the timed calls passes: assert on the "
    "output there too, which is then of this arm's last call, or use acf.compare"
)
_UNCHECKED = (
    "the body records what it timed and asserts nothing, so a kernel that is wrong passes: assert on the output of the "
    "timed call, or use acf.compare"
)

OFF = "assertions are off (python -O or PYTHONOPTIMIZE), so no check of a kernel can fail"
TURN_ON = "turn them on: env -u PYTHONOPTIMIZE python -m pytest"


def advice(function: Callable[..., Any], *, fixtures: Sequence[Callable[..., Any]], rootdir: Path) -> str | None:
    """What to say of a body that times a kernel and does not check what was timed; None where it does.

    Args:
        function: the test.
        fixtures: the functions of the fixtures it requests, which may give it what it checks with.
        rootdir: sources outside it are not read.
    """
    test = unwrapped(function)
    body = Closure(rootdir).definition(test) if isinstance(test, types.FunctionType) else None
    if body is None or not isinstance(test, types.FunctionType):
        return None
    reader = _Reader(test, body, fixtures, rootdir)
    later = reader.from_measure_on()
    if later is not None:
        return None if reader.checks(later) or reader.uses("compare") else _UNCHECKED_AFTER
    if not reader.uses("record"):
        return None
    return None if reader.checks(nodes_of(body)) else _UNCHECKED


@dataclass(frozen=True)
class _Reader:
    """One test, its definition, and what it reaches in the project."""

    test: types.FunctionType
    body: ast.AST
    fixtures: Sequence[Callable[..., Any]]
    rootdir: Path

    def from_measure_on(self) -> list[ast.AST] | None:
        """All nodes that run at or after ``measure``, which a helper may call; None where no call of it is seen."""
        if call := _call_of(self.body, "measure"):
            return _from(self.body, call)
        for helper in self._reached(nodes_of(self.body)):
            if isinstance(helper, ast.FunctionDef) and (call := _call_of(helper, "measure")):
                helper_call = _call_of(self.body, helper.name)
                return _from(helper, call) + (_from(self.body, helper_call) if helper_call else [])
        return None

    def uses(self, method: str) -> bool:
        """Whether the body, or anything it reaches, reads an attribute called ``method``."""
        nodes = nodes_of(self.body)
        return any(isinstance(node, ast.Attribute) and node.attr == method for node in [*nodes, *self._reached(nodes)])

    def checks(self, nodes: Sequence[ast.AST]) -> bool:
        """Whether ``nodes``, or what they name in the project, hold a check."""
        return any(map(self._is_check, nodes)) or any(map(self._is_check, self._reached(nodes)))

    def _is_check(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.Assert | ast.Raise)
        if _name(node.func) == "measure" and any(map(_is_given_check, node.keywords)):
            return True  # asked between the samples
        called = getattr(self._value(chain_of(node.func) or ("",)), "__name__", "")  # an import may rename it
        return any(word in name.lower() for word in _WORDS for name in (_name(node.func), str(called)))

    def _value(self, chain: Sequence[str]) -> object:
        """What a dotted name stands for in the test's module, as far as it goes through modules and classes."""
        value: object = self.test.__globals__.get(chain[0])
        for name in chain[1:]:
            value = getattr(value, name, None) if isinstance(value, types.ModuleType | type) else None
        return value

    def _reached(self, nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
        """All nodes of the definitions that ``nodes`` name: of the project, of the test's class, of its fixtures."""
        closure = Closure(self.rootdir)
        closure.add_names(self.test, nodes)
        named = set(map(_name, nodes))
        for fixture in self.fixtures:
            if getattr(unwrapped(fixture), "__name__", None) in named:
                closure.add_object(fixture)
        owner = self._value(self.test.__qualname__.split(".")[:-1] or ("",))
        for name in named if isinstance(owner, type) else ():
            closure.add_object(getattr(owner, name, None))
        for definition in closure.nodes:
            yield from nodes_of(definition)


def _name(node: ast.AST) -> str:
    """The last part of the name that a node reads: ``assert_equal`` of ``np.testing.assert_equal``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_given_check(keyword: ast.keyword) -> bool:
    return keyword.arg == "check" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)


def _call_of(definition: ast.AST, name: str) -> ast.Call | None:
    """The first call of a function or method of that name."""
    calls = [node for node in nodes_of(definition) if isinstance(node, ast.Call) and _name(node.func) == name]
    return min(calls, key=_place, default=None)


def _from(definition: ast.AST, call: ast.Call) -> list[ast.AST]:
    """The nodes of ``definition`` that run at or after ``call``."""
    nodes = [node for node in nodes_of(definition) if _place(node) >= _place(call)]
    around = [
        node for node in nodes_of(definition) if isinstance(node, ast.Assert | ast.Call) and call in nodes_of(node)
    ]
    nodes += [inner for node in around for inner in nodes_of(node)]
    managed = [node for node in nodes_of(definition) if isinstance(node, ast.With) and call in nodes_of(node)]
    nodes += [inner for node in managed for item in node.items for inner in nodes_of(item)]
    # Functions that are defined before the call and named there count too.
    local = {name: node for node in nodes_of(definition) if node is not definition for name in _functions(node)}
    while named := {node.id for node in nodes if isinstance(node, ast.Name)} & local.keys():
        nodes += [inner for name in named for inner in nodes_of(local.pop(name))]
    return nodes


def _functions(node: ast.AST) -> list[str]:
    """The names that a statement gives to a function."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _place(node: ast.AST) -> tuple[int, int]:
    """Its line and column; before everything where it has no place of its own."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
