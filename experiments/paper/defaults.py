"""Beyond the paper: what `gpzed train` and `gpzed predict` give with all defaults, beside gradient boosting."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from experiments.data import Source
from experiments.paper.bench import Bench, Experiment, Table
from experiments.paper.store import Part
from gpzed._types import FloatArray
from gpzed.catalog import Catalog, PhotometrySchema, read_catalog
from gpzed.config import RunConfig
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate
from gpzed.prediction import Prediction
from gpzed.simulate import simulate_survey
from gpzed.workflows import predict_table, train_table
from gpzed.workflows.redshifts import Limits, valid_redshifts
from gpzed.workflows.schema import open_info, resolve_schema

FORMATS = {
    "rmse": ("RMSE", ".4f"),
    "fr_0.15": ("FR0.15", ".2f"),
    "fr_0.05": ("FR0.05", ".2f"),
    "sigma_nmad": ("NMAD", ".4f"),
    "mll": ("MLL", ".3f"),
    "crps": ("CRPS", ".4f"),
    "cde_loss": ("CDE", ".2f"),
    "pit_ks": ("PIT KS", ".4f"),
}
POINT_METRICS = ("rmse", "fr_0.15", "fr_0.05", "sigma_nmad", "bias", "n")


def read_tables(source: Source) -> tuple[Catalog, Catalog, PhotometrySchema]:
    """Return the rows to train on, those to judge by, and which column is what."""
    if not source.catalogues:
        galaxies = simulate_survey(3 * source.size, survey="sdss", random_state=source.seed, only_spectroscopic=True)
        table = Catalog(galaxies.columns())
        schema = resolve_schema(table.names, source.config.schema)
        return table.slice(0, 2 * source.size), table.slice(2 * source.size), schema
    schema = resolve_schema(open_info(source.catalogues[0], source.config.schema).names, source.config.schema)
    rng = np.random.default_rng(source.seed)
    learn = _read(source.catalogues, source, schema)
    order = rng.permutation(len(learn))
    if source.tests:
        judge = _read(source.tests, source, schema)
        chosen = rng.permutation(len(judge))[: source.size]
        return learn.take(np.sort(order[: source.size])), judge.take(np.sort(chosen)), schema
    size = min(source.size, len(learn) // 3)
    return learn.take(np.sort(order[: 2 * size])), learn.take(np.sort(order[2 * size : 3 * size])), schema


def _read(paths: Sequence[str], source: Source, schema: PhotometrySchema) -> Catalog:
    access = {"format": source.config.schema.format, "hdf5_group": source.config.schema.hdf5_group}
    table = Catalog.concatenate([read_catalog(path, **access) for path in paths])
    cuts = source.config.split
    z = table.floats(str(schema.redshift))
    limits = Limits.of(cuts.min_redshift, cuts.max_redshift, "as asked")
    return table.take(valid_redshifts(z, limits, source.config.sentinels).keep)


def _with_colours(X: FloatArray, names: Sequence[str]) -> FloatArray:
    """Return inputs and the differences of adjacent magnitudes: trees cut along inputs, and need them."""
    magnitudes = X[:, [index for index, name in enumerate(names) if name.startswith("mag_")]]
    return np.hstack([X, np.diff(magnitudes, axis=1)])


def _parts(bench: Bench) -> Sequence[Part]:
    training = {} if bench.effort.max_iter is None else {"max_iter": bench.effort.max_iter}
    config = RunConfig.from_dict({"seed": bench.effort.seed, "training": training})

    def ours() -> dict[str, Any]:
        learn, judge, schema = read_tables(bench.source)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # recorded as the status
            trained = train_table(learn, schema, config)
        seconds = time.perf_counter() - started
        prediction, _ = predict_table(trained, judge, schema)
        status = [report.status for report in trained.regressor.reports_]
        options = {"n_basis": trained.regressor.n_basis_, "n_members": trained.regressor.n_members, "status": status}
        scores = evaluate(judge.floats(str(schema.redshift)), prediction)
        return {"method": "gpzed, defaults", "metrics": scores, "seconds": seconds, **options}

    def boosting() -> dict[str, Any]:
        sets = bench.sets
        started = time.perf_counter()
        trees = HistGradientBoostingRegressor(max_iter=300, learning_rate=0.05, random_state=bench.effort.seed)
        trees.fit(_with_colours(sets.learning.X, sets.names), sets.learning.z)
        seconds = time.perf_counter() - started
        prediction = Prediction.gaussian(
            trees.predict(_with_colours(sets.test.X, sets.names)), 0.0, float(np.var(sets.train.z))
        )
        scores = evaluate(sets.test.z, prediction)
        kept = {key: scores[key] for key in POINT_METRICS}  # it predicts no variance
        return {"method": "gradient boosting", "metrics": kept, "seconds": seconds, "data_sha256": sets.sha256}

    inputs = {"data": bench.identity, **bench.effort_inputs}
    return [Part("defaults", {**inputs, "config": config.to_dict()}, ours), Part("boosting", inputs, boosting)]


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"methods": [part["result"] for part in parts]}


def _table(content: dict[str, Any]) -> Table:
    rows = []
    for run in content["methods"]:
        scores = run["metrics"]
        texts = [format(scores[key], form) if key in scores else "-" for key, (_, form) in FORMATS.items()]
        rows.append((run["method"], *texts))
    return Table(("method", *(heading for heading, _ in FORMATS.values())), tuple(rows))


DEFAULTS = Experiment(
    "defaults", "beyond the paper", "gpzed with its defaults and gradient boosting", _parts, _assemble, None, _table
)
