"""Training on a folder of Parquet files, or a HATS catalogue, whose rows the workers of a Dask cluster load themselves.

This process sees a random sample only: it fits the features, judges, and chooses the iterate. Which row is for
training, validation or test is decided by its number in the catalogue, so that sample and workers agree.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._files import file_hash
from gpzed._types import FloatArray, IntArray
from gpzed.catalog import (
    Catalog,
    CatalogInfo,
    PhotometrySchema,
    catalog_info,
    parquet_files,
    read_catalog,
)
from gpzed.config import RunConfig
from gpzed.distributed.connection import wait_for_workers
from gpzed.distributed.data import lottery
from gpzed.distributed.engine import attempt
from gpzed.errors import ConfigError
from gpzed.features import FeatureTransformer, WeightConfig, split_by_column
from gpzed.progress import Progress
from gpzed.workflows.inputs import make_inputs
from gpzed.workflows.labels import labels_of, with_labels
from gpzed.workflows.schema import open_info, refuse_zero_point, resolve_schema, warn_of_lost_bands
from gpzed.workflows.training_set import TrainingSet, prepare_table, usable_rows, used_columns

SAMPLE_ROWS = 200_000
"""Rows that this process looks at, drawn at random."""
SPLIT_COLUMN = "gpzed_split"
WEIGHTS = ("none", "redshift", "column")


def prepare_on_cluster(
    client: Any, catalogue: str | os.PathLike[str], config: RunConfig, progress: Progress
) -> tuple[TrainingSet, list[Any]]:
    """Let the workers read: a sample for this process, with the hash of all files, and the rows to train on."""
    if config.target.catalogue:
        raise ConfigError(
            "rows that workers read themselves cannot be made to look like a target; train without a cluster, on a "
            "file or a sample of the folder, or leave the target out"
        )
    info = open_info(catalogue, config.schema)
    schema = resolve_schema(info.names, config.schema, info.units)
    refuse_zero_point(schema, config.schema)
    warn_of_lost_bands(info.names, schema, config.schema, progress)
    source = Source(tuple(used_columns(info, schema, config)), schema, config)
    files = ClusterCatalogue(client, info, source)
    sample = files.sample()
    progress.say(
        f"{len(files.files)} files with {info.n_rows:,} rows; features are fitted to, and scores taken from, "
        f"{len(sample):,} of them"
    )
    split = dataclasses.replace(config.split, column=SPLIT_COLUMN, validation=0.0, test=0.0)
    plain = dataclasses.replace(config, split=split, weights=WeightConfig())
    rows = prepare_table(sample, info, schema, plain)
    used = usable_rows(sample, schema, config)[0]
    weights = raw_weights(used, schema, config)
    mean = float(weights[rows.split.train].mean())
    if config.weights.method != "none":
        rows = dataclasses.replace(rows, weights=weights / mean)
    return dataclasses.replace(rows, digest=files.digest()), files.delayed(rows.transformer, mean)


@dataclass(frozen=True)
class Source:
    """What a worker needs to know to read a file of the catalogue."""

    columns: tuple[str, ...]
    schema: PhotometrySchema
    config: RunConfig

    def read(self, file: Path, start: int, share: float = 1.0) -> Catalog:
        """Return rows of a file (or a random share of them) with the part of the split that each belongs to."""
        table = read_catalog(file, columns=list(self.columns))
        table = table.with_columns({SPLIT_COLUMN: self._parts(table, start)})
        return table if share >= 1.0 else table.take(lottery(self.config.seed, start, len(table)) < share)

    def _parts(self, table: Catalog, start: int) -> IntArray:
        """Return 0 for training, 1 for validation, 2 for test, by the number of the row in the catalogue."""
        split = self.config.split
        if split.column:
            found = split_by_column(table[split.column], split.column)
            codes = np.zeros(len(table), dtype=np.int64)
            codes[found.validation], codes[found.test] = 1, 2
            return codes
        drawn = lottery(self.config.seed + 1, start, len(table))
        return np.where(drawn < split.test, 2, np.where(drawn < split.test + split.validation, 1, 0))


@dataclass(frozen=True)
class Loader:
    """Makes the training rows of a file on a worker."""

    source: Source
    transformer: FeatureTransformer
    mean_weight: float

    def __call__(self, file: Path, start: int) -> tuple[FloatArray | None, ...]:
        """Return inputs, redshifts, weights, errors of the inputs and of redshifts, and doubts, of rows of a file."""
        schema, config = self.source.schema, self.source.config
        table = with_labels(self.source.read(file, start), schema, config)[0]
        table = usable_rows(table.take(table[SPLIT_COLUMN] == 0), schema, config)[0]
        inputs = make_inputs(table, schema, config.sentinels, self.transformer)
        weights = raw_weights(table, schema, config) / self.mean_weight
        labels = labels_of(table, schema)
        return inputs.X, labels.z, weights, inputs.X_std, labels.std, labels.wrong


def raw_weights(table: Catalog, schema: PhotometrySchema, config: RunConfig) -> FloatArray:
    """Return cost weights that depend on their row alone, not yet divided by their mean."""
    if config.weights.method == "redshift":
        return np.asarray((1.0 + table.floats(str(schema.redshift))) ** -2.0)
    return table.floats(str(schema.weight)) if config.weights.method == "column" else np.ones(len(table))


class ClusterCatalogue:
    """The files of a catalogue, as a cluster reads them."""

    def __init__(self, client: Any, info: CatalogInfo, source: Source) -> None:
        if source.config.weights.method not in WEIGHTS:
            raise ConfigError(
                f'`method` in [weights] is "{source.config.weights.method}", which needs all rows at once; on a '
                f"cluster use one of {', '.join(WEIGHTS)}, or leave out --dask"
            )
        if len(source.config.schema.redshifts) > 1 or source.config.schema.redshift_quality:
            raise ConfigError(
                "several redshift columns, or quality flags, need all rows at once to learn their errors; on a cluster "
                "name one column with --redshift, or leave out --dask"
            )
        self.client, self.info, self.source = client, info, source
        self.files = [file.resolve() for file in parquet_files(Path(info.path))]
        sizes = [catalog_info(file).n_rows for file in self.files]
        self.starts = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(int).tolist()
        wait_for_workers(client)

    def sample(self) -> Catalog:
        """Return about `SAMPLE_ROWS` rows, with their part of the split in the column `SPLIT_COLUMN`."""
        share = SAMPLE_ROWS / max(self.info.n_rows, 1)

        def work() -> list[Catalog]:
            shares = [share] * len(self.files)
            read: list[Catalog] = self.client.gather(
                self.client.map(self.source.read, self.files, self.starts, shares, pure=False)
            )
            return read

        return Catalog.concatenate(attempt(self.client, work, lambda: None))

    def delayed(self, transformer: FeatureTransformer, mean_weight: float) -> list[Any]:
        """Return the training rows of every file, for the workers to load."""
        import dask

        load = dask.delayed(Loader(self.source, transformer, mean_weight), pure=False, traverse=False)
        return [load(file, start) for file, start in zip(self.files, self.starts, strict=True)]

    def digest(self) -> str:
        """Return the hash of the hashes of all files, computed by the workers."""
        found = attempt(
            self.client, lambda: self.client.gather(self.client.map(file_hash, self.files, pure=False)), lambda: None
        )
        return hashlib.sha256("".join(found).encode()).hexdigest()
