"""Choosing the reliable objects of a file of predictions, and saying what that costs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from gpzed._files import check_output
from gpzed._types import BoolArray
from gpzed.catalog import Catalog, open_writer, write_catalog
from gpzed.errors import CatalogError, ConfigError
from gpzed.evaluation import METRICS, Selection
from gpzed.evaluation import evaluate as evaluate_prediction
from gpzed.evaluation import select as select_objects
from gpzed.evaluation.risk import outlier_risk
from gpzed.workflows.predictions import PredictionFile, PredictionSource, read_predictions


@dataclass(frozen=True)
class SelectionReport:
    """What was kept, and what was traded for what."""

    path: str  # file of predictions
    output: str | None  # file with the objects kept, if one was written
    n_rows: int  # rows of the file, those with a prediction, and those kept
    n_objects: int
    n_kept: int
    n_truth: int  # objects with a true redshift, by which the metrics are measured
    completeness: float  # fraction of the objects kept
    max_std: float  # largest predicted standard deviation among them
    binding: str  # the criterion that set the limit
    expected_rmse: tuple[float, float]  # RMSE expected from the predicted variances, of all and of those kept
    before: dict[str, float]  # metrics of all and of those kept; empty without true redshifts
    after: dict[str, float]
    id: str | None  # column of the identifiers; None if rows are numbered
    ids: Any  # (n_kept,) identifiers of the objects kept
    cuts: str = ""  # which true redshifts count, and what was left out; empty without any

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types, the identifiers left out."""
        names = ("path", "output", "n_rows", "n_objects", "n_kept", "n_truth", "completeness", "max_std", "binding")
        return {
            **{name: getattr(self, name) for name in names},
            "id_column": self.id,
            "expected_rmse": {"before": self.expected_rmse[0], "after": self.expected_rmse[1]},
            "redshift_cuts": self.cuts,
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True)
class Criteria:
    """What objects have to satisfy to be kept; at least one criterion is needed.

    Parameters
    ----------
    keep : float, optional
        Keep at most this fraction of the objects.
    max_std : float, optional
        Keep objects whose predicted standard deviation is not above this.
    max_rmse : float, optional
        Keep the largest number of objects whose RMSE of dz/(1+z) is not above this. It is measured on those with a true
        redshift; the standard deviation at which they reach it is then the limit for all.
    max_risk : float, optional
        Keep objects whose predicted risk of being off by more than 0.2 (1+z) is not above this.
    by_risk : bool
        Keep the objects of least risk, instead of least variance; `max_risk` implies it.
    min_completeness : float, optional
        Refuse to keep less than this fraction; alone, keep just this fraction.
    expected : bool
        Take `max_rmse` for the RMSE expected from the predicted variances instead; needs no true redshifts.
    """

    keep: float | None = None
    max_std: float | None = None
    max_rmse: float | None = None
    max_risk: float | None = None
    by_risk: bool = False
    min_completeness: float | None = None
    expected: bool = False

    def __post_init__(self) -> None:
        given = (self.keep, self.max_std, self.max_rmse, self.max_risk, self.min_completeness)
        if all(value is None for value in given):
            raise ConfigError("no criterion given; use --keep, --max-std, --max-rmse, --max-risk or --min-completeness")
        if self.max_risk is not None and not 0 < self.max_risk <= 1:
            raise ConfigError(f"`max_risk` is {self.max_risk}; expected a probability above 0, such as 0.1")
        if (self.by_risk or self.max_risk is not None) and (self.max_std is not None or self.max_rmse is not None):
            raise ConfigError("--max-std and --max-rmse order objects by variance; with risk use --keep or --max-risk")
        for name in ("keep", "min_completeness"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise ConfigError(f"`{name}` is {value}; expected a fraction above 0 and at most 1, such as 0.5")
        for name in ("max_std", "max_rmse"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"`{name}` is {value}; expected a positive redshift difference, such as 0.02")
        if self.expected and self.max_rmse is None:
            raise ConfigError("--expected says how --max-rmse is meant; give that, too")

    @property
    def needs_truth(self) -> bool:
        """Whether objects with true redshifts are needed to measure the RMSE."""
        return self.max_rmse is not None and not self.expected


def select(
    predictions: PredictionSource | str | os.PathLike[str],
    criteria: Criteria,
    output: str | os.PathLike[str] | None = None,
    *,
    columns: tuple[str, ...] = (),
    format: str | None = None,
) -> SelectionReport:
    """Keep the objects of a file with the smallest predicted variance, or risk, as many as all criteria allow.

    Parameters
    ----------
    predictions : PredictionSource or path
    criteria : Criteria
    output : path, optional
        File to write: identifier, ``z_phot``, ``z_std`` and ``z_risk`` of the objects kept, in the order of the file.
    columns : tuple of str
        Other columns to copy.
    format : str, optional
        Format of the output, if the suffix does not tell.

    Raises
    ------
    CatalogError
        If no selection satisfies the criteria, or true redshifts are needed and there are none.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> gpzed.predict(model, table).write("redshifts.parquet")
    >>> from gpzed.workflows import Criteria, select
    >>> report = select("redshifts.parquet", Criteria(keep=0.5))
    >>> report.n_kept
    200
    """
    if output is not None:
        source = predictions if isinstance(predictions, PredictionSource) else PredictionSource(predictions)
        check_output(output, "the selection", source.files)
        open_writer(output, format)  # checks name and format before the work is done
    file = read_predictions(predictions, need_truth=False, columns=columns)
    known = file.has_truth
    if criteria.needs_truth and not known.any():
        why = "has no column of true redshifts" if file.redshift is None else f"has none in {file.redshift!r}"
        raise CatalogError(
            f"'{file.path}' {why}, by which to measure the RMSE of dz/(1+z) for --max-rmse; name another column with "
            "--redshift, or add --expected to go by the RMSE that the predicted variances promise"
        )
    try:
        chosen = _choose(file, known, criteria)
    except ValueError as error:
        raise CatalogError(f"'{file.path}': {error}") from None
    if output is not None:
        _write(file, chosen.mask, output, format, columns)
    return SelectionReport(
        path=file.path,
        output=None if output is None else os.fspath(output),
        n_rows=file.n_rows,
        n_objects=len(file.rows),
        n_kept=int(chosen.mask.sum()),
        n_truth=int(known.sum()),
        completeness=chosen.completeness,
        max_std=chosen.max_std,
        binding=chosen.binding,
        expected_rmse=chosen.predicted_rmse,
        before=_scores(file, known),
        after=_scores(file, known & chosen.mask),
        id=file.id,
        ids=file.ids[chosen.mask],
        cuts="" if file.found is None else str(file.found),
    )


def _choose(file: PredictionFile, known: BoolArray, criteria: Criteria) -> Selection:
    """Return the selection; a measured RMSE is turned into a limit on the standard deviation first."""
    prediction = file.prediction
    limits = {
        name: getattr(criteria, name)
        for name in ("keep", "max_std", "max_rmse", "max_risk", "by_risk", "min_completeness")
    }
    if not criteria.needs_truth:
        return select_objects(prediction, **limits)
    if known.all():
        return select_objects(prediction, z_spec=file.z_spec, **limits)
    assert file.z_spec is not None
    measured = select_objects(prediction[known], z_spec=file.z_spec[known], max_rmse=criteria.max_rmse).max_std
    limit = measured if criteria.max_std is None else min(measured, criteria.max_std)
    chosen = select_objects(prediction, **limits | {"max_std": limit, "max_rmse": None})
    by_rmse = chosen.binding == "max_std" and limit == measured
    return replace(chosen, binding="max_rmse" if by_rmse else chosen.binding)


def _scores(file: PredictionFile, rows: BoolArray) -> dict[str, float]:
    """Return the metrics of some objects with a true redshift; empty if no object of the file has one."""
    if file.z_spec is None or not file.has_truth.any():
        return {}
    if not rows.any():
        return {**dict.fromkeys(METRICS, float("nan")), "n": 0}
    return evaluate_prediction(file.z_spec[rows], file.prediction[rows])


def _write(
    file: PredictionFile, mask: BoolArray, output: str | os.PathLike[str], format: str | None, columns: tuple[str, ...]
) -> None:
    """Write identifier, prediction and other columns of the objects kept."""
    named = {"row": file.rows[mask]} if file.id is None else {file.id: file.ids[mask]}
    risk = outlier_risk(file.prediction[mask])
    kept = Catalog(
        {**named, "z_phot": file.prediction.z_phot[mask], "z_std": file.prediction.std[mask], "z_risk": risk}
    )
    others = [name for name in columns if name not in kept.names]
    if others:
        table = file.table.select(others).take(mask)
        masks = {name: table.mask(name) for name in others if table.has_mask(name)}
        kept = kept.with_columns({name: table[name] for name in others}, masks=masks, units=table.units)
    write_catalog(kept, output, format=format)
