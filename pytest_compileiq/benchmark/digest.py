"""The digest of a benchmark: the test, its fixtures, the same-project code they use, its workloads and objectives.

Source files are read and parsed; nothing is executed, and pytest's assertion rewriting does not matter.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.rules.fingerprint import (
    assigns,
    canonical_text,
    chain_of,
    chains_in,
    definition_digest,
    definitions,
    digest,
    nodes_of,
    parsed,
    undecorated,
)
from pytest_compileiq.system.seen_files import SeenFiles

_PACKAGE = Path(__file__).resolve().parents[1]
_FOREIGN = ("site-packages", "dist-packages", ".venv", "venv", ".tox", ".nox")


class Benchmark(Struct, frozen=True):
    """Everything that a benchmark means, as digests; equal on every supported Python."""

    sha256: str  # of all of it
    parts: Mapping[str, str]  # `test FILE::NAME`, `helper FILE::NAME`, `workload NAME`, … → digest of each


def digest_benchmark(
    function: Callable[..., Any],
    *,
    fixtures: Sequence[Callable[..., Any]],
    rootdir: Path,
    workloads: Mapping[str, tuple[Mapping[str, Any], float]],  # name → (values, weight)
    objectives: Sequence[tuple[str, str]],  # (metric, direction)
    functions: Sequence[str] = (),  # what the toolchain says of functions and neighbours
    data: Mapping[str, str] = types.MappingProxyType({}),  # path → SHA-256 of what the kernel is called with
) -> Benchmark:
    """Digest a test, all it uses, its workloads and objectives, and the functions and data it is about."""
    closure = Closure(rootdir)
    tests, requested = {closure.add_object(function)}, set(map(closure.add_object, fixtures))
    workload_texts = {
        name: f"{name} weight={float(weight)!r} {_values_text(name, values)}"
        for name, (values, weight) in workloads.items()
    }
    objective_texts = [f"{metric} {direction}" for metric, direction in objectives]
    definition_texts = [f"{place} {sha}" for place, sha in sorted(closure.parts.items())]
    toolchain_texts = ["functions", *functions] if functions else []
    toolchain_texts += [f"data {path} {sha}" for path, sha in sorted(data.items())]
    sha256 = digest(
        [*definition_texts, "workloads", *workload_texts.values(), "objectives", *objective_texts, *toolchain_texts]
    )
    parts = {
        f"{'test' if place in tests else 'fixture' if place in requested else 'helper'} {place}": sha
        for place, sha in sorted(closure.parts.items())
    }
    parts |= {f"workload {name}": digest([text]) for name, text in workload_texts.items()}
    parts |= {"functions and neighbours": digest(functions)} if functions else {}
    parts |= {f"data {path}": sha for path, sha in data.items()}
    return Benchmark(sha256, {**parts, "objectives": digest(objective_texts)})


def digest_under(name: str, function: Callable[..., Any], rootdir: Path) -> str | None:
    """The digest of a test's definition if it were called ``name``; None where its source cannot be read."""
    plain = unwrapped(function)
    node = Closure(rootdir).definition(plain) if isinstance(plain, types.FunctionType) else None
    if not isinstance(node, ast.FunctionDef):
        return None
    fields = dict(ast.iter_fields(undecorated(node)))
    return digest([canonical_text(ast.FunctionDef(**{**fields, "name": name}))])


class Closure(Struct):
    """Definitions of the project reached so far, and by ``FILE::NAME`` the digest of the canonical source of each."""

    rootdir: Path
    parts: dict[str, str] = msgspec.field(default_factory=dict)
    nodes: list[ast.AST] = msgspec.field(default_factory=list)
    _trees: dict[Path, ast.Module] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rootdir = self.rootdir.resolve()  # as the paths of definitions are

    def add_object(self, thing: object) -> str | None:
        """Add a function or class and what its source names; returns its key, None for what is not the project's."""
        plain = unwrapped(thing)
        if not isinstance(plain, types.FunctionType | type):
            return None
        module = sys.modules.get(plain.__module__ or "")
        path = self._project_file(plain)
        namespace = plain.__globals__ if isinstance(plain, types.FunctionType) else vars(module) if module else {}
        if path is None:
            return None
        return self._add(path, _path_to(plain), namespace, free_variables(plain))

    def add_attribute(self, owner: type, name: str) -> None:
        """Add the definition of a class's attribute or method, and what it names."""
        module, path = sys.modules.get(owner.__module__), self._project_file(owner)
        if path is not None and module is not None:
            self._add(path, f"{_path_to(owner)}.{name}", vars(module), {})

    def add_names(self, function: types.FunctionType, nodes: Iterable[ast.AST]) -> None:
        """Add what each of ``nodes``, of the function's source, names by itself."""
        if (path := self._project_file(function)) is not None:
            for chain in sorted({chain for node in nodes if (chain := chain_of(node))}):
                self._follow(path, chain, function.__globals__, free_variables(function))

    def definition(self, function: types.FunctionType) -> ast.AST | None:
        """The syntax tree of the function's definition; None where its source cannot be read."""
        path = self._project_file(function)
        return None if path is None else next(definitions(self._tree(path), _path_to(function).split(".")), None)

    def _add(self, path: Path, qualname: str, namespace: Mapping[str, Any], free: Mapping[str, Any]) -> str:
        key = f"{path.relative_to(self.rootdir).as_posix()}::{qualname}"
        sha256 = definition_digest(self._tree(path), qualname)
        if key in self.parts or sha256 is None:
            return key
        self.parts[key] = sha256
        for node in definitions(self._tree(path), qualname.split(".")):
            self.nodes.append(node)
            for chain in chains_in(undecorated(node)):
                self._follow(path, chain, namespace, free)
        return key

    def _follow(
        self, path: Path, chain: tuple[str, ...], namespace: Mapping[str, Any], free: Mapping[str, Any]
    ) -> None:
        """Resolve a dotted name: through project modules to the definition it ends at."""
        head, *rest = chain
        if head in free:
            self.add_object(free[head])
            return
        if head not in namespace:
            return
        value = namespace[head]
        while isinstance(value, types.ModuleType) and rest:
            home = self._project_path(getattr(value, "__file__", None))
            name, *rest = rest
            if home is not None and assigns(self._tree(home), name):
                self._add(home, name, vars(value), {})
                return
            value = getattr(value, name, None)
        if isinstance(unwrapped(value), types.FunctionType | type):
            self.add_object(value)
        elif assigns(self._tree(path), head):
            self._add(path, head, namespace, {})
        else:
            self._follow_import(path, head)

    def _follow_import(self, path: Path, name: str) -> None:
        """Include the assignment of a constant that came by ``from module import name``."""
        for node in _imports_from(self._tree(path)):
            for alias in node.names:
                module = sys.modules.get(node.module or "")
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
        path = _inside(name, self.rootdir)
        return path if path is not None and path.is_file() else None

    def _tree(self, path: Path) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = _parsed_file(path, _seen.digest(str(path)))
        return self._trees[path]


