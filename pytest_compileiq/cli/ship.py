"""``acf flags``, ``export``, ``verify-binary`` and ``expect``: take artifacts into production."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_compileiq.cli.locate import named_options, open_store
from pytest_compileiq.errors import UserError
from pytest_compileiq.system.files import write_output
from pytest_compileiq.system.printing import complain, json_text, say

REFUSED = 3


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the ``acf`` command."""
    flags = verbs.add_parser("flags")
    flags.add_argument("name")
    flags.add_argument("--compiler", required=True, metavar="PATH", help="the compiler of the build")
    flags.add_argument("--target", help="one target, where there are several, e.g. sm_90a-nvcc13.3")
    flags.add_argument(
        "--arch", action="extend", nargs="+", default=[], help="all architectures of the compile command"
    )
    _add_on_stale(flags, "stale controls: exit with 3, or print nothing and exit with 0")
    flags.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the options to FILE, only on success")
    flags.add_argument("--depfile", type=Path, metavar="FILE", help="write a dependency file for make and ninja")
    flags.add_argument(
        "--depfile-target", metavar="OUT", help="target of the dependency file (default: --output's file)"
    )
    flags.set_defaults(verb=_flags)

    export = verbs.add_parser("export")
    export.add_argument("names", nargs="*", metavar="NAME", help="artifacts to export (default: all)")
    export.add_argument("--runtime", type=Path, required=True, metavar="DIR", help="output directory")
    export.add_argument(
        "--triton-cache", type=Path, metavar="DIR", help="Triton's cache directory, the source of the proven PTX"
    )
    _add_on_stale(export, "of a stale artifact: exit with 3 and write nothing, or leave it out")
    export.set_defaults(verb=_export)

    verify = verbs.add_parser(
        "verify-binary",
        description="Check that built files contain the proven machine code. Of C and C++ give the object files: "
        "linking rewrites their code, so that a linked library cannot be compared. Exits with 0 where all of it is "
        "right, with 1 where something differs, and with 2 where it cannot tell.",
    )
    what = verify.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "files", nargs="*", default=[], type=Path, metavar="FILE",
        help="a cubin, a fat binary, a library or program that holds device code, or the object files of a library",
    )  # fmt: skip
    what.add_argument("--triton-cache", type=Path, metavar="DIR", help="Triton's cache directory")
    verify.add_argument("--name", action="append", default=[], help="an artifact that has to be found (default: any)")
    verify.add_argument(
        "--counts", action="append", default=[], type=Path, metavar="FILE",
        help="with --triton-cache: files written under ACF_COUNTS by the processes that filled it",
    )  # fmt: skip
    verify.set_defaults(verb=_verify)

    expect = verbs.add_parser(
        "expect",
        description="Judge the counts of several processes together: exit with 0 where every expected artifact was "
        "applied in one of them, with 1 where one never was, and with 2 where the counts cannot be read.",
    )
    expect.add_argument("counts", nargs="+", type=Path, metavar="COUNTS", help="files written under ACF_COUNTS")
    which = expect.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="expect every shipped artifact (default)")
    which.add_argument("--name", action="append", default=[], help="expect this artifact (repeatable)")
    expect.add_argument("--format", choices=("terminal", "json"), default="terminal")
    expect.set_defaults(verb=_expect)


def _add_on_stale(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--on-stale", choices=("fail", "omit"), default="fail", help=f"{what} (default: fail)")


def _flags(options: argparse.Namespace) -> int:
    from pytest_compileiq.ship.flags import depfile, fragment, quoted

    wanted = options.depfile_target or options.output
    if options.depfile is not None and wanted is None:
        raise UserError("--depfile needs --depfile-target OUT, the file that is to be made again, or --output")
    answer = fragment(
        open_store(options),
        options.name,
        compiler=options.compiler,
        target=options.target,
        named=named_options(options),
        architectures=options.arch,
    )
    for note in answer.notes:
        complain(note)
    if answer.refusal is not None:
        complain(answer.refusal if options.on_stale == "fail" else f"omitted: {answer.refusal}")
        if options.on_stale == "fail":
            return REFUSED
    if options.depfile is not None:
        write_output(options.depfile, depfile(str(wanted), answer.reads))
    lines = [" ".join(map(quoted, answer.words))] if answer.words else []
    if options.output is not None:
        write_output(options.output, "".join(f"{line}\n" for line in lines))
    else:
        say(*lines)
    return 0


def _export(options: argparse.Namespace) -> int:
    from pytest_compileiq.ship.export import export_runtime

    omit = options.on_stale == "omit"
    exported = export_runtime(
        open_store(options),
        options.runtime,
        options.names,
        omit_stale=omit,
        triton_cache=options.triton_cache,
        named=named_options(options),
    )
    for note in exported.notes:
        complain(note)
    for sentence in (*exported.left_out, *exported.stale):
        complain(f"left out: {sentence}" if omit or sentence not in exported.stale else sentence)
    if exported.stale and not omit:
        return REFUSED
    for artifact in exported.applied:
        say(artifact)
    return 0


def _verify(options: argparse.Namespace) -> int:
    from pytest_compileiq.ship.usage import read_counts, together
    from pytest_compileiq.ship.verify import verdict, verify_files, verify_triton_cache

    store = open_store(options)
    if options.triton_cache is not None:
        counts = [line for path in options.counts for line in read_counts(path)]
        joined = together(counts) if options.counts else None
        lines = verify_triton_cache(store, options.triton_cache, options.name, joined)
    elif options.counts:
        raise UserError("--counts tells what filled a JIT's cache: add --triton-cache DIR, or use acf expect")
    else:
        lines = verify_files(store, options.files, options.name)
    for line in lines:
        say(f"{line.verdict.name.lower().replace('_', ' ')}: {line.message}")
    return verdict(lines).value


def _expect(options: argparse.Namespace) -> int:
    from pytest_compileiq.report.artifact import table_lines
    from pytest_compileiq.ship.acf_runtime import unmet
    from pytest_compileiq.ship.usage import headline, read_counts, together

    report = together(counts for path in options.counts for counts in read_counts(path))
    missing = unmet(report, ",".join(options.name) or "all")
    if options.format == "json":
        say(*json_text({**report, "never_applied": missing}).splitlines())
    else:
        if report["artifacts"]:
            rows = [
                (
                    name if counts["shipped"] else f"{name} (not shipped)",
                    str(counts["looked_for"]),
                    str(counts["applied"]),
                    str(counts["looked_for"] - counts["applied"]),
                )
                for name, counts in report["artifacts"].items()
            ]
            say(*table_lines(("artifact", "looked for", "applied", "refused"), rows))
        say(headline(report, ()))
    for sentence in missing:
        complain(sentence)
    return 1 if missing else 0
