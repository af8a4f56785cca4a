"""A ptxas of another line than CompileIQ's spaces are for, and spaces and metrics that there are not: each says what to do.

The other ptxas is the real one behind a script that tells another version.
"""

from __future__ import annotations

import re
import shutil

import pytest

from pytest_compileiq.artifact import Controls
from pytest_compileiq.cli.doctor import examine
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.store.metadata import controls_file_name
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.nvidia import tools
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs
from tests.projects import Project, make_project
from tests.unit.artifacts import make_artifact

pytestmark = needs.ptxas
LATER = """\
#!/bin/sh
[ "$1" = --version ] && echo "Cuda compilation tools, release 13.4, V13.4.92" && exit
exec "{ptxas}" "$@"
"""
PTX = """\
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .b64 %rd<3>; .reg .f32 %f<3>;
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
ld.global.f32 %f1, [%rd2]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd2], %f2;
ret;
}
"""
TEST_PY = """\
import pytest
from pytest_compileiq import Ptxas, PtxasSearchSpace, maximize, minimize

@pytest.mark.tune(Ptxas("k.ptx", arch="sm_90a"), objectives=[minimize("registers")], space="options")
def test_k(acf):
    acf.build()
"""
PIN = "pip install 'pytest-compileiq[cuda]' 'nvidia-cuda-nvcc==13.3.*'"


@pytest.fixture
def ptx(tmp_path) -> Project:
    project = make_project(tmp_path / "project", {"k.ptx": PTX, "test_k.py": TEST_PY})
    later = project.root / "later" / "bin" / "ptxas"
    later.parent.mkdir(parents=True)
    later.write_text(LATER.format(ptxas=next(installed("ptxas")).program))
    later.chmod(0o755)
    return project


def test_an_acf_s_space_that_the_compiler_here_cannot_take_names_the_pin_and_the_other_space(ptx):
    ptx.edit("test_k.py", 'arch="sm_90a"', 'arch="sm_90a", compiler="later/bin/ptxas"')
    ptx.edit("test_k.py", ', space="options"', "")
    output = ptx.pytest("--tune", code=1)
    remedy = f"{PIN}, which compiler='later/bin/ptxas' has to name, or search space='options'"
    assert f"is for ptxas13.3, and this kernel is compiled by ptxas13.4: {remedy}" in output


def test_after_an_upgrade_the_remedy_is_the_pin_where_nothing_can_be_searched_and_tuning_where_it_can(ptx):
    assert "whether another checkout" not in ptx.pytest("--tune", "--tune-budget=2", code=0)
    ptx.edit("test_k.py", 'arch="sm_90a"', 'arch="sm_90a", compiler="later/bin/ptxas"')
    said = "STALE: the artifact is for sm_90a-ptxas13.3, and the compiler here makes sm_90a-ptxas13.4"
    output = ptx.pytest(code=1)
    assert said in output and "run: pytest --tune test_k.py::test_k" in output and PIN not in output
    ptx.edit("test_k.py", ', space="options"', "")
    output = ptx.pytest(code=1)
    assert said in output and PIN in output and "run: pytest --tune test_k.py::test_k" not in output


@pytest.mark.parametrize("lenient", [False, True])
def test_acfs_of_another_line_are_stale_in_ptxas_words_explained_once(ptx, lenient):
    """ACFs that were proven with ptxas 13.3 need no space of 13.4 to be judged."""
    later = ptx.root / "later" / "bin" / "ptxas"
    refusal = "ptxas fatal   : Invalid compiler controls file"
    later.write_text(
        later.read_text().replace("exec", f'case "$*" in *apply-controls*) echo "{refusal}"; exit 255; esac\nexec')
    )
    ptx.edit("test_k.py", 'arch="sm_90a"', 'arch="sm_90a", compiler="later/bin/ptxas"')
    ptx.edit("test_k.py", ', space="options"', "")
    text = (ptx.root / "test_k.py").read_text()
    (ptx.root / "test_j.py").write_text(text.replace("test_k", "test_j"))
    target, acf = "sm_90a-ptxas13.3", b"an ACF"
    for name in ("j", "k"):
        controls = Controls(
            kind="blob",
            file=controls_file_name(target, acf),
            sha256=sha256_hex(acf),
            size_bytes=len(acf),
        )
        artifact = make_artifact(benchmark=f"test_{name}.py::test_{name}", target=target, controls=controls)
        Store(ptx.root / "acf").write(name, artifact, controls=[acf], samples=[])
    output = ptx.pytest(*(["-o", "acf_stale=warn"] if lenient else []), code=0 if lenient else 1)
    for name in ("j", "k"):
        assert re.search(rf"{name} .*STALE.*compiler here makes sm_90a-ptxas13.4; .*{re.escape(refusal)}", output)
    assert output.count(PIN) == 1 if lenient else PIN in output
    assert "2 stale" in output and "INTERNALERROR" not in output


@needs.compileiq
def test_doctor_does_not_promise_a_search_of_acfs_for_another_line(ptx, monkeypatch):
    def works() -> dict[str, tuple[str, str]]:
        return {one.name: (one.found, one.remedy) for one in examine() if one.section == "works"}

    assert works()["ACFs: search with CompileIQ"] == ("yes", "")
    monkeypatch.setattr(tools, "_extra_directories", list)
    monkeypatch.setenv("CUDA_HOME", str(ptx.root / "later"))
    found, remedy = works()["ACFs: search with CompileIQ"]
    assert (found, remedy) == ("", f"CompileIQ's search spaces: {PIN}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            'space=PtxasSearchSpace(variant="attention")',
            "has no ptxas 13.3 space 'attention': of ptxas it has 13.3, 'default' and 'att'",
        ),
        ('space=PtxasSearchSpace(version="13.4")', "has no ptxas 13.4 space 'default': of ptxas it has 13.3"),
        (
            'objectives=[minimize("register")]',
            "objective 'register' is no metric (did you mean 'registers'?): a build has code_bytes, instructions, "
            "registers, spill_bytes; compile_time, energy, runtime are timed; any other",
        ),
        ('objectives=[maximize("run_time")]', "(did you mean 'runtime'?)"),
    ],
)
def test_a_space_or_a_metric_that_there_is_not_names_those_there_are(ptx, arguments, said):
    name = arguments.partition("=")[0]
    old = {"space": 'space="options"', "objectives": 'objectives=[minimize("registers")]'}[name]
    ptx.edit("test_k.py", old, arguments)
    assert said in ptx.pytest("--tune", code=1)


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have a GPU, which runs the body")
def test_a_metric_of_the_body_s_own_that_no_machine_here_can_record_names_those_of_a_build(ptx):
    ptx.edit("test_k.py", '"registers"', '"gigabytes"')
    output = ptx.pytest("--tune", code=1)
    assert "so nothing can record 'gigabytes' (a build has code_bytes, instructions, registers, spill_bytes; " in output
