"""gpzed in RAIL: an informer that trains through gpzed's pipeline, and an estimator that predicts through it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import qp
import tables_io
from ceci.config import StageParameter as Param
from rail.core.common_params import SHARED_PARAMS
from rail.core.data import ModelHandle, TableHandle
from rail.core.enums import DistributionType
from rail.estimation.estimator import CatEstimator
from rail.estimation.informer import CatInformer

from gpzed.catalog import Catalog, PhotometrySchema, Provenance, Sentinels, catalog_info, iter_catalog
from gpzed.config import PredictConfig, RunConfig
from gpzed.errors import CatalogError, ConfigError
from gpzed.prediction import Prediction
from gpzed.prediction.reduce import MOST
from gpzed.workflows import PhotozModel, load_photoz_model, predict_columns, predict_table, train_table
from rail.estimation.algos._gpzed_options import (
    OF_CATALOGUE,
    check_names,
    informer_options,
    one_option,
    run_config,
    sentinel_options,
)

OF_RAIL = {"config", "name", "mpi", "pdb", "cprofile", "memmon", "trace", "stage_name", "alias", "aliases", "comm"}
"""Keys of a stage's configuration that ceci, RAIL and `rail.interactive` put there."""
OF_RAIL |= {"input", "output", "model", "input_data", "training_data", "force_exact", "python_paths"}
OF_RUBIN = {"input_path", "flux_column_template", "flux_err_column_template", "mag_template", "mag_err_template"}
"""Keys that `lsst.meas.pz` puts there beside the options of the stage."""
OF_RUBIN |= {"band_a_env", "bands_to_convert", "deredden", "filter_list"}
HDF5_SUFFIXES = (".hdf5", ".h5", ".hdf", ".h5py")
SUMMARY_LEVELS = {"z_q2p5": 0.025, "z_q16": 0.16, "z_median": 0.5, "z_q84": 0.84, "z_97p5": 0.975}
"""Columns of `calc_summary_stats`, as RAIL names them."""
ROUND_ROWS = 64
PDF_TYPES = ("mixture", "full", "norm", "truncnorm", "grid")


class GPZedModelHandle(ModelHandle):
    """A model file of gpzed: a checked header and raw arrays, with schema, features and configuration; no pickle."""

    suffix = "gpzed"
    interactive_type = "gpzed.workflows.PhotozModel"

    @classmethod
    def _open(cls, path: str, **kwargs: Any) -> Any:
        if kwargs.pop("mode", "r") == "w":
            raise ConfigError(f"'{path}': a model file of gpzed is written as a whole; use `write`")
        return load_photoz_model(path)

    @classmethod
    def _read(cls, path: str, **kwargs: Any) -> PhotozModel:
        return load_photoz_model(path)

    @classmethod
    def _write(cls, data: PhotozModel, path: str, **kwargs: Any) -> None:
        data.save(path)

    @classmethod
    def _validate_data(cls, data: Any) -> None:
        if not isinstance(data, PhotozModel):
            raise TypeError(
                f"the model is of type {type(data).__name__}; expected one of GPZedInformer, or the path of its file"
            )


def as_columns(data: Any, group: str | None) -> Mapping[str, Any]:
    """Return a table of any kind that RAIL knows as columns by name, of the group if it has groups."""
    if isinstance(data, Mapping) and group and group in data:
        data = data[group]
    if not isinstance(data, Mapping):
        data = tables_io.convert(data, tables_io.types.NUMPY_DICT)
    groups = [name for name, column in data.items() if isinstance(column, Mapping)]
    if groups:
        raise CatalogError(
            f"the data have groups {', '.join(map(repr, groups))} but `hdf5_groupname` is {group!r}; name one of them"
        )
    return data


def as_catalog(columns: Mapping[str, Any], names: Iterable[str], path: str | None, start: int = 0) -> Catalog:
    """Return the named columns that there are as a table; arrays are looked at, never changed."""
    origin = Provenance(None if path in (None, "None", "none") else path, row_offset=start)
    return Catalog({name: np.asarray(columns[name]) for name in names if name in columns}, provenance=origin)