_seen = SeenFiles()


@functools.lru_cache(maxsize=1024)
def _inside(name: str, rootdir: Path) -> Path | None:
    """The resolved path of a file of the project; None for one that is not its own."""
    path = Path(name).resolve()
    if not path.is_relative_to(rootdir) or path.is_relative_to(_PACKAGE):
        return None
    return None if any(part in _FOREIGN for part in path.relative_to(rootdir).parts) else path


@functools.lru_cache(maxsize=64)
def _parsed_file(path: Path, _sha256: str | None) -> ast.Module:
    return parsed(path.read_bytes())


@functools.lru_cache(maxsize=64)
def _imports_from(tree: ast.Module) -> tuple[ast.ImportFrom, ...]:
    return tuple(node for node in nodes_of(tree) if isinstance(node, ast.ImportFrom) and node.module)


def unwrapped(thing: object) -> object:
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


def _path_to(plain: types.FunctionType | type) -> str:
    """The dotted name of a definition within its file."""
    return plain.__qualname__.replace(".<locals>", "")


def free_variables(plain: types.FunctionType | type) -> dict[str, Any]:
    """The values that a function takes from the functions around it; those that are filled later are left out."""
    if not isinstance(plain, types.FunctionType) or not plain.__closure__:
        return {}
    values = {}
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__, strict=True):
        with contextlib.suppress(ValueError):  # it is not filled yet
            values[name] = cell.cell_contents
    return values


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


_SETUPS = ("setup_class", "setup_method", "setup_module", "setup_function")


def given_to(item: pytest.Function, rootdir: Path) -> dict[str, object]:
    """By name: the value of each ``parameter n``, and the source of each ``attribute N``."""
    params: Mapping[str, object] = item.callspec.params if hasattr(item, "callspec") else {}
    given: dict[str, object] = {f"parameter {name}": value for name, value in params.items()}
    for name, closure in _attributes_read(item, rootdir):
        if closure.parts:
            # By its source: a value may be one that tests collect in.
            sources = sorted((place.partition("::")[2].rpartition(".")[2], sha) for place, sha in closure.parts.items())
            given[f"attribute {name}"] = tuple(sources)
    return given


def _attributes_read(item: pytest.Function, rootdir: Path) -> Iterator[tuple[str, Closure]]:
    """What the body reads of its class, also through methods and properties, and all setup functions."""
    classes = item.cls.__mro__ if item.cls is not None else ()
    names, seen = [*_SETUPS, *_own_names(item.function, rootdir)], set()
    while names:
        if (name := names.pop()) in seen:
            continue
        seen.add(name)
        closure, owner = Closure(rootdir), next((each for each in classes if name in vars(each)), None)
        if owner is not None:
            closure.add_attribute(owner, name)
            names += _own_names(vars(owner)[name], rootdir)
        elif name in _SETUPS:
            closure.add_object(vars(item.module).get(name))
        yield name, closure


def _own_names(held: object, rootdir: Path) -> list[str]:
    """The names that a method or property reads of ``self``."""
    plain = held.__func__ if isinstance(held, staticmethod | classmethod) else held
    plain = unwrapped(plain.fget if isinstance(plain, property) else plain)
    if not isinstance(plain, types.FunctionType) or not plain.__code__.co_argcount:
        return []
    node = Closure(rootdir).definition(plain)
    own = plain.__code__.co_varnames[0]
    return [chain[1] for chain in chains_in(node) if len(chain) > 1 and chain[0] == own] if node is not None else []
