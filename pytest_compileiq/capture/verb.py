"""``acf capture``: which functions of shared libraries a Python program spends its time in, and calls of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import StoreError, UserError
from pytest_compileiq.system.printing import complain, say

if TYPE_CHECKING:
    from pytest_compileiq.capture.bundle import Bundle
    from pytest_compileiq.capture.bundle_launches import LaunchedKernel
    from pytest_compileiq.capture.program import Program, Watched
    from pytest_compileiq.capture.rank import RankedFunction

DIRECTORY = Path("acf-capture")


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the ``acf`` command."""
    capture = verbs.add_parser(
        "capture",
        usage="acf capture [--to DIR] [--tests DIR] [--source FILE] [--like FILE] [--extents SIZES]\n"
        "           [--keep K] [--top N] [--share S] -- python PROGRAM ...\n"
        "       acf capture --rank-only [--top N] [--share S] -- python PROGRAM ...\n"
        "       acf capture --check [DIR] -- python PROGRAM ...\n"
        "       acf capture --validate [DIR] [--rtol R] [--retire [--yes]] -- python PROGRAM ...\n"
        "       acf capture --show [DIR]",
        description="Run a Python program, rank the functions of shared libraries that it calls through ctypes or "
        "cffi by their share of its time, for each shape of their arguments, and record some calls of the first ones; "
        "rank the kernels that Triton's JIT launches by their launches, and record what they are specialised for. "
        "Exits with 1 if the program does not end with 0, with --check if it calls something else than was captured, "
        "with --validate if it does not confirm the artifacts, and with --show if something is damaged.",
    )
    mode = capture.add_mutually_exclusive_group()
    mode.add_argument("--rank-only", action="store_true", help="rank calls and record no data")
    capture.add_argument(
        "--to", type=Path, metavar="DIR", help="directory of the recorded calls (default: acf-capture)"
    )
    capture.add_argument("--tests", type=Path, metavar="DIR", help="write a test for each kernel with a known source")
    capture.add_argument(
        "--source", action="append", default=[], type=Path, metavar="FILE", help="a source of a library (repeatable)"
    )
    capture.add_argument("--like", type=Path, metavar="FILE", help="the compile_commands.json of a library's build")
    capture.add_argument(
        "--keep", type=int, default=3, metavar="K", help="keep the first and K random calls of each shape (default: 3)"
    )
    capture.add_argument(
        "--extents",
        action="append",
        default=[],
        metavar="SIZES",
        help="size in bytes of a pointer argument as a formula of integer arguments: 'f(x, n): x=8*n' (repeatable)",
    )
    of_capture: dict[str, Any] = {"nargs": "?", "const": DIRECTORY, "type": Path, "metavar": "DIR"}
    mode.add_argument(
        "--check", help="check that the program still calls the captured kernels, on their shapes", **of_capture
    )
    mode.add_argument("--validate", help="check the artifacts of the captured kernels inside the program", **of_capture)
    capture.add_argument(
        "--rtol",
        type=float,
        default=0.0,
        metavar="R",
        help="with --validate: relative tolerance of floats (default: 0)",
    )
    capture.add_argument(
        "--retire",
        action="store_true",
        help="with --validate and --yes: retire contradicted artifacts",
    )
    capture.add_argument("--yes", action="store_true", help="with --retire: do it")
    mode.add_argument("--show", help="verify a capture and list its kernels", **of_capture)
    capture.add_argument("--top", type=int, default=10, metavar="N", help="at most N functions (default: 10)")
    capture.add_argument(
        "--share", type=float, default=1.0, metavar="S", help="functions that take this share of the time of all"
    )
    capture.add_argument("program", nargs=argparse.REMAINDER, metavar="-- python PROGRAM ...")
    capture.set_defaults(verb=_capture)


def _capture(options: argparse.Namespace) -> int:
    if options.show:
        return _show(options.show)
    if options.top < 1 or options.keep < 0 or not 0 < options.share <= 1:
        raise UserError(
            f"--top {options.top} --keep {options.keep} --share {options.share}: expected a count from 1, one from 0, "
            "and a share up to 1"
        )
    if (options.retire and not options.validate) or (options.yes and not options.retire):
        raise UserError("--retire requires --validate, and --yes requires --retire")
    if (options.rank_only or options.check or options.validate) and (options.to or options.tests or options.extents):
        mode = "--check" if options.check else "--validate" if options.validate else "--rank-only"
        raise UserError(
            f"{mode} records nothing, so there is nothing for --to, --tests and --extents: leave it out, or them"
        )
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="acf-capture-") as folder:
        if options.validate:
            from pytest_compileiq.capture.validate_verb import validate

            return validate(options, _program(options), Path(folder))
        return (_check if options.check else _run)(options, Path(folder))


