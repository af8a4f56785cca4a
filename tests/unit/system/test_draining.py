"""What is read of a pipe whose other end says when it is the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.system.process import Tail, drain
from tests.waiting import PATIENCE_S


def drained(pipe: int, has_ended: Callable[[], bool], deadline_s: float = PATIENCE_S) -> tuple[bool, str]:
    tail = Tail(100)
    return drain(pipe, tail, -1, has_ended, deadline=time.monotonic() + deadline_s), tail.text()


def test_what_is_written_as_it_ends_is_read() -> None:
    """Silent when it was looked at, at its end when asked: a loaded machine does this."""
    pipe, end = os.pipe()
    assert drained(pipe, lambda: os.write(end, b"the last word") > 0) == (True, "the last word")


def test_a_pipe_that_somebody_holds_is_waited_for_no_longer_than_its_program() -> None:
    pipe, _ = os.pipe()
    assert drained(pipe, lambda: True) == (True, "")


def test_what_comes_in_parts_is_read_in_order() -> None:
    pipe, end = os.pipe()

    def write() -> None:
        for part in (b"one ", b"two ", b"three"):
            os.write(end, part)
        os.close(end)

    writer = threading.Thread(target=write)
    writer.start()
    assert drained(pipe, lambda: True) == (True, "one two three")
    writer.join()


def test_a_deadline_comes_first() -> None:
    pipe, _ = os.pipe()
    assert drained(pipe, lambda: False, 0.05) == (False, "")


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=1, max_value=50))
def test_a_tail_is_the_last_bytes_of_all(chunks: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for chunk in chunks:
        tail.add(chunk)
    assert tail.text() == b"".join(chunks)[-limit:].decode(errors="replace")
