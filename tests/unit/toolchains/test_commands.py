"""A compiler that was killed says nothing of itself, and what helps is said."""

from __future__ import annotations

import shutil

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compiler import find_compiler
from pytest_compileiq.toolchains.commands import ask


@pytest.mark.parametrize(
    ("script", "mend"),
    [
        ("kill -KILL $$", "free some, and run the same again"),
        ("kill -TERM $$", "run the same again"),
        ("kill -XFSZ $$", "ulimit -f unlimited"),
        ("kill -XCPU $$", "ulimit -t unlimited"),
        ("echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1", "free some"),
        ("echo 'collect2: fatal error: ld terminated with signal 25 [File size limit exceeded]'; exit 1", "ulimit -f"),
    ],
)
def test_ask_of_a_killed_program_says_what_helps(script, mend):
    with pytest.raises(EnvironmentFault, match=rf"sh -c .* was killed before it answered: .*{mend}"):
        ask(["sh", "-c", script])


def test_ask_of_a_program_that_crashes_or_refuses_is_its_answer():
    assert [ask(["sh", "-c", script]).returncode for script in ("kill -SEGV $$", "exit 1")] == [-11, 1]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(("number", "mend"), [("KILL", "free some"), ("XFSZ", "ulimit -f"), ("SEGV", "crashes at an")])
def test_find_compiler_that_is_killed_is_no_other_compiler(tmp_path, number, mend):
    wrapper = tmp_path / "cc"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) kill -{number} $$;; esac\nexec gcc "$@"\n')
    wrapper.chmod(0o755)
    with pytest.raises(EnvironmentFault, match=mend):
        find_compiler(str(wrapper), Place(tmp_path, tmp_path))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_find_compiler_whose_configuration_file_changed_is_another_build(tmp_path):
    """As clang tells it, whose configuration files hold options that no command shows."""
    builds = []
    for number, text in enumerate(("-ffast-math\n", "-O1\n", "-O1\n")):
        configuration, compiler = tmp_path / f"{number}.cfg", tmp_path / f"cc{number}"
        configuration.write_text(text)
        says = f"echo 'clang version 16.0.6'; echo 'Configuration file: {configuration}'; exit 0"
        compiler.write_text(f'#!/bin/sh\ncase "$*" in --version) {says};; esac\nexec gcc "$@"\n')
        compiler.chmod(0o755)
        builds.append(find_compiler(str(compiler), Place(tmp_path, tmp_path)).build)
    assert builds[0] != builds[1] == builds[2] and builds[0].startswith("clang version 16.0.6, configuration ")
