"""A built shared library, loaded into this process, that remembers which of its functions were taken."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.names import demangled, matching, meant
from pytest_compileiq.model import BuildResult

_POPULATE_READ, _POPULATE_WRITE = 22, 23  # of madvise(2), since Linux 5.14
_NUMBERS = frozenset("?bBhHiIlLqQfdg")  # ctypes' codes of simple types without characters and addresses


class SharedLibrary(ctypes.CDLL):
    """A ``ctypes.CDLL`` that notes the functions taken in ``used``, and whose calls can be watched or emptied.

    A C++ function goes by its symbol, or as its source spells it: ``library["ns::scale"]``, with its parameters where
    there are several, ``library["ns::scale(float*, int)"]``; in Fortran it is ``library["module::procedure"]``.

    A call that is neither watched nor emptied costs nothing extra.
    """

    used: set[str]

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._taken: list[Any] = []

    def __getitem__(self, name_or_ordinal: Any) -> Any:
        symbol = name_or_ordinal
        try:
            function = self._function(symbol)
        except AttributeError:
            symbol = _symbol(Path(self._name).name, str(name_or_ordinal), self._defined())
            function = self._function(symbol)
        self.used.add(str(symbol))
        self._taken.append(function)
        return function

    def _function(self, symbol: Any) -> Any:
        return super().__getitem__(symbol)

    def _defined(self) -> frozenset[str]:
        from pytest_compileiq.machine_code.symbols import defined_functions  # heavy: elftools

        return defined_functions(Path(self._name))

    def watch(self, around: Around) -> None:
        """Hand every call of the library's functions to ``around`` instead, until ``unwatch``."""
        plain: Any = self._FuncPtr.__call__

        def handed(function: Any, *arguments: Any, **named: Any) -> Any:
            return around(function.__name__, arguments, lambda: plain(function, *arguments, **named))

        setattr(self._FuncPtr, "__call__", handed)  # noqa: B010 - each library has its own class

    def populate(self) -> None:
        """Have all pages of the library in memory, as far as the kernel of this machine does that on demand."""
        advise = ctypes.CDLL(None).madvise
        for start, end, writable in _mappings(self._name):
            how = _POPULATE_WRITE if writable else _POPULATE_READ
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), how)

    def unwatch(self) -> None:
        """Call the functions directly again, at full speed."""
        delattr(self._FuncPtr, "__call__")

    @contextmanager
    def emptied(self, names: Collection[str]) -> Iterator[None]:
        """Redirect the functions of these names to one that does nothing and returns 0.

        Raises:
            ValueError: one of them returns an address, which the caller would follow.
            AttributeError: there is no such function in this process.
        """
        functions = [function for function in self._taken if function.__name__ in names]
        returned = {function.restype for function in functions} - {None}
        if any(getattr(kind, "_type_", "") not in _NUMBERS for kind in returned):
            raise ValueError(f"{self._name}: a function of it returns something else than a number")
        nothing = ctypes.cast(ctypes.CDLL(None).fegetround, ctypes.c_void_p).value  # 0: round to nearest
        places = [ctypes.c_void_p.from_buffer(function) for function in functions]
        before = [place.value for place in places]
        try:
            for place in places:
                place.value = nothing
            yield
        finally:
            for place, value in zip(places, before, strict=True):
                place.value = value


class TabledLibrary(SharedLibrary):
    """One that exports nothing but a table of its functions' addresses."""

    addresses: Mapping[str, int]

    def _function(self, symbol: Any) -> Any:
        try:
            address = self.addresses[symbol]
        except KeyError:
            raise AttributeError(f"{Path(self._name).name} has no function {symbol!r}") from None
        function: Any = self._FuncPtr(address)
        function.__name__ = symbol
        return function

    def _defined(self) -> frozenset[str]:
        return frozenset(self.addresses)


Around = Callable[[str, tuple[Any, ...], Callable[[], Any]], Any]
"""Takes a watched call: the function's name, its arguments, and a function that makes the call."""

_announced: ContextVar[Callable[[SharedLibrary], object]] = ContextVar("announced")


@contextmanager
def announcing(to: Callable[[SharedLibrary], object]) -> Iterator[None]:
    """Call ``to`` with every library that is loaded inside the ``with`` block."""
    token = _announced.set(to)
    try:
        yield
    finally:
        _announced.reset(token)


def load_library(built: BuildResult, used: set[str]) -> SharedLibrary:
    """Load ``built``; the functions taken from it are added to ``used``.

    Raises:
        BuildError: it cannot be loaded here.
    """
    return _loaded(SharedLibrary, built, used)


def load_by_table(built: BuildResult, used: set[str], table: str) -> TabledLibrary:
    """As ``load_library``, of a library whose symbol ``table`` holds the addresses of its entries, sorted by name."""
    library = _loaded(TabledLibrary, built, used)
    names = sorted(built.code)
    held = (ctypes.c_void_p * len(names)).in_dll(library, table)
    library.addresses = {name: address for name, address in zip(names, held, strict=True) if address is not None}
    return library


_Library = TypeVar("_Library", bound=SharedLibrary)


def _loaded(kind: type[_Library], built: BuildResult, used: set[str]) -> _Library:
    try:
        library = kind(str(built.path))
    except OSError as error:
        _, _, lacking = str(error).partition("undefined symbol: ")
        remedy = "name the source that defines it in the marker, or its library in flags=, as in -L../build -lNAME"
        why = f"undefined symbol {lacking.partition(',')[0]}: {remedy}" if lacking else str(error)
        raise BuildError(f"the built library cannot be loaded: {why}", kind="compile", log=built.log) from error
    library.used = used
    if announce := _announced.get(None):
        announce(library)
    return library


def _symbol(library: str, name: str, functions: Collection[str]) -> str:
    """Which of a library's ``functions`` its source calls ``name``; AttributeError for none or several."""
    defined = {symbol for symbol in functions if "." not in symbol}  # no clones for other processors
    fitting = matching(name, defined)
    several = {demangled(symbol): symbol for symbol in fitting}  # a constructor has several symbols
    if len(several) > 1:
        raise AttributeError(f"{library} has several functions {name!r}: take one of {', '.join(several)}")
    if not fitting:
        raise AttributeError(f"{library} has no function {name!r}{meant(name, defined)}")
    return fitting[0]


def _mappings(path: str) -> Iterator[tuple[int, int, bool]]:
    """Start, end and writability of what this process maps of ``path``, with the zeroed memory that follows it."""
    before = 0
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        where, permissions, _, _, inode, *name = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in where.split("-"))
        if name == [path] or (start == before and inode == "0" and not name):
            before = end
            yield start, end, "w" in permissions
