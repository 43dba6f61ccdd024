"""`GPzRegressor`: the scikit-learn estimator. It checks, delegates and holds results; it has no algebra."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import sklearn.base  # noqa: F401  before our own modules: after them its import takes longer (memory given back and taken)

from gpzed.compiled import warn_if_missing
from gpzed.errors import ConvergenceWarning
from gpzed.gp.parameters import MeanFunction
from gpzed.gp.whitening import WhiteningMethod
from gpzed.model.committee import Committee
from gpzed.model.committee_training import train_committee
from gpzed.model.fitted import FittedModel
from gpzed.model.inputs import is_lazy
from gpzed.model.options import Calibration, Training, check_options
from gpzed.model.run import Run
from gpzed.model.sources import rows_in_memory, rows_of_collections, rows_of_stream

warn_if_missing()  # once, when the estimator is imported

Validation = tuple[Any, ...]
"""(X, y), followed by sample_weight, X_std, y_std and y_wrong as far as given."""


class GPzRegressor(FittedModel):
    """Sparse Gaussian process with input-dependent noise (GPz).

    Parameters
    ----------
    n_basis : int or "auto"
        Number m of basis functions. "auto" lets it grow with the number of training rows (see Notes).
    covariance : {"VC", "GC", "VD", "GD", "VL", "GL"}
        Structure of the basis functions' covariances: variable or global; full covariance, diagonal, or length-scale.
    noise : {"heteroscedastic", "homoscedastic"}
        Noise variance as a function of the inputs (section 5 of the paper), or constant (section 3).
    relevance : {"ard", "shared"}
        A prior precision per weight (automatic relevance determination, section 4), or one for all (Eq. 3.9).
    mean_function : {"zero", "constant", "linear"}
        What the model returns to far from all basis functions: the mean of the training targets; a constant learned
        with the weights; or a linear function of the inputs learned with them.
    n_heads : int
        Gaussians that one model gives for an object; 1 for the paper's model. With more, heads on the same basis
        functions, each with its own mean, noise and weight, are trained on the trained model and replace its one
        Gaussian if the held-out rows are more likely with them (docs/explanation/mixtures.md).
    n_members : int
        Size of the committee: models from different starts and different held-out rows, whose predictions form a
        mixture of Gaussians with equal weights.
    n_networks : int or "auto"
        Small neural networks with the same heads that stand beside the members, with a part of the mixture that
        held-out rows choose (docs/explanation/network-members.md). "auto": five, or one per member if these are fewer,
        where there are several members with several heads and at least 100 rows without `X_std`; else none.
    whitening : {"pca", "scale", "none"}
        Principal components of the scaled inputs, brought to unit variance, all kept (section 6.2); features scaled one
        by one; or inputs as they are.
    missing : {"marginalise", "error"}
        What NaN among the inputs means: an input that was not observed, over which the model takes the expectation
        given the others, with the density of the inputs that it learns in training; or a mistake.
    weighting : {"likelihood", "precision"}
        What ``sample_weight`` multiplies: the log-likelihood of a row (weight 2 is the row twice; predictive
        variances stay calibrated), or its noise precision, as in the paper (they do not; held-out rows then stop
        training early, so that `validation_fraction` 0 is needed for the paper's behaviour).
    shape_prior : float
        Strength of the prior that draws the shapes of the basis functions together; 0 for the paper's objective.
    validation_fraction : float
        Share of the training rows to hold out for choosing the iterate; 0 for none. Held-out rows still enter the final
        posterior of the weights.
    calibrate : {"global", "local", "noise", "none"}
        What held-out rows correct. "noise": a constant is taken off the log noise precision such that they are most
        likely, when iterates are judged and in the final model; noise is only ever added, since optimised shapes
        over-fit a little and noise comes out too small. "global": also the widths and wings of the predictive
        distributions, by the same amount for all objects; this takes 200 held-out rows and a gain in
        cross-validation, and half of the held-out rows are then the same for all members. "local": by amounts that
        depend on the region of the inputs. "none": nothing (the paper's model).
    coverage : bool
        Whether to learn the density of the training inputs, too. Predictions then have a `coverage`, and their
        variance goes back to that of the training targets where it is low; without, a model is confident where it
        has no data (the paper's behaviour).
    wrong_labels : float or "auto"
        Part of the targets that are wrong, drawn from anywhere: training then finds out which, and predicts as if they
        were not there. 0 takes all targets for right. "auto" learns the part from the rows whose neighbours agree best,
        and where that finds 1 % or more, tries small models: unless held-out targets are more likely with it, all are
        taken for right, as they are with rows in chunks or on a cluster, and where ``weighting`` is "precision".
    training : Training or None
        How models are trained: starts, limits and subsets; None for the defaults.
    n_threads : int or None
        Threads to use; all cores if None. Results do not depend on it.
    random_state : int, numpy.random.Generator or None
        Seed of starts and splits.

    Attributes
    ----------
    committee_ : Committee
        The trained members, with coverage and recalibration: ``members_``, ``coverage_``, ``recalibration_``.
    report_ : TrainingReport
        How training went (of the first member; ``reports_`` has all).
    n_basis_ : int
        Number of basis functions used.
    n_iter_ : int
        Iterations of the member that took most.
    wrong_rate_ : float
        Part of the targets taken to be wrong: that of `wrong_labels`, learned if it is "auto".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the features, if X had any.

    Notes
    -----
    With ``n_basis="auto"`` there are five training rows for every free number of the basis functions (centre and
    shape), but at least 50 basis functions, if there are six rows for each, and at most 100: fewer waste data, more
    over-fit (measured; see docs/explanation/training.md).

    References
    ----------
    Almosallam, Jarvis & Roberts (2016), MNRAS 462, 726.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> model = GPzRegressor(n_basis=10, n_heads=1, n_members=1, random_state=0).fit(X, y)
    >>> mean, std = model.predict(np.array([[0.0], [1.5]]), return_std=True)
    >>> bool(np.all(np.abs(mean - [0.0, 1.0]) < 0.1)), bool(np.all(np.abs(std - 0.1) < 0.03))
    (True, True)
    """

    def __init__(
        self,
        n_basis: int | Literal["auto"] = "auto",
        covariance: str = "VC",
        *,
        noise: Literal["heteroscedastic", "homoscedastic"] = "heteroscedastic",
        relevance: Literal["ard", "shared"] = "ard",
        mean_function: MeanFunction = "linear",
        n_heads: int = 8,
        n_members: int = 5,
        n_networks: int | Literal["auto"] = "auto",
        whitening: WhiteningMethod = "pca",
        missing: Literal["marginalise", "error"] = "marginalise",
        weighting: Literal["likelihood", "precision"] = "likelihood",
        shape_prior: float = 1.0,
        validation_fraction: float = 0.1,
        calibrate: Calibration = "global",
        coverage: bool = True,
        wrong_labels: float | Literal["auto"] = "auto",
        training: Training | None = None,
        n_threads: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_basis = n_basis
        self.covariance = covariance
        self.noise = noise
        self.relevance = relevance
        self.mean_function = mean_function
        self.n_heads = n_heads
        self.n_members = n_members
        self.n_networks = n_networks
        self.whitening = whitening
        self.missing = missing
        self.weighting = weighting
        self.shape_prior = shape_prior
        self.validation_fraction = validation_fraction
        self.calibrate = calibrate
        self.coverage = coverage
        self.wrong_labels = wrong_labels
        self.training = training
        self.n_threads = n_threads
        self.random_state = random_state

    @classmethod
    def paper(cls, n_basis: int = 100, covariance: str = "VC", **changes: Any) -> Self:
        """Return the model of the paper: one Gaussian per object, with nothing added to Eq. 5.6 or to its predictions.

        One member with one head; no shape prior, noise correction, recalibration or coverage; the mean of the targets
        as the mean function; cost weights on the noise precision (section 5); principal components of complete inputs
        (section 6.2); as many rows to choose the iterate by as to train on (section 6.2), all of them at every step.

        `changes` are other options of the estimator that shall differ.
        """
        return cls(n_basis, covariance, **{**PAPER, **changes})

    def fit(
        self,
        X: Any,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        *,
        X_std: Any = None,
        y_std: npt.ArrayLike | None = None,
        y_wrong: npt.ArrayLike | None = None,
        validation_data: Validation | None = None,
        assumed: npt.ArrayLike | None = None,
        run: Run | None = None,
    ) -> Self:
        """Train on rows in memory, or on those of Dask collections.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            NumPy array, pandas or polars data frame, or astropy table. NaN and masked values stand for inputs that were
            not observed; see `missing`. A Dask array or data frame is loaded by the workers of the run's cluster, or
            read partition by partition on every pass if there is none; then `y` and `sample_weight` are Dask
            collections with the same partitions.
        y : array-like of shape (n_samples,)
            Targets (redshifts).
        sample_weight : array-like of shape (n_samples,) or None
            Weights, >= 0; see `weighting`.
        X_std : array-like or table of shape (n_samples, n_features), or None
            Standard errors of the inputs, independent of each other, as input noise: the model is then one of the true
            inputs, and predicts for others with errors of their own. Values beside a NaN of X are not looked at.
        y_std : array-like of shape (n_samples,) or None
            Standard errors of the targets, which predictions do not include.
        y_wrong : array-like of shape (n_samples,) or None
            Probability that a target is wrong, drawn from anywhere; NaN for that of `wrong_labels`.
        validation_data : (X, y), followed by sample_weight, X_std, y_std and y_wrong as far as given, or None
            Rows to choose the iterate by, instead of a part of the training rows.
        assumed : array-like of bool, shape (n_samples,), or None
            Rows that rest on an assumption which no target can test, as simulated ones do. Every second member is
            trained without them, so that the committee averages over whether the assumption holds. Needs
            `validation_data`.
        run : Run or None
            Checkpoints, callback and cluster of this run.
        """
        check_options(self)
        run = run or Run()
        given = (X, y, sample_weight, X_std, y_std, y_wrong)
        with run.client() as client:
            if not is_lazy(X):
                source = rows_in_memory(self, given, validation_data, client, assumed)
            elif assumed is None:
                source = rows_of_collections(self, given, validation_data, client)
            else:
                raise TypeError("`assumed` is given with a Dask collection; expected rows in memory.")
            return self._learned(train_committee(self, source, run), source.wrong_rate)

    def fit_stream(
        self, source: Iterable[Any], *, validation_data: Validation | None = None, run: Run | None = None
    ) -> Self:
        """Train on rows that are reread on every pass, in constant memory.

        Parameters
        ----------
        source : iterable of (X, y), followed by sample_weight, X_std, y_std and y_wrong as far as given
            Chunks of rows; must give the same chunks each time it is iterated over (a list, or an object whose
            ``__iter__`` opens the file again; not a generator). With a cluster, a list of `dask.delayed` chunks, which
            the workers load once and keep in memory.
        validation_data : tuple or None
            As in `fit`; by default a random part of every chunk.
        run : Run or None
            As in `fit`.
        """
        check_options(self)
        run = run or Run()
        with run.client() as client:
            rows = rows_of_stream(self, source, validation_data, client)
            return self._learned(train_committee(self, rows, run), rows.wrong_rate)

    def _learned(self, committee: Committee, wrong_rate: float) -> Self:
        """Keep what was learned; warn of members that did not finish."""
        self.committee_, self.wrong_rate_ = committee, wrong_rate
        self.n_basis_ = committee.members[0].layout.m
        self.n_iter_ = max(1, *(len(report.history) for report in self.reports_))
        unfinished = [report for report in self.reports_ if report.status == "max_iter"]
        if unfinished:
            max_iter = (self.training or Training()).max_iter
            warnings.warn(
                f"training of {len(unfinished)} of {self.n_members} models stopped at `max_iter`={max_iter} with a "
                f"largest gradient of {unfinished[0].history[-1].gradient_norm:.1e}; the best iterate was kept. Raise "
                "`max_iter` for a better fit.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self


PAPER: dict[str, Any] = {
    "mean_function": "zero",
    "n_heads": 1,
    "n_members": 1,
    "n_networks": 0,
    "missing": "error",
    "weighting": "precision",
    "shape_prior": 0.0,
    "validation_fraction": 0.5,
    "calibrate": "none",
    "coverage": False,
    "wrong_labels": 0.0,
    "training": Training(coarse_to_fine=False),
}
"""Where the model of the paper differs from the defaults."""
