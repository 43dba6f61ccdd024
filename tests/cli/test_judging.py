"""`gpzed evaluate` and `gpzed select` on files with and without true redshifts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpzed.catalog import Catalog, read_catalog
from gpzed.evaluation import METRICS, binned_metrics, bootstrap, evaluate, rejection_curve, relative_improvement, rmse
from gpzed.prediction import Prediction
from gpzed.workflows import read_predictions
from workflows.galaxy_files import write

Call = Callable[..., tuple[int, str, str]]
N = 400


def predictions(seed: int = 0, noise: float = 1.0) -> tuple[Catalog, Prediction]:
    """A file of predictions as `gpzed predict` writes them, and what it holds."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(0.1, 1.5, N)
    std = noise * rng.uniform(0.02, 0.2, N)
    mean = z + std * rng.standard_normal(N)
    columns = {
        "objid": np.arange(N) + 10**15,
        "mag_i": np.where(np.arange(N) % 50 == 0, 99.0, 18.0 + 4 * z),
        "mine": rng.uniform(0.5, 2.0, N),
        "z_spec": z,
        "z_phot": mean,
        "z_std": std,
        "z_var_model": 0.25 * std**2,
        "z_var_noise": 0.75 * std**2,
    }
    return Catalog(columns), Prediction.gaussian(mean, 0.25 * std**2, 0.75 * std**2)


