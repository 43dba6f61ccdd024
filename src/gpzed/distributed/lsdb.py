"""Predictions for HATS catalogues with LSDB: partition by partition, on any Dask cluster.

``lsdb.open_catalog(path).map_partitions(predict, open_model("model.gpzed"))``, with both functions from this module, is
a catalogue with the redshifts in it, margin and index as they were; `gpzed.predict` does it from folder to folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpzed.catalog import Catalog, CatalogInfo, Lists, PhotometrySchema, identify, iter_catalog
from gpzed.catalog._arrow import to_arrow, units_of
from gpzed.config import PredictConfig, SchemaConfig
from gpzed.distributed.connection import connect, require_dask
from gpzed.errors import CatalogError, ClusterError, ConfigError, MissingDependencyError, ModelFormatError
from gpzed.features import count_flags
from gpzed.model.container import read_bytes
from gpzed.workflows.cautions import Seen, cautions, refuse_other_units, units_are_stated, warn_all
from gpzed.workflows.columns import (
    GAUSSIANS,
    PDF_COLUMNS,
    added_columns,
    as_lists,
    column_dtype,
    settled,
)
from gpzed.workflows.inputs import needed_columns
from gpzed.workflows.model import PhotozModel, load_photoz_model
from gpzed.workflows.predict import undone_if_changed
from gpzed.workflows.prediction_plan import PredictionRequest, PredictReport, check_pdf_output, manifest
from gpzed.workflows.resume import FinishedChunks
from gpzed.workflows.rows import predict_rows, tabulate_rows
from gpzed.workflows.schema import absent_bands_text, matching_schema

RUN = "gpzed_run_sha256"
"""Property of a catalogue we write: the hash of all that decides what is in it."""
NESTED = "z_pdf"
"""Nested column of the Gaussians, with the fields weight, mean and std."""
LOOK_PARTITIONS, LOOK_ROWS = 10, 2000
"""Partitions, and rows of each, that are looked at before anything is computed."""
_models: dict[str, PhotozModel] = {}  # of this process, by their hash


@dataclass(frozen=True)
class SharedModel:
    """Stands for a model that every worker has, or can read; this is all that travels with a task."""

    path: str  # model file, for workers that were not given the model
    digest: str  # its hash

    def get(self) -> PhotozModel:
        """Return the model, read from its file at most once by every process."""
        if self.digest not in _models:
            model = load_photoz_model(self.path)
            if model.sha256 != self.digest:
                raise ConfigError(f"model file '{self.path}' has changed since it was opened; open it again")
            _models[self.digest] = model
        return _models[self.digest]

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "gpzed.distributed.lsdb.SharedModel", self.digest


def _plugin(digest: str, trained: PhotozModel) -> Any:
    """Dask plugin that puts a model into every worker, also into those that come later."""

    class ModelPlugin(require_dask().WorkerPlugin):  # type: ignore[misc]
        name = f"gpzed-model-{digest}"

        def __init__(self) -> None:
            self.digest, self.trained = digest, trained

        def setup(self, worker: Any) -> None:
            _keep(self.digest, self.trained)

    return ModelPlugin()


def _keep(digest: str, trained: PhotozModel) -> None:
    _models.setdefault(digest, trained)


def open_model(model: PhotozModel | str | os.PathLike[str], client: Any = None) -> SharedModel:
    """Read a model file and give it to every worker once.

    Parameters
    ----------
    model : PhotozModel or path
        Model, or model file, of `gpzed train`.
    client : distributed.Client, optional
        Of the cluster that will predict; by default the current one, if there is any.

    Returns
    -------
    SharedModel
        For `predict`.
    """
    trained = model if isinstance(model, PhotozModel) else load_photoz_model(model)
    trained = trained.with_threads(1)  # partitions run side by side
    shared = SharedModel(os.path.abspath(trained.path), trained.sha256)
    _models[shared.digest] = trained
    if client is None and "distributed" in sys.modules:
        with contextlib.suppress(ValueError):  # no client: everything runs in this process
            client = require_dask().default_client()
    if client is not None:
        client.register_plugin(_plugin(shared.digest, trained))
    return shared


def predict(
    frame: Any,
    model: SharedModel | PhotozModel | str | os.PathLike[str],
    options: PredictConfig | None = None,
    schema: SchemaConfig | PhotometrySchema | None = None,
    units_stated: bool = False,
) -> Any:
    """Add redshifts to one partition: the function for `map_partitions` of LSDB, and of Dask data frames.

    Parameters
    ----------
    frame : pandas.DataFrame or NestedFrame
        May have no rows; LSDB and Dask learn names and types of the columns from such a call.
    model : SharedModel, PhotozModel or path
        Best that of `open_model`. A path is read once by every worker; anything else travels with every partition.
    options : PredictConfig, optional
        Quantiles, components and columns to keep; as stored in the model file by default.
    schema : SchemaConfig or PhotometrySchema, optional
        Which column is what, if neither as in training nor to be guessed.
    units_stated : bool
        Whether `schema` has the units of the catalogue, which a data frame cannot tell; else photometry on a scale that
        no catalogue for the model has is refused.

    Returns
    -------
    DataFrame
        The same rows, index and columns (or those of `options.columns`), and those of `gpzed predict` after them; in a
        NestedFrame the Gaussians are one nested column, ``z_pdf``, with the fields ``weight``, ``mean`` and ``std``.
    """
    trained = _resolve(model)
    options = settled(trained.asked(options), trained.n_components)
    names = [str(name) for name in frame.columns]
    found = _schema(names, trained, schema)
    kept = names if options.columns is None else [name for name in names if name in options.columns]
    if len(frame):
        table = Catalog({name: _numbers(frame[name], name) for name in needed_columns(found)})
        values, _, seen = tabulate_rows(trained, table, found, options)
        told = schema if isinstance(schema, SchemaConfig) else SchemaConfig()
        stated = units_stated or units_are_stated(found, told, {})
        refuse_other_units(trained.scale, seen.scale, "the catalogue", stated)
        columns = {name: np.ascontiguousarray(values[name]) for name in values.dtype.names or ()}
    else:
        dtype = column_dtype(options, trained.n_components)
        columns = {name: np.empty((0, *dtype[name].shape), dtype[name].base) for name in dtype.names or ()}
    kept = [name for name in kept if name not in columns and name not in PDF_COLUMNS]
    return frame[kept].assign(**_as_frame_columns(as_lists(columns, options), frame))


def _as_frame_columns(columns: dict[str, Any], frame: Any) -> dict[str, Any]:
    """Return columns as a data frame holds them: Gaussians as one nested column, if it is one of nested-pandas."""
    import pandas as pd
    import pyarrow as pa

    lists = {name: to_arrow(pa, values, None) for name, values in columns.items() if _is_nested(values)}
    plain = {name: values for name, values in columns.items() if name not in lists}
    if type(frame).__name__ == "NestedFrame" and set(GAUSSIANS) == set(lists):
        from nested_pandas.series.ext_array import NestedExtensionArray

        variable = [lists[name].cast(pa.list_(pa.float32())) for name in GAUSSIANS]
        fields = pa.StructArray.from_arrays(variable, names=[name.removeprefix(f"{NESTED}_") for name in GAUSSIANS])
        series = pd.Series(NestedExtensionArray(fields), index=frame.index)
        return {**{name: plain[name] for name in plain}, NESTED: series}
    arrow = {name: values.cast(pa.list_(values.type.value_type)) for name, values in lists.items()}
    made = {name: pd.Series(pd.arrays.ArrowExtensionArray(values), index=frame.index) for name, values in arrow.items()}
    return {name: made.get(name, plain.get(name)) for name in columns}


def _is_nested(values: Any) -> bool:
    return isinstance(values, Lists) or values.ndim > 1


def _resolve(model: Any) -> PhotozModel:
    if isinstance(model, PhotozModel):
        return model
    if not isinstance(model, SharedModel):
        digest = hashlib.sha256(read_bytes(model, ModelFormatError)).hexdigest()
        model = SharedModel(os.path.abspath(model), digest)
    return model.get()  # type: ignore[no-any-return]


def _schema(names: list[str], trained: PhotozModel, schema: SchemaConfig | PhotometrySchema | None) -> PhotometrySchema:
    if isinstance(schema, PhotometrySchema):
        return schema
    return matching_schema(names, trained.schema, schema or SchemaConfig(), trained.needs_ebv)


def _numbers(column: Any, name: str) -> Any:
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise CatalogError(f"column {name!r} holds no numbers ({error}); expected photometry in it") from None


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


def predict_hats(request: PredictionRequest) -> PredictReport:
    """Predict for a HATS catalogue and write another one, with the same partitions, index and margins.

    The output is a collection, with right ascension and declination in any case. Sentinels are not counted; rows of
    some partitions tell beforehand what is worth a warning in the catalogue.
    With `pdf_file` the densities are a catalogue of their own, with identifiers and positions: both are cut out of a
    whole one, ``OUTPUT.whole``, which is removed when they are there.
    """
    start = time.perf_counter()
    said = _predict_hats(request) if request.pdf_file is None else _predict_apart(request)
    added = tuple(added_columns(said.options, request.model.n_components))
    written = _require_lsdb().open_catalog(request.output)
    seconds = time.perf_counter() - start
    return PredictReport(
        str(request.output), len(written), 0, said.schema, None, _flags(written), added, seconds, said.warnings
    )


class _Said(NamedTuple):
    """What was settled, and said, before a catalogue was written."""

    schema: PhotometrySchema
    options: PredictConfig
    warnings: tuple[str, ...] = ()


def _predict_hats(request: PredictionRequest) -> _Said:
    """Predict into one catalogue."""
    identity, target = identify(request.catalogue), request.output
    with _computing(request.cluster) as client:
        shared = open_model(request.model, client)
        if client is None:
            _models[shared.digest] = request.model.with_threads(request.n_threads)
        opened = _require_lsdb().open_catalog(os.fspath(request.catalogue), columns="all")
        units = _units(opened)
        schema, options = _settle(request, opened)
        stated = units_are_stated(schema, request.schema, units)
        request.announce(schema, units)
        said = warn_all(_look(opened, request, schema, stated))
        result = opened.map_partitions(predict, shared, options, schema, stated)
        request.progress.say(f"{len(opened.get_healpix_pixels())} partitions of '{request.catalogue}'")
        run = manifest(request.model, identity, schema, options)
        properties = _properties(request, schema, options, run)
        if request.resume and _is_complete(target, properties[RUN]):
            request.progress.say(f"'{target}' is complete already")
        else:
            with _held(request, run) as chunks, undone_if_changed(identity, lambda: _remove(target, chunks)):
                _write(result, target, properties, request.resume, client)
                identity.check_unchanged()
    return _Said(schema, options, said)


def _predict_apart(request: PredictionRequest) -> _Said:
    """Predict into one catalogue, and cut those of the densities and of the points out of it."""
    assert request.pdf_file is not None
    identity, output = identify(request.catalogue), request.output
    opened = _require_lsdb().open_catalog(os.fspath(request.catalogue), columns="all")
    schema, options = _settle(request, opened)
    check_pdf_output(request, options)
    owner = _position(opened) if schema.id is None else (*_position(opened), schema.id)
    run = manifest(request.model, identity, schema, options)
    runs = {target: {**run, "parts": target.name} for target in (request.pdf_file, output)}
    runs = {target: run for target, run in runs.items() if not (request.resume and _is_complete(target, _digest(run)))}
    everything = None if options.columns is None else tuple(dict.fromkeys([*options.columns, *owner]))
    whole = replace(
        request, output=output.with_name(f"{output.name}.whole"), options=replace(options, columns=everything),
        pdf_file=None,
    )  # fmt: skip
    said = _Said(schema, options)
    if runs:
        with contextlib.ExitStack() as held:
            chunks = {
                target: held.enter_context(_held(replace(request, output=target), run)) for target, run in runs.items()
            }
            try:
                said = said._replace(warnings=_predict_hats(whole).warnings)
            except Exception:
                if not whole.output.exists():  # nothing that a later run could resume
                    for target in runs:
                        _remove(target, chunks[target])
                raise
            _cut_out(request, whole.output, owner, said, runs)
    else:
        request.progress.say(f"'{output}' is complete already")
    if _is_ours(whole.output):  # last of all: what was stopped before is resumed from it
        shutil.rmtree(whole.output, ignore_errors=True)
    return said


def _cut_out(
    request: PredictionRequest, whole: Path, owner: tuple[str, ...], said: _Said, runs: dict[Path, dict[str, Any]]
) -> None:
    """Write the catalogues of `runs` from a whole one; that of the densities has the columns `owner`, too."""
    assert request.pdf_file is not None
    with _computing(request.cluster) as client:
        both = _require_lsdb().open_catalog(whole, columns="all")
        names = [str(name) for name in both.columns]
        wanted = said.options.columns
        unwanted = {NESTED, *PDF_COLUMNS} | (set() if wanted is None else set(owner) - set(wanted))
        columns = {
            request.pdf_file: [name for name in names if name in (*owner, NESTED, *PDF_COLUMNS)],
            request.output: [name for name in names if name not in unwanted],
        }
        for target, run in runs.items():
            pointing = request.pdf_file.name if target == request.output else None
            properties = _properties(request, said.schema, said.options, run, pointing)
            _write(both[columns[target]], target, properties, request.resume, client)


def _settle(request: PredictionRequest, opened: Any) -> tuple[PhotometrySchema, PredictConfig]:
    """Return which column is what, and the options with all that a HATS catalogue needs."""
    names = [str(name) for name in opened.columns]
    options = settled(request.options, request.model.n_components)
    return request.matching_schema(names, _units(opened)), _with_position(options, names, _position(opened))


def _position(opened: Any) -> tuple[str, str]:
    info = opened.hc_structure.catalog_info
    return info.ra_column, info.dec_column


def _properties(
    request: PredictionRequest,
    schema: PhotometrySchema,
    options: PredictConfig,
    run: dict[str, Any],
    pdf_file: str | None = None,
) -> dict[str, str]:
    """Return what a catalogue says of itself; `pdf_file` has its densities."""
    info = CatalogInfo(os.fspath(request.catalogue), "parquet", (), {}, {}, 0, {})
    pdf = request.model.metadata(info, schema, options)["gpzed_pdf"]
    pdf = pdf if pdf_file is None else {**pdf, "file": pdf_file}
    return {"gpzed_model_sha256": request.model.sha256, RUN: _digest(run), "gpzed_pdf": json.dumps(pdf)}


def _flags(opened: Any) -> Counter[str]:
    """Count the objects of a catalogue by flag."""
    found: Counter[str] = Counter()
    for table in iter_catalog(Path(str(opened.hc_structure.catalog_base_dir)) / "dataset", columns=["z_flags"]):
        found.update(count_flags(table["z_flags"]))
    return found


def _units(opened: Any) -> dict[str, str]:
    """Return the units of columns that the catalogue has in its metadata, or in its files; LSDB does not read them."""
    import pyarrow.parquet as pq

    folder = Path(str(opened.hc_structure.catalog_base_dir)) / "dataset"
    files = [file for file in (next(folder.rglob("*.parquet"), None), folder / "_common_metadata") if file is not None]
    found: dict[str, str] = {}
    for file in files:
        found |= units_of(pq.read_schema(file)) if file.is_file() else {}
    return found


def _look(opened: Any, request: PredictionRequest, schema: PhotometrySchema, stated: bool) -> list[str]:
    """Return what to say of a catalogue, by rows of partitions that lie far apart; refuse other units at once."""
    pixels = opened.get_healpix_pixels()
    chosen = pixels[:: max(1, -(-len(pixels) // LOOK_PARTITIONS))]
    seen: Seen | None = None
    for pixel in chosen:
        part = opened[needed_columns(schema)].get_partition(pixel.order, pixel.pixel).compute(progress_bar=False)
        if not len(part):
            continue
        rows = part.iloc[:: -(-len(part) // LOOK_ROWS)]
        table = Catalog({name: _numbers(rows[name], name) for name in needed_columns(schema)})
        one = predict_rows(request.model, table, schema)[2]
        seen = one if seen is None else seen + one
    if seen is None:
        return []
    where = str(request.catalogue)
    refuse_other_units(request.model.scale, seen.scale, where, stated)
    return cautions(request.model.scale, seen, where, absent_bands_text(schema, request.model.schema, opened.columns))


@contextlib.contextmanager
def _held(request: PredictionRequest, run: dict[str, Any]) -> Iterator[FinishedChunks]:
    """Keep the manifest of a run beside its output until it is complete; LSDB itself would resume any other run."""
    target = request.output
    chunks = FinishedChunks(target, run, request.resume, request.progress.warn)
    try:
        if target.exists() and not chunks.is_resumed:
            chunks.remove()
            raise ConfigError(
                f"'{target}' is there already, and is not left from an interrupted run; delete it, or write to another "
                "folder"
            )
        yield chunks
        chunks.remove()
    finally:
        chunks.release()


def _remove(target: Path, chunks: FinishedChunks) -> None:
    shutil.rmtree(target, ignore_errors=True)
    chunks.remove()


def _digest(run: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def _is_ours(target: Path) -> bool:
    """Tell whether we wrote a catalogue."""
    return any(f"{RUN}=" in file.read_text() for file in target.glob("*/hats.properties"))


def _is_complete(target: Path, run: str) -> bool:
    """Tell whether a run was stopped after its last file was written, when nothing is left to resume."""
    if not (target / "collection.properties").exists() or FinishedChunks.is_there(target):
        return False
    return any(f"{RUN}={run}" in file.read_text() for file in target.glob("*/hats.properties"))


def _write(result: Any, target: Path, properties: dict[str, str], resume: bool, client: Any) -> None:
    try:
        result.write_catalog(
            target,
            catalog_name=target.name,
            resume=resume,
            progress_bar=False,
            addl_hats_properties=properties,
        )
    except (RuntimeError, OSError) as error:
        if client is not None and client.status != "running":
            raise ClusterError(f"the Dask cluster was lost ({error}); start it again, then add --resume") from error
        found = re.match(
            r"Error applying function predict to partition \d+(?:, pixel [^:]*)?: (.*)", str(error), re.DOTALL
        )
        if found:  # LSDB says so of whatever we raise
            raise CatalogError(found[1]) from error
        raise


def _with_position(options: PredictConfig, names: list[str], position: tuple[str, str]) -> PredictConfig:
    """Return the options with the columns that no HATS catalogue can be without."""
    if options.columns is None:
        return options
    lost = [name for name in options.columns if name not in names]
    if lost:
        raise CatalogError(f"the catalogue has no column {lost[0]!r} to copy; it has {', '.join(names)}")
    return replace(options, columns=tuple(dict.fromkeys([*position, *options.columns])))
