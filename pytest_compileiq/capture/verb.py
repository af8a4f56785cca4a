"""``acf capture``: which functions of shared libraries a Python program spends its time in, and calls of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import UserError

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
    of_floats = "with --validate: relative tolerance of floats (default: 0)"
    capture.add_argument("--rtol", type=float, default=0.0, metavar="R", help=of_floats)
    withdraw = "with --validate and --yes: retire contradicted artifacts"
    capture.add_argument("--retire", action="store_true", help=withdraw)
    capture.add_argument("--yes", action="store_true", help="with --retire: do it")
    mode.add_argument("--show", help="verify a capture and list its kernels", **of_capture)
    capture.add_argument("--top", type=int, default=10, metavar="N", help="at most N functions (default: 10)")
    capture.add_argument(
        "--share", type=float, default=1.0, metavar="S", help="functions that take this share of the time of all"
    )
    capture.add_argument("program", nargs=argparse.REMAINDER, metavar="-- python PROGRAM ...")
    capture.set_defaults(verb=_capture)


def _capture(options: argparse.Namespace) -> int:
    from tempfile import TemporaryDirectory

    from pytest_compileiq.capture import modes

    if options.show:
        return modes.show(options.show)
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
    with TemporaryDirectory(prefix="acf-capture-") as folder:
        if options.validate:
            from pytest_compileiq.capture.validation import validate

            return validate(options, modes.program_of(options), Path(folder))
        return (modes.check if options.check else modes.record)(options, Path(folder))
