"""What a kernel needs of its Python files, read from their source: nothing is executed.

A kernel's file often does far more than define it: a script launches it, a package's ``__init__`` imports the world. So
only the module-level statements that bind what the kernel names, directly or through what it names, are ever executed
(``loader`` does), in the file's order. It is a program slice (Weiser, ICSE 1981) by names, and so it knows nothing of
what a module does to itself through ``globals()``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from pytest_compileiq.rules.ast_names import chain_of
from pytest_compileiq.toolchains.triton.statements import STAR, Source, Statement, compiled_as, read_source

EVERYTHING = "<everything>"  # of a module, in the place of a name
_FOREIGN = frozenset({"triton", *sys.stdlib_module_names})


@dataclass(frozen=True)
class ImportRoot:
    """A directory that modules are imported from; ``only`` is the one package there that counts, None for all."""

    directory: Path
    only: str | None = None

    def find(self, dotted: str) -> Path | None:
        """The file of a module, its directory for a package without ``__init__``; None where there is none."""
        top = dotted.partition(".")[0]
        if top in _FOREIGN or self.only not in (None, top):
            return None
        stem = self.directory.joinpath(*dotted.split("."))
        for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            if path.is_file():
                return path
        return stem if stem.is_dir() else None


@dataclass
class Part:
    """What is needed of one module: the numbers of its ``statements``."""

    name: str
    path: Path
    statements: set[int] = field(default_factory=set)

    @property
    def is_package(self) -> bool:
        """Whether modules may lie inside."""
        return self.path.name == "__init__.py" or not self.path.suffix

    def code(self) -> CodeType:
        """The needed statements, compiled in their order; line numbers are those of the file.

        Raises:
            SyntaxError: the file does not parse.
        """
        source = read_source(self.path)
        if not source.statements:
            ast.parse(self.path.read_bytes(), str(self.path))
        body = [source.statements[number].node for number in sorted(self.statements)]
        return compiled_as(body, source.flags, str(self.path))


def needed(name: str, path: Path, wanted: str, roots: Sequence[ImportRoot]) -> dict[str, Part]:
    """Module → what has to be executed of it so that ``wanted``, of the module ``name`` at ``path``, is defined.

    Modules that none of ``roots`` holds are imported as they are and left out.
    """
    slice_ = _Slice(roots, {name: Part(name, path)})
    slice_.need(name, wanted)
    return slice_.parts


def decorators(path: Path, function: str) -> tuple[str, ...]:
    """The last names of a function's decorators, outermost first: ``("autotune", "jit")``."""
    for statement in read_source(path).statements:
        if isinstance(statement.node, ast.FunctionDef) and statement.node.name == function:
            called = (node.func if isinstance(node, ast.Call) else node for node in statement.node.decorator_list)
            return tuple(chain[-1] for node in called if (chain := chain_of(node)))
    return ()


@dataclass(frozen=True)
class _Need:
    """A name of a module; what is read at once needs the statements before the reader alone."""

    module: str
    name: str
    before: int = sys.maxsize


@dataclass
class _Slice:
    roots: Sequence[ImportRoot]
    parts: dict[str, Part]

    def need(self, module: str, name: str) -> None:
        """Add the statements of ``module`` that bind ``name``, and what they need."""
        waiting, seen = [_Need(module, name)], set()
        while waiting:
            need = waiting.pop()
            if need not in seen and (part := self._part(need.module)):
                seen.add(need)
                waiting += self._add(part, need)

    def _add(self, part: Part, need: _Need) -> Iterator[_Need]:
        """Add what binds a name to ``part``; gives what that needs in turn."""
        source, name = read_source(part.path), need.name
        if name and name not in source.bound and name != EVERYTHING:
            inside = f"{part.name}.{name}"
            if part.is_package and self._find(inside):
                yield _Need(inside, "")
                return
            yield from (_Need(star, name) for star in self._stars(part, source))
            name = "__getattr__" if "__getattr__" in source.bound else STAR
        for number, statement in enumerate(source.statements[: need.before]):
            is_needed = name == EVERYTHING or name in statement.binds
            if is_needed and number not in part.statements:
                part.statements.add(number)
                yield from (_Need(part.name, read, number) for read in statement.reads)
                yield from (_Need(part.name, read) for read in statement.reads_later)
                yield from (_Need(*pair) for pair in self._imported(part, source, statement))

    def _imported(self, part: Part, source: Source, statement: Statement) -> Iterator[tuple[str, str]]:
        for node in statement.imports:
            for alias in node.names:
                if isinstance(node, ast.Import):
                    yield alias.name, ""
                elif base := self._absolute(part, node):
                    yield base, alias.name
        for head, *rest in statement.chains:
            for target in self._modules_called(part, source, head):
                yield from self._walk(target, rest)

    def _modules_called(self, part: Part, source: Source, name: str) -> Iterator[str]:
        """The modules that ``name`` may stand for at the module level of ``part``."""
        for statement in source.statements:
            if name not in statement.binds:
                continue
            for node in statement.imports:
                for alias in node.names:
                    if isinstance(node, ast.Import) and name == (alias.asname or alias.name.partition(".")[0]):
                        yield alias.name if alias.asname else name
                    elif isinstance(node, ast.ImportFrom) and name == (alias.asname or alias.name):
                        base = self._absolute(part, node)
                        inside = f"{base}.{alias.name}"
                        if base and self._find(inside) and not self._binds(base, alias.name):
                            yield inside

    def _walk(self, module: str, rest: Sequence[str]) -> Iterator[tuple[str, str]]:
        """What ``module.a.b`` needs: the modules on the way, and the first name that is none."""
        if self._find(module) is None:
            return
        if not rest:
            yield module, EVERYTHING  # the module itself is handed on, to whoever may read any name of it
        elif self._find(f"{module}.{rest[0]}") and not self._binds(module, rest[0]):
            yield from self._walk(f"{module}.{rest[0]}", rest[1:]) if rest[1:] else [(f"{module}.{rest[0]}", "")]
        else:
            yield module, rest[0]

    def _stars(self, part: Part, source: Source) -> Iterator[str]:
        for statement in source.statements:
            for node in statement.imports if STAR in statement.binds else ():
                if isinstance(node, ast.ImportFrom) and (base := self._absolute(part, node)):
                    yield base

    def _absolute(self, part: Part, node: ast.ImportFrom) -> str:
        """The dotted name of the module that ``node`` imports from; empty where it leads out of the package."""
        if not node.level:
            return node.module or ""
        package = part.name.split(".") if part.is_package else part.name.split(".")[:-1]
        above = package[: len(package) - node.level + 1]
        return ".".join([*above, *([node.module] if node.module else [])]) if above else ""

    def _binds(self, module: str, name: str) -> bool:
        path = self._find(module)
        return path is not None and name in read_source(path).bound

    def _find(self, module: str) -> Path | None:
        if module in self.parts:
            return self.parts[module].path
        found = (root.find(module) for root in self.roots)
        return next((path for path in found if path is not None), None)

    def _part(self, module: str) -> Part | None:
        """The part for ``module``, with those of the packages that it lies in; None for what is not ours."""
        names = module.split(".")
        for end in range(1, len(names) + 1):
            name = ".".join(names[:end])
            path = self._find(name)
            if path is None:
                return None
            self.parts.setdefault(name, Part(name, path))
        return self.parts[module]