class GPZedInformer(CatInformer):
    """Train gpzed: a sparse Gaussian process with input-dependent noise (GPz; Almosallam, Jarvis & Roberts 2016)."""

    name = "GPZedInformer"
    entrypoint_function = "inform"
    interactive_function = "gpzed_informer"
    extra_interactive_documentation = """
    Examples
    --------
    >>> import rail.interactive as ri
    >>> informer = ri.estimation.algos.gpzed.gpzed_informer
    >>> model = informer(training_data=table, hdf5_groupname="")["model"]
    >>> model.save("model.gpzed")
    """
    parallel = False
    outputs = [("model", GPZedModelHandle)]
    config_options = CatInformer.config_options.copy()
    config_options.update(
        **OF_CATALOGUE,
        ref_band=SHARED_PARAMS,
        nonobserved_val=SHARED_PARAMS,
        id_col=SHARED_PARAMS,
        **informer_options(),
    )

    def __init__(self, args: Any, **kwargs: Any) -> None:
        super().__init__(args, **kwargs)
        refuse_strange_names(self)
        self.run_config()

    def schema(self) -> PhotometrySchema:
        """Return which column is what."""
        c = self.config
        return PhotometrySchema.from_columns(
            c.bands, c.err_bands or (), redshift=c.redshift_col, id=c.id_col, weight=c.weight_col, ebv=c.ebv_col
        )

    def run_config(self) -> RunConfig:
        """Return gpzed's configuration of this stage."""
        return run_config(self.config, self.schema())

    def training_columns(self) -> Mapping[str, Any]:
        """Return the columns of the training data."""
        return as_columns(self.get_data("input"), self.config.hdf5_groupname)

    def run(self) -> None:
        """Train the model and hand it on."""
        schema, config = self.schema(), self.run_config()
        wanted = [name for name in (*schema.columns, config.split.column) if name]
        table = as_catalog(self.training_columns(), wanted, self.get_handle("input").path)
        self.model = train_table(table, schema, config)
        self.add_data("model", self.model)


