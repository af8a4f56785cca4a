"""The digest of a benchmark: the test, its fixtures, the same-project code they use, its workloads and objectives.

Source files are read and parsed; nothing is executed, and pytest's assertion rewriting does not matter.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.rules.fingerprint import canonical_text, digest, undecorated

_FOREIGN = ("site-packages", "dist-packages", ".venv", "venv", ".tox", ".nox")


def benchmark_digest(
    function: Callable[..., Any],
    *,
    fixtures: Sequence[Callable[..., Any]],
    rootdir: Path,
    workloads: Mapping[str, tuple[Mapping[str, Any], float]],
    objectives: Sequence[tuple[str, str]],
) -> str:
    """SHA-256 of everything that the benchmark means; equal on every supported Python.

    Args:
        fixtures: the functions of the fixtures it requests; those outside ``rootdir`` are passed over.
        workloads: name → (values, weight).
        objectives: (metric, direction) pairs.

    Raises:
        MarkerError: a workload's value has no text of its own, e.g. an object shown by its address.
    """
    parts = benchmark_parts(function, fixtures=fixtures, rootdir=rootdir)
    workload_texts = [
        f"{name} weight={float(weight)!r} {_values_text(name, values)}" for name, (values, weight) in workloads.items()
    ]
    objective_texts = [f"{metric} {direction}" for metric, direction in objectives]
    part_texts = [f"{name} {sha}" for name, sha in sorted(parts.items())]
    return digest([*part_texts, "workloads", *workload_texts, "objectives", *objective_texts])


def benchmark_parts(
    function: Callable[..., Any], *, fixtures: Sequence[Callable[..., Any]], rootdir: Path
) -> dict[str, str]:
    """What the digest includes: ``file::name`` → digest of that definition's canonical source."""
    closure = _Closure(rootdir.resolve())
    closure.add_object(function)
    for fixture in fixtures:
        closure.add_object(fixture)
    return closure.parts


@dataclass
class _Closure:
    """Definitions reached so far, by file and name."""

    rootdir: Path
    parts: dict[str, str] = field(default_factory=dict)
    _trees: dict[Path, ast.Module] = field(default_factory=dict)

    def add_object(self, thing: object) -> None:
        """Add a function or class, and what its source names."""
        plain = _unwrap(thing)
        if not isinstance(plain, types.FunctionType | type):
            return
        module = sys.modules.get(plain.__module__ or "")
        path = self._project_file(plain)
        namespace = plain.__globals__ if isinstance(plain, types.FunctionType) else vars(module) if module else {}
        if path is not None:
            self._add(path, plain.__qualname__.replace(".<locals>", ""), namespace, _free_variables(plain))

    def _add(self, path: Path, qualname: str, namespace: Mapping[str, Any], free: Mapping[str, Any]) -> None:
        key = f"{path.relative_to(self.rootdir).as_posix()}::{qualname}"
        nodes = list(_definitions(self._tree(path), qualname.split(".")))
        if key in self.parts or not nodes:
            return
        self.parts[key] = digest([canonical_text(undecorated(node)) for node in nodes])
        for node in nodes:
            for chain in sorted(set(_chains(undecorated(node)))):
                self._follow(path, chain, namespace, free)

    def _follow(
        self, path: Path, chain: tuple[str, ...], namespace: Mapping[str, Any], free: Mapping[str, Any]
    ) -> None:
        """Resolve a dotted name: through project modules to the definition it ends at."""
        head, *rest = chain
        if head in free:
            return self.add_object(free[head])
        if head not in namespace:
            return None
        value = namespace[head]
        while isinstance(value, types.ModuleType) and rest:
            home = self._project_path(getattr(value, "__file__", None))
            name, *rest = rest
            if home is not None and _assigned(self._tree(home), name):
                return self._add(home, name, vars(value), {})
            value = getattr(value, name, None)
        if isinstance(_unwrap(value), types.FunctionType | type):
            return self.add_object(value)
        if _assigned(self._tree(path), head):
            return self._add(path, head, namespace, {})
        return self._follow_import(path, head)

    def _follow_import(self, path: Path, name: str) -> None:
        """A constant that came by ``from module import name``: include its assignment there."""
        for node in ast.walk(self._tree(path)):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            for alias in node.names:
                module = sys.modules.get(node.module)
                home = self._project_path(getattr(module, "__file__", None))
                if (alias.asname or alias.name) == name and home is not None and module is not None:
                    self._add(home, alias.name, vars(module), {})

    def _project_file(self, plain: types.FunctionType | type) -> Path | None:
        if isinstance(plain, types.FunctionType):
            return self._project_path(plain.__code__.co_filename)
        return self._project_path(getattr(sys.modules.get(plain.__module__), "__file__", None))

    def _project_path(self, name: str | None) -> Path | None:
        """The source file, when it is the project's own."""
        if not name or not name.endswith(".py"):
            return None
        path = Path(name).resolve()
        package = Path(__file__).resolve().parent
        if not path.is_relative_to(self.rootdir) or path.is_relative_to(package) or not path.is_file():
            return None
        inside = path.relative_to(self.rootdir).parts
        return None if any(part in _FOREIGN for part in inside) else path

    def _tree(self, path: Path) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = ast.parse(path.read_bytes())
        return self._trees[path]


def _unwrap(thing: object) -> object:
    """The plain function under fixtures, partials, methods and ``functools.wraps``."""
    for _ in range(50):
        if isinstance(thing, functools.partial):
            thing = thing.func
        elif isinstance(thing, types.MethodType):
            thing = thing.__func__
        elif hasattr(thing, "_get_wrapped_function"):
            thing = thing._get_wrapped_function()
        elif hasattr(thing, "__wrapped__") and not isinstance(thing, type):
            thing = thing.__wrapped__
        else:
            return thing
    return thing


def _free_variables(plain: types.FunctionType | type) -> dict[str, Any]:
    if not isinstance(plain, types.FunctionType) or not plain.__closure__:
        return {}
    cells = zip(plain.__code__.co_freevars, plain.__closure__, strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _definitions(tree: ast.AST, path: Sequence[str]) -> Iterator[ast.AST]:
    """Every definition or assignment of the dotted name ``path`` (a name may be defined under several ifs)."""
    head, *rest = path
    for node in _statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == head:
            yield from _definitions(node, rest) if rest else [node]
        elif not rest and head in _targets(node):
            yield node


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements of this scope, inside ``if``, ``try``, ``with`` and loops too, but not of inner scopes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _statements(node)


def _targets(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Assign):
        return {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    if isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


def _assigned(tree: ast.Module, name: str) -> bool:
    return any(name in _targets(node) for node in _statements(tree))


def _chains(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Dotted names that are read: ``helpers.reference`` gives ``("helpers", "reference")``, and its head alone."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield (inner.id,)
        elif isinstance(inner, ast.Attribute):
            names = [inner.attr]
            base = inner.value
            while isinstance(base, ast.Attribute):
                names.append(base.attr)
                base = base.value
            if isinstance(base, ast.Name):
                yield (base.id, *reversed(names))


def _values_text(workload: str, values: Mapping[str, Any]) -> str:
    texts = []
    for key, value in sorted(values.items()):
        text = f"{type(value).__name__} {value!r}"
        if re.search(r"\bat 0x[0-9a-fA-F]+", text):
            raise MarkerError(
                f"workload {workload!r}: {key}={value!r} has no text of its own, "
                "so a change of it could not be seen; give a plain value"
            )
        texts.append(f"{key}={text}")
    return " ".join(texts)
