"""Choosing the reliable objects of a file of predictions, and saying what that costs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from gpzed._types import BoolArray, FloatArray
from gpzed.catalog import Catalog, open_writer, write_catalog
from gpzed.errors import CatalogError, ConfigError
from gpzed.evaluation import METRICS, Selection
from gpzed.evaluation import evaluate as evaluate_prediction
from gpzed.evaluation import select as select_objects
from gpzed.prediction import Prediction
from gpzed.workflows.predictions import PredictionFile, read_prediction_file
from gpzed.workflows.source import require_folder


@dataclass(frozen=True)
class SelectionReport:
    """What was kept, and what was traded for what.

    Attributes
    ----------
    path : str
        File of predictions.
    output : str or None
        File with the objects kept, if one was written.
    n_rows, n_objects, n_kept : int
        Rows of the file, those with a prediction, and those kept.
    n_truth : int
        Objects with a true redshift, by which the metrics are measured.
    completeness : float
        Fraction of the objects kept.
    max_std : float
        Largest predicted standard deviation among them.
    binding : str
        The criterion that set the limit.
    expected_rmse : tuple of float
        RMSE expected from the predicted variances, of all and of those kept.
    before, after : dict of str to float
        Metrics of all and of those kept; empty without true redshifts.
    id : str or None
        Column of the identifiers; None if rows are numbered.
    ids : ndarray of shape (n_kept,)
        Identifiers of the objects kept.
    """

    path: str
    output: str | None
    n_rows: int
    n_objects: int
    n_kept: int
    n_truth: int
    completeness: float
    max_std: float
    binding: str
    expected_rmse: tuple[float, float]
    before: dict[str, float]
    after: dict[str, float]
    id: str | None
    ids: Any

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types, the identifiers left out."""
        names = ("path", "output", "n_rows", "n_objects", "n_kept", "n_truth", "completeness", "max_std", "binding")
        return {
            **{name: getattr(self, name) for name in names},
            "id_column": self.id,
            "expected_rmse": {"before": self.expected_rmse[0], "after": self.expected_rmse[1]},
            "before": self.before,
            "after": self.after,
        }


def select(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    keep: float | None = None,
    max_std: float | None = None,
    max_rmse: float | None = None,
    min_completeness: float | None = None,
    expected: bool = False,
    redshift: str | None = None,
    id: str | None = None,
    columns: tuple[str, ...] = (),
    truth: str | os.PathLike[str] | None = None,
    format: str | None = None,
    output_format: str | None = None,
) -> SelectionReport:
    """Keep the objects of a file with the smallest predicted variance, as many as all criteria allow.

    Parameters
    ----------
    path : path
        File of predictions.
    output : path, optional
        File to write: identifier, ``z_phot`` and ``z_std`` of the objects kept, in the order of the file.
    keep : float, optional
        Keep at most this fraction of the objects.
    max_std : float, optional
        Keep objects whose predicted standard deviation is not above this.
    max_rmse : float, optional
        Keep the largest number of objects whose RMSE is not above this. It is measured on those with a true
        redshift; the standard deviation at which they reach it is then the limit for all.
    min_completeness : float, optional
        Refuse to keep less than this fraction; alone, keep just this fraction.
    expected : bool
        Take `max_rmse` for the RMSE expected from the predicted variances instead; needs no true redshifts.
    redshift, id : str, optional
        Columns of true redshift and identifier, if neither the file names them nor their names are known.
    columns : tuple of str
        Other columns to copy.
    truth : path, optional
        Catalogue with the true redshifts, row by row, for files of qp that have none.
    format, output_format : str, optional
        Formats, if the suffixes do not tell.

    Returns
    -------
    SelectionReport

    Raises
    ------
    ConfigError
        If no criterion is given or one is out of range.
    CatalogError
        If no selection satisfies the criteria, or true redshifts are needed and there are none.
    """
    _check(keep, max_std, max_rmse, min_completeness)
    if output is not None:
        require_folder(output, "the selection")
        open_writer(output, output_format)  # checks name and format before the work is done
    file = read_prediction_file(
        path, redshift=redshift, id=id, format=format, truth=truth, need_truth=False, columns=columns
    )
    known = file.has_truth
    if max_rmse is not None and not expected and not known.any():
        why = "has no column of true redshifts" if file.redshift is None else f"has none in {file.redshift!r}"
        raise CatalogError(
            f"'{file.path}' {why}, by which to measure the RMSE for --max-rmse; name another column with --redshift, "
            "or add --expected to go by the RMSE that the predicted variances promise"
        )
    try:
        chosen = _choose(file, known, keep, max_std, max_rmse, min_completeness, expected)
    except ValueError as error:
        raise CatalogError(f"'{file.path}': {error}") from None
    if output is not None:
        _write(file, chosen.mask, output, output_format, columns)
    before, after = _trade(file, known, chosen.mask)
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
        before=before,
        after=after,
        id=file.id,
        ids=file.ids[chosen.mask],
    )


