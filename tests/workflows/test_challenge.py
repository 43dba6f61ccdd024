"""An entry to DESC's photo-z data challenge: files found by name, columns without options, the challenge's checks."""

from __future__ import annotations

import sys
import tarfile
import types
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from gpzed.catalog import guess_schema
from gpzed.errors import CatalogError, ConfigError
from gpzed.simulate import simulate_survey
from gpzed.workflows import challenge, load_photoz_model

qp = pytest.importorskip("qp")
tables_io = pytest.importorskip("tables_io")

BANDS = "ugrizy"
QUICK = {"n_members": 1, "n_heads": 2, "n_basis": 8, "patience": 2, "tol": 1e-4, "n_epochs": 2}


def columns(n: int, seed: int, roman: bool = False) -> dict[str, np.ndarray]:
    """Return galaxies under the challenge's names; NaN in magnitude and error where a band has no detection."""
    sky = simulate_survey(n, survey="lsst", random_state=seed)
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {"object_id": rng.permutation(10 * n)[:n], "redshift": np.array(sky.z_true)}
    for k, band in enumerate(BANDS):
        lost = ~np.isfinite(sky.mag[:, k]) | (rng.random(n) < 0.02)
        found[f"mag_{band}_lsst"] = np.where(lost, np.nan, sky.mag[:, k]).astype(np.float32)
        found[f"mag_{band}_lsst_err"] = np.where(lost, np.nan, sky.mag_err[:, k]).astype(np.float32)
    for band in "YJHF" if roman else "":
        found[f"mag_{band}_roman"] = (sky.mag[:, 5] - 0.3 * sky.z_true).astype(np.float32)
        found[f"mag_{band}_roman_err"] = np.full(n, 0.1, np.float32)
    return found


