"""The slice of Python files that defines a kernel, read from their source: nothing is executed.

A kernel's file often does far more than define it: a script launches it, a package's ``__init__`` imports the world. So
only the module-level statements that bind or change what the kernel names, directly or through what it names, are ever
executed (``torch_stub`` does), in the file's order. It is a program slice (Weiser, ICSE 1981) by names, and so it knows
nothing of what a module does to itself through ``globals()``, nor of what a module of which nothing is needed does to
another.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.spelling import first_of, quantity
from pytest_compileiq.toolchains.triton.statements import STAR, Source, Statement, compiled_as, is_true, read_source

EVERYTHING = "<everything>"  # of a module, in the place of a name
FOREIGN = frozenset({"triton", *sys.stdlib_module_names})
_MOST_STATEMENTS = 1000  # of other modules: of 480 kernels of four packages none needs more than 152


class ImportRoot(NamedTuple):
    """A directory that modules are imported from; ``only`` is the one package there that counts, None for all."""

    directory: Path
    only: str | None = None


def find_module(roots: Sequence[ImportRoot], dotted: str) -> Path | None:
    """The file of a module, else its directory: as for Python's imports, a file anywhere goes before a directory."""
    top, directory = dotted.partition(".")[0], None
    for root in roots:
        if top in FOREIGN or root.only not in (None, top):
            continue
        stem = root.directory.joinpath(*dotted.split("."))
        for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            if path.is_file():
                return path
        if directory is None and stem.is_dir():
            directory = stem
    return directory


def is_file(path: Path | None) -> bool:
    """Whether a module is a file, and not a package without ``__init__``."""
    return path is not None and bool(path.suffix)


@dataclass
class ModuleSlice:
    """What is needed of one module."""

    name: str
    path: Path
    statements: set[int] = field(default_factory=set)  # the numbers of those that are executed
    # Name → the statement that binds it where Triton is installed, whatever its module makes that depend on.
    given: dict[str, str] = field(default_factory=dict)

    @property
    def assumed(self) -> list[str]:
        """The names that are taken to be true, as conditions of importing Triton."""
        return [name for name, statement in self.given.items() if statement == is_true(name)]

    @property
    def is_package(self) -> bool:
        return _is_package(self.path)

    def texts(self) -> Iterator[str]:
        """The literal texts in the needed statements."""
        nodes = read_source(self.path).nodes
        for number in self.statements:
            for node in ast.walk(nodes[number]):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value

    def code(self) -> CodeType:
        """The needed statements, compiled in their order; SyntaxError where the file does not parse."""
        source = read_source(self.path)
        if not source.nodes:
            ast.parse(self.path.read_bytes(), str(self.path))
        given = ast.parse("\n".join(self.given.values())).body
        # Again behind the statements, which may bind the names to something else where there is no GPU.
        body = [*given, *(source.nodes[number] for number in sorted(self.statements)), *given]
        return compiled_as(body, source.flags, str(self.path))


def _is_package(path: Path) -> bool:
    return path.name == "__init__.py" or not is_file(path)


def needed(name: str, path: Path, wanted: str, roots: Sequence[ImportRoot]) -> dict[str, ModuleSlice]:
    """Module → what has to be executed of it so that ``wanted``, of the module ``name`` at ``path``, is defined.

    Modules that none of ``roots`` holds are imported as they are and left out.

    Raises:
        MarkerError: that is a large part of a package, as where a function is called that might import all of it.
    """
    slice_ = _Slice(roots, {name: ModuleSlice(name, path)})
    slice_.need(name, wanted)
    return slice_.parts


class _Need(NamedTuple):
    """A name of a module; what is read at once needs the statements before the reader alone."""

    module: str
    name: str
    before: int = sys.maxsize


class _Module(NamedTuple):
    """One of our modules, and what its file says."""

    path: Path
    source: Source


class _Import(NamedTuple):
    """One name of an import: ``name`` of the module ``base``, or ``base`` itself where ``name`` is empty."""

    bound: str
    base: str
    name: str

    @property
    def dotted(self) -> str:
        return f"{self.base}.{self.name}" if self.name else self.base


