"""Where a kernel is written: a file, or a module of the project or of an installed package."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.rules.fingerprint import chain_of
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.flags import relative_to_rootdir
from pytest_compileiq.toolchains.environment import named_in, set_here
from pytest_compileiq.toolchains.inputs import is_installed
from pytest_compileiq.toolchains.triton.definitions import (
    FOREIGN,
    ImportRoot,
    ModuleSlice,
    find_module,
    is_file,
    needed,
)
from pytest_compileiq.toolchains.triton.statements import read_source

_EXPECTED = "expected 'file.py::function' or 'package.module:function'"


@dataclass(frozen=True)
class KernelSource:
    """A kernel's definition."""

    label: str  # as it is recorded: kernels/k.py::scale, or package.ops.norm:rms_norm
    module: str  # the name that its module has when it is executed
    path: Path
    function: str
    roots: tuple[ImportRoot, ...]  # where its imports are looked for; the first own of them belong to the project
    own: int
    place: Place
    device: str | None = None  # the name of the GPU that its file is told

    def parts(self) -> dict[str, ModuleSlice]:
        return needed(self.module, self.path, self.function, self.roots)

    def sources(self) -> Mapping[str, str]:
        """Path → SHA-256 of each of ``files``.

        Those of an installed package are named from the directory that it is imported from: ``package/ops/norm.py``.
        """
        return {self._name(path): sha256_hex(path.read_bytes()) for path in sorted(self.files())}

    def files(self) -> frozenset[Path]:
        """The files of all executed statements."""
        return frozenset(part.path for part in self.parts().values() if part.statements or part.given) | {self.path}

    def variables(self) -> dict[str, str]:
        """Name → value of the environment variables that are set here and that the needed statements name."""
        return set_here(named_in(text for part in self.parts().values() for text in part.texts()))

    @property
    def is_jit_alone(self) -> bool:
        """Whether the file itself defines the kernel, and no decorator but ``@triton.jit`` has a say in its launch."""
        nodes = [each.node for each in read_source(self.path).statements if self.function in each.binds]
        if len(nodes) != 1 or not isinstance(nodes[0], ast.FunctionDef):
            return False
        called = (node.func if isinstance(node, ast.Call) else node for node in nodes[0].decorator_list)
        return [chain_of(node) for node in called] in ([("triton", "jit")], [("jit",)])

    def _name(self, path: Path) -> str:
        for root in self.roots[self.own :]:
            directory = root.directory  # an environment may lie inside the project
            is_foreign = is_installed(directory.as_posix()) or not directory.is_relative_to(
                self.place.rootdir.resolve()
            )
            if is_foreign and path.is_relative_to(directory):
                return path.relative_to(directory).as_posix()
        return relative_to_rootdir(path, self.place)


def find_kernel(kernel: object, place: Place) -> KernelSource:
    """The kernel that the marker names.

    Raises:
        MarkerError: it names no file or module that is there.
        EnvironmentFault: the package is not installed.
    """
    text = str(kernel)
    file, is_file, function = text.partition("::")
    module, _, member = text.partition(":")
    if not (function if is_file else member).isidentifier():
        raise MarkerError(f"Triton({kernel!r}): {_EXPECTED}")
    directories = dict.fromkeys((place.test_dir, place.rootdir, place.rootdir / "src"))
    own = tuple(ImportRoot(directory.resolve()) for directory in directories)
    return _in_file(file, function, own, place) if is_file else _in_module(module, member, own, place)


def _in_file(file: str, function: str, own: tuple[ImportRoot, ...], place: Place) -> KernelSource:
    path = place.test_dir / file
    if not path.is_file():
        raise MarkerError(f"Triton({f'{file}::{function}'!r}): no such file: {path}")
    label = f"{relative_to_rootdir(Path(file), place)}::{function}"
    path = path.resolve()
    module = _dotted(path, own) or path.stem.replace(".", "_")  # a dot would lie between a package and its module
    return KernelSource(label, module, path, function, own, len(own), place)


def _dotted(path: Path, own: tuple[ImportRoot, ...]) -> str | None:
    """The name of a module that needs its package: it imports relatively, or would hide the module of its own name."""
    if not read_source(path).imports_relatively and path.stem not in FOREIGN:
        return None
    directory = path.parent
    while (directory / "__init__.py").is_file():
        directory = directory.parent
    names = path.relative_to(directory).with_suffix("").parts
    is_importable = any(root.directory == directory for root in own) and all(name.isidentifier() for name in names)
    return ".".join(names) if len(names) > 1 and is_importable else None


def _in_module(module: str, function: str, own: tuple[ImportRoot, ...], place: Place) -> KernelSource:
    kernel = f"{module}:{function}"
    top = module.partition(".")[0]
    if module.endswith(".py") or not all(name.isidentifier() for name in module.split(".")):
        raise MarkerError(f"Triton({kernel!r}): {_EXPECTED}")
    is_own = any(is_file(find_module(own, name)) for name in (top, module))
    roots = own if is_own else (*own, *_installed(top, kernel, find_module(own, top) is not None))
    path = find_module(roots, module)
    if path is None or not is_file(path):
        where = ", ".join(str(root.directory) for root in roots)
        raise MarkerError(f"Triton({kernel!r}): there is no module {module} in {where}")
    return KernelSource(kernel, module, path, function, roots, len(own), place)


def _installed(top: str, kernel: str, is_optional: bool) -> list[ImportRoot]:
    """Where an installed package is imported from; none of it is executed."""
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # a module without a spec, such as __main__
        spec = None
    places = [*(spec.submodule_search_locations or filter(None, [spec.origin]))] if spec else []
    if not places and not is_optional:
        raise EnvironmentFault(f"Triton({kernel!r}): there is no package {top} here: install it where pytest runs")
    return [ImportRoot(Path(place).resolve().parent, top) for place in places]