class GPZedEstimator(CatEstimator):
    """Estimate redshifts with a model of GPZedInformer, or of `gpzed train`."""

    name = "GPZedEstimator"
    entrypoint_function = "estimate"
    interactive_function = "gpzed_estimator"
    extra_interactive_documentation = """
    Examples
    --------
    >>> import rail.interactive as ri
    >>> estimator = ri.estimation.algos.gpzed.gpzed_estimator
    >>> output = estimator(input_data=table, model=model, hdf5_groupname="", id_col="id")["output"]
    >>> output.ancil["z_phot"], output.ancil["z_flags"]
    """
    inputs = [("model", GPZedModelHandle), ("input", TableHandle)]
    config_options = CatEstimator.config_options.copy()
    config_options.update(
        bands=Param(list, [], msg="Magnitude columns, in the order of those in training; the same columns if empty"),
        err_bands=Param(list, [], msg="Error columns, in the order of `bands`; those of training if empty"),
        nondetect_val=Param(float, None, required=False, msg="Value of a non-detection; as in training if left out"),
        nonobserved_val=Param(float, None, required=False, msg="Value of no observation; as in training if left out"),
        mag_limits=Param(dict, None, required=False, msg="Limiting magnitudes by column; as in training if left out"),
        pdf_type=Param(
            str,
            "mixture",
            msg="Form of the ensemble: 'mixture' (qp.mixmod of at most eight Gaussians), 'full' (all that gpzed has), "
            "'norm' (one Gaussian of the same mean and variance), 'truncnorm' (that Gaussian cut at zmin) or 'grid' "
            "(qp.interp of the mixture on nzbins points from zmin to zmax, nothing outside)",
        ),
        quantiles=one_option("predict", "quantiles"),
        n_threads=one_option("model", "n_threads"),
    )

    def __init__(self, args: Any, **kwargs: Any) -> None:
        super().__init__(args, **kwargs)
        refuse_strange_names(self)
        if self.config.pdf_type not in PDF_TYPES:
            raise ConfigError(f"`pdf_type` is {self.config.pdf_type!r}; expected one of {', '.join(PDF_TYPES)}")
        if not self.config.zmin < self.config.zmax or self.config.nzbins < 2:
            raise ConfigError(
                f"`zmin`, `zmax`, `nzbins` are {self.config.zmin}, {self.config.zmax}, {self.config.nzbins}; expected "
                "zmin < zmax and at least 2 points"
            )
        self._options = PredictConfig(quantiles=tuple(map(float, self.config.quantiles)), pdf="none")
        self._view: tuple[PhotozModel, PhotometrySchema, Sentinels] | None = None
        self._path: str | None = None  # of the file that is read, for messages
        self._shown: Prediction | None = None  # of the current chunk

    @classmethod
    def default_distribution_type(cls) -> DistributionType:
        """Return the kind of distribution: a posterior."""
        return DistributionType.posterior

    def open_model(self, tag: str = "model", **kwargs: Any) -> PhotozModel:
        """Load the model, and settle how it reads the catalogue."""
        given: PhotozModel = super().open_model(tag, **kwargs)
        if given is None:
            raise ConfigError("there is no `model`; give a model of GPZedInformer, or the path of its file")
        GPZedModelHandle._validate_data(given)
        trained = given.with_threads(self.config.n_threads or (1 if self.size > 1 else None))
        schema = _schema_for(trained.schema, self.config.bands, self.config.err_bands)
        sentinels = dataclasses.replace(trained.sentinels, **sentinel_options(self.config, schema))
        self._view = trained, schema, sentinels
        return given

    def input_iterator(self, tag: str, **kwargs: Any) -> Iterable[tuple[int, int, Any]]:
        """Iterate over chunks of rows, for this process its share of them.

        Every process gets at least one chunk where there are enough rows. Files that are not HDF5 are read by gpzed: of
        Parquet files tables_io gives wrong offsets to several processes, unless row groups end where chunks do.
        """
        handle, group = self.get_handle(tag, allow_missing=True), self.config.hdf5_groupname
        path = str(handle.path)
        if path in ("None", "none"):
            columns = as_columns(handle.data, group)
            self._input_length = self.config.chunk_size = len(next(iter(columns.values())))
            return [(0, self._input_length, columns)]
        self._path = path
        is_ours = not path.endswith(HDF5_SUFFIXES) and not handle.has_data
        n = catalog_info(path).n_rows if is_ours else handle.size(groupname=group)
        self.config.chunk_size = max(1, min(self.config.chunk_size, n // self.size))
        if not is_ours:
            return super().input_iterator(tag, **kwargs)
        self._input_length = n
        return _file_chunks(path, self.config.chunk_size, self.rank, self.size)

    def _process_chunk(self, start: int, end: int, data: Any, first: bool) -> None:
        assert self._view is not None
        trained, schema, sentinels = self._view
        columns = as_columns(data, None)
        table = as_catalog(columns, schema.columns, self._path, start)
        prediction, _ = predict_table(trained, _filled_up(table), schema, sentinels)
        prediction = prediction[: end - start]
        self._shown, ensemble = self._ensemble(prediction)
        ensemble.set_ancil(self._ancillary(prediction, self._shown))
        self._do_chunk_output(ensemble, start, end, first, data=columns)

    def _ensemble(self, prediction: Prediction) -> tuple[Prediction, qp.Ensemble]:
        """Return the densities that are written, as a prediction and as an ensemble."""
        kind, low = self.config.pdf_type, float(self.config.zmin)
        if kind in ("mixture", "full"):
            shown = prediction.truncate(None)  # qp has no truncated mixtures
            shown = shown.reduced() if kind == "mixture" and shown.n_components > MOST else shown
            return shown, shown.to_qp()
        if kind == "grid":
            shown = prediction.truncate(low)
            return shown, shown.to_qp(np.linspace(low, self.config.zmax, self.config.nzbins))
        whole = prediction.truncate(None)  # else "truncnorm" would be cut twice
        parts = (whole.model_variance, whole.noise_variance, whole.input_variance)
        shown = Prediction.gaussian(whole.mean, *parts).truncate(low if kind == "truncnorm" else None)
        return shown, shown.to_qp(kind="norm")

    def _calculate_mode_point_estimate(self, qp_dist: qp.Ensemble, grid: Any = None) -> np.ndarray:
        return np.array(self._shown.mode) if grid is None else super()._calculate_mode_point_estimate(qp_dist, grid)

    def _calculate_mean_point_estimate(self, qp_dist: qp.Ensemble) -> np.ndarray:
        return np.array(self._shown.mean)

    def _calculate_median_point_estimate(self, qp_dist: qp.Ensemble) -> np.ndarray:
        return np.array(self._shown.median)

    def _calculate_summary_stats(self, qp_dstn: qp.Ensemble) -> qp.Ensemble:
        """Add what RAIL's own adds under the same names, in closed form; qp has no moments of mixtures."""
        shown = self._shown
        for name, level in SUMMARY_LEVELS.items():
            qp_dstn.ancil[name] = np.array(shown.quantile(level))
        qp_dstn.ancil.update(z_mode=np.array(shown.mode), z_mean=np.array(shown.mean), z_std=np.array(shown.std))
        return qp_dstn

    def _ancillary(self, prediction: Prediction, shown: Prediction) -> dict[str, np.ndarray]:
        """Return point estimates of the densities written, and the columns that `gpzed predict` writes."""
        columns = predict_columns(prediction, self._options)
        points = {"zmean": shown.mean, "zmode": shown.mode, "zmedian": shown.median, "zbest": shown.best}
        return {name: np.array(values) for name, values in {**points, **columns}.items()}


def _filled_up(table: Catalog) -> Catalog:
    """Return the table with its last row repeated up to a round number of rows.

    Matrix products treat the last few rows of a block otherwise than the rest, which shows in the last digit. With
    round numbers of rows only, a row gets the same bits whatever rows come with it, as long as no band is missing.
    """
    n = len(table)
    return table.take(np.minimum(np.arange(-(-n // ROUND_ROWS) * ROUND_ROWS), n - 1)) if n % ROUND_ROWS else table


def refuse_strange_names(stage: Any) -> None:
    """Raise if a parameter of a stage is nearly one that it has; warn of others that it has not."""
    aliases = {*stage.get_aliases(), *stage.get_aliases().values()}
    known = {*stage.config_options, *OF_RAIL, *OF_RUBIN, *aliases}
    for name in check_names(stage.name, stage.config, known):
        stage.log.warning(f"`{name}` is no parameter of {stage.name} and is not used")


def _schema_for(trained: PhotometrySchema, bands: list[str], err_bands: list[str]) -> PhotometrySchema:
    """Return the schema of training with other columns in the place of its own, band by band."""
    changes: dict[str, Any] = {"redshift": None, "id": None, "weight": None}  # RAIL passes these through
    for option, field, given in (("bands", "values", bands), ("err_bands", "errors", err_bands)):
        if not given:
            continue
        there = getattr(trained, field)
        if len(given) != len(trained.bands) or not there:
            raise ConfigError(
                f"`{option}` has {len(given)} columns but the model was trained on {len(there)}: "
                f"{', '.join(there.values()) or 'none'}; give one for each, in this order"
            )
        key = next(name for name in ("mag", "mag_err", "flux", "flux_err") if getattr(trained, name) == there)
        changes[key] = dict(zip(trained.bands, given, strict=True))
    return dataclasses.replace(trained, **changes)


def _file_chunks(path: str, rows: int, rank: int, size: int) -> Iterator[tuple[int, int, dict[str, np.ndarray]]]:
    """Yield the chunks number `rank`, `rank + size`, ... of a file with their true offsets."""
    n = catalog_info(path).n_rows
    for start in range(rank * rows, n, size * rows):
        chunk = next(iter_catalog(path, chunk_rows=rows, start_row=start))
        yield start, start + len(chunk), {name: np.array(chunk[name]) for name in chunk.names}
