"""Starting values: centres where the data are, shapes from the local scatter, noise from the residuals."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from scipy.cluster.vq import kmeans2

from gpzed._types import FloatArray, IntArray
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.gp.evidence import fit_posterior
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.predictive import predict

InitMethod = Literal["kmeans", "data", "random"]

MAX_ROWS = 20_000
"""Rows that the start is computed from: a random subset of this size fixes it well enough."""

MAX_SIZE = 1e100
"""Larger numbers are scaled down for k-means: where squares of distances overflow, SciPy writes beyond its arrays."""


def initialize(
    X: FloatArray,
    y: FloatArray,
    layout: Layout,
    rng: np.random.Generator,
    *,
    method: InitMethod = "kmeans",
    n_threads: int | None = None,
) -> Parameters:
    """Return parameters to start the optimiser from, for whitened inputs (n, d) and standardised targets (n,)."""
    if len(X) > MAX_ROWS:
        rows = rng.choice(len(X), MAX_ROWS, replace=False)
        X, y = X[rows], y[rows]
    P, Gamma = layout.structure.start(X, start_centres(X, layout.m, method, rng), rng)
    n_alpha = (layout.m if layout.relevance else 1) + layout.k
    start = Parameters(
        P=P,
        Gamma=Gamma,
        u=np.zeros(layout.m),
        b=np.log(10.0),  # a tenth of the variance of the target is noise, until the residuals are known
        log_alpha=np.zeros(n_alpha),  # weights of the order of the target's scatter
        log_eta=np.zeros(layout.m),
    )
    engine = ThreadEngine(X, y, width=layout.n_weights, n_threads=n_threads)
    state, posterior, _ = fit_posterior(engine, start, layout)
    residual = predict(X, state, posterior, Team(n_threads)).mean - y
    noise = max(float(np.mean(residual**2)), 1e-8)
    return Parameters(start.P, start.Gamma, start.u, -np.log(noise), start.log_alpha, start.log_eta)


def start_centres(X: FloatArray, m: int, method: InitMethod, rng: np.random.Generator) -> FloatArray:
    """Return centres (m, d) for rows X (n, d): of clusters, at rows, or random in the box that holds the data.

    The last is what the authors' code does.
    """
    if method == "random":
        return rng.uniform(X.min(axis=0), X.max(axis=0), size=(m, X.shape[1]))
    rows = X[rng.choice(len(X), size=m, replace=len(X) < m)]
    if method == "data" or len(X) <= m:
        return rows
    return clusters(X, rows, 10)[0]


def clusters(X: FloatArray, start: FloatArray, steps: int) -> tuple[FloatArray, IntArray]:
    """Return centres of clusters of rows X (n, d), and the cluster (n,) of each row; empty ones stay at their start."""
    size = max(float(np.abs(X).max(initial=0.0)) / MAX_SIZE, 1.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty")
        centres, label = kmeans2(X / size, start / size, iter=steps, minit="matrix")
    return size * np.asarray(centres), np.asarray(label)
