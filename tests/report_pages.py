"""A headless browser for the tests of the page, and small files of predictions for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from gpzed.catalog import Catalog

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium() -> str:
    """Return the path of a Chromium, $GPZED_CHROMIUM or the first on the path; skip the test if there is none."""
    found = [os.environ.get("GPZED_CHROMIUM"), *(shutil.which(name) for name in NAMES)]
    for path in found:
        if path and os.access(path, os.X_OK):
            return path
    pytest.skip("no Chromium here: install Debian's `chromium`, or set GPZED_CHROMIUM to the path of one")


@contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium; ends with the context."""
    path = chromium()
    playwright = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield running
        finally:
            running.close()


def prediction_table(n: int, seed: int = 0, *, truth: bool = True) -> Catalog:
    """Return predictions with outliers, ids, photometry with gaps, and the parts of the variance."""
    rng = np.random.default_rng(seed)
    z = rng.gamma(4.0, 0.18, n)
    std = (0.015 + 0.03 * rng.gamma(2.0, 0.5, n)) * (1 + z)
    mean = z + std * rng.standard_normal(n)
    wild = rng.random(n) < 0.02
    mean[wild] = rng.uniform(0.0, 2.2, wild.sum())
    columns: dict[str, Any] = {"id": 10**17 + np.arange(n)}
    for k, band in enumerate("gri"):
        columns[f"mag_{band}"] = np.where(rng.random(n) < 0.02, 99.0, 19.0 + 2 * z - 0.3 * k)
        columns[f"mag_err_{band}"] = rng.uniform(0.01, 0.1, n)
    if truth:
        columns["z_spec"] = z
    columns |= {"z_phot": mean, "z_std": std, "z_var_model": 0.2 * std**2, "z_var_noise": 0.8 * std**2}
    return Catalog(columns)
