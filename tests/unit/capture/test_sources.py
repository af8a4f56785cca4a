"""Debug information of real libraries: the source and the options of a function's own file."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pytest_compileiq.capture.toolchain.sources import _GNU, built_from
from tests.files import write_files

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc: apt-get install gcc")


@pytest.fixture
def library(tmp_path):
    write_files(
        tmp_path, {"a.c": "int first(int n) { return n; }\n", "deep/b.c": "int second(int n) { return 2 * n; }\n"}
    )

    def link(*options: str):
        for source, flags in (("a.c", ["-O1"]), ("deep/b.c", ["-O3", "-funroll-loops"])):
            output = source.replace("/", "-").replace(".c", ".o")
            subprocess.run(["gcc", *flags, *options, "-fPIC", "-c", source, "-o", output], cwd=tmp_path, check=True)
        subprocess.run(["gcc", "-shared", "a.o", "deep-b.o", "-o", "both.so"], cwd=tmp_path, check=True)
        return tmp_path / "both.so"

    return link


def test_each_function_has_the_source_and_the_options_of_its_own_file(library, tmp_path):
    both = library("-g", "-march=x86-64")
    second = built_from(both, "second")
    assert (second.source, second.compiler) == (tmp_path / "deep/b.c", "gcc")
    first = built_from(both, "first")  # a distribution's gcc may add options of its own to both
    assert set(second.flags.split()) - set(first.flags.split()) == {"-O3", "-funroll-loops"}
    assert {"-O1", "-march=x86-64"} <= set(first.flags.split())
    assert not {"-g", "-fPIC", "-mtune=generic"} & set(first.flags.split())


def test_headers_and_variables_are_told_too(tmp_path):
    write_files(
        tmp_path,
        {
            "include/deep/twice.h": "extern int level;\nstatic inline int twice(int n) { return 2 * n; }\n",
            "a.c": '#include "deep/twice.h"\nint first(int n) { return twice(n) + level; }\n',
            "b.c": '#include "deep/twice.h"\nint level = 3;\n',
        },
    )
    command = ["gcc", "-g", "-O1", "-fPIC", "-shared", "-Iinclude", "a.c", "b.c", "-o", "both.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    first = built_from(tmp_path / "both.so", "first")
    assert first.directory == tmp_path
    assert tmp_path / "include" in first.include_directories
    assert not any(str(path).startswith("/usr") for path in first.include_directories)
    assert built_from(tmp_path / "both.so", "level").source == tmp_path / "b.c"


def test_what_does_not_tell_is_none(library, tmp_path):
    bare = library()
    assert built_from(bare, "first") is None
    assert built_from(bare, "third") is None
    assert built_from(tmp_path / "a.c", "first") is None
    assert built_from(tmp_path / "gone.so", "first") is None
    whole = library("-g").read_bytes()
    for cut in range(0, len(whole), 997):
        (tmp_path / "cut.so").write_bytes(whole[:cut])
        built_from(tmp_path / "cut.so", "first")  # whatever it says of a library that is cut off, it raises nothing


@pytest.mark.parametrize(
    ("producer", "language", "options"),
    [
        ("GNU C17 12.2.0 -mtune=generic -O2", "C", "-mtune=generic -O2"),
        ("GNU C99 10.2.1 20210130 (Red Hat 10.2.1-11) -msse3 -O2", "C", "-msse3 -O2"),
        ("GNU C++14 8.3.0", "C++", None),
    ],
)
def test_a_vendor_s_version_is_no_option(producer, language, options):
    told = _GNU.fullmatch(producer)
    assert (told["language"], told["options"]) == (language, options)
