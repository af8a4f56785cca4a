"""What pytest gives to a test besides its fixtures' code: parameters, and what its class and setup functions hold."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_compileiq.benchmark.digest import Closure, unwrapped
from pytest_compileiq.rules.fingerprint import chains_in

_SETUPS = ("setup_class", "setup_method", "setup_module", "setup_function")


def given_to(item: pytest.Function, rootdir: Path) -> dict[str, object]:
    """By name: the value of each ``parameter n``, and the source of each ``attribute N``.

    Attributes are those of the test's class that its body reads, also through methods and properties, and its setup
    functions. They go by their source, since a value may be one that tests collect in.
    """
    params: Mapping[str, object] = item.callspec.params if hasattr(item, "callspec") else {}
    given: dict[str, object] = {f"parameter {name}": value for name, value in params.items()}
    for name, closure in _attributes_read(item, rootdir):
        if closure.parts:
            sources = sorted((place.partition("::")[2].rpartition(".")[2], sha) for place, sha in closure.parts.items())
            given[f"attribute {name}"] = tuple(sources)
    return given


def _attributes_read(item: pytest.Function, rootdir: Path) -> Iterator[tuple[str, Closure]]:
    classes = item.cls.__mro__ if item.cls is not None else ()
    names, seen = [*_SETUPS, *_own_names(item.function, rootdir)], set()
    while names:
        if (name := names.pop()) in seen:
            continue
        seen.add(name)
        closure, owner = Closure(rootdir), next((each for each in classes if name in vars(each)), None)
        if owner is not None:
            closure.add_attribute(owner, name)
            names += _own_names(vars(owner)[name], rootdir)
        elif name in _SETUPS:
            closure.add_object(vars(item.module).get(name))
        yield name, closure


def _own_names(held: object, rootdir: Path) -> list[str]:
    """The names that a method or property reads of ``self``."""
    plain = held.__func__ if isinstance(held, staticmethod | classmethod) else held
    plain = unwrapped(plain.fget if isinstance(plain, property) else plain)
    if not isinstance(plain, types.FunctionType) or not plain.__code__.co_argcount:
        return []
    node = Closure(rootdir).definition(plain)
    own = plain.__code__.co_varnames[0]
    return [chain[1] for chain in chains_in(node) if len(chain) > 1 and chain[0] == own] if node is not None else []