def _run(options: argparse.Namespace, folder: Path) -> int:
    from pytest_compileiq.capture.bundle import Bundle
    from pytest_compileiq.capture.launches_verb import rank_launches
    from pytest_compileiq.capture.program import watch
    from pytest_compileiq.capture.rank import ranked, that_count
    from pytest_compileiq.capture.report import ranking_lines

    program = _program(options)
    extents = _extents(options.extents)
    bundle = None if options.rank_only else Bundle(options.to or DIRECTORY)
    if bundle:
        bundle.require_absent()
        _require_usable(options, bundle)
    status, watched = watch(program, folder, options.keep if bundle else None, options.extents)
    functions = ranked(watched)
    counting = that_count(functions, options.top, options.share)
    say(*ranking_lines(watched, functions, counting))
    launched = rank_launches(folder, options.top, options.share)
    if bundle:
        _record(bundle, watched, counting, launched, folder, options, extents)
        for name in sorted(set(extents) - {function.name for function in functions}):
            complain(f"--extents {extents[name]!r}: the program calls no function {name}")
    return _ended(program, status, watched)


def _extents(texts: Sequence[str]) -> dict[str, str]:
    """Function → what is said of its arguments.

    Raises:
        UserError: something cannot be read.
    """
    from pytest_compileiq.capture.inside.extents import parsed

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
    """Ensure, before the program runs, that tests can be written and will find the capture.

    Raises:
        UserError: they cannot, or will not.
    """
    from pytest_compileiq.capture.written_tests import project_of

    named = [*options.source, *filter(None, [options.like])]
    if missing := [path for path in named if not path.is_file()]:
        raise UserError(f"there is no file {missing[0]}")
    if options.tests is None and named:
        raise UserError("--source and --like are for the tests that --tests DIR writes: name a directory, too")
    if options.tests is None:
        return
    if options.tests.exists() and not options.tests.is_dir():
        raise UserError(f"--tests {options.tests} is a file: name a directory")
    project = project_of(options.tests)
    if not bundle.root.resolve().is_relative_to(project):
        raise UserError(
            f"--to {bundle.root} lies outside the project {project}, where its tests may not read it: name a directory "
            "within, or leave --tests out"
        )


def _check(options: argparse.Namespace, folder: Path) -> int:
    from pytest_compileiq.capture.bundle import Bundle
    from pytest_compileiq.capture.launches_verb import check_launches, holds_launches_alone, read_launches
    from pytest_compileiq.capture.program import watch
    from pytest_compileiq.capture.rank import captured_kernels, compared
    from pytest_compileiq.capture.report import check_lines

    program = _program(options)
    bundle = Bundle(options.check)
    kernels = {} if holds_launches_alone(bundle) else captured_kernels(bundle)
    launched = read_launches(bundle)
    status, watched = watch(program, folder)
    found = compared(kernels, watched)
    if kernels:
        say(*check_lines(bundle, found))
    is_launched = check_launches(bundle, launched, folder)
    ended = _ended(program, status, watched)
    return ended if is_launched and all(kernel.is_as_captured for kernel in found) else 1


def _program(options: argparse.Namespace) -> Program:
    from pytest_compileiq.capture.program import python_program

    words = options.program
    return python_program(words[1:] if words[:1] == ["--"] else words)


def _ended(program: Program, status: int, watched: Watched) -> int:
    """Say what the account may leave out; 1 if the program or the watching failed, else 0."""
    from pytest_compileiq.capture.report import caveats

    for sentence in caveats(watched):
        complain(sentence)
    if status:
        complain(f"{program.target} ended with status {status}: the figures are of the part before")
    return 1 if status or watched.failure else 0


def _record(
    bundle: Bundle,
    watched: Watched,
    functions: Sequence[RankedFunction],
    launched: Sequence[LaunchedKernel],
    folder: Path,
    options: argparse.Namespace,
    extents: Mapping[str, str],
) -> None:
    from pytest_compileiq.capture.launches_verb import record_launches
    from pytest_compileiq.capture.program import contents
    from pytest_compileiq.capture.rank import kernels_of
    from pytest_compileiq.capture.report import bundle_lines, unrecorded_lines
    from pytest_compileiq.capture.toolchain.sources import Given
    from pytest_compileiq.capture.written_launch_tests import write_launched_tests
    from pytest_compileiq.capture.written_tests import project_of, write_tests

    kernels = kernels_of(watched, functions, extents)
    bundle.write(kernels, contents(folder))
    say(*unrecorded_lines(watched, functions))
    if kernels or not launched:
        say(*bundle_lines(bundle, kernels))
    stored = record_launches(bundle, launched, kernels, contents(folder))
    if options.tests:
        say(*write_tests(options.tests, bundle, kernels, Given(tuple(options.source), options.like)))
        say(*write_launched_tests(options.tests, project_of(options.tests), bundle, stored))


def _show(directory: Path) -> int:
    from pytest_compileiq.capture.bundle import Bundle
    from pytest_compileiq.capture.launches_verb import holds_launches_alone, show_launches
    from pytest_compileiq.capture.report import bundle_lines

    bundle = Bundle(directory)
    kernels, problems = {}, []
    for name in bundle.names():
        try:
            kernels[name] = bundle.read(name)
            bundle.verify(kernels[name])
        except StoreError as error:
            problems.append(str(error))
    if not holds_launches_alone(bundle):
        if not kernels and not problems:
            raise UserError(f"{directory} is no capture: acf capture -- python PROGRAM … makes one")
        say(*bundle_lines(bundle, kernels))
    problems += show_launches(bundle)
    for problem in problems:
        complain(problem)
    return 1 if problems else 0
