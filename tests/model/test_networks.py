"""Networks beside the members of a committee."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from gpzed import GPzRegressor, load_model
from gpzed.engine.threads import Team
from gpzed.errors import ModelFormatError, TrainingInterruptedError
from gpzed.model import NETWORK_STAGE, Run, StepInfo, Training
from gpzed.model.modelfile import pack_model
from gpzed.model.stacking import network_share
from helpers import assert_same_rows

pytestmark = pytest.mark.filterwarnings("ignore:training of:gpzed.errors.ConvergenceWarning")

QUICK = {"n_basis": 5, "n_heads": 2, "n_members": 2, "random_state": 0, "training": Training(max_iter=10, n_epochs=3)}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((260, 3))
    y = 1.0 + np.tanh(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(260)
    X[::7, 2] = np.nan
    return X, y


@pytest.fixture(scope="module")
def model(rows: tuple[np.ndarray, np.ndarray]) -> GPzRegressor:
    return GPzRegressor(**QUICK).fit(*rows)


def test_how_many_there_are_by_default(rows: tuple[np.ndarray, np.ndarray], model: GPzRegressor) -> None:
    assert len(model.networks_) == 2
    assert 0.0 < model.committee_.network_share < 1.0
    assert model.committee_.shares.sum() == pytest.approx(1.0)
    X, y = rows
    for changes in ({"n_members": 1}, {"n_heads": 1}, {"n_networks": 0}):
        other = GPzRegressor(**{**QUICK, **changes}).fit(X, y)
        assert not other.networks_
        assert other.committee_.network_share == 0.0
    assert not GPzRegressor(**QUICK).fit(X[:90], y[:90]).networks_
    assert not GPzRegressor(**QUICK).fit(X, y, X_std=np.full_like(X, 0.05)).networks_
    assert (
        not GPzRegressor.paper(5, training=QUICK["training"])
        .fit(X[~np.isnan(X[:, 2])], y[~np.isnan(X[:, 2])])
        .networks_
    )


def test_members_are_what_they_are_without_networks(rows: tuple[np.ndarray, np.ndarray], model: GPzRegressor) -> None:
    alone = GPzRegressor(**QUICK, n_networks=0).fit(*rows)
    for one, other in zip(alone.members_, model.members_, strict=True):
        found, expected = (member.components(rows[0], Team(1)) for member in (other, one))
        for name in ("weights", "means", "model_variances", "noise_variances"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_predictions_are_mixtures_of_both(rows: tuple[np.ndarray, np.ndarray], model: GPzRegressor) -> None:
    X, y = rows
    prediction = model.predict_distribution(X)
    assert prediction.n_components == model.n_components_
    assert set(prediction.components.member.tolist()) >= {0, 1, 2, 3}
    share = prediction.weights[:, np.isin(prediction.components.member, (2, 3))].sum(axis=1)
    np.testing.assert_allclose(share / prediction.weights[:, prediction.components.member >= 0].sum(axis=1),
                               model.committee_.network_share, rtol=1e-6)  # fmt: skip
    assert np.all(prediction.model_variance > 0.0)
    for member in range(4):
        own = prediction.components.of_member(member)
        np.testing.assert_allclose(own.weights.sum(axis=1), 1.0)
    assert np.corrcoef(prediction.mean, y)[0, 1] > 0.9
    assert_same_rows(model.predict_distribution(X[40:43]).mean, prediction.mean[40:43])


def test_draws_have_the_moments_of_the_mixture(rows: tuple[np.ndarray, np.ndarray], model: GPzRegressor) -> None:
    X = rows[0][np.argsort(-model.predict_distribution(rows[0]).coverage)[:4]]  # no doubt, whose tails are long
    draws = model.sample_y(X, 40_000)
    components = model.predict_distribution(X).components
    spread = components.weights * (components.model_variances + components.means**2)
    variance = spread.sum(axis=1) - (components.weights * components.means).sum(axis=1) ** 2
    np.testing.assert_allclose(draws.mean(axis=1), model.predict(X), atol=5 * np.sqrt(variance.max() / 40_000))
    np.testing.assert_allclose(draws.var(axis=1), variance, rtol=0.2)


def test_files_and_pickles_keep_them(rows: tuple[np.ndarray, np.ndarray], model: GPzRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "model.gpzed")
    for copy in (load_model(tmp_path / "model.gpzed"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict(rows[0]), model.predict(rows[0]))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("network_share", lambda stored: 1.5),
        ("network_share", lambda stored: 0.0),
        ("networks", lambda stored: ()),
        ("marked", lambda stored: stored + 3),
        ("lower", lambda stored: stored[:1]),
        ("layers", lambda stored: stored[1:]),
        ("layers", lambda stored: ()),
    ],
)
def test_damaged_networks_are_refused(model: GPzRegressor, tmp_path: Path, field: str, change) -> None:  # type: ignore[no-untyped-def]
    stored = model.to_file()
    network = stored.networks[0]
    place = {"network_share": stored, "networks": stored, "layers": network.network}.get(field, network)
    kept = getattr(place, field)
    object.__setattr__(place, field, change(kept))
    try:
        (tmp_path / "model.gpzed").write_bytes(pack_model(stored))
    finally:
        object.__setattr__(place, field, kept)
    with pytest.raises(ModelFormatError):
        load_model(tmp_path / "model.gpzed")


def test_interrupted_in_a_network_and_resumed(rows: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    seen: list[StepInfo] = []
    run = Run(tmp_path / "state", callback=seen.append, should_stop=lambda: seen[-1].stage == NETWORK_STAGE)
    with pytest.raises(TrainingInterruptedError):
        GPzRegressor(**QUICK).fit(*rows, run=run)
    resumed = GPzRegressor(**QUICK).fit(*rows, run=Run(tmp_path / "state"))
    whole = GPzRegressor(**QUICK).fit(*rows)
    np.testing.assert_array_equal(resumed.predict(rows[0]), whole.predict(rows[0]))


def test_errors_of_inputs_are_refused_with_networks(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = rows
    with pytest.raises(ValueError, match="`n_networks` is 2 but `X_std` is given"):
        GPzRegressor(**QUICK, n_networks=2).fit(X, y, X_std=np.full_like(X, 0.1))


def test_more_networks_than_members(rows: tuple[np.ndarray, np.ndarray]) -> None:
    model = GPzRegressor(**{**QUICK, "n_members": 1}, n_networks=2).fit(*rows)
    assert len(model.networks_) == 2
    assert len(set(model.predict_distribution(rows[0]).components.member.tolist())) >= 3


def test_share_goes_to_who_does_better() -> None:
    rng = np.random.default_rng(0)
    better = rng.normal(0.5, 0.5, 500)
    assert network_share(better, np.ones(500)) > 0.9
    assert network_share(-better, np.ones(500)) < 0.1
    assert 0.4 < network_share(better[:2], np.ones(2)) < 0.75
    assert network_share(np.zeros(0), np.zeros(0)) == 0.5
    assert network_share(rng.normal(0.0, 1.0, 2000), np.ones(2000)) == pytest.approx(0.5, abs=0.1)
