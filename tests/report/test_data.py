"""What goes into the page, without a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpzed.evaluation import binned_metrics, evaluate, pit_histogram, reliability, select
from gpzed.evaluation.display import HEADINGS, shown
from gpzed.prediction import Prediction
from gpzed.prediction.gridded import GriddedPrediction
from gpzed.report import PointTable, prepare, render
from gpzed.report.objects import MAX_OBJECTS, MAX_POINTS
from gpzed.report.pack import cells_in_groups, varints
from gpzed.report.sample import PERCENT
from gpzed.report.trends import reference_band


def read_varints(data: bytes) -> list[int]:
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            values.append(value)
            value = shift = 0
    return values


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**40)))
def test_varints_come_back(values: list[int]) -> None:
    assert read_varints(varints(np.array(values, dtype=np.int64))) == values


def read_cells(text: str, n_groups: int) -> list[np.ndarray]:
    numbers = iter(read_varints(base64.b64decode(text)))
    return [np.cumsum([next(numbers) for _ in range(next(numbers))], dtype=int) for _ in range(n_groups)]


def test_cells_come_back_by_group() -> None:
    rng = np.random.default_rng(0)
    cells, groups = rng.integers(0, 40_000, 5000), rng.integers(0, 7, 5000)
    text = cells_in_groups(cells, groups, 9)
    for g, found in enumerate(read_cells(text, 9)):
        np.testing.assert_array_equal(found, np.sort(cells[groups == g]))
    assert len(text) < 2.2 * 4 / 3 * 5000


def sample(n: int, K: int = 1) -> tuple[np.ndarray, Prediction]:
    rng = np.random.default_rng(n)
    z, std = rng.gamma(4.0, 0.18, n), rng.uniform(0.02, 0.2, (n, K))
    means = z[:, None] + std * rng.standard_normal((n, K))
    return z, Prediction(rng.dirichlet(np.ones(K), n), means, 0.2 * std**2, 0.8 * std**2)


@pytest.mark.parametrize(("n", "K"), [(1, 1), (7, 1), (100, 3), (4000, 2)])
def test_numbers_are_those_of_the_evaluation(n: int, K: int) -> None:
    z, p = sample(n, K)
    content = json.loads(json.dumps(prepare("x", p, z).content, allow_nan=False))
    cells = read_cells(content["cells"]["objects"], len(PERCENT))
    for percent in (1, 37, 100):
        chosen = select(p, keep=percent / 100).indices
        i = percent - 1
        assert content["kept"][i] == len(chosen) == sum(len(group) for group in cells[: i + 1])
        expected = shown(evaluate(z[chosen], p[chosen]))
        assert {name: content["scores"]["shown"][name][i] for name, _, _ in HEADINGS} == expected
        histogram = pit_histogram(z[chosen], p[chosen])
        np.testing.assert_allclose(np.array(content["pit"]["counts"][i]) * 20 / len(chosen), histogram.density)
        curve = reliability(z[chosen], p[chosen])
        np.testing.assert_allclose(np.array(content["pit"]["inside"][i]) / len(chosen), curve.actual)
        assert content["max_std"][i] == pytest.approx(p.std[chosen].max(), rel=1e-5)


def summed(bins: dict[str, object], name: str) -> np.ndarray:
    """Return the sums of all objects kept at each position, bin by bin."""
    raw = base64.b64decode(str(bins[name]))
    values = read_varints(raw) if name in ("count", "outliers") else np.frombuffer(raw, dtype="<f4")
    return np.array(values, dtype=float).reshape(len(PERCENT), -1).cumsum(axis=0)


def test_trends_are_those_of_the_evaluation() -> None:
    z, p = sample(3000)
    magnitude = np.where(np.arange(3000) % 50 == 0, np.nan, 20.0 + 2.0 * z)
    trends = prepare("x", p, z, PointTable(np.arange(3000), magnitudes={"r": magnitude})).content["trends"]
    assert list(trends) == ["z_spec", "z_phot", "magnitude r"]
    for name, by in (("z_spec", z), ("z_phot", p.mean), ("magnitude r", magnitude)):
        edges = np.array(trends[name]["edges"])
        rows = np.isfinite(by)
        assert ((by[rows] >= edges[0]) & (by[rows] < edges[-1])).mean() > 0.99
        count, error, outlying = (summed(trends[name], what) for what in ("count", "error", "outliers"))
        direct = binned_metrics(z[rows], p[rows], ["bias", "outliers_0.15"], by=by[rows], edges=edges, fractions=[1.0])
        np.testing.assert_array_equal(count[99], direct.counts[0])
        some = direct.counts[0] > 0
        np.testing.assert_allclose(
            (error[99] / np.maximum(count[99], 1))[some], direct.values["bias"][0][some], atol=1e-6
        )
        share = (outlying[99] / np.maximum(count[99], 1))[some]
        np.testing.assert_allclose(share, direct.values["outliers_0.15"][0][some])
        half = select(p, keep=0.5).indices
        assert count[49].sum() == (np.isfinite(by[half]) & (by[half] >= edges[0]) & (by[half] < edges[-1])).sum()


def test_the_band_of_trends_is_a_usual_one_that_most_objects_have() -> None:
    full, gaps = np.ones(10), np.where(np.arange(10) < 5, np.nan, 1.0)
    assert reference_band({"u": full, "i": full}) == "i"
    assert reference_band({"u": full, "i": gaps}) == "u"
    assert reference_band({"F1": gaps, "F2": full}) == "F2"
    assert reference_band({"F1": np.full(3, np.nan)}) is None


def test_tomographic_bins_have_equal_numbers_and_the_true_means() -> None:
    z, p = sample(1000)
    found = prepare("x", p, z).content["tomography"]
    assert [one["n"] for one in found["bins"]] == [200] * 5
    step = found["grid"][1] - found["grid"][0]
    for one in found["bins"]:
        assert sum(one["density"]) * step == pytest.approx(1.0, abs=0.03)
        low, high = one["edges"]
        rows = (p.z_phot >= low - 1e-3) & (p.z_phot <= high + 1e-3)
        assert one["true_mean"] == pytest.approx(z[rows].mean(), abs=0.01)


def read_shorts(text: str, ends: list[float], top: int = 65_535) -> np.ndarray:
    return ends[0] + np.frombuffer(base64.b64decode(text), dtype="<u2") * (ends[1] - ends[0]) / top


@pytest.mark.parametrize("lower", [None, 0.3])
def test_gaussians_of_single_objects_make_their_densities(lower: float | None) -> None:
    z, p = sample(50, 6)
    p = p.truncate(lower) if lower is not None else p
    stored = prepare("x", p, z).content["objects"]["density"]
    sizes = read_varints(base64.b64decode(stored["sizes"]))
    weight, mean, log = (read_shorts(text, ends) for text, ends in zip(stored["parts"], stored["ranges"], strict=True))
    cuts = np.cumsum([0, *sizes])
    grid = np.linspace(0.31, 2.0, 40)
    for i in (0, 17, 49):
        part = slice(cuts[i], cuts[i + 1])
        m, s = mean[part, None], np.exp(log[part, None])
        density = (weight[part, None] * np.exp(-0.5 * ((grid - m) / s) ** 2) / (s * np.sqrt(2 * np.pi))).sum(axis=0)
        np.testing.assert_allclose(density, p[i : i + 1].pdf_grid(grid)[0], atol=0.02 * density.max())


def test_tables_of_densities_are_told_on_a_grid() -> None:
    grid = np.linspace(0.0, 2.0, 101)
    p = GriddedPrediction(grid, np.exp(-0.5 * ((grid - np.linspace(0.5, 1.5, 20)[:, None]) / 0.1) ** 2))
    stored = prepare("x", p, np.linspace(0.5, 1.5, 20)).content["objects"]["density"]
    values = read_shorts(stored["values"], [0.0, 1.0]).reshape(20, -1) * np.array(stored["top"])[:, None]
    np.testing.assert_allclose(values, p.pdf_grid(np.array(stored["grid"])), atol=1e-3)


def test_flags_and_coverage_are_counted() -> None:
    z, p = sample(100)
    flags = np.where(np.arange(100) < 7, 16, 0) | np.where(np.arange(100) < 3, 1, 0)
    coverage = np.linspace(0.0, 1.0, 100)
    table = PointTable(
        np.arange(100),
        coverage=coverage,
        flags=flags,
        meanings=((1, "ONE", "one"), (2, "TWO", "two"), (16, "FAR", "far")),
    )
    found = prepare("x", p, z, table).content["cautions"]
    assert found["flags"] == {"none": 93, "rows": [[1, "ONE", "one", 3], [16, "FAR", "far", 7]]}
    assert found["coverage"]["low"] == 5
    assert sum(found["coverage"]["counts"]) == 100
    low = ((p.z_phot - z) / (1 + z))[:5]
    assert found["coverage"]["rmse_low"] == pytest.approx(np.sqrt(np.mean(low**2)), rel=1e-3)


def test_colours_of_objects_and_training_rows_come_back() -> None:
    z, p = sample(30)
    g, r = np.linspace(20.0, 22.0, 30), np.linspace(19.0, 21.0, 30)
    g[3] = np.nan
    training = {"g": np.array([18.0, 23.0]), "r": np.array([18.5, 22.0])}
    found = prepare("x", p, z, PointTable(np.arange(30), magnitudes={"g": g, "r": r}, training=training)).content[
        "colours"
    ]
    assert found["bands"] == ["g", "r"]
    for stored, expected in (
        (found["target"], np.column_stack([g, r])),
        (found["training"], np.array([[18, 18.5], [23, 22]])),
    ):
        raw = np.frombuffer(base64.b64decode(stored["values"]), dtype="<u2")
        values = np.where(raw > 65_534, np.nan, read_shorts(stored["values"], stored["range"], 65_534)).reshape(-1, 2)
        np.testing.assert_allclose(values, expected, atol=1e-3)
    assert prepare("x", p, z, PointTable(np.arange(30))).content["colours"] is None


def test_rounding_noise_is_no_part_of_the_uncertainty() -> None:
    z, p = sample(400)
    noisy = Prediction.gaussian(p.mean, np.where(np.arange(400) % 2, 1e-19, 1e-21), p.variance)
    parts = prepare("x", noisy, z).content["parts"]["boxes"]
    assert list(parts) == ["noise"]
    some = Prediction.gaussian(p.mean, np.where(z < 0.5, 1e-19, 0.1 * p.variance), p.variance)
    boxes = prepare("x", some, z).content["parts"]["boxes"]["model"]
    lows = [value for value in boxes["low"] if value is not None]
    assert min(lows) > 1e-5
    assert None in boxes["low"]


def test_densities_sum_to_the_number_kept() -> None:
    z, p = sample(2000)
    density = prepare("x", p, z).content["density"]
    sums = np.frombuffer(base64.b64decode(density["sums"]), dtype="<f4").reshape(len(PERCENT), -1)
    step = density["grid"][1] - density["grid"][0]
    assert sums.sum() * step == pytest.approx(2000, rel=0.02)


def test_points_are_all_objects_or_the_outliers() -> None:
    z, p = sample(500)
    table = PointTable(np.array([f"g{i}" for i in range(500)]), {"r": np.full(500, np.nan)}, {})
    content = prepare("x", p, z, table).content
    assert content["points"]["all"]
    assert content["points"]["object"] == list(range(500))
    assert content["objects"]["id"][3] == "g3"
    assert content["objects"]["columns"]["r"][0] is None
    z, p = sample(MAX_POINTS + 1)
    content = prepare("x", p, z, PointTable(np.arange(MAX_POINTS + 1), wanted=["7", "9"])).content
    points, objects = content["points"], content["objects"]
    error = np.abs(z - p.mean) / (1 + z)
    assert not points["all"]
    assert len(points["x"]) == points["n_outliers"] == (error >= 0.15).sum() > 0
    assert all(points["outlier"])
    assert MAX_OBJECTS <= len(objects["id"]) <= MAX_OBJECTS + 2
    assert {"7", "9"} <= set(objects["id"])
    assert 0 < sum(objects["outlier"]) < MAX_OBJECTS
    place = points["object"][0]
    assert place < 0 or objects["x"][place] == points["x"][0]


def test_without_truth_there_are_no_scores() -> None:
    _, p = sample(300)
    content = prepare("x", p).content
    assert not {"scores", "pit", "trends"} & set(content)
    assert content["expected_rmse"][-1] == pytest.approx(select(p, keep=1.0).predicted_rmse[0], rel=1e-5)


def test_the_page_is_one_file_and_the_same_each_time() -> None:
    z, p = sample(300)
    data = [prepare("a <b>", p, z)]
    page = render(data, "Title & <more>")
    assert page == render(data, "Title & <more>")
    assert "<title>Title &amp; &lt;more&gt;</title>" in page
    assert not re.search(r"<!--\w+-->", page)
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    packed = re.search(r'id="packed-data" type="text/plain">([^<]+)<', page)
    assert packed is not None
    content = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert content["sets"][0]["name"] == "a <b>"
