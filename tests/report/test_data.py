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
from gpzed.report import PointTable, prepare, render
from gpzed.report.data import MAX_POINTS, PERCENT
from gpzed.report.pack import cells_in_groups, varints


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


def test_bias_in_bins_is_that_of_the_evaluation() -> None:
    z, p = sample(3000)
    bias = prepare("x", p, z).content["bias"]
    for name, by in (("z_spec", z), ("z_phot", p.mean)):
        edges = np.array(bias[name]["edges"])
        inside = (by >= edges[0]) & (by < edges[-1])
        assert inside.mean() > 0.99
        direct = binned_metrics(z, p, ["bias"], by=by, edges=edges, fractions=[1.0, 0.5])
        for row, at in ((0, 99), (1, 49)):
            np.testing.assert_array_equal(bias[name]["count"][at], direct.counts[row])
            found = np.array(bias[name]["mean"][at], dtype=float)
            np.testing.assert_allclose(found, direct.values["bias"][row], rtol=2e-3)


def test_densities_sum_to_the_number_kept() -> None:
    z, p = sample(2000)
    density = prepare("x", p, z).content["density"]
    sums = np.frombuffer(base64.b64decode(density["sums"]), dtype="<f4").reshape(len(PERCENT), -1)
    step = density["grid"][1] - density["grid"][0]
    assert sums.sum() * step == pytest.approx(2000, rel=0.02)


def test_points_are_all_objects_or_the_outliers() -> None:
    z, p = sample(500)
    table = PointTable(np.array([f"g{i}" for i in range(500)]), {"r": np.full(500, np.nan)}, {})
    points = prepare("x", p, z, table).content["points"]
    assert points["all"]
    assert points["id"][3] == "g3"
    assert points["columns"]["r"][0] is None
    z, p = sample(MAX_POINTS + 1)
    points = prepare("x", p, z, None).content["points"]
    error = np.abs(z - p.mean) / (1 + z)
    assert not points["all"]
    assert len(points["x"]) == points["n_outliers"] == (error >= 0.15).sum() > 0
    assert all(points["outlier"])


def test_without_truth_there_are_no_scores() -> None:
    _, p = sample(300)
    content = prepare("x", p).content
    assert not {"scores", "pit", "bias"} & set(content)
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


def test_a_part_of_the_variance_that_is_rounding_noise_counts_as_none() -> None:
    z = np.linspace(0.1, 1.0, 300)
    p = Prediction.gaussian(z, np.full(300, 1e-38), np.full(300, 0.01))
    assert list(prepare("x", p, z).content["parts"]["boxes"]) == ["noise"]
