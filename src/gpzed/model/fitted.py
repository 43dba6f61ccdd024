"""What a fitted model can do: predict, draw functions, show its parameters, be saved."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gpzed._files import check_output, write_atomically
from gpzed._types import FloatArray
from gpzed.engine.threads import Team
from gpzed.model.committee import Committee, HeldOut
from gpzed.model.coverage import Coverage
from gpzed.model.inputs import check_input_errors, is_lazy, validate_table
from gpzed.model.member import Member, TrainingReport
from gpzed.model.modelfile import ModelFile, pack_model
from gpzed.model.network_member import NetworkMember
from gpzed.model.options import Training, check_options
from gpzed.model.recalibration import Recalibration
from gpzed.prediction import Prediction

N_PROBES = 4
"""Centres of basis functions at which a model that was read must predict sound numbers."""


class FittedModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predictions from trained members; `GPzRegressor` adds how they are trained."""

    committee_: Committee
    wrong_rate_: float
    n_threads: int | None
    missing: str
    random_state: Any
    n_features_in_: int
    n_basis_: int

    @property
    def members_(self) -> tuple[Member, ...]:
        """The trained models."""
        return self.committee_.members

    @property
    def networks_(self) -> tuple[NetworkMember, ...]:
        """The networks beside them; ``committee_.network_share`` is their part of the mixture."""
        return self.committee_.networks

    @property
    def coverage_(self) -> Coverage | None:
        """Density of the training inputs; None without `coverage`, or with fewer than 20 training rows."""
        return self.committee_.coverage

    @property
    def recalibration_(self) -> Recalibration | None:
        """What held-out rows changed, with their scores before and after; None without."""
        return self.committee_.recalibration

    @property
    def held_out_(self) -> HeldOut | None:
        """Targets and predictions of rows that no member was trained on; None if there are none, or after loading."""
        return self.committee_.held_out

    @property
    def reports_(self) -> list[TrainingReport]:
        """How training went, one report per member."""
        return [member.report for member in self.members_ if member.report is not None]

    @property
    def report_(self) -> TrainingReport:
        """How training of the first member went."""
        return self.reports_[0]

    @property
    def basis_centers_(self) -> FloatArray:
        """Centres P of the basis functions of the first member, whitened, (m, d)."""
        return self.members_[0].basis[0]

    @property
    def basis_factors_(self) -> FloatArray:
        """Square roots Gamma of their precisions, of a shape that depends on `covariance`."""
        return self.members_[0].basis[1]

    @property
    def weights_(self) -> FloatArray:
        """Posterior mean of the weights, those of the mean function last, target standardised; a column per head."""
        member = self.members_[0]
        if member.mixture is None:
            return member.weights.w_mean
        return member.mixture.heads.Theta[:, : member.n_heads]

    @property
    def weight_precisions_(self) -> FloatArray:
        """Prior precisions alpha of the weights: large where a basis function is irrelevant for the mean."""
        member = self._one_head("weight_precisions_")
        return member.layout.expand_alpha(member.parameters.log_alpha)

    @property
    def noise_weight_precisions_(self) -> FloatArray:
        """Prior precisions eta of u: large where a basis function is irrelevant for the noise."""
        return np.asarray(np.exp(self._one_head("noise_weight_precisions_").parameters.log_eta))

    def _one_head(self, name: str) -> Member:
        """Return the first member, unless its predictions come from heads, which have no such parameters."""
        member = self.members_[0]
        if member.mixture is not None:
            raise AttributeError(
                f"`{name}` is a parameter of models with one head, and this one predicts with {member.n_heads}. Fit "
                "with `n_heads=1` to have it, or look at `members_[0].parameters`, from which the heads started."
            )
        return member

    @property
    def _allows_gaps(self) -> bool:
        return self.missing == "marginalise"

    @property
    def _all_finite(self) -> bool | str:
        """What scikit-learn's checks should demand of the inputs."""
        return "allow-nan" if self._allows_gaps else True

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that NaN is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_gaps
        return tags

    @property
    def n_components_(self) -> int:
        """Gaussians of a prediction."""
        return len(self.committee_.labels()[0])

    @property
    def component_labels_(self) -> dict[str, list[int]]:
        """Member and input of every Gaussian of a prediction, as `gpzed.prediction.Components` has them."""
        member, inputs = self.committee_.labels()
        return {"member": member.tolist(), "input": inputs.tolist()}

    def _check_inputs(self, X: Any) -> FloatArray:
        check_is_fitted(self, "committee_")
        finite = self._all_finite
        return np.asarray(validate_table(self, X, reset=False, ensure_min_samples=0, ensure_all_finite=finite))

    def _check_errors(self, X_std: Any, X: FloatArray) -> FloatArray | None:
        has_errors = self.members_[0].standardisation.inputs.errors is not None
        if has_errors and X_std is None:
            raise ValueError(
                "the model was trained with errors of the inputs; give `X_std` here, too (zeros where there is none)."
            )
        if X_std is not None and not has_errors:
            raise ValueError(
                "`X_std` is given but the model was trained without; expected none. Train with `X_std` (zeros "
                "where there is no error) to predict for inputs with errors."
            )
        return check_input_errors(X_std, X)

    def predict(
        self, X: Any, return_std: bool = False, *, X_std: Any = None
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the mean, and the standard deviation if asked for.

        Parameters
        ----------
        X, X_std : array-like or table of shape (n_samples, n_features)
            As in `predict_distribution`. For a Dask array or data frame the result is lazy, too: Dask arrays, or series
            with the same index.
        return_std : bool
            Whether to return the pair of mean and standard deviation, of all parts of the variance together.
        """
        if is_lazy(X):
            if X_std is not None:
                raise TypeError(
                    "`X_std` is given for a Dask collection; expected rows in memory, a partition at a time."
                )
            from gpzed.distributed.collections import predict

            return predict(self, X, return_std)  # type: ignore[no-any-return]
        prediction = self.predict_distribution(X, X_std=X_std)
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    def predict_distribution(self, X: Any, *, X_std: Any = None, exact: bool = False, lean: bool = False) -> Prediction:
        """Predict the full distribution.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            NaN for an input that was not observed: any pattern will do, whether training rows had it or not. A row
            without any observation gets what the training rows are like on the whole.
        X_std : array-like or table of shape (n_samples, n_features), or None
            Standard errors of the inputs, if the model was trained with some.
        exact : bool
            Whether model variances of heads are those of the posterior of their weights in every digit; they are sums
            of squares otherwise, several times faster, wherever training found these good enough
            (docs/explanation/speed.md).
        lean : bool
            Whether to leave out Gaussians that have no weight because no row of `X` has gaps.

        Returns
        -------
        Prediction
            A Gaussian per object, or a mixture: one for each member and head, and for each component of the density of
            the inputs where some are missing or noisy; and one for the wings if recalibration asks for it
            (docs/explanation/recalibration.md). With `coverage`, and a variance that goes back to that of the
            training targets where coverage is low: a mixture has one more Gaussian for that, in one with the wings
            (docs/explanation/coverage.md).
        """
        if is_lazy(X):
            raise TypeError(
                f"`X` is a Dask {type(X).__name__}, and distributions are not lazy; expected rows in memory. Use "
                "`predict`, or call this on one partition at a time."
            )
        X = self._check_inputs(X)
        return self.predict_checked(X, self._check_errors(X_std, X), exact=exact, lean=lean)

    def predict_checked(
        self, X: FloatArray, X_std: FloatArray | None = None, *, exact: bool = False, lean: bool = False
    ) -> Prediction:
        """Do the same for float64 arrays that are known to be as expected: checks take a tenth of the time."""
        return self.committee_.predict(X, Team(self.n_threads), X_std, exact=exact, lean=lean)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: int | np.random.Generator | None = 0) -> FloatArray:
        """Draw functions from the model that predicts, without observation noise, and give their values at X.

        Each function is of one member, with weights from their posterior. Where a prediction has several Gaussians,
        for heads or missing inputs, each object takes one by its share: the draws have the moments of that mixture with
        model variances alone. Inputs are taken as exact.

        Parameters
        ----------
        X : array-like or table of shape (n_samples_X, n_features)
        n_samples : int
            Number of functions.
        random_state : int, numpy.random.Generator or None

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples)
        """
        X = self._check_inputs(X)
        return self.committee_.draw(X, n_samples, np.random.default_rng(random_state), Team(self.n_threads))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, atomically; read it with `gpzed.load_model`."""
        check_output(path, "the model")
        write_atomically(path, pack_model(self.to_file()))

    def to_file(self, pipeline: dict[str, Any] | None = None) -> ModelFile:
        """Return what a model file holds of this estimator, and of the `pipeline` from a catalogue to its inputs."""
        check_is_fitted(self, "committee_")
        names = getattr(self, "feature_names_in_", None)
        given: dict[str, Any] = self.get_params()
        parameters = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
        if parameters["training"] is not None:
            parameters["training"] = asdict(parameters["training"])
        if not isinstance(parameters["random_state"], int | None):
            parameters["random_state"] = None
        return ModelFile(
            estimator=type(self).__name__,
            parameters=parameters,
            n_features=int(self.n_features_in_),
            feature_names=None if names is None else tuple(str(name) for name in names),
            members=tuple(self.members_),
            coverage=self.coverage_,
            recalibration=self.recalibration_,
            networks=self.networks_,
            network_share=self.committee_.network_share,
            wrong_rate=self.wrong_rate_,
            pipeline=pipeline,
        )

    @classmethod
    def from_file(cls, stored: ModelFile) -> Self:
        """Put a fitted estimator together from what a model file holds; ValueError or the like if that is unsound."""
        parameters = dict(stored.parameters)
        if parameters["training"] is not None:
            parameters["training"] = Training(**parameters["training"])
        model = cls(**parameters)
        if stored.estimator != cls.__name__ or not isinstance(model.random_state, int | None):
            raise ValueError(f"a {stored.estimator[:40]} with the seed {str(model.random_state)[:40]}")
        check_options(model)
        model.committee_ = Committee(
            stored.members, stored.coverage, stored.recalibration, stored.networks, stored.network_share
        )
        model.wrong_rate_ = stored.wrong_rate
        model.n_features_in_ = stored.n_features
        model.n_basis_ = stored.members[0].layout.m
        if stored.feature_names is not None:
            model.feature_names_in_ = np.array(stored.feature_names, dtype=object)
        with np.errstate(all="ignore"):
            model._predict_centres().components.verify()
        return model

    def _predict_centres(self) -> Prediction:
        """Predict at the mean of the inputs, a step from it, and at some centres: what every model can do."""
        member = self.members_[0]
        whitening, errors = member.standardisation.whitening, member.standardisation.inputs.errors
        axes = np.eye(self.n_features_in_)
        points = np.concatenate([np.zeros((1, len(axes))), axes, -axes, member.parameters.P[:N_PROBES]])
        X = np.linalg.solve(whitening.matrix.T, points.T).T + whitening.mean
        return self.committee_.predict(X, Team(1), None if errors is None else np.tile(errors.floor, (len(X), 1)))
