"""Predictions for HATS catalogues with LSDB: partition by partition, on any Dask cluster.

``lsdb.open_catalog(path).map_partitions(predict, open_model("model.gpzed"))``, with both functions from this module, is
a catalogue with the redshifts in it, margin and index as they were; `predict_hats` does it from folder to folder.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog import Catalog, PhotometrySchema
from gpzed.config import PredictConfig, SchemaConfig
from gpzed.distributed.connection import connect, require_dask
from gpzed.errors import CatalogError, ClusterError, ConfigError, MissingDependencyError
from gpzed.workflows.modelfile import TrainedPipeline, load_pipeline, model_hash
from gpzed.workflows.predict import PredictReport, added_columns, column_dtype, predict_columns, predict_table
from gpzed.workflows.reporter import Reporter
from gpzed.workflows.source import matching_schema, needed_columns

_PROPERTIES = ("hats.properties", "collection.properties", "properties")
_models: dict[str, TrainedPipeline] = {}  # of this process, by their hash


@dataclass(frozen=True)
class SharedModel:
    """Stands for a model that every worker has, or can read; this is all that travels with a task.

    Attributes
    ----------
    path : str
        Model file, for workers that were not given the model.
    digest : str
        Its hash.
    """

    path: str
    digest: str

    def get(self) -> TrainedPipeline:
        """Return the model, read from its file at most once by every process."""
        if self.digest not in _models:
            if model_hash(self.path) != self.digest:
                raise ConfigError(f"model file '{self.path}' has changed since it was opened; open it again")
            _models[self.digest] = load_pipeline(self.path)
        return _models[self.digest]

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "gpzed.distributed.lsdb.SharedModel", self.digest


def _plugin(digest: str, trained: TrainedPipeline) -> Any:
    """Dask plugin that puts a model into every worker, also into those that come later."""

    class ModelPlugin(require_dask().WorkerPlugin):  # type: ignore[misc]
        name = f"gpzed-model-{digest}"

        def __init__(self) -> None:
            self.digest, self.trained = digest, trained

        def setup(self, worker: Any) -> None:
            _keep(self.digest, self.trained)

    return ModelPlugin()


def _keep(digest: str, trained: TrainedPipeline) -> None:
    _models.setdefault(digest, trained)


def open_model(path: str | os.PathLike[str], client: Any = None) -> SharedModel:
    """Read a model file and give it to every worker once.

    Parameters
    ----------
    path : path
        Written by `gpzed train`.
    client : distributed.Client, optional
        Of the cluster that will predict; by default the current one, if there is any.

    Returns
    -------
    SharedModel
        For `predict`.
    """
    shared = SharedModel(os.path.abspath(path), model_hash(path))
    trained = shared.get()
    trained.model.n_threads = 1  # partitions run side by side
    if client is None and "distributed" in sys.modules:
        with contextlib.suppress(ValueError):  # no client: everything runs in this process
            client = require_dask().default_client()
    if client is not None:
        client.register_plugin(_plugin(shared.digest, trained))
    return shared


def predict(
    frame: Any,
    model: SharedModel | TrainedPipeline | str | os.PathLike[str],
    options: PredictConfig | None = None,
    schema: SchemaConfig | None = None,
) -> Any:
    """Add redshifts to one partition: the function for `map_partitions` of LSDB, and of Dask data frames.

    Parameters
    ----------
    frame : pandas.DataFrame or NestedFrame
        May have no rows; LSDB and Dask learn names and types of the columns from such a call.
    model : SharedModel, TrainedPipeline or path
        Best that of `open_model`. A path is read once by every worker; anything else travels with every partition.
    options : PredictConfig, optional
        Quantiles, components and columns to keep; as stored in the model file by default.
    schema : SchemaConfig, optional
        Which column is what, if neither as in training nor to be guessed.

    Returns
    -------
    DataFrame
        The same rows, index and columns (or those of `options.columns`), and those of `gpzed predict` after them.
    """
    trained = _resolve(model)
    options = options or trained.config.predict
    names = [str(name) for name in frame.columns]
    found = _schema(names, trained, schema)
    kept = names if options.columns is None else [name for name in names if name in options.columns]
    if len(frame):
        table = Catalog({name: _numbers(frame[name], name) for name in needed_columns(found)})
        columns = predict_columns(predict_table(trained, table, found)[0], options)
    else:
        dtype = column_dtype(options, trained.n_components)
        columns = {name: np.empty(0, dtype[name]) for name in dtype.names or ()}
    return frame[[name for name in kept if name not in columns]].assign(**columns)


def _resolve(model: Any) -> TrainedPipeline:
    if isinstance(model, TrainedPipeline):
        return model
    if not isinstance(model, SharedModel):
        model = SharedModel(os.path.abspath(model), model_hash(model))
    return model.get()  # type: ignore[no-any-return]


def _schema(names: list[str], trained: TrainedPipeline, schema: SchemaConfig | None) -> PhotometrySchema:
    needs_ebv = bool(trained.transformer.config.extinction)
    return matching_schema(names, trained.schema, schema or SchemaConfig(), needs_ebv)


def _numbers(column: Any, name: str) -> Any:
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise CatalogError(f"column {name!r} holds no numbers ({error}); expected photometry in it") from None


def is_hats(path: str | os.PathLike[str]) -> bool:
    """Tell whether a folder is a HATS catalogue, or a collection of one and its margins."""
    return any((Path(path) / name).is_file() for name in _PROPERTIES)


def _require_lsdb() -> Any:
    try:
        import lsdb
    except ImportError:
        raise MissingDependencyError("HATS catalogues need lsdb; install it with `pip install 'gpzed[lsdb]'`") from None
    return lsdb


@contextlib.contextmanager
def _computing(dask_at: Any) -> Iterator[Any]:
    """Compute on a cluster, or in this process, one partition at a time."""
    import dask

    if dask_at is None:
        with dask.config.set(scheduler="synchronous"):
            yield None
        return
    with connect(dask_at) as client, client.as_current(), dask.config.set(scheduler=client):
        yield client


def predict_hats(
    model: str | os.PathLike[str],
    catalogue: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: PredictConfig | None = None,
    *,
    dask: Any = None,
    schema: SchemaConfig | None = None,
    resume: bool = False,
    n_threads: int | None = None,
    reporter: Reporter | None = None,
    on_plan: Callable[[PhotometrySchema], None] | None = None,
) -> PredictReport:
    """Predict for a HATS catalogue and write another one, with the same partitions, index and margins.

    Parameters
    ----------
    model : path
        Model file of `train`.
    catalogue, output : path
        HATS catalogue, or collection with margins; the output is a collection. Right ascension and declination are
        always kept.
    options : PredictConfig, optional
        Columns, quantiles, components; those stored in the model file by default.
    dask : str, distributed.Client or cluster, optional
        Where to compute, as `cluster` of `gpzed.Run`; in this process by default.
    schema : SchemaConfig, optional
    resume : bool
        Go on with what an interrupted run left.
    n_threads : int or None
        Threads, if no cluster is given.
    reporter : Reporter, optional
    on_plan : callable, optional
        Told which column is taken for what, before the first row is read.

    Returns
    -------
    PredictReport
        Its `flags` and `sentinels` are not counted.
    """
    start = time.perf_counter()
    lsdb, reporter, target = _require_lsdb(), reporter or Reporter(), Path(output)
    if target.exists() and not resume:
        raise ConfigError(
            f"'{target}' is there already; add --resume to go on with an interrupted run, or write to another folder"
        )
    if not target.parent.is_dir():
        raise ConfigError(f"'{target}' cannot be written: folder '{target.parent}' does not exist; create it first")
    with _computing(dask) as client:
        shared = open_model(model, client)
        trained = shared.get()
        if client is None:
            trained.model.n_threads = n_threads
        options = options or trained.config.predict
        opened = lsdb.open_catalog(os.fspath(catalogue), columns="all")
        info = opened.hc_structure.catalog_info
        names = [str(name) for name in opened.columns]
        found = _schema(names, trained, schema)
        if on_plan is not None:
            on_plan(found)
        options = _with_position(options, names, (info.ra_column, info.dec_column))
        result = opened.map_partitions(predict, shared, options, schema)
        reporter.say(f"{len(opened.get_healpix_pixels())} partitions of '{os.fspath(catalogue)}'")
        try:
            result.write_catalog(
                target,
                catalog_name=target.name,
                resume=resume,
                progress_bar=False,
                addl_hats_properties={"gpzed_model_sha256": shared.digest},
            )
        except (RuntimeError, OSError) as error:
            if client is not None and client.status != "running":
                raise ClusterError(f"the Dask cluster was lost ({error}); go on with --resume") from error
            raise
        n_rows = len(lsdb.open_catalog(target))
    added = tuple(added_columns(options, trained.n_components))
    return PredictReport(str(target), n_rows, 0, found, None, {}, added, time.perf_counter() - start)


def _with_position(options: PredictConfig, names: list[str], position: tuple[str, str]) -> PredictConfig:
    """Return the options with the columns that no HATS catalogue can be without."""
    if options.columns is None:
        return options
    lost = [name for name in options.columns if name not in names]
    if lost:
        raise CatalogError(f"the catalogue has no column {lost[0]!r} to copy; it has {', '.join(names)}")
    return replace(options, columns=tuple(dict.fromkeys([*position, *options.columns])))
