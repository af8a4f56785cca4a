"""Watches what is called through cffi's in-line ABI mode, and names what cffi gives no way to watch.

``FFI().dlopen`` gives a library object of a Python class, from which a program takes functions. cffi's own type of
these has no ``__call__`` that could be replaced, so the library hands out stand-ins: to call one is to call the
function, and ``FFI``'s methods and other functions of cffi get the function itself. What C memory holds must be cffi's
own, so the libraries of an ``FFI`` whose declarations keep function pointers in fields or variables are left alone, and
named. In API mode and in out-of-line ABI mode the library is of a compiled type: these are named, too.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import cffi_memory

if TYPE_CHECKING:
    from .ctypes_door import Functions
    from .tally import Function, Tally

_DOOR = "cffi"
_TAKE_POINTERS = ("typeof", "sizeof", "cast", "new", "gc", "string", "buffer", "release")  # methods of FFI


def install(tally: Tally, functions: Functions) -> None:
    """Watch cffi from its import on."""
    unwatched: list[str] = []

    def watch(api: Any) -> None:
        try:
            cffi_memory.watch(api.FFI)
            _watch_ffi(api, _making_stand_ins(tally, functions), unwatched, tally)
        except Exception as error:
            tally.fail(error)

    sys.meta_path.insert(0, AfterImport("cffi.api", watch))
    tally.refusing(lambda: [*unwatched, *_compiled_libraries()])


class AfterImport:
    """A finder that has a module found by the others, and hands it on when it has been executed."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's own spec; None for all modules but one."""
        if name != self._name:
            return None
        found = (each.find_spec(name, path, target) for each in sys.meta_path if each is not self)
        spec: Any = next(filter(None, found), None)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self._then(module)

            spec.loader.exec_module = exec_module
        return spec


def _making_stand_ins(tally: Tally, functions: Functions) -> Any:
    def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        return self._acf_raw(*map(_raw_of, arguments), **named)

    def stand_in(ffi: Any, raw: Any, name: str) -> Any:
        return kind(raw, functions.at(int(ffi.cast("uintptr_t", raw)), name, _DOOR))

    as_its_own = {"__class__": property(lambda self: type(self._acf_raw))}  # for isinstance
    members = {"__slots__": (), "__call__": tally.watching(call, lambda _: None), **as_its_own}
    kind = type("StandIn", (_StandIn,), members)
    return stand_in


class _StandIn:
    """A function of a cffi library, in all but its type."""

    __slots__ = ("_acf_cell", "_acf_function", "_acf_raw")

    def __init__(self, raw: Any, function: Function | None) -> None:
        self._acf_raw = raw
        self._acf_function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._acf_raw, name)

    def __repr__(self) -> str:
        return repr(self._acf_raw)

    def __eq__(self, other: object) -> bool:
        return bool(self._acf_raw == _raw_of(other))

    def __hash__(self) -> int:
        return hash(self._acf_raw)

    def __bool__(self) -> bool:
        return bool(self._acf_raw)


def _raw_of(given: Any) -> Any:
    return given._acf_raw if issubclass(type(given), _StandIn) else given


def _watch_ffi(api: Any, stand_in: Any, unwatched: list[str], tally: Tally) -> None:
    opens = api.FFI.dlopen

    def dlopen(self: Any, name: Any, flags: int = 0) -> Any:
        library = opens(self, name, flags)
        try:
            if _keeps_function_pointers(self, api.model):
                unwatched.append(f"cffi's {name} is not watched: its declarations keep function pointers in C memory")
            else:
                _hand_out_stand_ins(self, library, stand_in)
        except Exception as error:
            tally.fail(error)
        return library

    api.FFI.dlopen = dlopen
    for name in _TAKE_POINTERS:
        if hasattr(api.FFI, name):
            setattr(api.FFI, name, _of_functions_themselves(getattr(api.FFI, name)))


def _of_functions_themselves(method: Any) -> Any:
    def unwrapping(self: Any, *arguments: Any, **named: Any) -> Any:
        return method(self, *map(_raw_of, arguments), **{name: _raw_of(value) for name, value in named.items()})

    return unwrapping


def _hand_out_stand_ins(ffi: Any, library: Any, stand_in: Any) -> None:
    stand_ins: dict[str, Any] = {}

    def get(self: Any, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if f"function {name}" not in ffi._parser._declarations:
            return value
        if name not in stand_ins:
            stand_ins[name] = stand_in(ffi, value, name)
        return stand_ins[name]

    its_own_class: Any = type(library)
    its_own_class.__getattribute__ = get


def _keeps_function_pointers(ffi: Any, model: Any) -> bool:
    def keeps(kind: Any) -> bool:
        parts = [getattr(kind, "item", None), *(getattr(kind, "fldtypes", None) or ())]
        return isinstance(kind, model.FunctionPtrType) or any(keeps(part) for part in parts if part is not None)

    declared = ffi._parser._declarations.items()
    held = (model.StructOrUnion, model.ArrayType)
    return any(keeps(kind) for key, (kind, _) in declared if key.startswith("variable ") or isinstance(kind, held))


def _compiled_libraries() -> list[str]:
    """What the program has open of cffi's compiled type, in a sentence each."""
    backend = sys.modules.get("_cffi_backend")
    if backend is None:
        return []
    libraries = {repr(each) for each in gc.get_objects() if type(each) is backend.Lib}
    return [
        f"cffi's {library} is not watched: in API mode and in out-of-line ABI mode cffi calls compiled code"
        for library in sorted(libraries)
    ]
