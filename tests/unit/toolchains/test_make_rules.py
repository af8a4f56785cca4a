"""The rules that compilers write for ``-M``: which files they name, and what is printed beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.toolchains.make_rules import preprocessed, prerequisites


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
