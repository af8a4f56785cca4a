"""Committed options that the compiler's own space held when they were found, and holds no more.

Such a space depends on the sources and the flags: where a source names errno it is without ``-fno-math-errno``, and
behind ``-O3`` without ``-O2``. An edit of these makes an artifact out of date, and nobody changed its controls.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.spaces import parts_of, space_of
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Knobs
from pytest_compileiq.toolchains.option_classes import classes_of, option_list


@dataclass(frozen=True)
class Moved:
    """Options that the space no longer holds.

    Attributes:
        said: the options by class.
        lets_in: the ``space=`` that holds them; empty where none does, as for a level below the baseline's.
    """

    said: str
    lets_in: str


def moved(benchmark: TunedBenchmark, knobs: Knobs) -> Moved | None:
    """What of ``knobs`` the compiler's own space no longer holds; None where something else refuses them.

    That is the test's own space or its ``where=``, or an option that is not in the compiler's list: then either the
    test declares another space, or somebody changed the controls.
    """
    parts, compiler = parts_of(benchmark.spec.space), benchmark.builder.compiler
    known = option_list(compiler.name, compiler.command)
    held = {gene.name: gene.values for gene in benchmark.declared_space.knob_genes}
    refused = {name: value for name, value in knobs.items() if value not in held.get(name, ())}
    if known is None or not refused or not all(isinstance(part, str) for part in parts):
        return None
    if not all(known.knows(f"{name}{value}") for name, value in refused.items()):
        return None
    classed = classes_of(compiler.name, compiler.command, "options", refused).options
    said = "; ".join(f"{', '.join(options)} ({own})" for own, options in classed.items())
    wider = [*parts, *(own for own in classed if own not in parts)]
    try:
        lets_in = space_of(wider, benchmark.builder, benchmark.nodeid).why_not(knobs) is None
    except MarkerError:  # the compiler has no option of such a class
        lets_in = False
    return Moved(said, f"space={wider}" if lets_in else "")