def write(path: Path, table: dict[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as stream:
        for name, values in table.items():
            stream[name] = values


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    training, test = columns(700, 0), columns(300, 1)
    position = {"ra": np.zeros(700), "dec": np.zeros(700)}
    write(folder / "pz_challenge_taskset_1_cardinal_training_1yr.hdf5", training | position)
    partly = {name: values[:600].copy() for name, values in training.items()}
    scatter = 0.02 * np.random.default_rng(2).standard_normal(600)
    partly["redshift_manyband"] = partly["redshift"] * (1.0 + scatter)
    partly["redshift"][400:] = np.nan
    write(folder / "pz_challenge_taskset_2_cardinal_training_1yr.hdf5", partly)
    del test["redshift"]
    for number in (1, 2):
        write(folder / f"pz_challenge_taskset_{number}_cardinal_test_1yr.hdf5", test)
    return folder


@pytest.fixture(scope="module")
def entry(public: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("entry")
    reports = challenge.make_entry(public, folder, **QUICK)
    assert [(r.taskset, r.rows, r.problems) for r in reports] == [(1, 300, ()), (2, 300, ())]
    assert all(r.model_bytes > 0 and r.bytes_per_object < 300 for r in reports)  # a grid of 300 points takes 2400
    return folder


def file(folder: Path, number: int, what: str) -> Path:
    suffix = {"pz_model": ".pkl"}.get(what, ".hdf5")
    return folder / f"pz_challenge_taskset_{number}_cardinal_{what}_1yr{suffix}"


def flags_of_the_challenge(submitted: Path, test_file: Path) -> list[int]:
    """The numbers of the checks that a file passes, as in `check_pz_submission_file` of the challenge."""
    passed = []
    if not submitted.exists():
        return passed
    passed.append(1)
    ensemble = qp.read(str(submitted))
    passed += [2, 3]
    if ensemble.ancil is None:
        return passed
    passed.append(4)
    passed += [number for number, name in ((5, "zmode"), (6, "object_id")) if name in ensemble.ancil]
    if set(ensemble.ancil["object_id"]) == set(tables_io.read(str(test_file))["object_id"]):
        passed.append(7)
    return passed


@pytest.mark.parametrize("number", [1, 2])
def test_files_pass_the_challenges_own_checks(public: Path, entry: Path, number: int) -> None:
    made = file(entry / "submissions" / "gpzed", number, "pz_estimate")
    assert flags_of_the_challenge(made, file(public, number, "test")) == [1, 2, 3, 4, 5, 6, 7]
    ensemble = qp.read(str(made))
    assert np.array_equal(ensemble.ancil["object_id"], tables_io.read(str(file(public, number, "test")))["object_id"])
    assert np.corrcoef(ensemble.ancil["zmode"], columns(300, 1)["redshift"])[0, 1] > 0.5


def test_task_sets_are_trained_as_their_files_ask(entry: Path) -> None:
    models = [load_photoz_model(file(entry / "submissions" / "gpzed", n, "pz_model")) for n in (1, 2)]
    assert [model.sentinels.nan for model in models] == ["not_detected"] * 2
    assert [model.config.schema.redshift for model in models] == ["redshift", "redshift,redshift_manyband"]
    assert models[0].config.target.catalogue == ""
    assert models[1].config.target.catalogue.endswith("pz_challenge_taskset_2_cardinal_test_1yr.hdf5")


def test_a_second_run_keeps_the_models(public: Path, entry: Path) -> None:
    model = file(entry / "submissions" / "gpzed", 1, "pz_model")
    before = model.stat().st_mtime_ns
    challenge.make_entry(public, entry, tasksets=[1], **QUICK)
    assert model.stat().st_mtime_ns == before
    with tarfile.open(entry / "gpzed.tgz") as archive:
        assert "pz_challenge_taskset_1_cardinal_pz_model_1yr.pkl" in archive.getnames()


def test_written_functions_run_in_the_challenges_place(
    public: Path, tmp_path: Path, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []

    def run_taskset(area: str, name: str, estimation_only: Any, training_and_estimation: Any) -> None:
        model = file(entry / "submissions" / name, 1, "pz_model")
        estimation_only(str(model), str(file(public, 1, "test")), str(tmp_path / "one.hdf5"))
        training, test = file(public, 1, "training"), file(public, 1, "test")
        training_and_estimation(str(training), str(test), str(tmp_path / "two.hdf5"))
        ran.append(area)

    package = types.ModuleType("pz_data_challenge")
    package.submit_utils = types.ModuleType("submit_utils")  # type: ignore[attr-defined]
    part = types.ModuleType("pz_data_challenge.taskset_1")
    part.run_taskset_1 = run_taskset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pz_data_challenge", package)
    monkeypatch.setitem(sys.modules, "pz_data_challenge.taskset_1", part)
    namespace: dict[str, Any] = {"__name__": "test_gpzed"}
    exec(challenge.functions_text("gpzed", [1], QUICK), namespace)
    namespace["test_taskset_1"](0, 0)
    assert ran == ["tests/public"]
    for name in ("one.hdf5", "two.hdf5"):
        assert flags_of_the_challenge(tmp_path / name, file(public, 1, "test"))[-1] == 7
    same = [qp.read(str(tmp_path / name)).ancil["zmode"] for name in ("one.hdf5", "two.hdf5")]
    assert np.allclose(*same, rtol=1e-6)


def test_check_names_what_is_wrong(public: Path, entry: Path, tmp_path: Path) -> None:
    test = file(public, 1, "test")
    made = qp.read(str(file(entry / "submissions" / "gpzed", 1, "pz_estimate")))
    assert challenge.check(tmp_path / "none.hdf5", test) == (f"'{tmp_path / 'none.hdf5'}' does not exist",)
    (tmp_path / "text.hdf5").write_text("no ensemble")
    assert challenge.check(tmp_path / "text.hdf5", test)[0].startswith("qp cannot read")
    good = dict(made.ancil)
    for name, ancillary, problem in (
        ("bare", {"zmode": good["zmode"]}, "'object_id' is not among"),
        ("other", good | {"object_id": good["object_id"] + 1}, "differs from that of"),
        ("turned", good | {"object_id": good["object_id"][::-1]}, "not in the order"),
        ("nan", good | {"zmode": np.full(300, np.nan)}, "not a number"),
    ):
        made.set_ancil(ancillary)
        made.write_to(str(tmp_path / f"{name}.hdf5"))
        assert problem in challenge.check(tmp_path / f"{name}.hdf5", test)[0]
    with pytest.raises(CatalogError, match="does not exist"):
        challenge.check(tmp_path / "bare.hdf5", tmp_path / "none.hdf5")


def test_missing_files_and_names_are_said(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="no training file of task set 3; expected names like"):
        challenge.find_pairs(tmp_path, [3])
    write(tmp_path / "pz_challenge_taskset_3_cardinal_training_1yr.hdf5", columns(10, 0))
    with pytest.raises(CatalogError, match="no test file beside it; expected 'pz_challenge_taskset_3_cardinal_test"):
        challenge.find_pairs(tmp_path)
    write(tmp_path / "pz_challenge_taskset_2_cardinal_test_1yr.hdf5", columns(10, 0))
    assert [pair.test.name for pair in challenge.find_pairs(tmp_path)] == [
        "pz_challenge_taskset_2_cardinal_test_1yr.hdf5"
    ]
    with pytest.raises(ConfigError, match="does not tell its task set"):
        challenge.train_for(tmp_path / "mine.hdf5", tmp_path / "test.hdf5")
    with pytest.raises(ConfigError, match="letters, digits and underscores"):
        challenge.make_entry(tmp_path, tmp_path, name="my entry")


def test_rubin_and_roman_columns_are_recognised_together() -> None:
    schema = guess_schema(columns(5, 0, roman=True))
    assert list(schema.mag.values()) == [
        *(f"mag_{band}_lsst" for band in BANDS),
        *(f"mag_{band}_roman" for band in "YJHF"),
    ]
    assert schema.mag_err["Y_roman"] == "mag_Y_roman_err"
    assert (schema.redshift, schema.id) == ("redshift", "object_id")
    assert guess_schema(columns(5, 0)).bands == tuple(BANDS)
