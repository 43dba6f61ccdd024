from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.paper.bench import Bench
from experiments.paper.drawing import LOOKS, legend_below, panels
from experiments.paper.methods import METHODS, Method
from experiments.paper.run import EXPERIMENTS, draw_paper, find_experiments, run_paper
from experiments.paper.runs import summarise
from experiments.paper.scores import improvement
from experiments.paper.store import ResultError
from experiments.paper.times import exponent
from gpzed.errors import ConfigError
from gpzed.evaluation import evaluate, fraction_retained
from gpzed.prediction import Prediction

pytest.importorskip("matplotlib")


def test_every_experiment_runs_is_drawn_from_its_file_and_is_not_run_twice(
    tiny: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiments = list(EXPERIMENTS.values())
    reports = run_paper(experiments, tiny)
    for report in reports:
        stored = json.loads((tmp_path / f"{report.experiment.name}.json").read_text())
        assert {"seed", "provenance", "data_sha256", "seconds", "results"} <= set(stored)
        figures = [path for path in tmp_path.glob(f"{report.experiment.name}.*") if path.suffix in (".svg", ".png")]
        assert len(figures) == (report.experiment.draw is not None)
        assert report.experiment.draw or report.experiment.table
        if report.table is not None:
            assert report.table.rows
            assert all(len(row) == len(report.table.headings) for row in report.table.rows)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert [run["method"] for run in metrics["results"]["methods"]] == list(METHODS)
    assert metrics["data"]["simulator"] == "sdss"

    def refuse(*_: object) -> None:
        raise AssertionError("computed twice")

    for name, method in METHODS.items():
        monkeypatch.setitem(METHODS, name, replace(method, train=refuse))
    fresh = replace(tiny, effort=tiny.effort)
    again = run_paper([e for e in experiments if e.name in ("complexity", "metrics")], fresh)
    assert [report.content["results"] for report in again] == [r.content["results"] for r in reports[:2]]

    for path in (tmp_path / "parts").glob("gpvc-*.json"):
        path.unlink()
    partial = run_paper(find_experiments(["metrics"]), fresh, done_only=True)[0]
    assert [run["method"] for run in partial.content["results"]["methods"]] == [n for n in METHODS if n != "GPVC"]

    shutil.rmtree(tmp_path / "parts")
    with pytest.raises(ResultError, match="no part of 'metrics' is done"):
        run_paper(find_experiments(["metrics"]), fresh, done_only=True)
    drawn = draw_paper([e for e in experiments if e.draw], tmp_path, tmp_path / "figures", formats=["svg"])
    assert all(path.stat().st_size > 1000 for report in drawn for path in report.files[1:])


def test_what_cannot_be_had_is_a_row_that_says_how_to_get_it(tiny: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    forest = METHODS["forest"]
    absent = Method("TPZ", "trees", METHODS["TPZ"].train, None, lambda: False, "install it")
    for name in list(METHODS):
        monkeypatch.delitem(METHODS, name)
    monkeypatch.setitem(METHODS, "TPZ", absent)
    monkeypatch.setitem(METHODS, "forest", forest)
    report = run_paper(find_experiments(["metrics"]), tiny)[0]
    first, second = report.content["results"]["methods"]
    assert first["unavailable"] == "install it"
    assert second["metrics"]["n"] == 150
    assert report.table is not None
    assert report.table.rows[0][1] == "- (0.0628)"
    monkeypatch.setitem(METHODS, "TPZ", replace(forest, name="TPZ"))
    report = run_paper(find_experiments(["metrics"]), tiny)[0]
    assert "metrics" in report.content["results"]["methods"][0]
    with pytest.raises(ResultError, match="no GPVC to compare with"):
        improvement({"methods": {"forest": {}}, "fraction": [1.0]})


def test_annz2_adds_a_row(tiny: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    z = rng.uniform(0.1, 0.6, 60)
    lines = [f"{a:.5f},{a + 0.01:.5f},0.02" for a in z]
    path = tmp_path / "annz2.csv"
    path.write_text("Z,ANNZ_best,ANNZ_best_err\n" + "\n".join(lines))
    for name in [name for name in METHODS if name != "forest"]:
        monkeypatch.delitem(METHODS, name)
    report = run_paper(find_experiments(["metrics"]), replace(tiny, annz2=(str(path),)))[0]
    assert report.table is not None
    assert report.table.rows[-1][0] == "ANNz2"
    assert "(0.0422)" in report.table.rows[-1][1]


def test_summary_agrees_with_the_metrics() -> None:
    rng = np.random.default_rng(1)
    z = rng.uniform(0.05, 0.95, 400)
    prediction = Prediction.gaussian(z + 0.05 * rng.standard_normal(400), 1e-4, rng.uniform(1e-3, 4e-3, 400))
    found = summarise(z, prediction)
    scores = evaluate(z, prediction)
    at = list(found["fr"]["threshold"]).index(0.05)
    assert found["fr"]["percent"][at] == pytest.approx(fraction_retained(z, prediction, threshold=0.05))
    assert found["rejection"]["rmse"][-1] == pytest.approx(scores["rmse"])
    assert found["rejection"]["mll"][-1] == pytest.approx(scores["mll"])
    assert np.asarray(found["bias"]["counts"])[:, :].sum(axis=1).tolist() == [400, 300, 200, 100]
    assert np.nanmin(found["boxes"]["model"]["low"]) == pytest.approx(0.01)


def test_exponents_are_slopes() -> None:
    assert exponent([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]) == pytest.approx(2.0)


def test_full_covariances_of_their_own_win_on_the_surface(tiny: Bench) -> None:
    report = run_paper(find_experiments(["surface"]), tiny, formats=())[0]
    rmse = {name: model["rmse"] for name, model in report.content["results"]["methods"].items()}
    assert rmse["GPVC"] < 1.15 * report.content["results"]["noise"]
    assert all(rmse[name] > 1.3 * rmse["GPVC"] for name in rmse if name != "GPVC")


def test_unknown_names_are_told() -> None:
    with pytest.raises(ConfigError, match="no experiment 'rejections'; did you mean 'rejection'"):
        find_experiments(["rejections"])
    with pytest.raises(ConfigError, match="'scatter' has no table"):
        find_experiments(["scatter"], "table")
    with pytest.raises(ConfigError, match="'metrics' has no figure"):
        find_experiments(["metrics"], "figure")


def test_a_method_looks_the_same_in_all_figures() -> None:
    figure, axes = panels(1, 2)
    for ax, names in zip(axes.flat, (["GPVC", "forest"], ["forest", "GPVL: 1.0 (1.1)", "GPVC"]), strict=True):
        for name in names:
            ax.plot([0, 1], [0, 1], label=name)
    legend_below(figure, axes)
    colours = [{str(line.get_label())[:4]: line.get_color() for line in ax.get_lines()} for ax in axes.flat]
    assert colours[0]["GPVC"] == colours[1]["GPVC"] == LOOKS["GPVC"]["color"]
    assert colours[1]["GPVL"] == LOOKS["GPVL"]["color"]
    looks = [(look["color"], look["ls"]) for look in LOOKS.values()]
    assert len(set(looks)) == len(looks)
    assert set(METHODS) <= set(LOOKS)
