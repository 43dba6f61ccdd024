"""Draw every figure of `gpzed.plots` and write the page that shows them: ``python -m experiments.gallery``.

The figures are of simulated galaxies and a small model, so that all of it is done in a minute.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gpzed import GPzRegressor, plots
from gpzed.catalog import Catalog, write_catalog
from gpzed.config import RunConfig
from gpzed.evaluation import (
    binned_metrics,
    pit_histogram,
    qq_curve,
    rejection_curve,
    relative_improvement,
    reliability,
    retained_curve,
    stack,
    uncertainty_boxes,
)
from gpzed.simulate import simulate_survey
from gpzed.workflows import train
from gpzed.workflows.survey import SurveyOptions, survey

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "gallery.md"
FOLDER = PAGE.with_name("gallery")
DPI, COLOURS = 144, 96
"""Dots per inch of the pictures, and how many colours they have: small files."""
INTRODUCTION = """# Gallery

Every figure of `gpzed.plots`, drawn by `python -m experiments.gallery` from {rows:,} simulated galaxies and small
models. In the calls, `z` stands for true redshifts, `p` for a `Prediction`, `model` for a fitted `GPzRegressor`. Each
function draws on the axes `ax`, or on new ones, and returns them; `plots.save_figure(ax, "figure.pdf")` writes a file.
[Judge a prediction](../howto/judge-a-prediction.md) explains what to look for.
"""
ROWS = 4000


class Bench:
    """What the figures are of: a survey like SDSS, predictions with eight Gaussians and with one, a plan of spectra."""

    def __init__(self, folder: Path) -> None:
        sky = simulate_survey(ROWS, survey="sdss", random_state=0, only_spectroscopic=True)
        X, z, half = sky.mag, sky.z_true, ROWS // 2
        self.model = GPzRegressor(n_members=1, n_heads=1, random_state=0).fit(X[:half], z[:half])
        mixtures = GPzRegressor(n_members=1, random_state=0).fit(X[:half], z[:half])
        simple = GPzRegressor(n_members=1, n_heads=1, n_basis=5, covariance="GL", random_state=0).fit(
            X[:half], z[:half]
        )
        self.z = z[half:]
        self.p, self.one, self.few = (
            m.predict_distribution(X[half:]).truncate(0.0) for m in (mixtures, self.model, simple)
        )
        table = Catalog(sky.columns())
        write_catalog(table.slice(0, half), folder / "spectra.parquet")
        write_catalog(table.slice(half), folder / "survey.parquet")
        config = RunConfig.from_dict({"model": {"n_members": 1, "n_heads": 1}})
        train(folder / "spectra.parquet", folder / "model.gpzed", config)
        self.plan = survey(folder / "model.gpzed", folder / "survey.parquet", SurveyOptions(n_spectra=20))


def _pdf(b: Bench) -> Any:
    peaks = (b.p.weights > 0.05).sum(axis=1) + 2.0 * (b.p.std > 0.05)
    return plots.plot_pdf(b.p, index=int(np.argmax(peaks)), z_spec=b.z)


def _improvement(b: Bench) -> Any:
    better = {"1 Gaussian": b.one, "GL, 5 functions": b.few}
    first = rejection_curve(b.z, b.p)
    curves = {name: relative_improvement(first, rejection_curve(b.z, p)) for name, p in better.items()}
    return plots.plot_improvement(curves, reference="8 Gaussians")


def _complexity(b: Bench) -> Any:
    sizes = [2, 5, 10, 20, 50]
    rows = len(b.z) // 2
    sky = simulate_survey(ROWS, survey="sdss", random_state=0, only_spectroscopic=True)
    fits = (
        GPzRegressor(n_members=1, n_heads=1, n_basis=m, random_state=0).fit(sky.mag[:rows], sky.z_true[:rows])
        for m in sizes
    )
    errors = [rejection_curve(b.z, fit.predict_distribution(sky.mag[ROWS // 2 :])).values[-1] for fit in fits]
    return plots.plot_complexity({"GPVC": (sizes, errors)})


FIGURES: dict[str, tuple[str, Callable[[Bench], Any]]] = {
    "plot_scatter": ("plots.plot_scatter(z, p)", lambda b: plots.plot_scatter(b.z, b.p)),
    "plot_pdf": ("plots.plot_pdf(p, index=7, z_spec=z)", _pdf),
    "plot_redshift_distribution": (
        "plots.plot_redshift_distribution(z, p)",
        lambda b: plots.plot_redshift_distribution(b.z, b.p),
    ),
    "plot_stack": (
        "plots.plot_stack(stack(p, edges, sample_edges=[0, 0.2, 0.4, 0.7]))",
        lambda b: plots.plot_stack(stack(b.p, np.linspace(0, 0.9, 46), sample_edges=[0.0, 0.2, 0.4, 0.7])),
    ),
    "plot_binned": ("plots.plot_binned(binned_metrics(z, p))", lambda b: plots.plot_binned(binned_metrics(b.z, b.p))),
    "plot_variance_boxes": (
        "plots.plot_variance_boxes(uncertainty_boxes(z, p, whiskers=(0.05, 0.95)))",
        lambda b: plots.plot_variance_boxes(uncertainty_boxes(b.z, b.p, whiskers=(0.05, 0.95))),
    ),
    "plot_pit": (
        "plots.plot_pit(pit_histogram(z, p), difference=True)",
        lambda b: plots.plot_pit(pit_histogram(b.z, b.p), difference=True),
    ),
    "plot_reliability": (
        "plots.plot_reliability(reliability(z, p), difference=True)",
        lambda b: plots.plot_reliability(reliability(b.z, b.p), difference=True),
    ),
    "plot_qq": (
        "plots.plot_qq(qq_curve(z, p), difference=True)",
        lambda b: plots.plot_qq(qq_curve(b.z, b.p), difference=True),
    ),
    "plot_rejection": (
        'plots.plot_rejection({"8 Gaussians": rejection_curve(z, p), "1 Gaussian": rejection_curve(z, p1)})',
        lambda b: plots.plot_rejection(
            {"8 Gaussians": rejection_curve(b.z, b.p), "1 Gaussian": rejection_curve(b.z, b.one)}
        ),
    ),
    "plot_retained": (
        'plots.plot_retained({"8 Gaussians": retained_curve(z, p), "GL, 5 functions": retained_curve(z, p2)})',
        lambda b: plots.plot_retained(
            {"8 Gaussians": retained_curve(b.z, b.p), "GL, 5 functions": retained_curve(b.z, b.few)}
        ),
    ),
    "plot_improvement": (
        'plots.plot_improvement({"1 Gaussian": relative_improvement(curve, curve1)}, reference="8 Gaussians")',
        _improvement,
    ),
    "plot_complexity": ('plots.plot_complexity({"GPVC": (sizes, scores)})', _complexity),
    "plot_survey": (
        'plots.plot_survey(plan.cells, plan.magnitude, "-".join(plan.colour))',
        lambda b: plots.plot_survey(b.plan.cells, b.plan.magnitude, "-".join(b.plan.colour)),
    ),
    "plot_history": ("plots.plot_history(model.reports_)", lambda b: plots.plot_history(b.model.reports_)),
    "plot_sparsity": (
        "plots.plot_sparsity(model.weight_precisions_, model.noise_weight_precisions_)",
        lambda b: plots.plot_sparsity(b.model.weight_precisions_, b.model.noise_weight_precisions_),
    ),
    "plot_basis_ellipses": (
        "plots.plot_basis_ellipses(model.basis_centers_, model.basis_factors_, weights=model.weights_)",
        lambda b: plots.plot_basis_ellipses(b.model.basis_centers_, b.model.basis_factors_, weights=b.model.weights_),
    ),
}
"""Function to how it is called, for the page, and how it is drawn here."""


def page() -> str:
    """Return the page: each figure under its name, with its summary and its call."""
    parts = [INTRODUCTION.format(rows=ROWS)]
    for name, (call, _) in FIGURES.items():
        summary = (inspect.getdoc(getattr(plots, name)) or "").splitlines()[0]
        parts.append(f"## {name}\n\n{summary}\n\n```python\n{call}\n```\n\n![{name}](gallery/{name}.png)\n")
    return "\n".join(parts).replace("```python", "```py")  # to be read: the names stand for the reader's own


def shrink(path: Path) -> None:
    """Store a picture with few colours."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    """Draw the figures and write the page."""
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for name, (_, draw) in FIGURES.items():
            plots.save_figure(draw(bench), FOLDER / f"{name}.png", dpi=DPI)
            shrink(FOLDER / f"{name}.png")
    PAGE.write_text(page(), encoding="utf-8")
    print(json.dumps({"figures": len(FIGURES), "rows": ROWS, "seed": 0}))


if __name__ == "__main__":
    main()
