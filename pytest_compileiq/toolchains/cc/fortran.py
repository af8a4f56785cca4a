"""gfortran as gcc with another front end: its modules stay in the build, and what they name is no source."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from pytest_compileiq.model import ControlsFile, Knobs
from pytest_compileiq.rules.build_key import NotModelled
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import NO_KNOBS, CcBuilder, Compilation, resolve_as
from pytest_compileiq.toolchains.cc.cacheable import CcBuild
from pytest_compileiq.toolchains.cc.includes import Read
from pytest_compileiq.toolchains.cc.marker import Cc, Fortran


def resolve(fortran: Fortran, place: Place) -> FortranBuilder:
    """Implements ``pytest_compileiq.toolchains.cc.marker.Fortran.resolve``."""
    others = {name: value for name, value in vars(fortran).items() if name != "sources"}
    cc = Cc(*fortran.sources, **others)
    return resolve_as(FortranBuilder, cc, replace(place, jobs=1))  # a source reads the modules of those before it


_VECTOR_MATHS = "math-vector-fortran.h"  # glibc's, which gfortran reads before every source


@dataclass(frozen=True)
class FortranBuilder(CcBuilder):
    """A ``pytest_compileiq.toolchains.base.Builder``. Its options and its line are gcc's, whose back end it shares."""

    @property
    def language(self) -> str:
        return "f95"

    def cacheable(self, controls: ControlsFile | None) -> CcBuild:
        raise NotModelled("builds by gfortran are not modelled")

    def _compilations(self, controls: ControlsFile | None, out_dir: Path) -> Sequence[Compilation]:
        flags = msgspec.structs.replace(self.flags, compile=(*self.flags.compile, "-J", str(out_dir)))
        return CcBuilder._compilations(replace(self, flags=flags), controls, out_dir)

    def _read(self, words: Sequence[str] = (), knobs: Knobs = NO_KNOBS) -> Read:
        # gfortran follows use too, so that the modules of earlier sources must be there to be found.
        with tempfile.TemporaryDirectory() as modules:
            read = CcBuilder._read(self, (*words, "-cpp", "-J", modules), knobs)
        others = {name for name in read.everything if Path(name).name == _VECTOR_MATHS}
        # A module that lies beside a library's sources is a source; one that was made here is not.
        others |= {name for name in read.everything if Path(name).parent == Path(modules)}
        return Read(read.everything - others, read.own - others)
