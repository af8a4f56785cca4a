"""Executes what a kernel needs of its files, in the process that compiles it: ``definitions`` says which statements."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.triton.definitions import Part


class SliceFinder(MetaPathFinder, Loader):
    """Imports the planned modules, each as far as it is needed."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts = parts

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a planned module; None for any other."""
        part = self._parts.get(name)
        return None if part is None else self.spec(part)

    def spec(self, part: Part) -> ModuleSpec:
        """The spec of ``part``."""
        if not part.path.suffix:
            spec = ModuleSpec(part.name, None, is_package=True)
            spec.submodule_search_locations = [str(part.path)]
            return spec
        inside = [str(part.path.parent)] if part.is_package else None
        spec_of_file = importlib.util.spec_from_file_location(
            part.name, part.path, loader=self, submodule_search_locations=inside
        )
        if spec_of_file is None:
            raise MarkerError(f"{part.path} is not a Python file")
        return spec_of_file

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual module."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the statements that are needed."""
        exec(self._parts[module.__name__].code(), vars(module))


def load_module(name: str, parts: Mapping[str, Part]) -> ModuleType:
    """The module ``name`` of ``parts``, as far as it is needed; all of them are executed anew."""
    for part in parts:
        sys.modules.pop(part, None)
    finder = SliceFinder(parts)
    sys.meta_path.insert(0, finder)
    # A file may have the name of an installed module, and a name that no import statement can hold.
    spec = finder.spec(parts[name])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if spec.parent and spec.parent != name:
        importlib.import_module(spec.parent)
    finder.exec_module(module)
    return module


# ── the GPU that is compiled for ─────────────────────────────────────────────────────────────────────────────────


class TargetDriver:
    """Triton's driver of a GPU that need not be here: a kernel's file may ask which one it is compiled for."""

    def __init__(self, target: Any, capability: tuple[int, int]) -> None:
        self._target = target
        self._capability = capability

    def get_current_target(self) -> Any:
        """The target that is compiled for."""
        return self._target

    def get_current_device(self) -> int:
        """The first device."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """That of the target."""
        return self._capability

    def get_active_torch_device(self) -> Any:
        """torch's name of the device."""
        torch: Any = importlib.import_module("torch")
        return torch.device("cuda", 0)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MarkerError(
            f"the kernel's file asks Triton's driver for {name}, which only a GPU can answer, where the kernel is "
            "defined: move that into the function that launches it"
        )
