"""A pool whose calls nobody checks."""

from __future__ import annotations

from dataclasses import replace

from pytest_compileiq.samples import SlotStart
from pytest_compileiq.testing.fakes import FakePool
from pytest_compileiq.workers.pool import MeasuredBlock


class UncheckedPool(FakePool):
    """A ``FakePool`` whose slots begin with a call of which neither outputs, nor a check, nor a reset tell anything."""

    def block(self, number, benchmark, arms, workload, plan) -> MeasuredBlock:
        made = super().block(number, benchmark, arms, workload, plan)
        if not plan.starts:  # as in a search
            return made
        rows = [replace(row, start=SlotStart("bare", row.value)) if row.sample == 0 else row for row in made.rows]
        return replace(made, rows=rows)
