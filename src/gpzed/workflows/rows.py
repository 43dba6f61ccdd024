"""Predictions for the rows of a table: as densities, and as the columns that files get."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpzed._types import AnyArray
from gpzed.catalog import Catalog, PhotometrySchema, Scale, SentinelReport, Sentinels
from gpzed.config import PredictConfig
from gpzed.engine.threads import Team
from gpzed.features import Flag
from gpzed.prediction import Prediction
from gpzed.workflows.cautions import Seen
from gpzed.workflows.columns import BLOCK_ROWS, column_dtype, fill_columns
from gpzed.workflows.inputs import Inputs, make_inputs

if TYPE_CHECKING:
    from gpzed.workflows.model import PhotozModel

COST_ROWS = 500
"""Rows by which it is measured what absent bands cost."""


def predict_table(
    model: PhotozModel,
    table: Catalog,
    schema: PhotometrySchema | None = None,
    sentinels: Sentinels | None = None,
    *,
    exact: bool = False,
) -> tuple[Prediction, SentinelReport]:
    """Predict for the rows of a table in memory, each as if it were alone.

    Parameters
    ----------
    model : PhotozModel
    table : Catalog
    schema : PhotometrySchema, optional
        Which column is what, of the bands of training; as in training by default.
    sentinels : Sentinels, optional
        The numbers that are no measurements; as in training by default.
    exact : bool
        As in `GPzRegressor.predict_distribution`.

    Returns
    -------
    prediction : Prediction
        With `flags`.
    report : SentinelReport
        What was measured and what was not.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> from gpzed.catalog import Catalog
    >>> from gpzed.workflows import predict_table
    >>> prediction, report = predict_table(model, Catalog(table))
    >>> len(prediction)
    400
    """
    return predict_rows(model, table, schema, sentinels, exact=exact)[:2]


def predict_rows(
    model: PhotozModel,
    table: Catalog,
    schema: PhotometrySchema | None = None,
    sentinels: Sentinels | None = None,
    *,
    exact: bool = False,
) -> tuple[Prediction, SentinelReport, Seen]:
    """Do the same, and tell what the rows are like."""
    schema = schema or model.schema
    inputs = make_inputs(table, schema, sentinels or model.sentinels, model.transformer)
    prediction = model.predict_inputs(inputs.X, inputs.flags, inputs.X_std, exact=exact)
    return prediction, inputs.photometry.report, _seen(model, schema, inputs, prediction.flags)


def tabulate_rows(
    model: PhotozModel, table: Catalog, schema: PhotometrySchema, options: PredictConfig
) -> tuple[AnyArray, SentinelReport, Seen]:
    """Return the columns of predictions for the rows of a table, a structured array; the options are settled.

    Block by block, so that the Gaussians they come from stay in the cache; complete rows apart from those with gaps,
    which have more of them.
    """
    inputs = make_inputs(table, schema, model.sentinels, model.transformer)
    values = np.empty(len(table), dtype=column_dtype(options, model.n_components))
    single = model.with_threads(1)
    gaps = np.isnan(inputs.X).any(axis=1)
    order = np.argsort(~gaps, kind="stable") if gaps.any() else None

    def work(block: slice) -> None:
        rows = block if order is None else order[block]
        X_std = None if inputs.X_std is None else inputs.X_std[rows]
        lean = options.pdf != "full"
        prediction = single.regressor.predict_checked(inputs.X[rows], X_std, exact=options.exact, lean=lean)
        fill_columns(values[block], single.flagged(prediction, inputs.flags[rows]), options)

    blocks, n_gaps = [], int(np.count_nonzero(gaps))
    for first, last in ((0, n_gaps), (n_gaps, len(table))):
        n_blocks = -(-(last - first) // BLOCK_ROWS)
        edges = np.linspace(first, last, n_blocks + 1).astype(int)
        blocks += [slice(start, stop) for start, stop in pairwise(edges)]
    Team(model.regressor.n_threads).map(work, blocks)
    if order is not None:
        values = np.take(values.view(f"V{values.itemsize}"), np.argsort(order)).view(values.dtype)
    return values, inputs.photometry.report, _seen(model, schema, inputs, values["z_flags"])


def _seen(model: PhotozModel, schema: PhotometrySchema, inputs: Inputs, flags: Any) -> Seen:
    """Return what rows turned out to be like."""
    features = model.transformer
    excess = None if features.usual_errors is None else inputs.X[:, -1] - features.mean[-1]
    return Seen.of(Scale.of(inputs.photometry), flags, _cost_of_absence(model, schema, inputs), excess)


def _cost_of_absence(model: PhotozModel, schema: PhotometrySchema, inputs: Inputs) -> tuple[float, float] | None:
    """Return the median z_std of some rows, had the absent bands the values expected of them, and without these."""
    some = np.flatnonzero((inputs.flags & np.uint32(Flag.NO_MEASUREMENT)) == 0)[:COST_ROWS]
    if not schema.absent or not len(some):
        return None
    X, X_std = inputs.X[some], None if inputs.X_std is None else inputs.X_std[some]
    filled = model.regressor.predict_distribution(model.transformer.filled(X), X_std=X_std)
    without = model.regressor.predict_distribution(X, X_std=X_std)
    return float(np.median(filled.std)), float(np.median(without.std))
