"""A fixed list of candidates as the search: a directory of ACFs, or a booster pack."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate


class Pack:
    """Asks for every seed once, in order."""

    def __init__(self, brief: Brief) -> None:
        """Take the seeds.

        Raises:
            MarkerError: there is none, or it was given options.
        """
        if brief.options:
            raise MarkerError(f"engine 'pack' takes no engine_options; got {', '.join(brief.options)}")
        if not brief.seeds:
            raise MarkerError(
                "engine 'pack' evaluates given controls: name them with --tune-from=DIRECTORY or --tune-from=PACK.zip"
            )
        self._left = list(brief.seeds)

    def ask(self, n: int) -> list[Candidate]:
        """The next ``n`` of the list."""
        taken, self._left = self._left[:n], self._left[n:]
        return taken

    def tell(self, results: Sequence[Told]) -> None:
        """Results change nothing here."""
