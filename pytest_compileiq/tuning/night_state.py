"""The state of a killed night: its spending, and the benchmarks that it has closed.

A JSON file in ``.compileiq/`` of the project, replaced as a whole. Evaluations are in the searches' journals.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import MOST_EVALUATIONS, MOST_SECONDS, Settings
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.report.claims import report_on
from pytest_compileiq.store.local import local_directory
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, locked, read_regular
from pytest_compileiq.system.files import replace as replace_file

_FILE = "night.json"
SAVED_EVERY_S = 1.0
_MOST_BYTES = 64 << 20
_REMEDY = "remove it, and the night starts anew"


class Closed(Struct, forbid_unknown_fields=True):
    """A benchmark that is proven and stored."""

    identity: str  # of all that its tuning depended on
    stored: str  # the digest of its artifact's metadata
    report: ItemReport
    evaluations: int
    best: float  # the search's best score, a log-ratio


class Closing(Struct, forbid_unknown_fields=True):
    """A benchmark whose proof has begun; ``stored`` is the digest of its artifact's metadata then, "" for none."""

    identity: str
    stored: str


class NightState(Struct, forbid_unknown_fields=True):
    """A night under way; ``spent_s`` and ``evaluations`` stay spent where it goes on."""

    spent_s: Annotated[float, Meta(ge=0, le=10 * MOST_SECONDS)] = 0.0
    evaluations: Annotated[int, Meta(ge=0, le=10 * MOST_EVALUATIONS)] = 0
    opened: list[str] = []  # node ids of the benchmarks that it has searched
    seconds: dict[str, Annotated[float, Meta(ge=0, le=10 * MOST_SECONDS)]] = {}  # node id → its share of ``spent_s``
    is_proving: bool = False  # nothing more is searched: the rest of the time was kept for proofs
    closed: dict[str, Closed] = {}
    closing: dict[str, Closing] = {}


class NightBook:
    """Reads and writes the state of the project's night; made by ``open_night``."""

    def __init__(self, path: Path, settings: Settings, store: Store) -> None:
        self._path, self._settings, self._store = path, settings, store
        self.state = NightState() if settings.fresh or not path.exists() else _read(path)
        self._saved = time.monotonic()
        self._changing = threading.RLock()  # several devices have something to note

    def save(self) -> None:
        """Replace the file; the state as it was is lost by nothing but a power cut."""
        with self._changing:
            encoded = msgspec.json.encode(self.state, enc_hook=str)  # a target is a str of its own class
            replace_file(self._path, encoded, is_lasting=False)
            self._saved = time.monotonic()

    def spend(self, nodeid: str, seconds: float, *, spent_s: float, evaluations: int) -> None:
        with self._changing:
            self.state.seconds[nodeid] = seconds
            self.state.spent_s, self.state.evaluations = spent_s, evaluations

    def save_now_and_then(self) -> None:
        """Replace the file if it is a second old, so that no more than that is forgotten by a kill."""
        if time.monotonic() - self._saved >= SAVED_EVERY_S:
            self.save()

    def end(self, *, keeps_closed: bool) -> None:
        """The night is over: its budget is spent anew by the next, which leaves alone what this one closed, if told."""
        if keeps_closed:
            self.state.spent_s, self.state.evaluations, self.state.is_proving = 0.0, 0, False
            self.state.seconds = {}
            for closed in self.state.closed.values():  # of the budget that is over
                closed.evaluations = 0
            self.save()
        else:
            self._path.unlink(missing_ok=True)

    def begin_closing(self, benchmark: TunedBenchmark) -> None:
        """Note what is stored of a benchmark before its proof, so that a kill tells whether that stored anything."""
        with self._changing:
            self.state.closing[benchmark.nodeid] = Closing(*self._known(benchmark))
            self.save()

    def close(self, benchmark: TunedBenchmark, report: ItemReport, evaluations: int, best: float) -> None:
        with self._changing:
            self.state.closed[benchmark.nodeid] = Closed(*self._known(benchmark), report, evaluations, best)
            self.state.closing.pop(benchmark.nodeid, None)
            self.save()

    def closed(self, benchmark: TunedBenchmark) -> Closed | None:
        """How an earlier run of this night closed the benchmark; None if it has not, or if something has changed."""
        held = self.state.closed.get(benchmark.nodeid)
        if held is None or held.report.nodeid != benchmark.nodeid:
            return None
        return held if (held.identity, held.stored) == self._known(benchmark) else None

    def open(self, nodeid: str) -> None:
        with self._changing:
            if nodeid not in self.state.opened:
                self.state.opened.append(nodeid)

    def stored_by_a_killed_run(self, benchmark: TunedBenchmark) -> ItemReport | None:
        """What a run stored that was killed before it could note that; None if none did."""
        held, (identity, stored) = self.state.closing.get(benchmark.nodeid), self._known(benchmark)
        if held is None or held.identity != identity or not stored or held.stored == stored:
            return None
        artifact = self._store.read(benchmark.name, benchmark.builder.target)
        verdict = Verdict.TUNED if artifact.controls is not None else Verdict.BASELINE
        message = artifact.reason or "stored before the run that proved it was killed"
        return report_on(benchmark.nodeid, benchmark.name, benchmark.builder.target, verdict, message, artifact)

    def _known(self, benchmark: TunedBenchmark) -> tuple[str, str]:
        """The identity of its tuning, and the digest of what is stored of it now."""
        path, stored = self._store.metadata_path(benchmark.name, benchmark.builder.target), ""
        with contextlib.suppress(Unfit):
            stored = sha256_hex(read_regular(path, _MOST_BYTES))
        return identity_of(benchmark, self._settings), stored


@contextlib.contextmanager
def open_night(settings: Settings, store: Store) -> Iterator[NightBook]:
    """The night of a project, locked against a second one."""
    home = local_directory(settings.rootdir)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(home / "night.lock", wait=False))
        except BlockingIOError as error:
            raise StoreError(
                f"another pytest --tune-total is under way in {settings.rootdir}: wait for it, or stop it"
            ) from error
        yield NightBook(home / _FILE, settings, store)


def _read(path: Path) -> NightState:
    try:
        return msgspec.json.decode(read_regular(path, _MOST_BYTES), type=NightState)
    except Unfit as error:
        raise StoreError(f"{path} {error}; {_REMEDY}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is no state of a night ({error}): {_REMEDY}") from error


def identity_of(benchmark: TunedBenchmark, settings: Settings) -> str:
    """A digest of what a benchmark's tuning depends on, as far as it is known without a build."""
    fingerprint, compiler, spec = benchmark.fingerprint, benchmark.builder.compiler, benchmark.spec
    depends = [
        fingerprint.benchmark, fingerprint.command, sorted(fingerprint.sources.items()), compiler.build,
        *sorted(fingerprint.values.items()), *sorted(fingerprint.environment.items()),
        benchmark.builder.target, benchmark.space.digest, settings.engine, spec.engine, settings.seed, spec.seed,
        str(settings.start_from), repr(dict(spec.engine_options)),
    ]  # fmt: skip
    return sha256_hex(repr(depends).encode())
