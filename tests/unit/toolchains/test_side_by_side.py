"""Commands of one build run at once, as many as may, and are told in their order."""

from __future__ import annotations

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.toolchains.commands import Commands
from pytest_compileiq.toolchains.side_by_side import SideBySide

MEETS = "echo {own}; touch {own}; while ! test -e {other}; do sleep 0.01; done"


def commands(root, timeout_s=20.0):
    return Commands("sh", root, root, timeout_s, str.strip)


def shell(script, what="it"):
    return ["sh", "-c", script], what, None


def test_two_that_wait_for_each_other_end_and_their_output_is_in_order(tmp_path):
    run = commands(tmp_path)
    SideBySide(2).run(run, [shell(MEETS.format(own="b", other="a")), shell(MEETS.format(own="a", other="b"))])
    assert run.log == "b\na\n"


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_than_may_run_at_once(tmp_path, most):
    counting = "touch $$.on; set -- *.on; echo $#; sleep 0.05; rm $$.on"
    run = commands(tmp_path)
    SideBySide(most).run(run, [shell(counting)] * 6)
    assert max(map(int, run.log.split())) <= most


def test_the_first_that_fails_by_its_order_is_told(tmp_path):
    with pytest.raises(BuildError, match="sh refuses the first"):
        SideBySide(3).run(
            commands(tmp_path), [shell("sleep 0.1; exit 1", "the first"), shell("exit 2", "the second"), shell("true")]
        )


def test_the_time_is_that_of_all(tmp_path):
    with pytest.raises(BuildError, match=r"took longer than 0\.2 s, at the (first|second|third)"):
        several = [shell("sleep 9", f"the {name}") for name in ("first", "second", "third")]
        SideBySide(2).run(commands(tmp_path, 0.2), several)