def _check(*criteria: float | None) -> None:
    """Refuse criteria that make no sense, by the names they have."""
    keep, max_std, max_rmse, min_completeness = criteria
    if all(value is None for value in criteria):
        raise ConfigError("no criterion given; use --keep, --max-std, --max-rmse or --min-completeness")
    for name, value in (("keep", keep), ("min_completeness", min_completeness)):
        if value is not None and not 0 < value <= 1:
            raise ConfigError(f"`{name}` is {value}; expected a fraction above 0 and at most 1, such as 0.5")
    for name, value in (("max_std", max_std), ("max_rmse", max_rmse)):
        if value is not None and not value > 0:
            raise ConfigError(f"`{name}` is {value}; expected a positive redshift difference, such as 0.02")


def _choose(
    file: PredictionFile,
    known: BoolArray,
    keep: float | None,
    max_std: float | None,
    max_rmse: float | None,
    min_completeness: float | None,
    expected: bool,
) -> Selection:
    """Return the selection; a measured RMSE is turned into a limit on the standard deviation first."""
    prediction = file.prediction
    if max_rmse is None or expected:
        return select_objects(
            prediction, keep=keep, max_std=max_std, max_rmse=max_rmse, min_completeness=min_completeness
        )
    if known.all():
        return select_objects(
            prediction,
            z_spec=file.z_spec,
            keep=keep,
            max_std=max_std,
            max_rmse=max_rmse,
            min_completeness=min_completeness,
        )
    assert file.z_spec is not None
    measured = select_objects(prediction[known], z_spec=file.z_spec[known], max_rmse=max_rmse).max_std
    limit = measured if max_std is None else min(measured, max_std)
    chosen = select_objects(prediction, keep=keep, max_std=limit, min_completeness=min_completeness)
    by_rmse = chosen.binding == "max_std" and limit == measured
    return Selection(
        chosen.mask, chosen.completeness, chosen.max_std, chosen.predicted_rmse,
        "max_rmse" if by_rmse else chosen.binding,
    )  # fmt: skip


def _trade(file: PredictionFile, known: BoolArray, mask: BoolArray) -> tuple[dict[str, float], dict[str, float]]:
    """Return the metrics of all objects with a true redshift, and of those kept."""
    if not known.any() or file.z_spec is None:
        return {}, {}
    return _scores(file.z_spec, file.prediction, known), _scores(file.z_spec, file.prediction, known & mask)


def _scores(z: FloatArray, prediction: Prediction, rows: BoolArray) -> dict[str, float]:
    if not rows.any():
        return {**dict.fromkeys(METRICS, float("nan")), "n": 0}
    return evaluate_prediction(z[rows], prediction[rows])


def _write(
    file: PredictionFile,
    mask: BoolArray,
    output: str | os.PathLike[str],
    format: str | None,
    columns: tuple[str, ...],
) -> None:
    """Write identifier, prediction and other columns of the objects kept."""
    named = {"row": file.rows[mask]} if file.id is None else {file.id: file.ids[mask]}
    kept = Catalog({**named, "z_phot": file.prediction.z_phot[mask], "z_std": file.prediction.std[mask]})
    others = [name for name in columns if name not in kept.names]
    if others:
        table = file.table.select(others).take(mask)
        masks = {name: table.mask(name) for name in others if table.has_mask(name)}
        kept = kept.with_columns({name: table[name] for name in others}, masks=masks, units=table.units)
    write_catalog(kept, output, format=format)
