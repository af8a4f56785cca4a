"""A processor is built on by many at once, or measured on while nothing is built."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from pytest_compileiq.system.cpu import ProcessorTurn
from pytest_compileiq.system.process import OWN_PROCESSOR, run


def test_builds_go_on_side_by_side():
    turn, both = ProcessorTurn(), threading.Barrier(2, timeout=10)

    def build() -> None:
        with turn.building():
            both.wait()  # nobody gets past it alone

    with ThreadPoolExecutor(2) as threads:
        for building in [threads.submit(build) for _ in range(2)]:
            building.result()


def test_a_measurement_waits_for_what_is_building_and_goes_before_what_is_not():
    turn, order = ProcessorTurn(), list[str]()
    is_building, may_end = threading.Event(), threading.Event()

    def first_build() -> None:
        with turn.building():
            is_building.set()
            may_end.wait(10)
            order.append("first build")

    def measure() -> None:
        with turn.measuring():
            order.append("measurement")

    def second_build() -> None:
        with turn.building():
            order.append("second build")

    with ThreadPoolExecutor(3) as threads:
        begun = [threads.submit(first_build)]
        assert is_building.wait(10)
        begun.append(threads.submit(measure))
        while not turn.is_wanted:
            pass
        begun.append(threads.submit(second_build))
        may_end.set()
        for each in begun:
            each.result()
    assert order == ["first build", "measurement", "second build"]


def test_no_program_is_started_while_this_machine_is_measured_on():
    with ThreadPoolExecutor(1) as threads:
        with OWN_PROCESSOR.measuring():
            program = threads.submit(run, [sys.executable, "-c", ""], timeout_s=30)
            assert not program.done()
            threading.Event().wait(0.2)
            assert not program.done()
        assert program.result().returncode == 0
