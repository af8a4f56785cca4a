"""``acf init``, ``doctor`` and ``import``: set up a project, check its machine, take other people's controls."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.cli.locate import acf_dir, configures_pytest, open_store, store_root
from pytest_compileiq.errors import UserError
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.files import Unfit, read_regular
from pytest_compileiq.system.printing import complain, json_text, say

if TYPE_CHECKING:
    from pytest_compileiq.store.packs import ImportedAcf


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the ``acf`` command."""
    init = verbs.add_parser(
        "init",
        description="Looks for C, C++, CUDA and Triton sources, and writes a benchmark of one function; in an empty "
        "directory one of a kernel of its own. Runs no code of the project, and replaces no file.",
    )
    init.add_argument("--function", metavar="NAME", help="the function of the benchmark: NAME or FILE::NAME")
    init.add_argument(
        "--like", type=Path, metavar="BUILD", help="the compile_commands.json of the build, or its directory"
    )
    init.set_defaults(verb=_init)
    verbs.add_parser("doctor").set_defaults(verb=_doctor)
    verb = verbs.add_parser(
        "import",
        description="Write a directory of candidates for pytest --tune --tune-from=DIR, which proves or rejects each. "
        "The scores of their own search are shown, and are no claims.",
    )
    verb.add_argument("source", type=Path, metavar="SOURCE", help="a booster pack, a ptx-anneal store, or ACFs")
    verb.add_argument("--to", type=Path, metavar="DIR", help="a new directory (default: list the candidates only)")
    verb.add_argument("--arch", metavar="SM", help="only this architecture of a store, e.g. sm_90a")
    verb.add_argument("--ptxas", metavar="VERSION", help="only this ptxas of a store, e.g. 13.3")
    verb.add_argument("--ptx", type=Path, metavar="FILE", help="only the kernel of this PTX of a store")
    verb.add_argument("--format", choices=("terminal", "json"), default="terminal")
    verb.set_defaults(verb=_import)


def _init(options: argparse.Namespace) -> int:
    from pytest_compileiq.cli.init import TEXTCONV, look_and_write, set_up

    here = Path.cwd()
    with_ini = not configures_pytest(here)
    lines = list(look_and_write(here, options.function, options.like))
    for file, done in set_up(here, acf_dir(here) or "acf", with_ini=with_ini).items():
        say(f"{file}: {done}")
    say(*lines, "", "Once in every clone, so that git diff shows artifacts as text:", f"  {TEXTCONV}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from pytest_compileiq.cli.doctor import examine, of_the_project
    from pytest_compileiq.model import Target
    from pytest_compileiq.store.store import Store

    # The first command on a machine: there is no store yet. One that is named has to be there.
    store = Store(store_root(options)) if options.acf_dir is None else open_store(options)
    findings = examine()
    lines = Counter(Target(target).line for name in store.names() for target in store.targets(name))
    section = ""
    for finding in (*of_the_project(lines, findings), *findings):
        if finding.section != section:
            section = finding.section
            say(f"{section}:")
        say(f"  {finding.name:<34} {finding.found or 'no'}")
        if finding.remedy:
            say(f"  {'':<34} → {finding.remedy}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from pytest_compileiq.report.artifact import table_lines
    from pytest_compileiq.store.packs import AcfFilter, look, write_pack

    found = look(options.source, AcfFilter(options.arch, options.ptxas, _hash_of(options.ptx)))
    for sentence in found.unusable:
        complain(f"left out: {sentence}")
    if not found.acfs:
        others = f"; it holds {found.others} for something else" if found.others else ""
        raise UserError(f"{options.source}: no ACF that could be tried{others}")
    if options.to is not None:
        write_pack(found.acfs, options.to)
    if options.format == "json":
        listed = [{"filename": acf.filename, "bytes": len(acf.data), **acf.source} for acf in found.acfs]
        say(*json_text({"schema": 1, "candidates": listed, "left_out": [*found.unusable]}).splitlines())
        return 0
    say(
        *table_lines(("file", "kernel", "engine", "their search saw"), [_row(acf) for acf in found.acfs]),
        "",
        *_next(found.acfs, options.to),
    )
    return 0


def _hash_of(path: Path | None) -> str | None:
    from pytest_compileiq.store.packs import LARGEST_PTX, ptx_hash

    try:
        return None if path is None else ptx_hash(read_regular(path, LARGEST_PTX, follow=True).decode())
    except Unfit as why:
        raise UserError(f"--ptx={path} {why}") from why
    except UnicodeDecodeError as error:
        raise UserError(f"--ptx={path} is no text: {error}") from error


def _row(acf: ImportedAcf) -> tuple[str, str, str, str]:
    saw, ptx = acf.source.get("search_win"), str(acf.source.get("ptx", ""))
    entry = str(acf.source.get("entry") or (f"PTX {ptx[:8]}" if ptx else "not said"))
    gain = "not said" if saw is None else f"{saw:.1%} faster"
    forced = ", stored without beating its baseline" if acf.source.get("forced") else ""
    return acf.filename, entry, str(acf.source.get("engine", "not said")), gain + forced


def _next(acfs: Sequence[ImportedAcf], directory: Path | None) -> list[str]:
    count = quantity(len(acfs), "candidate")
    if directory is None:
        return [f"{count}; --to DIR writes them"]
    return [
        f"{count} in {directory}, none of them a claim. Try them before a search, or them alone:",
        f"  pytest --tune --tune-from={directory}",
        f"  pytest --tune --tune-engine=pack --tune-from={directory}",
    ]
