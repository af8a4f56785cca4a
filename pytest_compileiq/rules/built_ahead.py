"""How many candidates are built for each that is measured, where an engine picks by machine code.

Of measurements four builds for each make the most, of time two where a build takes as long as a measurement: decision
20 has the figures.
"""

from __future__ import annotations

MOST, FEWEST = 4, 2


def builds_for_each(build_s: float, measurement_s: float) -> int:
    """So many that those passed over take no longer than the one that is picked, built and measured.

    So a search takes at most twice as long as one that builds only what it measures.

    Args:
        build_s: wall seconds that a build adds to the search, with others made beside it.
        measurement_s: wall seconds of one measurement.
    """
    return MOST if (MOST - FEWEST) * build_s <= measurement_s else FEWEST + int(measurement_s / build_s)
