"""n(z) with its realisations as files: HDF5 of a documented layout, and ensembles of qp."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from gpzed._files import replacing
from gpzed.errors import ConfigError, MissingDependencyError
from gpzed.prediction.qpform import load_qp
from gpzed.workflows.stack import StackReport

N_MODES = 10
MAX_COVARIANCE = 4000
"""Numbers of which the covariance is written at most; it follows from the realisations anyway."""


def write_realisations(report: StackReport, path: str | os.PathLike[str]) -> None:
    """Write n(z), realisations, covariances and modes to an HDF5 file (docs/howto/redshift-distribution.md)."""
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(
            "writing realisations needs h5py; install it with `pip install gpzed[hdf5]`"
        ) from error
    nz, drawn = report.distribution, report.distribution.realisations
    if drawn is None:
        raise ConfigError("there are no realisations to write; ask for two at least")
    modes, shares = drawn.modes(N_MODES)
    arrays: dict[str, Any] = {
        "z_low": nz.edges[:-1],
        "z_high": nz.edges[1:],
        "z_mid": nz.centers,
        "nz": nz.density,
        "n_objects": nz.n,
        "mean": nz.mean,
        "mean_error": nz.mean_error,
        "outside": nz.outside,
        "realisations": drawn.density,
        "realisation_means": drawn.mean,
        "mean_covariance": drawn.mean_covariance,
        "modes": modes,
        "mode_shares": shares,
    }
    if nz.density.size <= MAX_COVARIANCE:
        arrays["covariance"] = drawn.covariance
    with replacing(path) as temporary, h5py.File(temporary, "w") as stream:
        for name, values in arrays.items():
            options = {"compression": "gzip"} if np.size(values) > 1000 else {}
            stream.create_dataset(name, data=values, **options)
        stream.attrs["samples"] = list(nz.names)
        stream.attrs["gpzed_nz"] = json.dumps(report.to_dict())


def write_qp(report: StackReport, path: str | os.PathLike[str]) -> None:
    """Write n(z) as an ensemble of histograms of qp, one for every sample that has objects."""
    qp, nz = load_qp(), report.distribution
    used = np.flatnonzero(nz.n)
    ensemble = qp.Ensemble(qp.hist, data={"bins": nz.edges, "pdfs": nz.density[used]})
    ensemble.set_ancil({"n_objects": nz.n[used], "mean": nz.mean[used], "mean_error": nz.mean_error[used]})
    with replacing(path) as temporary:
        named = temporary.with_name(f"{temporary.name}.hdf5")  # qp goes by the suffix
        ensemble.write_to(os.fspath(named))
        named.replace(temporary)
