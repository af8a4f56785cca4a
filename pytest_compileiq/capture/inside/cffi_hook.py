"""Watches what is called through cffi's in-line ABI mode, and names what cffi gives no way to watch.

``FFI().dlopen`` gives a library object of a Python class, from which a program takes functions. cffi's own type of
these has no ``__call__`` that could be replaced, so the library hands out stand-ins: to call one is to call the
function, and ``FFI``'s methods and other functions of cffi get the function itself. What C memory holds must be cffi's
own, so the libraries of an ``FFI`` whose declarations keep function pointers in fields or variables are left alone, and
named. In API mode and in out-of-line ABI mode the library is of a compiled type: these are named, too.
"""

from __future__ import annotations

import contextlib
import gc
import re
import struct
import sys
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from .values import Memory, Number, Refused, Unsized, contiguous, each_taken, spelt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .counters import Counters
    from .ctypes_hook import LibraryFunctions
    from .values import ForeignFunction, Taken

_DOOR = "cffi"
_TAKE_POINTERS = ("typeof", "sizeof", "cast", "new", "gc", "string", "buffer", "release")  # methods of FFI


def install(tally: Counters, functions: LibraryFunctions) -> None:
    """Watch cffi from its import on."""
    unwatched: list[str] = []

    def watch(api: Any) -> None:
        try:
            if is_recording:
                for name in ("new", "from_buffer", "cast", "addressof"):
                    setattr(api.FFI, name, _noting(name, getattr(api.FFI, name)))
            _watch_ffi(api, tally, functions, unwatched)
        except Exception as error:
            tally.fail(error)

    sys.meta_path.insert(0, AfterImport("cffi.api", watch))
    tally.refused.append(lambda: [*unwatched, *_compiled_libraries()])


class AfterImport:
    """A finder that has a module found by the others, and hands it on when it has been executed."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
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


class _StandIn:
    """A function of a cffi library, in all but its type."""

    __slots__ = ("_acf_cell", "_acf_function", "_acf_raw")

    def __init__(self, raw: Any, function: ForeignFunction | None) -> None:
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


def _watch_ffi(api: Any, tally: Counters, functions: LibraryFunctions, unwatched: list[str]) -> None:
    opens = api.FFI.dlopen

    def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        return self._acf_raw(*map(_raw_of, arguments), **named)

    as_its_own = {"__class__": property(lambda self: type(self._acf_raw))}  # for isinstance
    members = {"__slots__": (), "__call__": tally.watching(call, lambda _: None), **as_its_own}
    stand_in = type("StandIn", (_StandIn,), members)

    def dlopen(self: Any, name: Any, flags: int = 0) -> Any:
        library = opens(self, name, flags)
        try:
            if _keeps_function_pointers(self, api.model):
                unwatched.append(f"cffi's {name} is not watched: its declarations keep function pointers in C memory")
            else:
                _hand_out_stand_ins(self, library, stand_in, functions)
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


def _hand_out_stand_ins(ffi: Any, library: Any, stand_in: Any, functions: LibraryFunctions) -> None:
    stand_ins: dict[str, Any] = {}

    def get(self: Any, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if f"function {name}" not in ffi._parser._declarations:
            return value
        if name not in stand_ins:
            address = int(ffi.cast("uintptr_t", value))
            stand_ins[name] = stand_in(value, functions.at(address, name, _DOOR))
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
    backend = sys.modules.get("_cffi_backend")
    if backend is None:
        return []
    libraries = {repr(each) for each in gc.get_objects() if type(each) is backend.Lib}
    return [
        f"cffi's {library} is not watched: in API mode and in out-of-line ABI mode cffi calls compiled code"
        for library in sorted(libraries)
    ]


# To pointers to these bytes may be passed.
_OF_BYTES = frozenset(["char", "signed char", "unsigned char", "int8_t", "uint8_t", "void", "_Bool"])
_FLOATS = {"float": "f", "double": "d", "long double": "g"}
_UNSIZED = (
    "a pointer whose extent no object tells: pass what ffi.new(…) or ffi.from_buffer(…) made, or ffi.cast(…) of that, "
    "and no ffi.cast(…) of an address"
)
_EIGHT_BYTES = "l" if struct.calcsize("l") == 8 else "q"


def taken(called: Any, arguments: tuple[Any, ...]) -> list[Taken]:
    """What the arguments of a call hand over: numbers, and memory of the extents that their objects know."""
    return each_taken(arguments, _backend().typeof(called._acf_raw).args, _taken, "cname")


def returned(called: Any, result: Any) -> Number | None:
    """The number that a call returned; None for nothing, or an address without a type."""
    kind = _backend().typeof(called._acf_raw).result
    if kind.kind == "void" or kind.cname == "void *":
        return None
    if kind.kind not in ("primitive", "enum"):
        raise Refused("its result is no number")
    return _number(result, kind)


def _taken(argument: Any, kind: Any) -> Taken:
    if kind.kind in ("primitive", "enum"):
        return _number(argument, kind)
    if kind.kind == "function" or (kind.kind == "pointer" and kind.item.kind == "function"):
        raise Refused("a callback")
    if kind.kind != "pointer":
        raise Refused(f"a struct by value ({kind.cname})")
    if isinstance(argument, bytes) and kind.item.cname in _OF_BYTES:
        chars = _backend().new_array_type(_backend().new_pointer_type(_backend().new_primitive_type("char")), None)
        size = len(argument) + 1  # and the zero behind them
        return contiguous(_address_of(_backend().from_buffer(chars, argument)), size, "|u1", size)
    if not isinstance(argument, _backend()._CDataBase):
        raise Refused(f"of type {type(argument).__name__}, which cffi copies: pass ffi.new(…) or ffi.from_buffer(…)")
    if _backend().typeof(argument).kind == "function":
        raise Refused("a callback")
    address = _address_of(argument)
    return _of_pointer(argument, address, kind.item) if address else None


def _number(value: Any, kind: Any) -> Number:
    held = _backend().newp(_backend().new_pointer_type(kind), value)
    code = {**_FLOATS, "_Bool": "?", "char": "c"}.get(kind.cname)
    if code is None:
        if kind.kind != "enum" and "complex" in kind.cname:
            raise Refused(f"of type {kind.cname}")
        code = {1: "b", 2: "h", 4: "i", 8: _EIGHT_BYTES}[_backend().sizeof(kind)]
        code = code if int(_backend().cast(kind, -1)) < 0 else code.upper()
    return Number(code, bytes(_backend().buffer(held)))


def _of_pointer(pointer: Any, address: int, item: Any) -> Memory | Unsized:
    memory, own = _memory_at(pointer), _backend().typeof(pointer).item
    for kind in (item, memory.kind if memory else own):
        if any(part.kind in ("pointer", "function") for part in _parts(kind)):
            raise Refused(f"a {kind.cname}, which holds pointers")
    if memory is None:
        return Unsized(address, _UNSIZED, _dtype(item) or _dtype(own))
    dtype = _dtype(item) or _dtype(own) or _dtype(memory.kind) or "|u1"
    count = max(0, memory.start + memory.size - address) // int(dtype[2:])
    return contiguous(address, 0, dtype, count)._replace(start=memory.start, size=memory.size)


def _dtype(kind: Any) -> str | None:
    """The type of elements, as numpy spells it; None where they have none, as of void."""
    while kind.kind == "array":
        kind = kind.item
    if kind.kind == "void" or (kind.kind in ("struct", "union") and kind.fields is None):
        return None
    size = _backend().sizeof(kind)
    if kind.cname in _FLOATS:
        return spelt("f", size)
    if kind.kind not in ("primitive", "enum") or "complex" in kind.cname:
        return f"|V{size}" if size else None
    return spelt("i" if kind.cname != "char" and int(_backend().cast(kind, -1)) < 0 else "u", size)


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    if kind.kind == "array":
        yield from _parts(kind.item)
    for _, field in (kind.fields or ()) if kind.kind in ("struct", "union") else ():
        yield from _parts(field.type)


# The memory of ffi.new and ffi.from_buffer is as large as these say. A pointer that ffi.cast or ffi.addressof makes of
# such an object is to the same memory; cffi does not keep that, so it is kept here for as long as the pointer lives. Of
# any other, such as array + 1, those objects tell that are alive and that it points into.
_OWNING = re.compile(r" owning (\d+) bytes>$")


class KnownMemory(NamedTuple):
    """Memory of a known extent, in bytes, and the type of what it holds."""

    start: int
    size: int
    kind: Any


_Memories = dict[int, tuple[Any, KnownMemory]]  # by the id of an object: a weak reference to it, and what it is to

is_recording = False  # set by the recorder; keeping what a pointer is to costs its making some microseconds
_derived: _Memories = {}
_owned: _Memories = {}


def _backend() -> Any:
    """cffi's own module, which is there where anything of it is."""
    return sys.modules["_cffi_backend"]


