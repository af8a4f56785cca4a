"""What ``acf capture`` does with the kernels that Triton's JIT launched."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.capture import bundle_launches as captured_launches
from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.bundle_launches import LaunchedKernel, ptx_of
from pytest_compileiq.capture.launches import Account, compared, named, ranked, read_account, that_lead
from pytest_compileiq.capture.launches_report import (
    launch_caveats,
    launch_ranking_lines,
    launched_bundle_lines,
    launched_check_lines,
)
from pytest_compileiq.errors import StoreError
from pytest_compileiq.ship.acf_runtime import ptx_sha256
from pytest_compileiq.system.printing import complain, say


def rank_launches(folder: Path, top: int, share: float) -> list[LaunchedKernel]:
    """Say what a program that ran in ``folder`` launched; gives the kernels that lead.

    Raises:
        NotWatched: its account cannot be read.
    """
    account = read_account(folder)
    kernels = ranked(account)
    leading = that_lead(kernels, top, share)
    say(*launch_ranking_lines(account, kernels, leading))
    _complain_of(account)
    return leading


def record_launches(
    bundle: Bundle, kernels: Sequence[LaunchedKernel], taken: Collection[str], contents: Path
) -> Mapping[str, LaunchedKernel]:
    """Write ``kernels`` beside those of the names ``taken``, and say what was written; gives them by their names.

    Raises:
        StoreError: their PTX is missing.
    """
    stored = named(kernels, taken)
    captured_launches.write(bundle, stored, contents)
    say(*launched_bundle_lines(bundle, stored))
    return stored


def holds_launches_alone(bundle: Bundle) -> bool:
    """Whether a capture holds Triton kernels and no function of a library.

    Raises:
        UserError: there is no capture.
    """
    return not bundle.names() and bool(captured_launches.names(bundle))


def show_launches(bundle: Bundle) -> list[str]:
    """Say what a capture holds of Triton's kernels, all of it read; gives what is damaged, a sentence each."""
    kernels, problems = {}, []
    for name in captured_launches.names(bundle):
        try:
            kernels[name] = captured_launches.read(bundle, name)
            for each in kernels[name].specialisations:
                ptx_of(bundle, each.ptx)
        except StoreError as error:
            problems.append(str(error))
    say(*launched_bundle_lines(bundle, kernels))
    return problems


@dataclass(frozen=True)
class CapturedLaunches:
    """The Triton kernels of a capture by their names, and their PTX by its SHA-256."""

    kernels: Mapping[str, LaunchedKernel]
    texts: Mapping[str, str]


def read_launches(bundle: Bundle) -> CapturedLaunches:
    """All that a capture holds of Triton's kernels.

    Raises:
        StoreError: it cannot be read.
    """
    kernels = {name: captured_launches.read(bundle, name) for name in captured_launches.names(bundle)}
    ptx = {each.ptx for kernel in kernels.values() for each in kernel.specialisations}
    return CapturedLaunches(kernels, {each.sha256: ptx_of(bundle, each) for each in ptx})


def check_launches(bundle: Bundle, captured: CapturedLaunches, folder: Path) -> bool:
    """Say whether a program that ran in ``folder`` launches the captured kernels; True where there are none.

    Raises:
        NotWatched: its account cannot be read.
    """
    if not captured.kernels:
        return True
    account = read_account(folder)
    found = compared(captured.kernels, captured.texts, account, folder, ptx_sha256)
    say(*launched_check_lines(bundle, found))
    _complain_of(account)
    return account.failure is None and all(kernel.is_as_captured for kernel in found)


def _complain_of(account: Account) -> None:
    for sentence in launch_caveats(account):
        complain(sentence)
