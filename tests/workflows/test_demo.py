from __future__ import annotations

from pathlib import Path

import pytest

from gpzed.cli import main
from gpzed.demo import run_demo
from workflows.galaxy_files import QUICK


def test_the_demo_leaves_everything(tmp_path: Path) -> None:
    report = run_demo(tmp_path / "demo", survey="lsst", size=400, options=QUICK)
    assert set(report.files) == {
        "training.parquet", "test.parquet", "model.gpzed", "predictions.parquet",
        "scatter.png", "density.png", "pit.png", "redshift_distribution.png", "training_history.png", "reliability.png",
        "rejection.png", "bias.png", "variance.png", "sparsity.png", "report.html",
    }  # fmt: skip
    assert report.evaluation.n_used == 400
    assert 0.0 < report.evaluation.metrics["rmse"] < 1.0


@pytest.mark.parametrize("survey", ["sdss", "lsst"])
def test_the_command_ends_without_a_warning_and_says_what_to_open_first(
    survey: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    assert main(["demo", "--survey", survey, "--size", "500", "--out", str(folder)]) == 0
    printed = capsys.readouterr()
    assert "warning" not in printed.err.lower()
    assert printed.out.splitlines()[-1] == f"open {folder / 'report.html'} in a browser first"
