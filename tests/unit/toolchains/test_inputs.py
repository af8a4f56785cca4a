"""What compilers read: rules of ``-M``, and files that packages install."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.toolchains.inputs import is_installed, located, portable, preprocessed, prerequisites


def compiler(folder: Path, body: str) -> str:
    """A script to which the file for the rules is ``$3``."""
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_names_are_read_over_lines_and_without_their_quoting():
    assert prerequisites("k.o: k.c a\\ b.h \\\n c\\#.h $$d.h\nl.o: l.c\n") == {"k.c", "a b.h", "c#.h", "$d.h", "l.c"}


def test_what_is_printed_beside_the_rules_names_no_file(tmp_path):
    argv = [compiler(tmp_path, 'echo "k.c: warning: not with -Os"; echo "k.o: k.c k.h" >"$3"'), "-M"]
    finished, read = preprocessed(argv, tmp_path)
    assert "warning" in finished.output and read == {"k.c", "k.h"}


def test_a_compiler_that_refuses_has_read_nothing(tmp_path):
    finished, read = preprocessed([compiler(tmp_path, 'echo "k.o: k.c" >"$3"; exit 1'), "-M"], tmp_path)
    assert finished.returncode == 1 and read == set()


def test_a_wrapper_that_writes_no_rules_is_a_sentence(tmp_path):
    with pytest.raises(EnvironmentFault, match="cc writes no file for -MF: it is a wrapper that leaves options out"):
        preprocessed([compiler(tmp_path, 'echo "k.o: k.c"'), "-M"], tmp_path)


TORCH = "site-packages/torch/include"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/opt/env/lib/python3.12/{TORCH}/ATen/ATen.h", True),
        (f".venv/lib/python3.12/{TORCH}/ATen/ATen.h", True),
        ("/usr/lib/python3/dist-packages/numpy/core/include/numpy/npy_math.h", True),
        ("/root/.pyenv/versions/3.13.0/include/python3.13t/cpython/object.h", True),
        ("kernels/include/python.h", False),
        ("kernels/include/python3/a.h", False),
        ("kernels/my-site-packages/a.h", False),
        ("/usr/include/x86_64-linux-gnu/bits/types.h", False),
    ],
)
def test_what_is_installed_is_told_by_its_path(path: str, expected: bool) -> None:
    assert is_installed(path) is expected


@pytest.mark.parametrize(
    ("word", "recorded"),
    [
        (f"-I/opt/env/lib/python3.12/{TORCH}", f"-I.../{TORCH}"),
        (f"-I.venv/lib/python3.12/{TORCH}", f"-I.../{TORCH}"),
        (f"-isystem=/opt/an env/lib/python3.12/{TORCH}", f"-isystem=.../{TORCH}"),
        (f"-isystem/opt/env/{TORCH}", f"-isystem.../{TORCH}"),
        ("-L/opt/env/site-packages/torch/lib", "-L.../site-packages/torch/lib"),
        ("-Wl,-rpath,/opt/env/site-packages/torch/lib", "-Wl,-rpath,.../site-packages/torch/lib"),
        ("-Xcompiler=-I/opt/env/site-packages/a", "-Xcompiler=-I.../site-packages/a"),
        ("-I/usr/include/python3.11", "-I.../include/python3.11"),
        ("-I/opt/env/site-packages", "-I.../site-packages"),
        ("-DHOME=/opt/site-packages-of-mine/x", "-DHOME=/opt/site-packages-of-mine/x"),
        ("-Iinclude", "-Iinclude"),
        ("kernels/k.c", "kernels/k.c"),
        ("-O2", "-O2"),
    ],
)
def test_a_recorded_word_does_not_say_where_an_environment_lies(word: str, recorded: str) -> None:
    assert portable(word) == recorded
    assert portable(recorded) == recorded, "a recorded command is what it is"


@pytest.mark.parametrize("name", ["purelib", "include"])
def test_a_recorded_word_is_located_where_this_environment_has_its_packages(name: str) -> None:
    word = f"-I{sysconfig.get_path(name)}/torch/include"
    assert portable(word) != word and located(portable(word)) == word
    assert located("-I.../no-packages") == "-I.../no-packages"
