"""Digests of entry functions, of cubins that the real assemblers make of a few lines of PTX."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.model import CodeDigest
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs

pytestmark = needs.ptxas
ENTRY = """
.visible .entry {name}(.param .u64 p) {{
.reg .b64 %rd<3>; .reg .f32 %f<3>;
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
ld.global.f32 %f1, [%rd2]; {operation}.f32 %f2, %f1, %f1; st.global.f32 [%rd2], %f2;
ret;
}}
"""


def ptx(**operations: str) -> str:
    entries = (ENTRY.format(name=name, operation=operation) for name, operation in operations.items())
    return ".version 8.3\n.target sm_90a\n.address_size 64\n" + "".join(entries)


def entries(tmp_path: Path, text: str, *flags: str, program: Path | None = None) -> dict[str, CodeDigest]:
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(text)
    program = program or Path(next(installed("ptxas")).program)
    subprocess.run([program, "-arch=sm_90a", *flags, "-o", cubin, source], check=True)
    return dict(read_cubin(cubin).entries)


@pytest.mark.parametrize(
    ("text", "flags"),
    [(ptx(a="mul", k="add", z="mul"), ()), (ptx(z="mul", k="add"), ()), (ptx(k="add"), ("-lineinfo",))],
)
def test_digest_of_an_entry_holds_no_symbol_s_number(tmp_path, text, flags):
    before, after = entries(tmp_path, ptx(k="add"))["k"], entries(tmp_path, text, *flags)["k"]
    assert before.sha256 == after.sha256
    assert entries(tmp_path, text.replace("add.f32", "mul.f32"), *flags)["k"].sha256 != before.sha256


def test_digest_of_an_entry_holds_no_version_of_the_toolkit(tmp_path):
    triton = find_spec("triton")
    bundled = triton and Path(triton.submodule_search_locations[0], "backends/nvidia/bin/ptxas-blackwell")
    if not bundled or not bundled.is_file():
        pytest.skip("no second ptxas: pip install 'pytest-compileiq[triton]'")
    one, other = entries(tmp_path, ptx(k="add"))["k"], entries(tmp_path, ptx(k="add"), program=bundled)["k"]
    assert one.sha256 == other.sha256
    assert not {*one.former[1:]} & {*other.former[1:]}, "both are of one toolkit"


REACHING = """
.const .align 4 .f32 mine[2] = {1.0, 2.0}; .const .align 4 .f32 theirs[2] = {3.0, 4.0};
.global .align 4 .f32 held[2] = {5.0, 6.0}; .global .align 4 .f32 lent[2] = {7.0, 8.0};
.visible .entry k(.param .u64 p) {
.reg .b64 %rd<3>; .reg .f32 %f<6>;
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
ld.const.f32 %f1, [mine+4]; ld.global.f32 %f2, [held+4]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd2], %f3;
ret;
}
.visible .entry other(.param .u64 p, .param .u32 i) {
.reg .b64 %rd<6>; .reg .f32 %f<6>; .reg .b32 %r<2>;
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1; ld.param.u32 %r1, [i]; mul.wide.u32 %rd3, %r1, 4;
mov.u64 %rd4, theirs; add.u64 %rd5, %rd4, %rd3;
ld.const.f32 %f1, [%rd5]; ld.global.f32 %f2, [lent]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd2], %f3;
ret;
}
"""


def test_relocatable_code_is_told_and_equal_where_the_code_is(tmp_path):
    whole = entries(tmp_path, ptx(k="add"))["k"]
    assert not read_cubin(tmp_path / "k.cubin").is_separate
    entries(tmp_path, ptx(k="add"), "-c")
    nvlink = Path(next(installed("ptxas")).program).with_name("nvlink")
    if not nvlink.is_file():
        pytest.skip("no nvlink beside ptxas")
    subprocess.run([nvlink, "-arch=sm_90a", tmp_path / "k.cubin", "-o", tmp_path / "l.cubin"], check=True)
    linked = read_cubin(tmp_path / "l.cubin")
    assert linked.is_separate
    differs = [name for name, value in whole.metrics.items() if linked.entries["k"].metrics[name] != value]
    assert (linked.entries["k"].sha256 == whole.sha256) is not bool(differs), differs


SHARED = """
.visible .entry s(.param .u64 p) {
.reg .b64 %rd<4>; .reg .b32 %r<2>; .reg .f32 %f<2>; .shared .align 4 .b8 held[256];
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, held; mov.u32 %r0, %tid.x;
mad.lo.u32 %r0, %r0, 4, %r1; ld.global.f32 %f1, [%rd2]; st.shared.f32 [%r0], %f1; bar.sync 0;
ld.shared.f32 %f0, [held+4]; st.global.f32 [%rd2], %f0;
ret;
}
"""


@pytest.mark.parametrize("flags", [("-c",), ("-c", "-lineinfo")])
def test_digest_of_relocatable_shared_memory_holds_nothing_of_the_rest_of_the_file(tmp_path, flags):
    alone = entries(tmp_path, ptx() + SHARED, "-c")["s"]
    behind = entries(tmp_path, ptx(a="mul", b="add") + SHARED, *flags)["s"]
    assert alone.sha256 == behind.sha256
    larger = entries(tmp_path, ptx() + SHARED.replace("held[256]", "held[512]"), "-c")["s"]
    assert larger.sha256 != alone.sha256


@pytest.mark.parametrize("flags", [(), ("-c",)])
def test_digest_of_an_entry_holds_only_the_data_it_reaches(tmp_path, flags):
    def changed(before: str, after: str) -> set[str]:
        other = entries(tmp_path, text.replace(before, after), *flags)
        return {name for name, code in entries(tmp_path, text, *flags).items() if code.sha256 != other[name].sha256}

    text = ptx() + REACHING
    assert changed("2.0}", "2.5}") >= {"k"}, "a constant that it reads"
    assert changed("6.0}", "6.5}") == {"k"}, "a global that it reads"
    assert changed("3.0,", "3.5,") == {"other"}, "a constant that it indexes"
    assert changed("7.0,", "7.5,") == {"other"}, "a global of the other alone"
    if not flags:  # in a linked file nothing says which constant is indexed
        assert changed("2.0}", "2.5}") == {"k", "other"}, "all constants of an entry that indexes one"
