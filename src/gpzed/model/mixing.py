"""The Gaussians of all members side by side: the mixture that a committee predicts, before anything corrects it.

Complete rows whose members have sums of squares for their model variances (`gpzed.mixture.quick`) are predicted block
by block straight into the arrays of the result; all others as each member predicts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.engine.blocks import Scratch
from gpzed.engine.memory import recycled
from gpzed.engine.threads import Team
from gpzed.errors import NumericalError
from gpzed.mixture.quick import Columns, Place, Quick, fill_columns
from gpzed.model.data import Standardisation
from gpzed.prediction import OF_ALL, Components
from gpzed.prediction.components import ARRAYS, no_input_variances

MIN_ROWS, MAX_ROWS = 1024, 16384
"""Rows that a thread takes at once: enough that Python does not matter, few enough that all have some."""


class Predictor(Protocol):
    """What a committee asks of its members, of whatever kind."""

    @property
    def standardisation(self) -> Standardisation:
        """The maps of inputs and target."""
        ...

    @property
    def n_inputs(self) -> int:
        """Parts of a prediction, for different inputs that may be behind a row."""
        ...

    @property
    def input_labels(self) -> IntArray:
        """For which of the possible inputs each Gaussian of a prediction is."""
        ...

    @property
    def quick(self) -> Quick | None:
        """The same for complete rows, if there is a quicker way."""
        ...

    def components(self, X: FloatArray, team: Team, X_std: FloatArray | None = None) -> Components:
        """Return the Gaussians for raw inputs."""
        ...

    def draw(self, X: FloatArray, which: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw how far functions are from their expectations; see `gpzed.model.member.Member.draw`."""
        ...


def mix_members(
    members: Sequence[Predictor],
    shares: FloatArray,
    X: FloatArray,
    team: Team,
    X_std: FloatArray | None = None,
    *,
    exact: bool = False,
    spare: bool = False,
    lean: bool = False,
) -> Components:
    """Return the Gaussians of all members for raw inputs (n, d), each member with its share.

    With `exact` every model variance is that of the posterior of the weights. With `spare` there is one Gaussian more,
    which belongs to all and has no weight yet. With `lean`, Gaussians for further inputs are left out if no row has
    gaps: they have no weight then.

    Raises
    ------
    NumericalError
        Means or variances are not finite, or beyond all scale.
    """
    others = np.flatnonzero(np.isnan(X).any(axis=1))
    is_quick = not exact and X_std is None and len(others) < len(X)
    quick = [member.quick if is_quick else None for member in members]
    repeats = [
        1 if lean and one and not len(others) else member.n_inputs for one, member in zip(quick, members, strict=True)
    ]
    inputs = [
        member.input_labels[: len(member.input_labels) // member.n_inputs * n]
        for member, n in zip(members, repeats, strict=True)
    ]
    sizes = [len(one) for one in inputs]
    starts = np.cumsum([0, *sizes])
    labels = np.repeat(np.arange(len(members)), sizes), np.concatenate(inputs)
    arrays = {name: recycled((len(X), starts[-1] + spare)) for name in ARRAYS[:4]}
    are_sound = True

    needs_input_variances = len(others) > 0 or None in quick
    shape = arrays["weights"].shape
    arrays["input_variances"] = np.zeros(shape) if needs_input_variances else no_input_variances(shape)
    size = MAX_ROWS if team.n_threads == 1 else int(np.clip(len(X) // (4 * team.n_threads), MIN_ROWS, MAX_ROWS))
    is_first = quick[0] is not None
    ready = [
        (one, Place(first, n, share, member.standardisation.y_mean, member.standardisation.y_scale))
        for one, member, n, share, first in zip(quick, members, repeats, shares.tolist(), starts.tolist(), strict=False)
        if one is not None
    ]

    def work(start: int) -> bool:
        columns = Columns(*(arrays[name][start : start + size] for name in ARRAYS[:4]))
        scratch = Scratch(team.buffers())
        return substitute(fill_columns)(X[start : start + size], ready, columns, scratch, spare=spare and is_first)

    if ready:
        are_sound = all(team.map(work, range(0, len(X), size)))
    for heads, member, share, first, stop in zip(quick, members, shares, starts, starts[1:], strict=False):
        rows: slice | IntArray = slice(None) if heads is None else others
        if len(X[rows]):
            found = member.components(X[rows], team, None if X_std is None else X_std[rows])
            for name in ARRAYS:
                arrays[name][rows, first:stop] = getattr(found, name)
            arrays["weights"][rows, first:stop] *= share
    if spare and (len(others) or quick[0] is None):
        for name in ARRAYS:
            arrays[name][:, -1] = 0.0 if name == "weights" else arrays[name][:, 0]
    if spare:
        labels = np.append(labels[0], OF_ALL), np.append(labels[1], 0)
    components = Components(**arrays, member=labels[0], input=labels[1])
    if not are_sound or None in quick:
        _verify(components)
    elif len(others):
        _verify(components.take(others))
    return components


def _verify(components: Components) -> None:
    try:
        components.verify()
    except ValueError as error:
        raise NumericalError(
            f"the predictions are beyond double precision: {error} Inputs that far from all training rows are "
            "expected from wrong units alone."
        ) from None
