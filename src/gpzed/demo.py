"""A whole run on simulated galaxies: files on disk, a model, predictions, scores and figures."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog import Catalog, write_catalog
from gpzed.config import RunConfig
from gpzed.evaluation import binned_metrics, pit_histogram, rejection_curve, reliability, uncertainty_boxes
from gpzed.plots import (
    plot_binned,
    plot_history,
    plot_pdf,
    plot_pit,
    plot_redshift_distribution,
    plot_rejection,
    plot_reliability,
    plot_scatter,
    plot_sparsity,
    plot_variance_boxes,
    save_figure,
)
from gpzed.simulate import simulate_survey
from gpzed.workflows import (
    Evaluation,
    Progress,
    evaluate,
    load_photoz_model,
    predict,
    read_predictions,
    train,
    write_report,
)

DEFAULT_SIZE = 50_000
REPORT = "report.html"
"""The page to open first."""
DEFAULT_OPTIONS = {"model": {"n_basis": 100, "n_members": 1}, "training": {"patience": 10, "n_epochs": 40}}
"""One small model, which stops as soon as held-out rows gain next to nothing: to be quick."""


@dataclass(frozen=True)
class DemoReport:
    """What the demonstration left behind.

    Attributes
    ----------
    folder : str
    evaluation : Evaluation
        Of the test set.
    files : tuple of str
        Names of the files in the folder.
    """

    folder: str
    evaluation: Evaluation
    files: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        return {"folder": self.folder, "files": list(self.files), "test": self.evaluation.to_dict()}


def run_demo(
    folder: str | os.PathLike[str] = "gpzed-demo",
    *,
    survey: str = "sdss",
    size: int = DEFAULT_SIZE,
    seed: int = 0,
    options: dict[str, dict[str, Any]] | None = None,
    progress: Progress | None = None,
) -> DemoReport:
    """Simulate a survey, train on it, predict and evaluate, all through files.

    Parameters
    ----------
    folder : path
        Where everything goes; created if need be.
    survey : {"sdss", "lsst"}
    size : int
        Galaxies in each of the sets for training, validation and test.
    seed : int
    options : dict of str to dict, optional
        Sections [model] and [training] of the configuration; `DEFAULT_OPTIONS` if not given.
    """
    progress = progress or Progress()
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    progress.say(f"simulating 3 x {size:,} galaxies of a survey like {survey.upper()}")
    _simulate(out, survey, size, seed)
    config = RunConfig.from_dict(
        {"seed": seed, "split": {"column": "split"}, **(DEFAULT_OPTIONS if options is None else options)}
    )
    model_file, predictions = out / "model.gpzed", out / "predictions.parquet"
    _clear(out)
    train(out / "training.parquet", model_file, config, progress=progress)
    predict(model_file, out / "test.parquet", predictions, progress=progress)
    result = evaluate(predictions)
    progress.say("drawing figures")
    _draw(out, model_file, predictions)
    title = f"gpzed demo: galaxies like those of {survey.upper()}"
    write_report([predictions], out / REPORT, title=title, training=out / "training.parquet")
    return DemoReport(str(out), result, tuple(sorted(p.name for p in out.iterdir())))


def _clear(out: Path) -> None:
    """Remove what an interrupted demonstration left; the data may be others now."""
    for state in out.glob("model.gpzed.checkpoint*"):
        state.unlink()
    shutil.rmtree(out / "predictions.parquet.parts", ignore_errors=True)


def _simulate(out: Path, survey: str, size: int, seed: int) -> None:
    """Write training (with validation) and test set, of galaxies with spectra."""
    galaxies = simulate_survey(3 * size, survey=survey, random_state=seed, only_spectroscopic=True)
    table = Catalog(galaxies.columns())
    split = np.repeat(["train", "validation"], size)
    write_catalog(table.slice(0, 2 * size).with_columns({"split": split}), out / "training.parquet")
    write_catalog(table.slice(2 * size), out / "test.parquet")


def _draw(out: Path, model_file: Path, predictions: Path) -> None:
    file = read_predictions(predictions)
    z, prediction = file.z_spec, file.prediction
    assert z is not None
    model = load_photoz_model(model_file).regressor
    figures = {
        "scatter": plot_scatter(z, prediction),
        "density": plot_pdf(prediction, z_spec=z),
        "pit": plot_pit(pit_histogram(z, prediction), difference=True),
        "reliability": plot_reliability(reliability(z, prediction), difference=True),
        "rejection": plot_rejection(rejection_curve(z, prediction)),
        "bias": plot_binned(binned_metrics(z, prediction, ["bias"])),
        "variance": plot_variance_boxes(uncertainty_boxes(z, prediction, whiskers=(0.05, 0.95))),
        "redshift_distribution": plot_redshift_distribution(z, prediction),
        "training_history": plot_history(model.reports_),
    }
    if model.n_heads == 1:
        figures["sparsity"] = plot_sparsity(model.weight_precisions_, model.noise_weight_precisions_)
    for name, ax in figures.items():
        save_figure(ax, out / f"{name}.png")
