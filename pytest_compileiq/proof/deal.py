"""What chance deals to the processes of a proof: to half of every eight, so that nothing follows a process's number."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from pytest_compileiq.rules.gate import LOOKS


@dataclass(frozen=True)
class Deal:
    """One process of a proof, for one block: permuted blocks (Matts and Lachin, Controlled Clinical Trials 9, 1988).

    Attributes:
        seed: of the proof, on record.
        number: of the process.
        devices: how many the processes are spread over: each has a design of its own.
        of: the block, so that the blocks of one process are dealt apart.
    """

    seed: int
    number: int
    devices: int = 1
    of: str = ""

    def half(self, what: str) -> bool:
        """Whether the process is among the half of its eight that are dealt ``what``."""
        turn, device = divmod(self.number, self.devices)
        eight, place = divmod(turn, LOOKS[0])
        dealt = [True, False] * (LOOKS[0] // 2)
        Random(f"{self.seed} {self.of} {what} {device} {eight}").shuffle(dealt)
        return dealt[place]
