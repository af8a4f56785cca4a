"""Whether a program still launches the Triton kernels that were captured of it, specialised as they were then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.capture.bundle_launches import LaunchedKernel, Specialisation
from pytest_compileiq.capture.launches import Account, ranked, text_of


@dataclass(frozen=True)
class ComparedLaunches:
    """A captured kernel, and what the program launches of it now.

    Attributes:
        captured: its specialisations of then.
        launches: of now.
        gone: those of ``captured`` that it is no longer launched for.
        new: those of now that are none of ``captured``.
        changed: those of ``captured`` whose PTX is another now.
    """

    name: str
    captured: tuple[Specialisation, ...]
    launches: int
    gone: tuple[Specialisation, ...]
    new: tuple[Specialisation, ...]
    changed: tuple[Specialisation, ...]

    @property
    def is_as_captured(self) -> bool:
        """Whether nothing changed."""
        return bool(self.launches) and not (self.gone or self.new or self.changed)


def compared(
    kernels: Mapping[str, LaunchedKernel],
    texts: Mapping[str, str],
    account: Account,
    folder: Path,
    digest_of: Callable[[str], str],
) -> list[ComparedLaunches]:
    """Each captured kernel beside what was launched now.

    Args:
        texts: the SHA-256 of captured PTX → the text.
        folder: where the program ran that left ``account``.
        digest_of: what two PTX texts are compared by, leaving out what names their files.

    Raises:
        NotWatched: the program did not leave its PTX.
    """
    now = ranked(account)
    then = {sha256: digest_of(text) for sha256, text in texts.items()}
    here = {each.ptx.sha256: digest_of(text_of(folder, each.ptx)) for kernel in now for each in kernel.specialisations}
    return [_compared(name, kernel, _same(kernel, now), {**then, **here}) for name, kernel in kernels.items()]


def _compared(
    name: str, kernel: LaunchedKernel, now: Sequence[Specialisation], digests: Mapping[str, str]
) -> ComparedLaunches:
    then = {each.identity(digests[each.ptx.sha256]): each for each in kernel.specialisations}
    here = {each.identity(digests[each.ptx.sha256]): each for each in now}
    both = [(each, here[identity]) for identity, each in then.items() if identity in here]
    return ComparedLaunches(
        name=name,
        captured=kernel.specialisations,
        launches=sum(each.launches for each in now),
        gone=tuple(each for identity, each in then.items() if identity not in here),
        new=tuple(each for identity, each in here.items() if identity not in then),
        changed=tuple(each for each, other in both if digests[each.ptx.sha256] != digests[other.ptx.sha256]),
    )


def _same(kernel: LaunchedKernel, now: Sequence[LaunchedKernel]) -> tuple[Specialisation, ...]:
    """What is launched of its function: in the file at its path, else in one of that name, as of another checkout."""
    alike = [each for each in now if each.function == kernel.function]
    found = [each for each in alike if each.file == kernel.file] or [
        each for each in alike if Path(each.file).name == Path(kernel.file).name
    ]
    return tuple(specialisation for each in found for specialisation in each.specialisations)
