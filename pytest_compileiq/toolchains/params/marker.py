"""The marker's arguments where nothing is compiled; ``pytest_compileiq.toolchains.params.builder`` implements them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_compileiq.toolchains.marker_values import arguments_by_name, frozen

# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place


@arguments_by_name
@dataclass(frozen=True, init=False)
class Params:
    """Knobs without a compiler, read by the test's body as ``acf.params`` and by a program when it runs.

    A JIT's configuration, a number of threads, a library's options, a model's hyperparameters. The artifact is the
    knobs, as text. The marker's ``space=`` says what they may be: ``{"threads": choice([1, 2, 4])}``.

    Args:
        defaults: the baseline's values, which ``acf.params`` holds wherever no knob takes their place, so that both
            arms are written down. A knob without a default is absent in the baseline.
        versions: the installed packages that decide the result, by the names that ``pip`` knows them by; ``"python"``
            is Python's own line, such as 3.11. Another version of one makes an artifact stale.
        sources: files that decide the result beside what the test itself uses, which is watched anyway; paths relative
            to the test file. Of Python files, comments, docstrings and formatting do not count.
    """

    defaults: tuple[tuple[str, bool | int | float | str], ...]
    versions: tuple[str, ...]
    sources: tuple[str, ...]

    def __init__(
        self,
        defaults: Mapping[str, bool | int | float | str] | None = None,
        *,
        versions: str | Sequence[str] = (),
        sources: str | Sequence[str] = (),
    ) -> None:
        object.__setattr__(self, "defaults", frozen({} if defaults is None else defaults))
        object.__setattr__(self, "versions", frozen(versions))
        object.__setattr__(self, "sources", frozen(sources))

    def resolve(self, place: Place) -> Builder:
        """Find the packages and the sources.

        Raises:
            EnvironmentFault: a package is not installed; the message says how to install it, or what was meant.
            MarkerError: a source is missing, or an argument cannot be used.
        """
        from pytest_compileiq.toolchains.params.builder import resolve  # not needed to collect tests

        return resolve(self, place)
