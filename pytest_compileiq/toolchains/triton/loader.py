"""Executes what a kernel needs of its files, in the process that compiles it.

``definitions`` says which statements these are. torch is the one package that Triton programs import and that compiling
needs nothing of. Where it is not installed, a stand-in takes its place; it refuses whatever would decide on what is
compiled.
"""

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

TORCH = "torch"


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


def load_module(name: str, parts: Mapping[str, Part], capability: tuple[int, int]) -> tuple[ModuleType, list[str]]:
    """The module ``name`` of ``parts``, as far as it is needed, and what took no package's place, in sentences.

    Args:
        capability: that of the architecture compiled for, which a stand-in for torch answers with.
    """
    notes: list[str] = []
    if importlib.util.find_spec(TORCH) is None:
        sys.meta_path.insert(0, _TorchFinder(capability, notes))
    finder = SliceFinder(parts)
    sys.meta_path.insert(0, finder)
    # A file may have the name of an installed module, and a name that no import statement can hold.
    spec = finder.spec(parts[name])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if spec.parent and spec.parent != name:
        importlib.import_module(spec.parent)
    finder.exec_module(module)
    return module, notes


# ── torch where there is none ────────────────────────────────────────────────────────────────────────────────────


class StandIn(ModuleType):
    """Whatever is read of an absent package: it can be named, called, subclassed and be a key, and decides nothing."""

    def __init__(self, name: str, known: Mapping[str, object]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._known = known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(self._said(f"{self.__name__}.{name}"))
        full = f"{self.__name__}.{name}"
        value = self._known[full] if full in self._known else StandIn(full, self._known)
        setattr(self, name, value)
        return value

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """What is known of the call, else another stand-in."""
        called = self._known.get(f"{self.__name__}()", self)
        return StandIn(f"{self.__name__}(…)", self._known) if called is self else called

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __repr__(self) -> str:
        return self.__name__

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other or (not isinstance(other, StandIn) and self._decide())

    def _decide(self, *_: object) -> NoReturn:
        raise MarkerError(self._said(f"what is compiled depends on {self.__name__}"))

    def _said(self, what: str) -> str:
        return f"{what}, and torch is not installed here: pip install torch (its build for the CPU is enough)"

    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _decide
    __int__ = __index__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _decide


class _TorchFinder(MetaPathFinder, Loader):
    def __init__(self, capability: tuple[int, int], notes: list[str]) -> None:
        self._notes = notes
        # What the target itself decides, whatever machine this is.
        self._known = {
            "torch.cuda.is_available()": True,
            "torch.cuda.get_device_capability()": capability,
            "torch.version.hip": None,
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != TORCH:
            return None
        if not self._notes:
            self._notes.append(
                "torch is not installed here, so a stand-in took its place: for CUDA, of this architecture, and for "
                "nothing else that a kernel's file may ask"
            )
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name, self._known)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""


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
        torch: Any = importlib.import_module(TORCH)
        return torch.device("cuda", 0)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MarkerError(
            f"the kernel's file asks Triton's driver for {name}, which only a GPU can answer, where the kernel is "
            "defined: move that into the function that launches it"
        )
