"""What a race keeps: what was built serves everywhere, what was timed only on the processor that it was timed on."""

from __future__ import annotations

import race_build
from race_build import Kernel, Source, Workshop
from race_kept import Kept


def test_times_of_another_processor_are_no_answers_here(tmp_path, monkeypatch):
    path = tmp_path / "kernel.c"
    path.write_text("int one(void) { return 1; }\n")
    kept = Kept(tmp_path / "kept.sqlite")
    workshop = Workshop(kept)
    identities = []
    for name in ("A", "B", "A"):
        monkeypatch.setattr(race_build, "processor", lambda name=name: name)
        kernel = Kernel(workshop, Source("kernel", path, path))
        identities.append((kernel.identity, kernel.measured_identity))
    workshop.close()
    kept.close()
    first, other, again = identities
    assert first == again and first[0] == other[0] and first[1] != other[1]
