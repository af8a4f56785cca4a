"""Digests of a benchmark's parameters by value: numbers, texts, containers, arrays, objects of these, functions.

Nothing of a value is executed: no ``__repr__``, ``__eq__``, ``__getattr__`` or property of its class. Instances are
read through the descriptors that the interpreter made for their class.
"""

from __future__ import annotations

import array
import collections
import ctypes
import decimal
import functools
import hashlib
import itertools
import os
import re
import struct
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

from msgspec import Struct, field

from pytest_compileiq.benchmark.digest import Closure, free_variables, unwrapped
from pytest_compileiq.errors import Signal
from pytest_compileiq.model import Workload

_MOST_ITEMS = 200_000  # a second
_MOST_BYTES = 1 << 28  # a second
_DEEPEST = 100
_WORD = struct.calcsize("P")
_OF_TORCH = ("dtype", "device", "layout", "memory_format")  # written in C, and all that they are is in their texts
_NUMBERS = frozenset("?cbBhHiIlLqQfdg")  # ctypes' codes of what is no address


def digests_of(
    given: Mapping[str, object], workloads: Sequence[Workload], rootdir: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Digest what a test is given, by name; and why those that are empty have no digest.

    Of the workloads' values those count whose texts, which are digested already, leave something out.
    """
    shortened = {
        f"workload {workload.name}: {name}": value
        for workload in workloads
        for name, value in workload.values.items()
        if "..." in repr(value)
    }
    digests, refused = {}, {}
    for name, value in sorted({**given, **shortened}.items()):
        try:
            digests[name] = digest_of_value(value, rootdir)
        except NoValue as reason:
            digests[name], refused[name] = "", str(reason)
    return digests, refused


class NoValue(Signal):
    """What a parameter holds that has no value; the message continues after the parameter's name: ``holds …``."""


def digest_of_value(value: object, rootdir: Path) -> str:
    """SHA-256 of ``value``: equal in every process and every clone of the project at ``rootdir``."""
    closure = Closure(rootdir)
    digester = _Digester(closure, (str(rootdir), str(closure.rootdir)))
    digester.add(value)
    return digester.finished()


class _Digester(Struct):
    """Feeds a value to a hash, each piece behind its kind and its length."""

    closure: Closure  # definitions of the project that the value's functions and classes reach
    rootdirs: tuple[str, ...]  # the project's directory as it was given, and without links
    _sha256: Any = field(default_factory=hashlib.sha256)
    _items: int = 0
    _bytes: int = 0
    _depth: int = 0

    def finished(self) -> str:
        """The digest of all that was added."""
        for name, sha in sorted((place.partition("::")[2], sha) for place, sha in self.closure.parts.items()):
            self._put(name, sha)
        return str(self._sha256.hexdigest())

    def add(self, value: object) -> None:
        """Take in one value."""
        self._items += 1
        self._depth += 1
        if self._items > _MOST_ITEMS:
            raise NoValue(f"holds more than {_MOST_ITEMS} values")
        if self._depth > _DEEPEST:
            raise NoValue(f"is nested more than {_DEEPEST} deep, or holds itself")
        kind = type(value)
        if (text := _TEXTS.get(kind)) is not None:
            self._put(kind.__name__, self._without_rootdir(text(value)))
        elif (parts := _PARTS.get(kind)) is not None:
            self._add_all(kind.__name__, parts(value))
        elif kind in (set, frozenset):
            self._put(kind.__name__, *sorted(self._apart(item) for item in value))  # type: ignore[attr-defined]
        elif not (self._add_array(value) or self._add_named(value)):
            self._add_instance(value, kind)
        self._depth -= 1

    def _put(self, kind: str, *texts: str | bytes) -> None:
        for text in (kind, *texts):
            data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
            self._expect_room(len(data))
            self._bytes += len(data)
            self._sha256.update(b"%d:" % len(data))
            self._sha256.update(data)

    def _expect_room(self, size: int) -> None:
        if self._bytes + size > _MOST_BYTES:
            raise NoValue(f"has more than {_MOST_BYTES >> 20} MiB")

    def _add_all(self, kind: str, values: Iterable[object]) -> None:
        self._put(kind, "(")
        for value in values:
            self.add(value)
        self._put(")")

    def _apart(self, value: object) -> str:
        """The digest of one item of a set, which has no order."""
        whole, self._sha256 = self._sha256, hashlib.sha256()
        self.add(value)
        own, self._sha256 = self._sha256, whole
        return str(own.hexdigest())

    def _without_rootdir(self, text: str | bytes) -> str | bytes:
        """A path into the project is the same in every clone."""
        for rootdir in self.rootdirs:
            if isinstance(text, str) and (text == rootdir or text.startswith(rootdir + os.sep)):
                return f"rootdir{text[len(rootdir) :]}"
        return text

    # ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _add_array(self, value: Any) -> bool:
        numpy = sys.modules.get("numpy")
        bases = _mro(type(value))
        if numpy is not None and type(value) in (numpy.ndarray, numpy.memmap):
            self._expect_room(value.nbytes)
            self._put("array", repr(value.dtype), repr(value.shape))
            if value.dtype.hasobject:
                self._add_all("objects", value.ravel().tolist())
            else:
                self._put("content", value.tobytes())
        elif numpy is not None and (numpy.generic in bases or numpy.dtype in bases) and _is_builtin(type(value)):
            self._put(type(value).__name__, repr(getattr(value, "dtype", value)))
            self._put("content", value.tobytes() if numpy.generic in bases else "")
        elif (torch := sys.modules.get("torch")) is not None and type(value) in map(vars(torch).get, _OF_TORCH):
            self._put(type(value).__name__, repr(value))
        elif ctypes.Array in bases or ctypes._SimpleCData in bases:
            self._add_memory(value)
        else:
            return False
        return True

    def _add_memory(self, value: Any) -> None:
        """The bytes of a ``ctypes`` number or of an array of such."""
        element, sizes = type(value), []
        while ctypes.Array in _mro(element):
            sizes.append(element._length_)
            element = element._type_
        if ctypes._SimpleCData not in _mro(element) or element._type_ not in _NUMBERS:
            raise NoValue(f"holds {_shown(element)}, which is an address or may hold one")
        self._expect_room(size := ctypes.sizeof(value))
        self._put("memory", _shown(element), repr(sizes), ctypes.string_at(ctypes.addressof(value), size))

    # ── functions and classes ────────────────────────────────────────────────────────────────────────────────────

    def _add_named(self, value: Any) -> bool:
        """A function, method, partial or class: by its source where it is the project's, else by its name."""
        if type(value) is functools.partial:
            self._add_all("partial", (value.func, value.args, value.keywords))
        elif type(value) is types.MethodType:
            self._add_all("method", (value.__func__, value.__self__))
        elif type(value) is types.FunctionType or type in _mro(type(value)):
            self._add_definition(value)
        elif name := _foreign_name(value):
            self._put("foreign", name)
        else:
            return False
        return True

    def _add_definition(self, value: Any) -> None:
        is_own = unwrapped(value) is value and not (isinstance(value, type) and "<locals>" in value.__qualname__)
        key = self.closure.add_object(value) if is_own else None
        if key is None and (name := _foreign_name(value)):
            self._put("foreign", name)
        elif key is None or key not in self.closure.parts:
            raise NoValue(f"holds the {'class' if isinstance(value, type) else 'function'} {value.__qualname__}, "
                          "which has no definition of its own in the project")  # fmt: skip
        else:
            self._put("definition", key.partition("::")[2])  # its file may move
            if type(value) is types.FunctionType:
                around = free_variables(value).values()
                self._add_all("given", (value.__defaults__, value.__kwdefaults__, *around))

    # ── instances ────────────────────────────────────────────────────────────────────────────────────────────────

    def _add_instance(self, value: object, kind: type) -> None:
        """An instance of a class that Python made: its class, its value as the built-in base, its attributes."""
        own = list(itertools.takewhile(lambda each: not _is_builtin(each) and each is not Enum, _mro(kind)))
        base: Any = next(each for each in _mro(kind) if each in _BASES or _is_builtin(each))
        if not own or base not in _BASES or any(map(_hides_state, own)):
            raise NoValue(f"holds {_shown(kind)}, which has no value that can be digested")
        for each in own:
            self._add_definition(each)
        if base is not object:
            self.add(_BASES[base](value))
        attributes = _attributes(value, _mro(kind))
        names = _names(attributes, _mro(kind))
        self._add_all("attributes", itertools.chain.from_iterable((name, attributes[name]) for name in names))


def _attributes(value: object, mro: tuple[type, ...]) -> dict[str, object]:
    """The instance's attributes as they are stored, its slots too."""
    found: dict[str, object] = {}
    for each in mro:
        for name, descriptor in _vars(each).items():
            if type(descriptor) is types.MemberDescriptorType and name not in found:
                try:
                    found[name] = descriptor.__get__(value)
                except AttributeError:
                    continue  # a slot without a value
    holder = next((at for each in mro if type(at := _vars(each).get("__dict__")) is types.GetSetDescriptorType), None)
    return {**found, **(holder.__get__(value) if holder is not None else {})}


def _names(attributes: Mapping[str, object], mro: tuple[type, ...]) -> list[str]:
    """Those that are the value: a dataclass's fields and an enumeration's value; of other objects all."""
    if Enum in mro:
        return ["_name_", "_value_"]
    fields = next((found for each in mro if type(found := _vars(each).get("__dataclass_fields__")) is dict), attributes)
    return sorted(name for name in attributes if name in fields)


def _hides_state(kind: type) -> bool:
    """Whether instances have memory beyond their base's that no attribute shows, as those of types written in C do."""
    shown = [
        name
        for name, held in _vars(kind).items()
        if type(held) is types.MemberDescriptorType or name in ("__dict__", "__weakref__")
    ]
    base = kind.__base__ or object
    return kind.__basicsize__ - base.__basicsize__ > _WORD * len(shown)


def _is_builtin(kind: type) -> bool:
    """Whether the type is no heap type: https://docs.python.org/3/c-api/typeobj.html#c.Py_TPFLAGS_HEAPTYPE."""
    return not kind.__flags__ & (1 << 9)


def _mro(kind: type) -> tuple[type, ...]:
    return type.__dict__["__mro__"].__get__(kind)  # type: ignore[no-any-return]


def _vars(kind: type) -> Mapping[str, Any]:
    return type.__dict__["__dict__"].__get__(kind)  # type: ignore[no-any-return]


def _foreign_name(value: Any) -> str | None:
    """``numpy:float32``, where a module of this process holds just this object under that name."""
    if type not in _mro(type(value)) and not _is_builtin(type(value)):
        return None
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    module = getattr(value, "__module__", None) or type(value).__module__
    if type(name) is not str or type(module) is not str or module not in sys.modules:
        return None
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = (_vars(found) if type in _mro(type(found)) else getattr(found, "__dict__", {})).get(part)
    return f"{module}:{name}" if found is value else None


def _shown(kind: type) -> str:
    return f"a {kind.__module__}.{kind.__qualname__}".replace("a builtins.", "a ")[:200]


# What makes all of a value, by its exact type.
_TEXTS: dict[type, Callable[[Any], str | bytes]] = {
    int: lambda value: f"{value:x}",  # in linear time
    bytes: lambda value: value,
    bytearray: bytes,
    array.array: lambda value: value.typecode.encode() + value.tobytes(),
    str: lambda value: value,
}
_TEXTS |= dict.fromkeys((PosixPath, PurePosixPath, WindowsPath, PureWindowsPath), str)
_TEXTS |= dict.fromkeys((type(None), bool, float, complex, type(...), decimal.Decimal), repr)
_PARTS: dict[type, Callable[[Any], Iterable[object]]] = {
    tuple: iter,
    list: iter,
    collections.deque: iter,
    re.Pattern: lambda value: (value.flags, value.pattern),
    collections.defaultdict: lambda value: (value.default_factory, *itertools.chain.from_iterable(value.items())),
    types.SimpleNamespace: lambda value: itertools.chain.from_iterable(sorted(vars(value).items())),
}
_PARTS |= dict.fromkeys((slice, range), lambda value: (value.start, value.stop, value.step))
_PARTS |= dict.fromkeys((dict, collections.OrderedDict), lambda value: itertools.chain.from_iterable(value.items()))
# A subclass's instance as one of the built-in type itself, without what the subclass overrides.
_BASES: dict[type, Callable[[Any], object]] = {
    int: int.__index__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    object: lambda value: None,
}
