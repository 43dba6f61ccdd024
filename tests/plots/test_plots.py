"""Figures: what is drawn is what was given, on the axes given, and files come out in the format asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpzed import plots
from gpzed.errors import MissingDependencyError
from gpzed.evaluation import (
    binned_metrics,
    evaluate,
    pit_histogram,
    qq_curve,
    rejection_curve,
    relative_improvement,
    reliability,
    retained_curve,
    uncertainty_boxes,
)
from gpzed.plots.scatter import CELLS, MAX_POINTS
from gpzed.plots.scores import _cubic_ticks
from gpzed.prediction import Prediction

pytest.importorskip("matplotlib")


def sample(n: int = 600, seed: int = 0) -> tuple[np.ndarray, Prediction]:
    rng = np.random.default_rng(seed)
    z, std = rng.gamma(4.0, 0.18, n), rng.uniform(0.02, 0.2, n)
    return z, Prediction.gaussian(z + std * rng.standard_normal(n), 0.2 * std**2, 0.8 * std**2)


Z, P = sample()
Z2, P2 = sample(seed=1)
CURVE, CURVE2 = rejection_curve(Z, P), rejection_curve(Z2, P2)
REPORT = SimpleNamespace(history=[SimpleNamespace(score=s) for s in (-9.0, 1.0, 1.2, 1.1)], best_iteration=3)
RNG = np.random.default_rng(3)
CENTERS = RNG.standard_normal((6, 3))
DRAWINGS: dict[str, Callable[..., Any]] = {
    "scatter": lambda **o: plots.plot_scatter(Z, P, **o),
    "redshifts": lambda **o: plots.plot_redshift_distribution(Z, P, **o),
    "redshifts without truth": lambda **o: plots.plot_redshift_distribution(None, P, **o),
    "retained": lambda **o: plots.plot_retained(retained_curve(Z, P), **o),
    "rejection": lambda **o: plots.plot_rejection({"a": CURVE, "b": CURVE2}, **o),
    "improvement": lambda **o: plots.plot_improvement({"b": relative_improvement(CURVE, CURVE2)}, **o),
    "complexity": lambda **o: plots.plot_complexity({"GPVC": ([5, 10], [0.06, 0.05])}, **o),
    "bins": lambda **o: plots.plot_binned(binned_metrics(Z, P), **o),
    "boxes": lambda **o: plots.plot_variance_boxes(uncertainty_boxes(Z, P), **o),
    "pit": lambda **o: plots.plot_pit(pit_histogram(Z, P), **o),
    "pit difference": lambda **o: plots.plot_pit(pit_histogram(Z, P), difference=True, **o),
    "reliability difference": lambda **o: plots.plot_reliability(reliability(Z, P), difference=True, **o),
    "pdf": lambda **o: plots.plot_pdf(P, z_spec=Z, index=5, **o),
    "qq": lambda **o: plots.plot_qq(qq_curve(Z, P), **o),
    "reliability": lambda **o: plots.plot_reliability(reliability(Z, P), **o),
    "history": lambda **o: plots.plot_history([REPORT, REPORT], **o),
    "sparsity": lambda **o: plots.plot_sparsity([1.0, 1e4, 3.0], [2.0, 1e6], **o),
    "ellipses": lambda **o: plots.plot_basis_ellipses(CENTERS, np.array([0.7]), points=CENTERS, **o),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_figure_has_labels_and_can_be_drawn(name: str) -> None:
    ax = DRAWINGS[name]()
    ax.figure.canvas.draw()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert ax.has_data()


@pytest.mark.parametrize("name", DRAWINGS)
def test_figures_are_drawn_on_the_axes_given(name: str) -> None:
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert DRAWINGS[name](ax=ax) is ax
    assert ax.has_data()


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_the_suffix_tells_the_format(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"figure.{suffix}"
    ax = plots.plot_pit(pit_histogram(Z, P))
    plots.save_figure(ax, path)
    begin = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}[suffix]
    assert path.read_bytes().startswith(begin)
    if suffix != "svg":  # matplotlib names clip paths of an SVG by chance
        again = tmp_path / f"again.{suffix}"
        plots.save_figure(ax.figure, again)
        assert again.read_bytes() == path.read_bytes()


def test_unknown_formats_and_folders_are_named(tmp_path: Path) -> None:
    ax = plots.plot_pit(pit_histogram(Z, P))
    with pytest.raises(ValueError, match=r"does not end in a known format; use one of \.pdf, \.svg, \.png"):
        plots.save_figure(ax, tmp_path / "figure.doc")
    with pytest.raises(ValueError, match="does not exist; create it"):
        plots.save_figure(ax, tmp_path / "none" / "figure.pdf")


def test_the_style_is_left_behind() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plots.plot_rejection(CURVE)
    assert dict(mpl.rcParams) == before
    with plots.figure_style():
        assert mpl.rcParams["pdf.fonttype"] == 42
    assert dict(mpl.rcParams) == before


def test_many_objects_become_cells_that_count_them_all() -> None:
    z, p = sample(MAX_POINTS + 1)
    image = plots.plot_scatter(z, p).images[0].get_array()
    assert image.shape == (CELLS, CELLS, 4)
    lone = np.array(z)
    lone[0] = p.mean[0] + 1.0  # one outlier, far from all others
    alpha = plots.plot_scatter(lone, p).images[0].get_array()[..., 3]
    assert 0 < alpha[alpha > 0].min() < alpha.max() == 1.0
    few = plots.plot_scatter(z[:MAX_POINTS], p[:MAX_POINTS])
    assert len(few.collections[0].get_offsets()) == MAX_POINTS


def test_lines_hold_the_numbers_given() -> None:
    line = plots.plot_rejection({"a": CURVE}).lines[0]
    np.testing.assert_array_equal(line.get_xdata(), 100 * CURVE.fractions)
    np.testing.assert_array_equal(line.get_ydata(), CURVE.values)
    curve = retained_curve(Z, P)
    np.testing.assert_array_equal(plots.plot_retained(curve).lines[0].get_ydata(), curve.values)
    sparsity = plots.plot_sparsity([1.0, 1e4, 3.0], [2.0, 1e6])
    np.testing.assert_allclose(sparsity.lines[0].get_ydata(), [1.0, 1e-2])  # the third belongs to the mean function
    np.testing.assert_allclose(plots.plot_sparsity([1.0, 1e4, 0.25]).lines[0].get_ydata(), [2.0, 1.0, 1e-2])


def test_improvement_is_on_a_cubic_root_axis() -> None:
    ax = plots.plot_improvement({"b": relative_improvement(CURVE, CURVE2)}, reference="a")
    down, middle, up = (ax.yaxis.get_transform().transform(v) for v in (-8.0, 0.0, 27.0))
    assert (down, middle, up) == pytest.approx((-2.0, 0.0, 3.0))
    assert "relative to a" in ax.get_ylabel()


def test_bins_of_one_or_several_methods() -> None:
    one, two = binned_metrics(Z, P), binned_metrics(Z2, P2)
    assert len(plots.plot_binned(one).get_legend().get_texts()) == 4
    several = plots.plot_binned({"a": one, "b": two}, fraction=0.5, min_count=1)
    assert [text.get_text() for text in several.get_legend().get_texts()] == ["a", "b"]
    shown = several.lines[1].get_ydata()
    np.testing.assert_array_equal(shown, one.values["bias"][2][one.counts[2] >= 1])
    with pytest.raises(ValueError, match="`metric` is 'crps' but the bins hold bias"):
        plots.plot_binned(one, metric="crps")
    with pytest.raises(ValueError, match=r"`fraction` is 0\.3 but the bins are of"):
        plots.plot_binned(one, fraction=0.3)


def test_curves_of_different_metrics_do_not_mix() -> None:
    with pytest.raises(ValueError, match=r"the curves are of \['mll', 'rmse'\]"):
        plots.plot_rejection({"a": CURVE, "b": rejection_curve(Z, P, "mll")})


@pytest.mark.parametrize("shape", [(1,), (6,), (1, 3), (6, 3), (1, 3, 3), (6, 3, 3)])
def test_ellipses_of_every_structure(shape: tuple[int, ...]) -> None:
    gamma = np.full(shape, 2.0) if len(shape) < 3 else np.broadcast_to(np.diag([2.0, 4.0, 1.0]), shape)
    ax = plots.plot_basis_ellipses(CENTERS, gamma, dimensions=(2, 1), weights=[1, -1, 2, 3, 4, 5, 6])
    assert len(ax.patches) == 6
    widths = sorted((ax.patches[0].width, ax.patches[0].height))
    assert widths == pytest.approx([0.5, 2.0] if len(shape) == 3 else [1.0, 1.0])  # diameters, 2 / gamma


def test_an_ellipse_is_where_the_response_has_fallen() -> None:
    gamma = np.triu(RNG.standard_normal((1, 2, 2))) + 2 * np.eye(2)
    center = np.array([[0.3, -0.2]])
    outline = plots.plot_basis_ellipses(center, gamma).patches[0]
    points = outline.get_path().vertices @ outline.get_patch_transform().get_matrix()[:2, :2].T
    np.testing.assert_allclose(((points[::3] @ gamma[0].T) ** 2).sum(axis=1), 1.0, atol=0.02)


def test_ellipses_refuse() -> None:
    with pytest.raises(ValueError, match=r"`dimensions` is \(0, 3\); expected two different ones of 0 to 2"):
        plots.plot_basis_ellipses(CENTERS, np.ones(6), dimensions=(0, 3))
    with pytest.raises(ValueError, match=r"`factors` has shape \(5,\); expected one or 6 factors of 3 dimensions"):
        plots.plot_basis_ellipses(CENTERS, np.ones(5))


def test_scatter_takes_ranges_so_that_panels_compare() -> None:
    ax = plots.plot_scatter(Z, P, limits=(0.0, 2.0), log_std_limits=(-3.0, -1.0))
    assert ax.get_xlim() == ax.get_ylim() == (0.0, 2.0)
    bar = next(child for child in ax.child_axes if child.get_ylabel())
    assert bar.get_ylim() == pytest.approx((-3.0, -1.0))


def test_scatter_draws_the_quoted_redshift() -> None:
    ax = plots.plot_scatter(Z, P.changed(point=np.full(len(P), 0.125)))
    assert set(np.asarray(ax.collections[0].get_offsets())[:, 1]) == {0.125}


def test_ticks_of_the_cubic_root_axis_keep_their_distance() -> None:
    ticks = _cubic_ticks(-1.8, 3.7)
    assert 0.0 in ticks
    assert all(-1.8 <= np.cbrt(tick) <= 3.7 for tick in ticks)
    assert np.diff(np.cbrt(ticks)).min() >= 0.08 * 5.5


def test_scatter_tells_scores_and_shows_residuals_below() -> None:
    ax = plots.plot_scatter(Z, P)
    text = ax.texts[0].get_text()
    scores = evaluate(Z, P)
    for told in (f"{scores['rmse']:.4f}", f"{scores['sigma_nmad']:.4f}", f"{scores['bias']:+.4f}", "600 objects"):
        assert told in text
    panel = next(child for child in ax.child_axes if "Delta z" in child.get_ylabel())
    assert panel.get_position().y1 < ax.get_position().y0 + 1e-6
    errors = np.asarray(panel.collections[0].get_offsets())
    np.testing.assert_allclose(np.sort(errors[:, 1]), np.sort((P.z_phot - Z) / (1 + Z)))
    bare = plots.plot_scatter(Z, P, scores=False, residuals=False)
    assert not bare.texts
    assert len(bare.child_axes) == 1


def test_bins_have_error_bars_and_counts() -> None:
    bins = binned_metrics(Z, P, ["bias", "rmse", "sigma_nmad"], fractions=[1.0])
    error = (P.z_phot - Z) / (1 + Z)
    inside = (bins.edges[5] <= Z) & (bins.edges[6] > Z)
    assert bins.errors["bias"][0, 5] == pytest.approx(error[inside].std(ddof=1) / np.sqrt(inside.sum()))
    square = error[inside] ** 2
    expected = square.std(ddof=1) / np.sqrt(inside.sum()) / (2 * np.sqrt(square.mean()))
    assert bins.errors["rmse"][0, 5] == pytest.approx(expected)
    assert "sigma_nmad" not in bins.errors
    ax = plots.plot_binned(bins)
    assert ax.containers[0].has_yerr
    strip = ax.child_axes[0]
    assert strip.get_ylabel() == "objects"
    np.testing.assert_array_equal(strip.patches[0].get_data().values, np.maximum(bins.counts[0], 0.5))
    assert not plots.plot_binned({"a": bins, "b": bins}).child_axes


def test_whiskers_are_said() -> None:
    ax = plots.plot_variance_boxes(uncertainty_boxes(Z, P, whiskers=(0.05, 0.95)))
    assert "whiskers: 5 to 95 %" in ax.get_title()


def test_pdf_draws_density_gaussians_and_redshifts() -> None:
    mixed = Prediction([[0.6, 0.4, 0.0]], [[0.4, 1.2, 9.0]], [[0.001] * 3], [[0.002] * 3]).truncate(0.0)
    ax = plots.plot_pdf(mixed, z_spec=0.5)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == ["components", "$p(z)$"]
    assert "0.500" in labels[-1]
    total = next(line for line in ax.lines if line.get_label() == "$p(z)$")
    grid, density = total.get_xdata(), total.get_ydata()
    np.testing.assert_allclose(density, mixed.pdf_grid(grid)[0])
    parts = [line.get_ydata() for line in ax.lines if line.get_color() == plots._style.FAINT]
    np.testing.assert_allclose(np.sum(parts, axis=0), density, atol=1e-6)
    with pytest.raises(ValueError, match="`index` is 1 but the prediction has 1 objects"):
        plots.plot_pdf(mixed, index=1)


def test_sparsity_counts_what_matters_on_an_axis_that_fits() -> None:
    even = plots.plot_sparsity([1.0, 1.1, 1.2])
    assert even.get_yscale() == "linear"
    assert even.get_ylim()[0] == 0.0
    steep = plots.plot_sparsity([1.0, 2.0, 1e9])
    assert steep.get_yscale() == "log"
    assert steep.get_legend().get_texts()[0].get_text() == "mean: 2 of 3 matter"


def test_scatter_refuses_other_lengths() -> None:
    with pytest.raises(ValueError, match="but the prediction has 600 objects"):
        plots.plot_scatter(Z[:-1], P)


def test_without_matplotlib_there_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install gpzed\[plot\]"):
        plots.plot_rejection(CURVE)


def test_a_part_that_is_rounding_noise_is_not_drawn() -> None:
    noisy = Prediction.gaussian(Z, np.full(len(Z), 1e-38), np.full(len(Z), 0.01))
    ax = plots.plot_variance_boxes(uncertainty_boxes(Z, noisy))
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["noise"]
    assert 1e-3 < ax.get_ylim()[0] < ax.get_ylim()[1] < 10
