"""What Python's packages install is told by its path, and recorded without the place that it has on one machine."""

from __future__ import annotations

import sysconfig

import pytest

from pytest_compileiq.toolchains.installed import is_installed, located, portable

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
