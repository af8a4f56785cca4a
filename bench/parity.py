"""What users see at two commits, compared: verdicts, printed words, JSON, exit codes and files written.

python bench/parity.py OLD [NEW] [--only WORD] [--hostile 200] [--jobs 2]

OLD tunes the projects of ``bench/goldens/``, so that no digest or claim is part of the repository. Each state of their
stores (as made, with an edited source, with damaged files, hostile ones of ``tests/fuzz``) then goes through pytest and
every verb of ``acf`` at both commits, at the same path. NEW is the working tree by default. The exit status is 1 where
anything but measured times differs; the differences are printed.

Programs are forked from one process a commit that has imported the package: some 2,000 calls take minutes.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import itertools
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GOLDENS = ROOT / "bench" / "goldens"
TUNE = ["pytest", "--tune", "--tune-budget=6", "--tune-seed=1", "--tune-jobs=1"]
REPLAY = ["pytest", "--acf-check=replay", "--acf-report=report.json"]
NO_OTHERS = [f"-pno:{name}" for name in ("cacheprovider", "randomly", "xdist", "hypothesispytest", "anyio")]
LIMIT_S = 120

# ── states of a golden ───────────────────────────────────────────────────────────────────────────────────────────

Change = Callable[[Path], None]


def _files(root: Path, pattern: str) -> list[Path]:
    found = (path for path in sorted(root.glob(pattern)) if path.is_file())
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts)]


def replace(pattern: str, old: str, new: str) -> Change:
    """Replace ``old``, a regular expression, in each file that matches."""

    def change(root: Path) -> None:
        for path in _files(root, pattern):
            path.write_bytes(re.sub(old.encode(), new.encode(), path.read_bytes(), flags=re.MULTILINE))

    return change


def remove(pattern: str) -> Change:
    """Remove the first file that matches."""
    return lambda root: [path.unlink() for path in _files(root, pattern)[:1]] and None


def append(pattern: str, text: str) -> Change:
    """Append ``text`` to each file that matches."""
    return lambda root: [path.write_bytes(path.read_bytes() + text.encode()) for path in _files(root, pattern)] and None


def flip_byte(pattern: str) -> Change:
    """Change one byte in the middle of each file that matches."""

    def change(root: Path) -> None:
        for path in _files(root, pattern):
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)

    return change


SOURCES, META = "*.c*", "acf/*/*.toml"
CHANGES: dict[str, Change] = {
    "as made": lambda root: None,
    "comment in a source": replace("*.c*", r"\A", "/* a comment */\n"),
    "constant in a source": replace("*.c*", r"float sum = 0|sink = 1;|2\.0f|by /", r"\g<0> 3 + "),
    "constant in a kernel": replace("**/*.py", r"2 \* tl", "3 * tl"),
    "constant in a header": append("*.h", "#undef SCALE\n#define SCALE 3.0f\n"),
    "source gone": remove(SOURCES),
    "flags": replace("test_*.py", r"flags=\"-O1", r'flags="-O2'),
    "space": replace("test_*.py", r"choice\(\[", r'choice(["9", '),
    "assertion": append("test_*.py", "    assert acf\n"),
    "test renamed": replace("test_*.py", r"def test_", r"def test_new_"),
    "file renamed": lambda root: [p.rename(p.with_name("test_moved.py")) for p in _files(root, "test_*.py")] and None,
    "test gone": replace("test_*.py", r"^def test_", r"def no_test_"),
    "no settings": remove("pytest.ini"),
    "metadata gone": remove(META),
    "controls gone": remove("acf/*/*.acf"),
    "samples gone": remove("acf/*/*.csv"),
    "controls damaged": flip_byte("acf/*/*.acf"),
    "controls by hand": append("acf/*/*.acf", "-O9\n"),
    "samples damaged": flip_byte("acf/*/*.csv"),
    "metadata damaged": flip_byte(META),
    "no claim": replace(META, r"tuned_value = [\d.]+", "tuned_value = 1"),
    "better claim": replace(META, r"baseline_value = ", "baseline_value = 9"),
    "other compiler": replace(META, r"version = \"", 'version = "9'),
    "other code": replace(META, r"sha256 = \"[0-9a-f]", 'sha256 = "0'),
    "future schema": replace(META, r"^schema = 1", "schema = 99"),
    "unknown key": replace(META, r"^schema", "unknown = 1\nschema"),
    "control characters": replace(META, r"^(benchmark = \".*)\"", r"\1\\u001b[31m"),
    "conflict": append(META, "<<<<<<< HEAD\n"),
    "unknown file": lambda root: (root / "acf" / "surprise.txt").write_text("?") and None,
    "link": lambda root: (root / "acf" / "linked").symlink_to("/etc"),
}
EVERY_CHANGE = ("exact", "timed", "cuda")  # the other goldens go through the few below
FEW = (
    "as made", "comment in a source", "constant in a source", "constant in a kernel", "flags", "test renamed",
    "metadata damaged", "controls by hand", "better claim", "other code",
)  # fmt: skip
READING = [
    ["acf", "list"], ["acf", "list", "--format", "json"], ["acf", "check"], ["acf", "doctor"], ["acf", "diff"],
    ["acf", "diff", "--format", "markdown"], ["acf", "diff", "--format", "json"], ["acf", "history"],
    ["acf", "history", "--format", "json"], ["acf", "history", "--format", "html"], ["acf", "cache"],
    ["acf", "export", "--runtime", "out"], ["acf", "report", "all.html"], ["acf", "prune"],
]  # fmt: skip
OF_EACH = [
    ["acf", "show", "{name}"], ["acf", "show", "{name}", "--format", "json"], ["acf", "flags", "{name}"],
    ["acf", "flags", "{name}", "--on-stale=omit", "-o", "out/flags", "--depfile", "out/depfile"],
    ["acf", "textconv", "{file}"],
]  # fmt: skip
WRITING = [
    ["acf", "promote", "{name}", "--point", "1"], ["acf", "retire", "{name}", "--reason", "no longer right"],
    ["acf", "prune", "--yes"], ["acf", "list"], ["pytest", "--acf-check=replay", "--acf-html=page.html"],
]  # fmt: skip


def calls_in(project: Path) -> list[list[str]]:
    """What is run in one state, in this order."""
    directories = sorted(path for path in project.glob("acf/*") if path.is_dir() and not path.is_symlink())
    names = [path.name for path in directories[:2]] or ["none"]
    files = sorted(str(path.relative_to(project)) for path in project.glob("acf/*/*"))[:3] or ["acf/none.toml"]
    each = [[word.format(name=name, file="{file}") for word in call] for call in OF_EACH[:-1] for name in names]
    texts = [[word.format(file=file) for word in OF_EACH[-1]] for file in files]
    writing = [[word.format(name=names[0]) for word in call] for call in WRITING]
    return [[*REPLAY], *READING, *each, *texts, *writing]


# ── one commit's programs ────────────────────────────────────────────────────────────────────────────────────────


def serve() -> None:
    """Answer requests of a line each: fork, run the program with this process's package, tell the exit code."""
    import numpy  # noqa: F401
    import pydantic  # noqa: F401
    import pytest  # noqa: F401
    import scipy.special  # noqa: F401

    import pytest_compileiq.cli.main

    print(Path(pytest_compileiq.cli.main.__file__).parents[2], flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if not (child := os.fork()):
            os.setsid()
            _become(request)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(request: dict[str, Any]) -> None:
    os.chdir(request["cwd"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    out = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    module, *arguments = request["argv"]
    sys.argv = [module, *arguments]
    code: Any = 70
    try:
        import signal

        signal.alarm(LIMIT_S)
        if module == "layout":
            _lay_out(*arguments)
            code = 0
        else:
            runpy.run_module({"acf": "pytest_compileiq.cli"}.get(module, module), run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _lay_out(seed: str, number: str) -> None:
    """Write a hostile store of this commit's fuzzer into the project."""
    from tests.fuzz.stores import make

    make(int(seed), int(number)).write(Path("acf"))


class Commit:
    """The package at one commit, and a process a thread that runs its programs."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self._of_thread = local()

    def run(self, argv: list[str], cwd: Path, output: Path) -> int:
        """The exit code of a program in ``cwd``, which prints to ``output``."""
        if not hasattr(self._of_thread, "server"):
            environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "GIT_"))}
            self._of_thread.server = subprocess.Popen(
                [sys.executable, str(ROOT / "bench" / "parity.py"), "--serve"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.tree,
                env=environment | {"PYTHONPATH": str(self.tree), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "120"},
            )  # fmt: skip
            loaded = self._of_thread.server.stdout.readline().strip()
            if Path(loaded).resolve() != self.tree.resolve():
                sys.exit(f"{loaded} was loaded in place of {self.tree}")
        request = {"argv": argv, "cwd": str(cwd), "output": str(output)}
        self._of_thread.server.stdin.write(json.dumps(request) + "\n")
        self._of_thread.server.stdin.flush()
        return int(self._of_thread.server.stdout.readline())


# ── what is compared ─────────────────────────────────────────────────────────────────────────────────────────────

# Measured, dated, or an identity of this run: compared as a word.
VARYING = (
    (r"\d+(\.\d+)? (ns|µs|ms|s|min|h|MiB|KiB|bytes)\b", "TIME"),
    (r"\bin \d+\.\d+s (\(\d+:\d\d:\d\d\) )?=+$", "TIME ="),  # pytest's last line is as wide as the terminal
    (r"\bin \d+\.\d+s\b", "TIME"),
    (r"keep \d+\.\d of", "keep SOME of"),
    (r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?)?", "DATE"),
    (r"\b\d\d:\d\d(:\d\d)?\b", "DATE"),
    (r'("?\w*(seconds|_s|duration|time|taken_s)"?\s*[:=]\s*)[\d.e+-]+', r"\1TIME"),
    (r"\b[0-9a-f]{7,40}\b", "ID"),
    (r"0x[0-9a-f]+", "ADDRESS"),
    (r"^=+ (?=.* TIME =$)", "= "),
    (r"^(platform|cachedir|rootdir|plugins|configfile):? .*$", ""),
)


def normal(text: str) -> str:
    """``text`` without what differs between two runs of one program."""
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


def files_in(project: Path) -> Iterator[tuple[str, str]]:
    """(path, content or its digest) of each file that programs wrote or kept, but caches."""
    for path in sorted(project.rglob("*")):
        name = str(path.relative_to(project))
        if path.is_file() and not path.is_symlink() and not re.search(r"(^|/)(\.git|\.compileiq|__pycache__)/", name):
            content = path.read_bytes()
            with suppress(UnicodeDecodeError):
                if not name.endswith(".csv"):
                    yield name, normal(content.decode())
                    continue
            yield name, hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class State:
    """One golden, changed in one way or with a hostile store."""

    golden: str
    change: str

    def prepare(self, home: Path, old: Commit, goldens: Path) -> Path:
        """The project in this state, committed to git as it was made."""
        shutil.rmtree(home / "project", ignore_errors=True)
        project = home / "project"
        if self.change == "fresh":
            shutil.copytree(GOLDENS / self.golden, project)
            (project / "pytest.ini").touch()
            return project
        shutil.copytree(goldens / self.golden, project, symlinks=True)
        if self.change.startswith("hostile "):
            shutil.rmtree(project / "acf")
            old.run(["layout", *self.change.split()[1].split(":")], project, home / "said")
        else:
            CHANGES[self.change](project)
        return project

    def seen(self, commit: Commit, home: Path, old: Commit, goldens: Path) -> list[tuple[str, str]]:
        """(call or file, what it gave) in order."""
        project = self.prepare(home, old, goldens)
        calls = [TUNE, REPLAY] if self.change == "fresh" else calls_in(project)
        found = []
        for call in calls:
            argv = [*call, *NO_OTHERS] if call[0] == "pytest" else call
            code = commit.run(argv, project, home / "said")
            said = (home / "said").read_text(errors="backslashreplace")
            found.append((" ".join(call), f"exit {code}\n{normal(said)}"))
        return [*found, *files_in(project)]


def make_goldens(commit: Commit, home: Path, names: list[str]) -> None:
    """Tune each project by ``commit`` and commit it to git; one whose compiler is missing is left out, and told."""
    for name in [*names]:
        project = home / name
        shutil.copytree(GOLDENS / name, project)
        (project / "pytest.ini").touch()
        (project / ".gitignore").write_text(".compileiq/\n__pycache__/\n")
        said = home / f"{name}.txt"
        code = commit.run([*TUNE, *NO_OTHERS], project, said)
        if code:
            names.remove(name)
            shutil.rmtree(project)
            print(f"no golden {name}: exit {code}: {said.read_text().strip().splitlines()[-1]}", flush=True)
            continue
        for words in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=g", "-c", "user.email=g", "commit", "-qm", "made"],
        ):
            subprocess.run(["git", *words], cwd=project, check=True)


def difference(state: State, old: list[tuple[str, str]], new: list[tuple[str, str]]) -> list[str]:
    """What differs, each call or file with its changed lines."""
    told = []
    before, after = dict(old), dict(new)
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            lines = difflib.unified_diff(
                before.get(key, "(none)").splitlines(),
                after.get(key, "(none)").splitlines(),
                "old",
                "new",
                lineterm="",
                n=0,
            )
            changed = [line for line in itertools.islice(lines, 2, 14) if not line.startswith("@@")]
            both = [line[1:] for line in changed[:2]]
            alike = len(os.path.commonprefix(both)) if len(both) > 1 else 0  # noqa: RUF071 - of texts
            changed = [line[0] + line[1:][max(0, alike - 80) : alike + 220] for line in changed]  # a page is one line
            told.append("\n    ".join([f"{state.golden}, {state.change}: {key}", *changed]))
    return told


def main() -> int:
    """Returns 1 where the commits differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="the commit that makes the goldens")
    parser.add_argument("new", metavar="NEW", nargs="?", help="the commit held to it (default: the working tree)")
    parser.add_argument("--only", default="", metavar="WORD", help="goldens and changes whose name holds this")
    parser.add_argument("--hostile", type=int, default=200, metavar="N", help="hostile stores (default: 200)")
    parser.add_argument("--jobs", type=int, default=2, help="states at once (default: 2)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parity-") as name:
        home = Path(name)
        commits = [Commit(checked_out(options.old, home / "old"))]
        commits.append(Commit(checked_out(options.new, home / "new") if options.new else ROOT))
        old, goldens = commits[0], home / "goldens"
        goldens.mkdir()
        names = sorted(path.name for path in GOLDENS.iterdir())
        make_goldens(old, goldens, names)
        states = [State(name, change) for name in names for change in (CHANGES if name in EVERY_CHANGE else FEW)]
        states += [State(name, "fresh") for name in names if name != "timed"]
        states += [State("exact", f"hostile 1:{number}") for number in range(options.hostile)]
        states = [state for state in states if options.only in f"{state.golden}, {state.change}"]

        def compare(state: State) -> list[str]:
            place = home / "places" / f"{state.golden}-{state.change}".replace(" ", "-").replace(":", "-")
            place.mkdir(parents=True)
            seen = [state.seen(commit, place, old, goldens) for commit in commits]
            shutil.rmtree(place)
            counts.append(len(seen[0]))
            return difference(state, *seen)

        counts: list[int] = []
        differing = 0
        with ThreadPoolExecutor(options.jobs) as pool:
            for told in pool.map(compare, states):
                differing += bool(told)
                for text in told:
                    print(text, flush=True)
        print(
            f"{len(states)} states of {len(names)} goldens, {sum(counts)} answers and files: {differing} states differ"
        )
        return int(bool(differing))


def checked_out(commit: str, to: Path) -> Path:
    """The tree of ``commit``."""
    to.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "x", "-C", str(to)], input=archive, check=True)
    return to


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["--serve"] else main())
