"""What the other artifacts of the store teach a search that begins. Everything read there is untrusted."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import MOST_LESSONS, Lesson, sha256_hex
from pytest_compileiq.rules.likeness import Knobs, adopted, knobs_that_bring, weighed
from pytest_compileiq.spelling import first_of, quantity
from pytest_compileiq.store.metadata import render
from pytest_compileiq.store.status import why_stale, why_unproven
from pytest_compileiq.store.store import Store

MOST_TOLD = 3  # sentences about artifacts that could not be read
MOST_READ = 300  # artifacts, those of the same name first: reading one takes milliseconds


def lessons_for(store: Store, benchmark: TunedBenchmark, engine: str) -> tuple[Sequence[Lesson], Sequence[str]]:
    """Lessons of proven artifacts that gained on the first objective of ``benchmark``, and sentences on unread ones.

    An opaque space is nobody's to begin in, and the engine ``pack`` tries what it is given, alone.
    """
    if benchmark.space.opaque is not None or engine == "pack":
        return (), ()
    own, metric = (benchmark.name, benchmark.builder.target), benchmark.objectives[0].metric
    others = [key for key in store.artifacts() if key != own]
    taught: dict[tuple[str, str], tuple[Knobs, str]] = {}
    passed_over = []
    for name, target in sorted(others, key=lambda key: key[0] != benchmark.name)[:MOST_READ]:
        try:
            artifact = store.read(name, target)
            knobs = adopted(knobs_that_bring(artifact, metric), benchmark.space)
            if knobs is None or why_unproven(name, artifact) or why_stale(name, artifact, benchmark.rootdir):
                continue
            store.read_controls(name, artifact)
            taught[name, target] = knobs, sha256_hex(render(artifact))
        except StoreError as error:
            passed_over.append(f"{name}/{target} taught nothing: {error}")
    weights = weighed({key: knobs for key, (knobs, _) in taught.items()}, benchmark.name)
    lessons = [Lesson("/".join(key), digest, knobs, weights[key]) for key, (knobs, digest) in taught.items()]
    few = sorted(lessons, key=lambda lesson: -lesson.weight)[:MOST_LESSONS]
    more = (f"{len(passed_over) - MOST_TOLD} more taught nothing: acf check says why",)
    return few, (*passed_over[:MOST_TOLD], *(more if len(passed_over) > MOST_TOLD else ()))


def taught_text(lessons: Sequence[Lesson]) -> str:
    """What a search says of its lessons as it begins."""
    named = ", ".join(first_of([lesson.artifact for lesson in lessons]))
    return f"starts from what {quantity(len(lessons), 'artifact')} taught: {named}"
