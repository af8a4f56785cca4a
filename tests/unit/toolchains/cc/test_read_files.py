"""What a recorded command reads now: each source by its own command, with the controls behind it."""

from __future__ import annotations

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.toolchains.cc.includes import read_again
from tests.files import write_files


@pytest.fixture
def root(tmp_path):
    files = {
        "a.c": '#include "one.h"\n#ifdef MORE\n#include "more.h"\n#endif\n', "b.c": '#include <two.h>\n',
        "first/.keep": "", "second/one.h": "", "second/two.h": "", "second/more.h": "",
    }  # fmt: skip
    return write_files(tmp_path, files)


ALIKE = ["gcc", "-Ifirst", "-Isecond", "--param", "max-inline-insns-auto=9", "a.c", "b.c", "--link", "-shared", "-lm"]
APART = ["gcc", "-Ifirst", "a.c", "gcc", "-O3", "b.c", "--then", "-Isecond", "--link", "-shared"]
READ = {"a.c", "b.c", "second/one.h", "second/two.h"}


@pytest.mark.parametrize("command", [ALIKE, APART], ids=["one command", "a command for each source"])
def test_a_recorded_command_reads_what_it_read_until_a_header_comes_before_another(root, command):
    assert read_again(command, "gcc", [], root) == READ
    assert read_again(command, "gcc", ["-DMORE=1"], root) == READ | {"second/more.h"}
    (root / "first" / "one.h").write_text("")
    assert read_again(command, "gcc", [], root) == READ - {"second/one.h"} | {"first/one.h"}


def test_what_the_compiler_refuses_to_read_is_an_error(root):
    (root / "second" / "two.h").unlink()
    with pytest.raises(BuildError, match=r"gcc cannot read the sources: .*two\.h"):
        read_again(ALIKE, "gcc", [], root)
