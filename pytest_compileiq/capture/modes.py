"""The modes of ``acf capture``: record, rank, check against an earlier capture, show."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_compileiq.capture import launches, ranking
from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.inside.values import parsed
from pytest_compileiq.capture.program import CallAccount, Program, contents, python_program, watch
from pytest_compileiq.capture.report import (
    bundle_lines,
    caveats,
    check_lines,
    launch_caveats,
    launch_ranking_lines,
    launched_bundle_lines,
    launched_check_lines,
    ranking_lines,
    unrecorded_lines,
)
from pytest_compileiq.capture.verb import DIRECTORY
from pytest_compileiq.errors import StoreError, UserError
from pytest_compileiq.ship.acf_runtime import ptx_sha256
from pytest_compileiq.system.printing import complain, say


def record(options: argparse.Namespace, folder: Path) -> int:
    """Rank what the program calls and launches, and record the first of it; the exit status."""
    program = program_of(options)
    extents = _extents(options.extents)
    bundle = None if options.rank_only else Bundle(options.to or DIRECTORY)
    if bundle:
        bundle.require_absent()
        _require_usable(options, bundle)
    status, watched = watch(program, folder, options.keep if bundle else None, options.extents)
    functions = ranking.ranked(watched)
    shown = ranking.leading(functions, lambda function: function.own_ns, options.top, options.share)
    say(*ranking_lines(watched, functions, shown))
    account = launches.read_account(folder)
    kernels = launches.ranked(account)
    launched = ranking.leading(kernels, lambda kernel: kernel.launches, options.top, options.share)
    say(*launch_ranking_lines(account, kernels, launched))
    _complain_of(launch_caveats(account))
    if bundle:
        captured = ranking.kernels_of(watched, shown, extents)
        bundle.write(captured, contents(folder))
        say(*unrecorded_lines(watched, shown))
        if captured or not launched:
            say(*bundle_lines(bundle, captured))
        stored = launches.named(launched, captured)
        launches.write_launched(bundle, stored, contents(folder))
        say(*launched_bundle_lines(bundle, stored))
        if options.tests:
            from pytest_compileiq.capture.toolchain.sources import NamedSources
            from pytest_compileiq.capture.written_tests import write_launched_tests, write_tests

            say(*write_tests(options.tests, bundle, captured, NamedSources(tuple(options.source), options.like)))
            say(*write_launched_tests(options.tests, bundle, stored))
        for name in sorted(set(extents) - {function.name for function in functions}):
            complain(f"--extents {extents[name]!r}: the program calls no function {name}")
    return _ended(program, status, watched)


def _extents(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        try:
            function = parsed(text).function
        except ValueError as why:
            raise UserError(f"--extents {text!r}: {why}") from why
        if function in found:
            raise UserError(f"--extents {text!r}: it was said of {function} before: say all in one")
        found[function] = text
    return found


def _require_usable(options: argparse.Namespace, bundle: Bundle) -> None:
    """Ensure, before the program runs, that tests can be written and will find the capture."""
    named = [*options.source, *filter(None, [options.like])]
    if missing := [path for path in named if not path.is_file()]:
        raise UserError(f"there is no file {missing[0]}")
    if options.tests is None and named:
        raise UserError("--source and --like are for the tests that --tests DIR writes: name a directory, too")
    if options.tests is None:
        return
    if options.tests.exists() and not options.tests.is_dir():
        raise UserError(f"--tests {options.tests} is a file: name a directory")
    from pytest_compileiq.capture.written_tests import project_of  # heavy: it knows toolchains

    project = project_of(options.tests)
    if not bundle.root.resolve().is_relative_to(project):
        raise UserError(
            f"--to {bundle.root} lies outside the project {project}, where its tests may not read it: name a directory "
            "within, or leave --tests out"
        )


def check(options: argparse.Namespace, folder: Path) -> int:
    """Check that the program still calls and launches what a capture holds; the exit status."""
    program = program_of(options)
    bundle = Bundle(options.check)
    kernels = {} if _holds_launches_alone(bundle) else ranking.captured_kernels(bundle)
    launched = {name: launches.read_launched(bundle, name) for name in launches.launched_names(bundle)}
    ptx = {each.ptx for kernel in launched.values() for each in kernel.specialisations}
    texts = {each.sha256: launches.ptx_of(bundle, each) for each in ptx}
    status, watched = watch(program, folder)
    found = ranking.compared(kernels, watched)
    if kernels:
        say(*check_lines(bundle, found))
    is_as_captured = all(kernel.is_as_captured for kernel in found)
    if launched:
        account = launches.read_account(folder)
        found_launches = launches.compared(launched, texts, account, folder, ptx_sha256)
        say(*launched_check_lines(bundle, found_launches))
        _complain_of(launch_caveats(account))
        is_as_captured &= account.failure is None and all(kernel.is_as_captured for kernel in found_launches)
    ended = _ended(program, status, watched)
    return ended if is_as_captured else 1


def show(directory: Path) -> int:
    """List what a capture holds, all of it read; 1 if something is damaged."""
    bundle = Bundle(directory)
    kernels, launched, problems = {}, {}, []
    for name in bundle.names():
        try:
            kernels[name] = bundle.read(name)
            bundle.verify(kernels[name])
        except StoreError as error:
            problems.append(str(error))
    if not _holds_launches_alone(bundle):
        if not kernels and not problems:
            raise UserError(f"{directory} is no capture: acf capture -- python PROGRAM … makes one")
        say(*bundle_lines(bundle, kernels))
    for name in launches.launched_names(bundle):
        try:
            launched[name] = launches.read_launched(bundle, name)
            for each in launched[name].specialisations:
                launches.ptx_of(bundle, each.ptx)
        except StoreError as error:
            problems.append(str(error))
    say(*launched_bundle_lines(bundle, launched))
    _complain_of(problems)
    return 1 if problems else 0


def _holds_launches_alone(bundle: Bundle) -> bool:
    return not bundle.names() and bool(launches.launched_names(bundle))


def program_of(options: argparse.Namespace) -> Program:
    """The program behind ``--``."""
    words = options.program
    return python_program(words[1:] if words[:1] == ["--"] else words)


def _ended(program: Program, status: int, watched: CallAccount) -> int:
    """Say what the account may leave out; 1 if the program or the watching failed, else 0."""
    _complain_of(caveats(watched))
    if status:
        complain(f"{program.target} ended with status {status}: the figures are of the part before")
    return 1 if status or watched.failure else 0


def _complain_of(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        complain(sentence)
