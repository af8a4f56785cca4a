"""torch's answers where a Triton kernel is defined, and how the slice of its file is loaded.

torch is the one package that Triton programs import and that compiling needs nothing of. It takes seconds to import,
may not be installed, and knows the GPU of this machine, not the one that is compiled for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.triton.definitions import ModuleSlice

TORCH = "torch"
_OF_A_GPU = "torch.cuda."
_NAME = "torch.cuda.get_device_name"
_PROPERTIES = "torch.cuda.get_device_properties"
WARP = 32  # threads, on every architecture so far


class Undecided(MarkerError):
    """What is compiled depends on something that the target does not decide."""

    def __init__(self, of: str) -> None:
        # Its __version__ takes torch alone.
        self.is_of_a_gpu = of.startswith(_OF_A_GPU) and not of.startswith(f"{_OF_A_GPU}__")
        if of.startswith((_NAME, f"{_PROPERTIES}(…).name")):
            mend = "which only a GPU can answer: name the one that it is for, as in Triton(…, device='NVIDIA H200')"
        elif self.is_of_a_gpu:
            mend = "which only a GPU can answer: ask for it in the function that launches the kernel"
        else:
            mend = "and torch is not installed here: pip install torch (its build for the CPU is enough)"
        super().__init__(f"the compiled code depends on {of}, {mend}")


class UndecidedAttribute(Undecided, AttributeError):
    """So does one of Python's own attributes; who asks whether there is one goes on without it."""


def answers_of(capability: tuple[int, int], device: str | None) -> dict[str, object]:
    """The target's own answers, whatever machine this is: a call or an attribute → its value."""
    major, minor = capability
    properties: dict[str, object] = {"warp_size": WARP, "major": major, "minor": minor}
    known: dict[str, object] = {
        "torch.cuda.is_available()": True,
        "torch.cuda.get_device_capability()": capability,
        "torch.version.hip": None,
    }
    if device is not None:
        known[f"{_NAME}()"] = properties["name"] = device
    return {**known, **{f"{_PROPERTIES}(…).{name}": value for name, value in properties.items()}}


class StandIn(ModuleType):
    """Whatever is read of an absent package: it can be named, called, subclassed and be a key, and decides nothing."""

    def __init__(self, name: str, known: Mapping[str, object]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._known = known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise (Undecided if name == "__version__" else UndecidedAttribute)(f"{self.__name__}.{name}")
        full = f"{self.__name__}.{name}"
        value = self._known[full] if full in self._known else StandIn(full, self._known)
        setattr(self, name, value)
        return value

    def __call__(self, *args: object, **kwargs: object) -> Any:
        call = f"{self.__name__}()"
        return self._known[call] if call in self._known else StandIn(f"{self.__name__}(…)", self._known)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __repr__(self) -> str:
        return self.__name__

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other or (not isinstance(other, StandIn) and self._decide())

    def _decide(self, *_: object) -> NoReturn:
        raise Undecided(self.__name__)

    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = __str__ = __format__ = _decide
    __int__ = __index__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _decide
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _decide
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __divmod__ = __rdivmod__ = _decide
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __and__ = __rand__ = __xor__ = __rxor__ = _decide
    __neg__ = __pos__ = __abs__ = __invert__ = __round__ = __trunc__ = __floor__ = __ceil__ = _decide

    def __or__(self, _other: object) -> StandIn:
        """A type of which an annotation names another beside it."""
        return self

    __ror__ = __or__


class _Finder(MetaPathFinder, Loader):
    """Imports stand-ins for torch and its modules."""

    def __init__(self, known: Mapping[str, object]) -> None:
        self._known = known
        self.imported: list[str] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == TORCH else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.imported.append(spec.name)
        return StandIn(spec.name, self._known)

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def stand_in(known: Mapping[str, object]) -> Iterator[list[str]]:
    """Meanwhile a stand-in takes torch's place, whether or not it is installed; gives the modules that it was for.

    Afterwards it is gone, with every module that got hold of it.
    """
    finder = _Finder(known)
    sys.meta_path.insert(0, finder)
    try:
        yield finder.imported
    finally:
        sys.meta_path.remove(finder)
        for name, module in list(sys.modules.items()):
            if any(isinstance(value, StandIn) for value in (module, *vars(module).values())):
                del sys.modules[name]


def is_installed() -> bool:
    """Whether torch itself can be asked."""
    return importlib.util.find_spec(TORCH) is not None


def answer_for_the_target(known: Mapping[str, object]) -> None:
    """Have torch itself answer as the target does, whatever GPU this machine has."""
    importlib.import_module(TORCH)
    properties = {}
    for question, value in known.items():
        owner, _, name = question.removesuffix("()").rpartition(".")
        if owner == f"{_PROPERTIES}(…)":
            properties[name] = value
        else:
            answer: object = (lambda *_, value=value, **__: value) if question.endswith("()") else value
            setattr(importlib.import_module(owner), name, answer)
    cuda = importlib.import_module(_OF_A_GPU.rstrip("."))
    cuda.get_device_properties = partial(_Properties, properties, cuda.get_device_properties)  # type: ignore[attr-defined]


class _Properties:
    """A device's: the target's, and for the others those of the GPU that this machine has."""

    def __init__(self, known: Mapping[str, object], ask: Callable[..., object], *which: object) -> None:
        self._known = known
        self._ask = partial(ask, *which)

    def __getattr__(self, name: str) -> object:
        return self._known[name] if name in self._known else getattr(self._ask(), name)


class _SliceFinder(MetaPathFinder, Loader):
    """Imports the planned modules, each as far as it is needed."""

    def __init__(self, parts: Mapping[str, ModuleSlice]) -> None:
        self._parts = parts

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        part = self._parts.get(name)
        return None if part is None else self.spec(part)

    def spec(self, part: ModuleSlice) -> ModuleSpec:
        if not part.path.suffix:
            spec = ModuleSpec(part.name, None, is_package=True)
            spec.submodule_search_locations = [str(part.path)]
            return spec
        inside = [str(part.path.parent)] if part.is_package else None
        found = importlib.util.spec_from_file_location(
            part.name, part.path, loader=self, submodule_search_locations=inside
        )
        if found is None:
            raise MarkerError(f"{part.path} is not a Python file")
        return found

    def create_module(self, spec: ModuleSpec) -> None:
        pass  # the usual module

    def exec_module(self, module: ModuleType) -> None:
        exec(self._parts[module.__name__].code(), vars(module))


def load_module(name: str, parts: Mapping[str, ModuleSlice]) -> ModuleType:
    """The module ``name`` of ``parts``, as far as it is needed; all of them are executed anew."""
    for part in parts:
        sys.modules.pop(part, None)
    finder = _SliceFinder(parts)
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
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self._capability

    @property
    def utils(self) -> TargetDriver:
        return self

    def get_device_properties(self, _device: int = 0) -> Mapping[str, int]:
        return _TargetProperties(warpSize=WARP)

    def get_active_torch_device(self) -> Any:
        torch: Any = importlib.import_module(TORCH)
        return torch.device("cuda", 0)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _of_a_gpu(name)


class _TargetProperties(dict[str, int]):
    def __missing__(self, name: str) -> NoReturn:
        raise _of_a_gpu(name)


def _of_a_gpu(name: str) -> MarkerError:
    return MarkerError(
        f"the kernel's file asks Triton's driver for {name}, which only a GPU can answer, where the kernel is "
        "defined: move that into the function that launches it"
    )
