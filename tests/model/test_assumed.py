"""Rows that rest on an assumption: every second member of a committee does without them."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed import GPzRegressor


def rows(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    assumed = X[:, 0] > 0.0
    return X, np.sin(X[:, 0]) + np.where(assumed, 0.5, 0.0) + 0.05 * rng.standard_normal(n), assumed


def model(n_members: int = 4) -> GPzRegressor:
    return GPzRegressor(n_basis=8, n_members=n_members, n_heads=1, n_networks=0, coverage=False, random_state=0)


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_every_second_member_does_without_them() -> None:
    X, y, assumed = rows()
    weight = np.ones(len(y))
    weight[:20] = 0.0
    held = X[~assumed][:30], y[~assumed][:30]
    fitted = model().fit(X, y, weight, validation_data=held, assumed=assumed)
    used = weight > 0.0
    for index, member in enumerate(fitted.members_):
        expected = y[used & ~assumed] if index % 2 else y[used]
        assert member.standardisation.y_mean == pytest.approx(expected.mean(), abs=1e-9)
    alone = model(1).fit(X, y, weight, validation_data=held, assumed=assumed)
    assert alone.members_[0].standardisation.y_mean == pytest.approx(y[used].mean(), abs=1e-9)


def test_what_cannot_be_is_refused() -> None:
    X, y, assumed = rows()
    held = X[:30], y[:30]
    with pytest.raises(ValueError, match="`assumed` is given without `validation_data`"):
        model().fit(X, y, assumed=assumed)
    with pytest.raises(ValueError, match=r"`assumed` has shape \(5,\) and type bool; expected 300 booleans"):
        model().fit(X, y, validation_data=held, assumed=assumed[:5])
    with pytest.raises(ValueError, match="type int64; expected 300 booleans"):
        model().fit(X, y, validation_data=held, assumed=assumed.astype(np.int64))
    with pytest.raises(ValueError, match="`assumed` leaves fewer than 2 rows"):
        model().fit(X, y, validation_data=held, assumed=np.ones(len(y), dtype=bool))