def _address_of(held: Any) -> int:
    kind = _backend().typeof(held)
    if kind.kind in ("struct", "union"):
        held = _backend().rawaddressof(_backend().new_pointer_type(kind), held, 0)
    return int(_backend().cast(_backend().new_primitive_type("uintptr_t"), held))


def _memory_at(pointer: Any) -> KnownMemory | None:
    """What a pointer is to; None where no object tells."""
    told = _told(pointer)
    if told is not None:
        return told
    address = _address_of(pointer)
    living = (memory for made, memory in list(_owned.values()) if made() is not None)
    return next((memory for memory in living if memory.start <= address < memory.start + memory.size), None)


def _told(pointer: Any) -> KnownMemory | None:
    """What is kept of this object, or stands in its text, which alone has it."""
    for memories in (_derived, _owned):
        made, memory = memories.get(id(pointer), (None, None))
        if made is not None and made() is pointer:
            return memory
    shown, kind = repr(pointer), _backend().typeof(pointer)
    owning = _OWNING.search(shown)
    if owning is not None:
        held = kind.item if kind.kind in ("pointer", "array") else kind
        return KnownMemory(_address_of(pointer), int(owning[1]), held)
    if kind.kind == "array" and " buffer len " in shown:
        return KnownMemory(_address_of(pointer), _backend().sizeof(pointer), kind.item)
    return None


def _noting(name: str, method: Any) -> Callable[..., Any]:
    memories = _owned if name in ("new", "from_buffer") else _derived

    def making(self: Any, *arguments: Any, **named: Any) -> Any:
        made = method(self, *arguments, **named)
        with contextlib.suppress(Exception):  # of an object of the program's: its extent is not known
            memory, at = _memory_of(name, made, [*arguments, *named.values()]), id(made)
            if memory is not None:
                memories[at] = weakref.ref(made, lambda _: memories.pop(at, None)), memory
        return made

    return making


def _memory_of(name: str, made: Any, given: list[Any]) -> KnownMemory | None:
    kind = _backend().typeof(made)
    if name == "from_buffer" and kind.kind == "pointer":  # an array tells its length
        return KnownMemory(_address_of(made), memoryview(given[1]).nbytes, kind.item)
    if name == "cast":
        return _told(given[1]) if kind.kind == "pointer" and isinstance(given[1], _backend()._CDataBase) else None
    return _told(given[0] if name == "addressof" else made)