TABLE, P = predictions()
Z = TABLE["z_spec"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("judging")
    half = np.where(np.arange(N) % 2, Z, np.nan)
    blind = [name for name in TABLE.names if name != "z_spec"]
    tables = {
        "a": TABLE,
        "b": predictions(noise=1.5)[0],
        "blind": TABLE.select(blind),
        "half": TABLE.with_columns({"z_spec": half}),
        "nameless": TABLE.select(["z_spec", "z_phot", "z_std"]),
    }
    return {name: write(table, folder / f"{name}.parquet") for name, table in tables.items()}


def test_metrics_of_a_part_with_weights_and_errors(call: Call, files: dict[str, Path]) -> None:
    code, text, _ = call("evaluate", files["a"], "--json", "--keep", 0.5, "--weight", "mine", "--bootstrap", 20)
    assert code == 0
    result = json.loads(text)
    kept = np.argsort(P.variance, kind="stable")[: N // 2]
    expected = evaluate(Z[kept], P[kept], TABLE["mine"][kept])
    assert {name: result[name] for name in METRICS} == pytest.approx({name: expected[name] for name in METRICS})
    assert result["n"] == N // 2
    assert set(result["errors"]) == set(METRICS)
    one = bootstrap(
        "bias", Z, P, sample_weight=TABLE["mine"], n_resamples=20, random_state=0
    )  # the same resamples serve all metrics
    _, text, _ = call("evaluate", files["a"], "--json", "--weight", "mine", "--bootstrap", 20)
    assert json.loads(text)["errors"]["bias"] == pytest.approx(one.std)


def test_errors_in_the_table(call: Call, files: dict[str, Path]) -> None:
    code, text, _ = call("evaluate", files["a"], files["b"], "--bootstrap", 5)
    assert code == 0
    assert text.count("±") >= 22


@pytest.mark.parametrize("column", ["z_spec", "z_phot", "mag_i"])
def test_bins(call: Call, files: dict[str, Path], column: str) -> None:
    code, text, _ = call("evaluate", files["a"], "--json", "--bins", column)
    assert code == 0
    bins = json.loads(text)["bins"]
    by = TABLE[column]
    used = by < 90
    assert sum(bins["counts"][0]) == used.sum()
    direct = binned_metrics(Z[used], P[used], ["bias"], by=by[used], edges=bins["edges"])
    np.testing.assert_allclose(np.array(bins["bias"], dtype=float), direct.values["bias"], rtol=1e-9)
    code, text, _ = call("evaluate", files["a"], "--bins", column)
    assert "25 % kept" in text


def test_rejection_and_gains(call: Call, files: dict[str, Path]) -> None:
    code, text, _ = call("evaluate", files["a"], files["b"], "--rejection", "--json")
    assert code == 0
    first, second = json.loads(text)
    curve = rejection_curve(Z, P, fractions=first["rejection"]["fractions"])
    np.testing.assert_allclose(first["rejection"]["rmse"], curve.values)
    assert first["rejection"]["area"]["rmse"] == pytest.approx(curve.area)
    code, text, _ = call("evaluate", files["a"], files["b"], "--rejection")
    z, p = Z, predictions(noise=1.5)[1]
    gain = relative_improvement(curve, rejection_curve(z, p, fractions=curve.fractions)).mean
    assert f"{gain:+.2f}" in text
    assert "gain of" in text
    assert second["rmse"] > first["rmse"]


def test_select_by_risk(call: Call, files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "safe.csv"
    code, _, err = call("select", files["a"], "--keep", 0.25, "--by-risk", "-o", out)
    assert code == 0
    assert "kept 100 of 400 objects (25.00 %)" in err
    assert call("select", files["a"], "--max-risk", float(np.max(read_catalog(out)["z_risk"])), "--json")[0] == 0
    code, _, err = call("select", files["a"], "--max-risk", 0.1, "--max-std", 0.1)
    assert code != 0
    assert "order objects by variance; with risk use --keep or --max-risk" in err


def test_select_writes_ids_and_tells_the_trade(call: Call, files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "chosen.csv"
    code, text, err = call("select", files["a"], "--keep", 0.25, "-o", out, "--columns", "mag_i")
    assert code == 0
    assert f"wrote {out}: 100 objects" in text
    assert "kept 100 of 400 objects (25.00 %)" in err
    assert "the limit is set by --keep" in err
    kept = np.sort(np.argsort(P.variance, kind="stable")[:100])
    assert f"{rmse(Z[kept], P[kept]):.4f}" in err
    chosen = read_catalog(out)
    assert chosen.names == ("objid", "z_phot", "z_std", "z_risk", "mag_i")
    np.testing.assert_array_equal(chosen["objid"], TABLE["objid"][kept])


def test_ids_go_to_standard_output_without_a_file(call: Call, files: dict[str, Path]) -> None:
    code, text, _ = call("select", files["a"], "--max-std", 0.05, "-q")
    assert code == 0
    assert [int(line) for line in text.split()] == TABLE["objid"][P.std <= 0.05].tolist()
    code, text, err = call("select", files["nameless"], "--max-std", 0.05)
    assert [int(line) for line in text.split()] == np.flatnonzero(P.std <= 0.05).tolist()
    assert "rows are numbered from 0" in err
    code, text, _ = call("select", files["a"], "--max-rmse", 0.05, "--json")
    report = json.loads(text)
    assert report["after"]["rmse"] <= 0.05 < report["before"]["rmse"]
    assert report["n_kept"] == len(report["ids"])
    assert report["binding"] == "max_rmse"


def test_select_without_true_redshifts(call: Call, files: dict[str, Path]) -> None:
    code, text, err = call("select", files["blind"], "--keep", 0.5)
    assert code == 0
    assert len(text.split()) == N // 2
    assert "what was gained is not measured" in err
    code, text, err = call("select", files["blind"], "--max-rmse", 0.05)
    assert (code, text) == (1, "")
    assert "has no column of true redshifts" in err
    assert "--expected" in err
    code, text, _ = call("select", files["blind"], "--max-rmse", 0.05, "--expected", "--json")
    assert code == 0
    assert json.loads(text)["expected_rmse"]["after"] <= 0.05
    code, _, err = call("evaluate", files["blind"])
    assert code == 1
    assert "name it with --redshift" in err


def test_a_measured_rmse_sets_the_limit_for_all(call: Call, files: dict[str, Path]) -> None:
    code, text, _ = call("select", files["half"], "--max-rmse", 0.05, "--json")
    assert code == 0
    report = json.loads(text)
    assert report["binding"] == "max_rmse"
    assert report["n_truth"] == N // 2
    assert report["after"]["rmse"] <= 0.05
    assert report["ids"] == TABLE["objid"][P.std <= report["max_std"]].tolist()
    assert report["n_kept"] > report["after"]["n"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "no criterion given; use --keep"),
        (("--keep", "50"), 2, "--keep is 50.0; expected a fraction"),
        (("--max-std", "-1"), 2, "--max-std is -1.0; expected a positive"),
        (("--keep", "0.1", "--min-completeness", "0.5"), 1, "--keep leaves 40 of 400 objects"),
        (("--max-std", "1e-6"), 1, "no object satisfies --max-std; relax it"),
        (("--keep", "0.5", "--expected"), 2, "--expected says how --max-rmse is meant"),
        (("--keep", "0.5", "--columns", "ra"), 2, "name it with -o"),
        (("--keep", "0.5", "-o", "{f}/none/x.csv"), 2, "does not exist; create it"),
        (("--keep", "0.5", "-o", "{f}/x.csv", "--columns", "ra"), 1, "has no column 'ra'"),
        (("--keep", "0.5", "--id", "number"), 1, "has no column 'number'"),
    ],
)
def test_select_refuses(
    arguments: tuple[str, ...], code: int, message: str, call: Call, files: dict[str, Path], tmp_path: Path
) -> None:
    found, out, err = call("select", files["a"], *(argument.format(f=tmp_path) for argument in arguments))
    assert found == code
    assert message in " ".join(err.split())
    assert out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--keep", "2"), 2, "--keep is 2.0; expected a fraction"),
        (("--weight", "mag_j"), 1, "has no column 'mag_j'"),
        (("--bin-width", "0.1"), 2, "name it with --bins"),
        (("--bins", "z_spec", "--bin-width", "-1"), 2, "--bin-width is -1.0"),
        (("--bins", "z_spec", "--bin-width", "1e-7"), 2, "give a larger --bin-width"),
        (("--bootstrap", "1"), 2, "expected at least 2 resamples"),
    ],
)
def test_evaluate_refuses(
    arguments: tuple[str, ...], code: int, message: str, call: Call, files: dict[str, Path]
) -> None:
    found, out, err = call("evaluate", files["a"], *arguments)
    assert (found, out) == (code, "")
    assert message in " ".join(err.split())


