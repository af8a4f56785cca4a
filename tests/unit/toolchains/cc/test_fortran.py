"""The real gfortran."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq import Fortran
from pytest_compileiq.errors import BuildError
from pytest_compileiq.testing import ToolchainConformance
from pytest_compileiq.toolchains.base import Place
from tests.files import write_files

pytestmark = pytest.mark.skipif(shutil.which("gfortran") is None, reason="no gfortran: apt-get install gfortran")

MODULE = "module consts\n  use iso_c_binding\n  real(c_double), parameter :: two = 2.0d0\nend module\n"
KERNEL = """
subroutine twice(n, x) bind(c)
  use consts
  integer(c_int), value :: n
  real(c_double), intent(inout) :: x(n)
  include 'body.inc'
end subroutine
"""
FILES = {"kernels/consts.f90": MODULE, "kernels/twice.f90": KERNEL, "kernels/body.inc": "  x = x * two\n"}


class TestGfortran(ToolchainConformance):
    files = FILES
    test_dir = "kernels"
    knobs = ({"-O": 3}, {"-O": 1, "-funroll-loops": ""})

    def make(self) -> Fortran:
        return Fortran("consts.f90", "twice.f90", flags="-O2 -march=x86-64")


def test_modules_stay_in_the_build_and_included_text_is_a_source(tmp_path: Path) -> None:
    root = write_files(tmp_path, FILES)
    builder = Fortran("consts.f90", "twice.f90").resolve(Place(root / "kernels", root))
    assert builder.sources().keys() == FILES.keys()
    built = builder.build(None, tmp_path / "out", timeout_s=60)
    assert not [*tmp_path.glob("*.mod"), *tmp_path.glob("kernels/*.mod")]
    values = (ctypes.c_double * 3)(1, 2, 3)
    builder.load(built, set()).twice(3, values)
    assert list(values) == [2, 4, 6]


def test_a_module_beside_a_librarys_sources_is_a_source(tmp_path: Path) -> None:
    uses_it = KERNEL.replace("  use consts\n", "  use far\n")
    root = write_files(tmp_path, FILES | {"lib/far.f90": MODULE.replace("consts", "far"), "kernels/twice.f90": uses_it})
    subprocess.run(["gfortran", "-c", "far.f90"], cwd=root / "lib", check=True)
    builder = Fortran("consts.f90", "twice.f90", flags="-O2 -I../lib").resolve(Place(root / "kernels", root))
    assert builder.sources().keys() == {*FILES, "lib/far.mod"}


def test_the_reason_is_the_compilers_own(tmp_path: Path) -> None:
    root = write_files(tmp_path, FILES)
    with pytest.raises(BuildError, match=r"gcc cannot read the sources: Fatal Error: Cannot open module file .consts"):
        Fortran("twice.f90").resolve(Place(root / "kernels", root)).sources()
