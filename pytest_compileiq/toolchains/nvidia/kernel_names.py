"""Which kernel of a file a name means, as people call it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_compileiq.errors import Signal
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.machine_code.names import declaration, readable, without_parameters

_NEEDLESS_BLANK = re.compile(r"(?<!\w) | (?!\w)")
_TEMPLATE_ARGUMENTS = re.compile(r"<.*", re.DOTALL)


class NoSuchKernel(Signal):
    """A name means no kernel, or several; the message goes on behind ``k.cubin has``."""


def kernel_named(name: str, symbols: Mapping[str, str]) -> str:
    """The symbol of the kernel that ``name`` means.

    Args:
        name: the build's name or the symbol; else a C++ name, blanks in it no matter: with parameters, without, or
            without template arguments and namespaces too.
        symbols: what the build calls each kernel → its symbol in the file.

    Raises:
        NoSuchKernel: no kernel has the name, or several have.
    """
    if name in symbols:
        return symbols[name]
    for names_of in (_given_names, _whole_names, _short_names):
        meant = {symbol: key for key, symbol in symbols.items() if tight(name) in map(tight, names_of(key, symbol))}
        if len(meant) == 1:
            return next(iter(meant))
        if meant:
            several = ", ".join(sorted(map(_shown, meant.values())))
            raise NoSuchKernel(f"several kernels {name!r}: {several}")
    shown = sorted(map(_shown, symbols))
    raise NoSuchKernel(f"no kernel {name!r}{did_you_mean(name, shown)}; its kernels: {', '.join(shown) or 'none'}")


def template_of(name: str) -> str:
    """``name`` without its template arguments."""
    return _TEMPLATE_ARGUMENTS.sub("", name)


def tight(name: str) -> str:
    """``name`` without the blanks that C++ does not need."""
    return _NEEDLESS_BLANK.sub("", " ".join(name.split()))


def _given_names(key: str, symbol: str) -> set[str]:
    return {key, symbol}


def _whole_names(_: str, symbol: str) -> set[str]:
    return {declaration(symbol), without_parameters(declaration(symbol)), readable(symbol)}


def _short_names(key: str, symbol: str) -> set[str]:
    plain = {template_of(name) for name in (key, without_parameters(declaration(symbol)))}
    return plain | {name.rpartition("::")[2] for name in plain}


def _shown(key: str) -> str:
    return key if declaration(key) == key else readable(key)