def test_bad_weights_are_named(call: Call, tmp_path: Path) -> None:
    weight = np.ones(N)
    weight[3] = -1.0
    path = write(TABLE.with_columns({"mine": weight}), tmp_path / "w.parquet")
    code, _, err = call("evaluate", path, "--weight", "mine")
    assert code == 1
    assert "weight column 'mine' is -1.0 in row 3" in err


def test_numbers_that_are_not_finite_are_null_in_json(call: Call, tmp_path: Path) -> None:
    path = write(TABLE.with_columns({"z_phot": np.full(N, 1e6)}), tmp_path / "w.parquet")
    code, text, _ = call("evaluate", path, "--json", "--bootstrap", 2)
    assert code == 0
    assert "NaN" not in text
    assert "Infinity" not in text
    json.loads(text)


def test_parts_of_the_variance_of_a_mixture_are_those_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    p = Prediction(rng.dirichlet([1, 1, 1], 50), rng.uniform(0.2, 1.5, (50, 3)), *rng.gamma(2.0, 0.003, (3, 50, 3)))
    columns = {"z_phot": p.mean, "z_std": p.std, "z_var_model": p.model_variance, "z_var_noise": p.noise_variance}
    columns["z_var_input"] = p.input_variance
    columns |= {"z_pdf_weight": p.weights, "z_pdf_mean": p.means, "z_pdf_std": p.component_stds}
    file = read_predictions(write(Catalog(columns), tmp_path / "m.parquet"), need_truth=False)
    assert file.z_spec is None
    assert not file.has_truth.any()
    np.testing.assert_allclose(file.prediction.component_stds, p.component_stds)
    for name in ("mean", "variance", "model_variance", "noise_variance", "input_variance"):
        np.testing.assert_allclose(getattr(file.prediction, name), getattr(p, name), rtol=1e-9)