_Meant = tuple[str, str]  # a module and one of its names; the module itself where the name is empty


@dataclass
class _Slice:
    roots: Sequence[ImportRoot]
    parts: dict[str, ModuleSlice]
    needs: set[_Need] = field(default_factory=set)
    modules: dict[str, _Module | None] = field(default_factory=dict)

    def need(self, module: str, name: str) -> None:
        """Add the statements of ``module`` that bind ``name``, and what they need."""
        waiting = deque([_Need(module, name)])  # the nearest first, so that too much is told by where it begins
        while waiting:
            need = waiting.popleft()
            if need not in self.needs and (part := self._part(need.module)):
                self.needs.add(need)
                waiting += self._add(part, need)
            if not waiting:
                waiting += self._changed_from_outside()
            others = [len(part.statements) for part in self.parts.values() if part.name != module]
            if sum(others) > _MOST_STATEMENTS:
                reached = f"{_MOST_STATEMENTS} statements of {quantity(sum(map(bool, others)), 'module')}"
                raise MarkerError(
                    f"the definition of {name} names {', '.join(first_of(self._named(module)))}, and through them "
                    f"more than {reached}, which are not executed: put the constants that it names into a module of "
                    "their own, or tune the PTX that acf capture takes of it"
                )

    def _named(self, module: str) -> list[str]:
        """The needed imports of ``module`` from our other modules."""
        statements = self._source(module).statements
        needed = (statements[number] for number in self.parts[module].statements)
        imported = (each for statement in needed for each in self._imports(module, statement.imports))
        return sorted({each.dotted for each in imported if self._module(each.base)})

    def _add(self, part: ModuleSlice, need: _Need) -> Iterator[_Need]:
        """Add the statements that bind a name to ``part``; yields their needs."""
        source, name = self._source(part.name), need.name
        if self._is_submodule(part.name, name):
            yield _Need(f"{part.name}.{name}", "")
        elif name and name not in source.bound and name != EVERYTHING:
            yield from (_Need(star.base, name) for star in self._imports(part.name, source.imports.get(STAR, ())))
            name = "__getattr__" if "__getattr__" in source.bound else STAR
        elif given := source.given_triton.get(name):
            part.given[name] = given
            return
        for number, statement in enumerate(source.statements[: need.before]):
            if name == EVERYTHING or name in statement.binds:
                yield from self._execute(part, number, statement)

    def _execute(self, part: ModuleSlice, number: int, statement: Statement) -> Iterator[_Need]:
        """Add a statement to ``part``; yields its needs."""
        if number in part.statements:
            return
        part.statements.add(number)
        yield from (_Need(part.name, read, number) for read in statement.reads)
        yield from (_Need(part.name, read) for read in statement.reads_later)
        for node in statement.imports:
            yield from (_Need(alias.name, "") for alias in node.names if isinstance(node, ast.Import))
        for imported in self._imports(part.name, statement.imports):
            yield _Need(imported.base, imported.name)
        for chain in statement.chains:
            ends = self._ends(self._meant_in(part.name, statement, chain[0]), chain[1:])
            yield from (_Need(*end) for end in ends if end != (part.name, chain[0]))

    def _changed_from_outside(self) -> Iterator[_Need]:
        """Add the statements that change needed names of another module; yields their needs."""
        needed_names = {(need.module, need.name) for need in self.needs}
        for part in list(self.parts.values()):
            for number, statement in enumerate(self._source(part.name).statements):
                if not needed_names.isdisjoint(self._changes(part.name, statement)):
                    yield from self._execute(part, number, statement)

    def _changes(self, module: str, statement: Statement) -> Iterator[_Meant]:
        """The names of other modules that a statement of ``module`` changes when it is executed."""
        for head, *rest in statement.chains:
            if head not in statement.reads:
                continue
            for target, name in self._ends(self._meant_in(module, statement, head), rest):
                home = self._module(target)
                if home is None or target == module:
                    continue
                itself = {name} if head in statement.changes and name in home.source.values else set()
                for changed in itself | home.source.changed_by.get(name, frozenset()):
                    yield from ((target, changed), (target, EVERYTHING))

    # ── what a name means ────────────────────────────────────────────────────────────────────────────────────────

    def _ends(self, meant: Iterable[_Meant], rest: Sequence[str]) -> Iterator[_Meant]:
        """The possible meanings of a dotted name, from those of its first name: a module is followed into."""
        for module, name in meant:
            if name:
                yield module, name
            elif rest:
                yield from self._ends(self._meant(module, rest[0], set()), rest[1:])
            else:
                yield module, EVERYTHING  # it is handed on, to whoever may read any name of it

    def _meant_in(self, module: str, statement: Statement, name: str) -> Iterator[_Meant]:
        """The possible meanings of ``name`` in a statement of ``module``, with imports of its own functions."""
        yield from self._by_imports(module, statement.imports, name, set())
        if name in statement.reads or name in statement.reads_later:
            yield from self._meant(module, name, set())

    def _meant(self, module: str, name: str, seen: set[_Meant]) -> Iterator[_Meant]:
        """The possible meanings of ``name`` in ``module``, and in every module that it is imported from."""
        home = self._module(module)
        if home is None or (module, name) in seen:
            return
        seen.add((module, name))
        yield (f"{module}.{name}", "") if self._is_submodule(module, name) else (module, name)
        if name not in home.source.given_triton:
            imports = home.source.imports
            yield from self._by_imports(module, [*imports.get(name, ()), *imports.get(STAR, ())], name, seen)

    def _by_imports(
        self, module: str, nodes: Sequence[ast.Import | ast.ImportFrom], name: str, seen: set[_Meant]
    ) -> Iterator[_Meant]:
        for imported in self._imports(module, nodes):
            if imported.bound == STAR:
                yield from self._meant(imported.base, name, seen)
            elif imported.bound == name and imported.name:
                yield from self._meant(imported.base, imported.name, seen)
            elif imported.bound == name:
                yield imported.base, ""

    def _is_submodule(self, module: str, name: str) -> bool:
        """Whether ``module.name`` is a module that lies in the package ``module``, and no other object of that name."""
        home, inside = self._module(module), f"{module}.{name}"
        if not name or home is None or not _is_package(home.path) or self._module(inside) is None:
            return False
        if name not in home.source.bound:
            return True
        imports = self._imports(module, home.source.imports.get(name, ()))
        return any(each.bound == name and each.dotted == inside for each in imports)

    # ── modules ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _imports(self, module: str, nodes: Sequence[ast.Import | ast.ImportFrom]) -> Iterator[_Import]:
        """The names of ``nodes``, imports of ``module``, apart from those that lead out of the package."""
        for node in nodes:
            for alias in node.names:
                if isinstance(node, ast.Import):
                    base = alias.name if alias.asname else alias.name.partition(".")[0]
                    yield _Import(alias.asname or base, base, "")
                elif base := self._absolute(module, node):
                    yield _Import(alias.asname or alias.name, base, alias.name)

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        """The dotted name of the module that ``node`` imports from; empty where it leads out of the package."""
        home = self._module(module)
        package = module if home and _is_package(home.path) else module.rpartition(".")[0]
        try:
            return resolve_name("." * node.level + (node.module or ""), package)
        except ImportError:
            return ""

    def _module(self, module: str) -> _Module | None:
        """The module of that name; None for what is not ours."""
        if module not in self.modules:
            own = self.parts.get(module)
            path = own.path if own else find_module(self.roots, module)
            self.modules[module] = _Module(path, read_source(path)) if path else None
        return self.modules[module]

    def _source(self, module: str) -> Source:
        home = self._module(module)
        assert home is not None
        return home.source

    def _part(self, module: str) -> ModuleSlice | None:
        """The part for ``module``, with those of the packages that it lies in; None for what is not ours."""
        names = module.split(".")
        for end in range(1, len(names) + 1):
            name = ".".join(names[:end])
            home = self._module(name)
            if home is None:
                return None
            self.parts.setdefault(name, ModuleSlice(name, home.path))
        return self.parts[module]
