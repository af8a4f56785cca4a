"""A cubin is read or refused in one sentence, whatever its bytes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia.tools import find_tool
from pytest_compileiq.toolchains.steps import ask
from tests import needs

PTX = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .b64 %rd<3>; .reg .f32 %f<3>;
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
ld.global.f32 %f1, [%rd2]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd2], %f2;
ret;
}
"""


@cache
def real_cubin(home: Path) -> bytes:
    (home / "k.ptx").write_text(PTX)
    ptxas = find_tool("ptxas", None, Place(home, home)).program
    assert ask([ptxas, "-arch=sm_90a", "k.ptx", "-o", "k.cubin"], cwd=home).returncode == 0
    return (home / "k.cubin").read_bytes()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cubin")


@needs.ptxas
@settings(max_examples=150)
@given(at=st.integers(0, 6000), junk=st.binary(min_size=1, max_size=24), cut=st.one_of(st.none(), st.integers(0, 6000)))
def test_a_scribbled_or_torn_cubin_is_read_or_refused(home, at, junk, cut):
    data = real_cubin(home)
    at %= len(data)
    path = home / "scribbled"
    path.write_bytes((data[:at] + junk + data[at + len(junk) :])[:cut])
    try:
        read_cubin(path)
    except BuildError as error:
        assert "\n" not in str(error)
        assert "not a cubin" in str(error)
