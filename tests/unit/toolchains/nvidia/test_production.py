"""A CUDA source as production compiles it: the flags of its recorded command, without what the plugin gives itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia.nvcc import nvcc_command
from tests.files import write_files

CMAKE = (
    "nvcc -forward-unknown-to-host-compiler -DFACTOR=3 --options-file includes.rsp -O3 -DNDEBUG "
    "--generate-code=arch=compute_90a,code=[compute_90a,sm_90a] --generate-code=arch=compute_80,code=[compute_80,sm_80] "
    "-lineinfo -Xptxas -v -Xptxas=--apply-controls=/ci/p/acf/k.acf -Werror all-warnings -std=c++17 -MD -MT k.o -MF k.d "
    "-x cu -c /ci/p/src/k.cu -o k.o"
)


@pytest.fixture
def commands(tmp_path):
    """Where a database lies whose project was built in another place, ``/ci/p``."""

    def commands(*recorded: str) -> Place:
        entries = [{"directory": "/ci/p/build", "command": each, "file": "/ci/p/src/k.cu"} for each in recorded]
        write_files(
            tmp_path,
            {
                "src/k.cu": "",
                "build/includes.rsp": "-I/ci/p/include -isystem=/ci/p/third --options-file more.rsp -optf /ci/p/acf/k.acf",
                "build/more.rsp": "-I ../more '--options-file=/ci/my project/acf/k.acf'",
                "build/compile_commands.json": json.dumps(entries),
            },
        )
        return Place(tmp_path, tmp_path)

    return commands


def test_flags_are_relocated_and_outputs_stages_architectures_and_controls_are_left_out(commands):
    taken = nvcc_command("build", "src/k.cu", ["sm_80", "sm_90a"], commands(CMAKE))
    assert taken.compiler == "nvcc"
    assert taken.flags == (
        "-forward-unknown-to-host-compiler", "-DFACTOR=3", "-Iinclude", "-isystem=third", "-Imore", "-O3", "-DNDEBUG",
        "-lineinfo", "-Xptxas=-v", "-std=c++17",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("nvcc -arch=sm_90a -dc -o k.o k.cu", ("-rdc=true",)),
        ("ccache nvcc -gencode arch=compute_90a,code=sm_90a -D A -I . -c k.cu", ("-DA", "-Ibuild")),
        (
            "nvcc -arch sm_90a --system-include=/opt/x -ccbin /usr/bin/g++ -c k.cu",
            ("-isystem=/opt/x", "-ccbin=/usr/bin/g++"),
        ),
        ("nvcc -arch=sm_90a --output-file=k.o --keep --compile k.cu -DROOT=/ci/p/data", ("-DROOT=data",)),
    ],
)
def test_options_are_taken_in_every_spelling(commands, command, flags):
    assert nvcc_command("build", "src/k.cu", ["sm_90a"], commands(command)).flags == flags


def test_what_production_compiles_for_is_told_in_the_order_of_capabilities(commands):
    command = (
        "nvcc -gencode=arch=compute_100,code=sm_100 --generate-code=arch=compute_90,code=[compute_90,sm_90] -c k.cu"
    )
    assert nvcc_command("build", "src/k.cu", (), commands(command)).architectures == ("sm_90", "sm_100")


def test_an_architecture_that_production_does_not_compile_for_is_refused(commands):
    with pytest.raises(MarkerError, match=r"src/k\.cu: its command compiles for sm_80, sm_90a, and not for sm_75"):
        nvcc_command("build", "src/k.cu", ["sm_75"], commands(CMAKE))


@pytest.mark.parametrize("named", ["", "-arch=native", "-arch=compute_90"])
def test_a_command_that_leaves_its_architecture_open_is_refused(commands, named):
    with pytest.raises(MarkerError, match=r"src/k\.cu: its command names no real architecture"):
        nvcc_command("build", "src/k.cu", ["sm_90"], commands(f"nvcc {named} -c k.cu"))


def test_two_ways_to_compile_a_source_are_told_apart_by_a_text(commands):
    two = commands(CMAKE, CMAKE.replace("-DFACTOR=3", "-DFACTOR=4").replace("-o k.o", "-o other.o"))
    with pytest.raises(MarkerError, match=r"it is compiled in 2 ways: .*-DFACTOR=3.*like='build#"):
        nvcc_command("build", "src/k.cu", ["sm_80"], two)
    assert "-DFACTOR=4" in nvcc_command("build#other.o", "src/k.cu", ["sm_80"], two).flags


def test_a_source_that_is_not_built_is_named_with_the_nearest(commands):
    place = commands(CMAKE)
    (Path(place.test_dir) / "src/kk.cu").touch()
    with pytest.raises(MarkerError, match=r"no command for src/kk\.cu \(did you mean 'src/k\.cu'\?\)"):
        nvcc_command("build", "src/kk.cu", ["sm_80"], place)
