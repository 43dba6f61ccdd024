"""What a prediction had to put up with, as bits of one number per object."""

from __future__ import annotations

from enum import IntFlag

import numpy as np
import numpy.typing as npt


class Flag(IntFlag):
    """Bits of the column ``z_flags``; 0 means that nothing had to be repaired."""

    MISSING_BAND = 1
    NOT_DETECTED = 2
    FAILED_BAND = 4
    CLIPPED_INPUT = 8
    OUTSIDE_COVERAGE = 16
    NO_MEASUREMENT = 32


FLAG_MEANINGS: dict[Flag, str] = {
    Flag.MISSING_BAND: (
        "a band was not observed (or E(B-V) was missing, and its median taken); expected or filled given the "
        "other bands"
    ),
    Flag.NOT_DETECTED: (
        "a band was observed but nothing was detected; a small flux, the limit, or what is expected given the other "
        "bands stands in"
    ),
    Flag.FAILED_BAND: "a measurement failed; expected or filled given the other bands",
    Flag.CLIPPED_INPUT: (
        "a magnitude lay outside the range of the training rows; the row was moved to its edge (if `clip` is set)"
    ),
    Flag.OUTSIDE_COVERAGE: "coverage is below 0.01: 99 in 100 training rows lie in fuller places than the object",
    Flag.NO_MEASUREMENT: "no band was measured; the density is the Gaussian of the training redshifts",
}
"""What each bit means, in words; stored in the metadata of every predictions file."""


def flag_legend() -> dict[str, str]:
    """Return the meaning of every bit, by ``"value NAME"`` such as ``"8 CLIPPED_INPUT"``.

    Examples
    --------
    >>> from gpzed.features import flag_legend
    >>> list(flag_legend())[:2]
    ['1 MISSING_BAND', '2 NOT_DETECTED']
    """
    return {f"{int(flag)} {flag.name}": text for flag, text in FLAG_MEANINGS.items()}


def count_flags(flags: npt.NDArray[np.uint32]) -> dict[str, int]:
    """Return how many objects carry each bit, by name; bits that nobody carries are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from gpzed.features import count_flags
    >>> count_flags(np.array([0, 2, 18], dtype=np.uint32))
    {'NOT_DETECTED': 2, 'OUTSIDE_COVERAGE': 1}
    """
    counts = {str(flag.name): int(np.count_nonzero(flags & np.uint32(flag))) for flag in Flag}
    return {name: count for name, count in counts.items() if count}
