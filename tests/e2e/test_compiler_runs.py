"""What a run does with its compiler: who asks it what it is, and what a killed one leaves behind."""

from __future__ import annotations

import os

KERNEL_C = "int triple(int x) { return 3 * x; }\n"
# Writes down who asks for its version; with -funroll-loops it leaves a file where temporary files go, and hangs.
COMPILER = """\
#!/bin/sh
case " $* " in
*" --version "*) echo $PPID >> asked ;;
*" -c "*) if grep -qs funroll "${controls:=$(dirname "$(echo "$*" | sed "s/.* -o //")")/controls.rsp}"; then
    echo > "${TMPDIR:-/tmp}/left.s"; echo "$TMPDIR" > where; sleep 600; fi ;;
esac
exec gcc "$@"
"""
TEST_PY = """\
import pytest
from pytest_compileiq import Cc, literal, minimize

@pytest.mark.tune(
    Cc("triple.c", compiler="./compiler"),
    space={"-funroll-loops": literal("", 0.5), "-Os": literal("", 0.5)},
    objectives=[minimize("code_bytes")],
    timeout_s=2,
)
def test_triple(acf):
    assert acf.build().load().triple(2) == 6
"""
UNPICKLABLE = """\
class Unpicklable(Cc):
    def resolve(self, place):
        builder = super().resolve(place)
        object.__setattr__(builder, "hook", lambda: None)
        return builder

"""


def test_one_process_asks_the_compiler_what_it_is_and_a_killed_one_leaves_no_file(project, tmp_path, monkeypatch):
    made = project({"triple.c": KERNEL_C, "compiler": COMPILER, "test_triple.py": TEST_PY})
    (made.root / "compiler").chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))

    output = made.pytest("--tune", "--tune-budget=4", "--tune-jobs=2", code=0)

    assert "4 evaluations" in output and "2 invalid" in output
    assert len(set((made.root / "asked").read_text().split())) == 1  # not the worker too
    assert (made.root / "where").read_text().startswith(str(temporary) + os.sep)
    assert not [one for one in temporary.rglob("*") if one.suffix != ".lock"]


def test_a_worker_finds_the_compiler_itself_where_what_was_found_cannot_be_handed_over(project):
    own = TEST_PY.replace("@pytest", UNPICKLABLE + "@pytest", 1).replace('Cc("triple', 'Unpicklable("triple')
    made = project(
        {
            "triple.c": KERNEL_C,
            "compiler": COMPILER,
            "test_triple.py": own.replace('"-funroll-loops"', '"-fomit-frame-pointer"'),
        }
    )
    (made.root / "compiler").chmod(0o755)
    made.pytest("--tune", "--tune-budget=4", code=0)
    assert len(set((made.root / "asked").read_text().split())) == 2
