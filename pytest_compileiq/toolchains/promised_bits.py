"""Whether controls have to keep the baseline's bits: their classes tell, and what compiling finds of licences."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_compileiq.errors import BuildError, EnvironmentFault, StoreError
from pytest_compileiq.model import LONGEST_TEXT, ControlsFile, Licence
from pytest_compileiq.rules.classes import promises_bits
from pytest_compileiq.toolchains.base import Builder
from pytest_compileiq.toolchains.option_classes import classes_of


def licences_or_unknown(builder: Builder) -> tuple[Licence, ...]:
    """What the baseline and the sources let a compiler change; where that cannot be found out, everything."""
    try:
        return builder.licences()
    except (BuildError, EnvironmentFault, StoreError) as error:  # a finished search is worth more than this answer
        reason = " ".join(str(error).split())[:LONGEST_TEXT]
        return (Licence("unknown", "opaque", reason, "a compiler that answers"),)


def has_to_keep_bits(builder: Builder, controls: ControlsFile, licences: Sequence[Licence]) -> bool:
    """Whether a kernel with ``controls`` has to give the baseline's bits, ``licences`` being those of ``builder``."""
    compiler = builder.compiler
    classed = classes_of(compiler.name, compiler.command, controls.kind, controls.knobs)
    return not classed.tests_own and promises_bits(classed.own, licences)
