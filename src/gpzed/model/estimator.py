"""`GPzRegressor`: the scikit-learn estimator. It checks, delegates and holds results; it has no algebra."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from gpzed.distributed import check_engine, connect, lazy
from gpzed.distributed.data import PartitionedData, Partitions, SpreadData
from gpzed.engine.lbfgs import Budget, Iteration
from gpzed.engine.threads import Team, available_threads, single_threaded_blas
from gpzed.errors import ClusterError, ConvergenceWarning, DataWarning
from gpzed.gp.covariance import get_structure
from gpzed.gp.initialize import InitMethod
from gpzed.gp.parameters import MeanFunction
from gpzed.incomplete.kinds import MIXTURE_ROWS, RawRows
from gpzed.incomplete.noise_classes import warn_of_large_errors
from gpzed.model.checkpoint import fingerprint, load_checkpoint, save_checkpoint
from gpzed.model.committee import HaltedError, run_in_parallel
from gpzed.model.coverage import learn_coverage
from gpzed.model.data import ArrayData, StreamData, TrainingData, merge_duplicates, split_rows
from gpzed.model.fitted import FittedModel
from gpzed.model.inputs import (
    CheckedChunks,
    check_input_errors,
    check_weights,
    drop_weightless,
    is_lazy,
    validate_table,
)
from gpzed.model.member import Member
from gpzed.model.options import check_options, choose_n_basis
from gpzed.model.recalibration import MIN_ROWS, Recalibration, RecalibrationMethod, fit_recalibration
from gpzed.model.training import Session, TrainingOptions, train_member
from gpzed.model.whitening import WhiteningMethod

Validation = tuple[Any, ...]
"""(X, y), (X, y, sample_weight) or (X, y, sample_weight, X_std)."""

SHARED_PART = 0.5
"""Part of the rows held out that all members of a committee have in common, where these serve recalibration."""


HEADS_STAGE = -1


@dataclass(frozen=True)
class StepInfo:
    """What a progress callback is told after every step; in stage `HEADS_STAGE` heads are trained, a step an epoch."""

    member: int
    stage: int
    iteration: int
    seconds: float
    objective: float
    score: float
    best_score: float


class GPzRegressor(FittedModel):
    """Sparse Gaussian process with input-dependent noise (GPz).

    Parameters
    ----------
    n_basis : int or "auto"
        Number m of basis functions. "auto" lets it grow with the number of training rows (see Notes).
    covariance : {"VC", "GC", "VD", "GD", "VL", "GL", "ANN"}
        Structure of the basis functions' covariances: variable or global; full covariance, diagonal, or length-scale.
        "ANN" has sigmoids in their place, the neurons of a network with one hidden layer (appendix B).
    noise : {"heteroscedastic", "homoscedastic"}
        Noise variance as a function of the inputs (section 5 of the paper), or constant (section 3).
    relevance : {"ard", "shared"}
        A prior precision per weight (automatic relevance determination, section 4), or one for all (Eq. 3.9).
    mean_function : {"zero", "constant", "linear"}
        What the model returns to far from all basis functions: the mean of the training targets; a constant learned
        with the weights; or a linear function of the inputs learned with them.
    whitening : {"pca", "scale", "none"}
        Principal components of the scaled inputs, brought to unit variance, all kept (section 6.2); features scaled one
        by one; or inputs as they are.
    weighting : {"likelihood", "precision"}
        What ``sample_weight`` multiplies: the log-likelihood of a row (weight 2 is the row twice; predictive
        variances stay calibrated), or its noise precision, as in the paper (they do not; the rows held out then stop
        training early, so that `validation_fraction` 0 is needed for the paper's behaviour).
    init : {"kmeans", "data", "random"}
        Where basis functions start: cluster centres, training rows, or uniformly in the box that holds the data.
    shape_prior : float
        Strength of the prior that draws the shapes of the basis functions together (with "ANN": the weights of the
        neurons to zero); 0 for the paper's objective.
    validation_fraction : float
        Part of the training rows held out to choose the iterate; 0 for none. Rows held out still enter the final
        posterior of the weights.
    calibrate_noise : bool
        Whether iterates are judged, and the final model is used, with a constant taken off the log noise precision such
        that the rows held out are most likely; noise is only ever added. The optimised shapes over-fit a little, and
        noise estimates come out too small without it.
    coverage : bool
        Whether to learn the density of the training inputs, too. Predictions then have a `coverage`, and their
        variance goes back to that of the training targets where it is low; without, a model is confident where it
        knows nothing (the paper's behaviour).
    recalibrate : {"global", "local", "none"}
        Whether rows held out correct the widths and wings of the predictive distributions: by the same amount for all
        objects, by amounts that depend on the region of the inputs, or not at all (the paper's model). It takes 200
        rows held out, and a gain in cross-validation. Half of the rows held out are then the same for all members.
    missing : {"marginalise", "error"}
        What NaN among the inputs means: an input that was not observed, over which the model takes the expectation
        given the others, with the density of the inputs that it learns in training; or a mistake.
    density_components : int or "auto"
        Gaussians that make up the density of the inputs, used for rows with missing or noisy inputs. "auto" chooses 1
        to 6 by held-out likelihood if training rows are such, and takes one otherwise.
    noise_classes : int
        Classes into which the errors of inputs (`X_std`) are sorted for training; rows of one class share their mean
        error variances. Predictions take the errors of every row as they are.
    n_heads : int
        Gaussians that one model gives for an object; 1 for the paper's model. With more, heads on the same basis
        functions, each with its own mean, noise and weight, are trained on the trained model and take the place of its
        one Gaussian if the rows held out are more likely with them (docs/explanation/mixtures.md).
    n_epochs : int
        Passes over the training rows in which heads are trained, if `n_heads` is greater than 1.
    n_members : int
        Size of the committee: models from different starts and different held-out rows, whose predictions form a
        mixture of Gaussians with equal weights.
    max_iter : int
        Limit on iterations of L-BFGS, per member.
    max_time : float or None
        Limit on wall time in seconds, per member.
    max_evaluations : int or None
        Limit on evaluations of the evidence, per member.
    patience : int
        Iterations without a better validation score after which training stops.
    tol : float
        Relative change of the objective at which training counts as converged.
    memory : int
        Length of the memory of L-BFGS.
    coarse_to_fine : bool
        Whether to train on growing random subsets first when there are many rows. The last stage uses all rows.
    checkpoint : path or None
        File to keep the state of training in (one per member, numbered, if there are several). If it exists, training
        goes on from it; it is removed when training is complete.
    checkpoint_every : int
        Iterations between checkpoints; one is also written when another member of the committee fails.
    keep_checkpoint : bool
        Whether the checkpoint stays when training is complete, until the caller has saved the model.
    callback : callable or None
        Called with a `StepInfo` after every iteration; returning True ends training with the best model so far.
    n_threads : int or None
        Threads to use; all cores if None. Results do not depend on it.
    engine : str, distributed.Client or None
        Dask cluster to train on: "local:N" starts N processes on this machine, "tcp://HOST:PORT" names a scheduler,
        "dask" means the client that this process has; None trains in this process. Workers use the threads they have.
    random_state : int, numpy.random.Generator or None
        Seed of starts and splits.

    Attributes
    ----------
    members_ : list of Member
        The trained models.
    coverage_ : Coverage or None
        Density of the training inputs; None without `coverage`, or with fewer than 20 training rows.
    recalibration_ : Recalibration or None
        What rows held out changed, with their scores before and after; None without.
    report_ : TrainingReport
        How training went (of the first member; ``reports_`` has all).
    n_basis_ : int
        Number of basis functions used.
    n_iter_ : int
        Iterations of the member that took most.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the features, if X had any.

    Notes
    -----
    With ``n_basis="auto"`` there are five training rows for every free number of the basis functions (centre and
    shape), but at least 5 and at most 100 basis functions: fewer waste data, more over-fit (measured; see
    docs/explanation/training.md).

    References
    ----------
    Almosallam, Jarvis & Roberts (2016), MNRAS 462, 726.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> model = GPzRegressor(n_basis=10, random_state=0).fit(X, y)
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
        mean_function: MeanFunction = "constant",
        whitening: WhiteningMethod = "pca",
        weighting: Literal["likelihood", "precision"] = "likelihood",
        init: InitMethod = "kmeans",
        shape_prior: float = 1.0,
        validation_fraction: float = 0.2,
        calibrate_noise: bool = True,
        coverage: bool = True,
        recalibrate: RecalibrationMethod = "global",
        missing: Literal["marginalise", "error"] = "marginalise",
        density_components: int | Literal["auto"] = "auto",
        noise_classes: int = 16,
        n_heads: int = 1,
        n_epochs: int = 80,
        n_members: int = 1,
        max_iter: int = 500,
        max_time: float | None = None,
        max_evaluations: int | None = None,
        patience: int = 40,
        tol: float = 1e-9,
        memory: int = 20,
        coarse_to_fine: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 20,
        keep_checkpoint: bool = False,
        callback: Callable[[StepInfo], bool | None] | None = None,
        n_threads: int | None = None,
        engine: Any = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_basis = n_basis
        self.covariance = covariance
        self.noise = noise
        self.relevance = relevance
        self.mean_function = mean_function
        self.whitening = whitening
        self.weighting = weighting
        self.init = init
        self.shape_prior = shape_prior
        self.validation_fraction = validation_fraction
        self.calibrate_noise = calibrate_noise
        self.coverage = coverage
        self.recalibrate = recalibrate
        self.missing = missing
        self.density_components = density_components
        self.noise_classes = noise_classes
        self.n_heads = n_heads
        self.n_epochs = n_epochs
        self.n_members = n_members
        self.max_iter = max_iter
        self.max_time = max_time
        self.max_evaluations = max_evaluations
        self.patience = patience
        self.tol = tol
        self.memory = memory
        self.coarse_to_fine = coarse_to_fine
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.keep_checkpoint = keep_checkpoint
        self.callback = callback
        self.n_threads = n_threads
        self.engine = engine
        self.random_state = random_state

    # ---------------------------------------------------------------- fitting

    def fit(
        self,
        X: Any,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        *,
        X_std: Any = None,
        validation_data: Validation | None = None,
    ) -> Self:
        """Train on rows in memory, or on those of Dask collections.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            NumPy array, pandas or polars data frame, or astropy table. NaN stands for an input that was not observed;
            see `missing`. A Dask array or data frame is loaded by the workers of `engine`, or read partition by
            partition on every pass if there is none; then `y` and `sample_weight` are Dask collections with the same
            partitions.
        y : array-like of shape (n_samples,)
            Targets (redshifts).
        sample_weight : array-like of shape (n_samples,) or None
            Weights, >= 0; see `weighting`.
        X_std : array-like or table of shape (n_samples, n_features), or None
            Standard errors of the inputs, independent of each other, as input noise: the model is then one of the true
            inputs, and predicts for others with errors of their own. Values beside a NaN of X are not looked at.
        validation_data : (X, y), (X, y, sample_weight) or (X, y, sample_weight, X_std), or None
            Rows to choose the iterate by, instead of a part of the training rows.

        Returns
        -------
        GPzRegressor
            Itself.
        """
        self._check_options()
        if is_lazy(X):
            if X_std is not None:
                raise TypeError(
                    "`X_std` is given with a Dask collection; expected delayed chunks with it: `fit_stream`."
                )
            validate_table(self, lazy.template(X))
            return self._fit_parts(lazy.partitions(X, y, sample_weight), validation_data)
        checked: Any = validate_table(
            self, X, y, y_numeric=True, ensure_min_samples=2, ensure_all_finite=self._all_finite
        )
        X, y = checked
        errors = check_input_errors(X_std, X)
        rows = drop_weightless(
            RawRows(X, np.asarray(y, dtype=np.float64), check_weights(sample_weight, len(X)), errors)
        )
        if len(rows.y) == 0:
            raise ValueError("`sample_weight` is zero for all rows; expected at least two rows with a positive weight.")
        if len(rows.y) < 2:
            raise ValueError(
                f"only {len(rows.y)} sample has a positive `sample_weight`; expected at least 2 to train on."
            )
        self._require_observations(np.asarray(np.isfinite(rows.X).any(axis=0)))
        if self.weighting == "likelihood":
            rows = merge_duplicates(rows)
        valid = None if validation_data is None else self._check_validation(validation_data, errors is not None)

        with self._cluster() as client:

            def member_data(rng: np.random.Generator) -> TrainingData:
                fraction = self.validation_fraction if valid is None else 0.0
                train, held = split_rows(rows, fraction, rng, self._shared_part())
                parts = (train, held if valid is None else valid)
                if client is None:
                    return ArrayData(*parts, valid_is_part=valid is None)
                return SpreadData(client, *parts, valid_is_part=valid is None)

            return self._fit(member_data, len(rows.y))

    def fit_stream(self, source: Iterable[Any], *, validation_data: Validation | None = None) -> Self:
        """Train on rows that are read anew on every pass, in constant memory.

        Parameters
        ----------
        source : iterable of (X, y), (X, y, sample_weight) or (X, y, sample_weight, X_std)
            Chunks of rows; must give the same chunks each time it is iterated over (a list, or an object whose
            ``__iter__`` opens the file again; not a generator). With `engine`, a list of `dask.delayed` chunks, which
            the workers load once and keep in memory.
        validation_data : (X, y), (X, y, sample_weight) or (X, y, sample_weight, X_std), or None
            As in `fit`; by default a random part of every chunk.

        Returns
        -------
        GPzRegressor
            Itself.
        """
        self._check_options()
        if iter(source) is source:
            raise TypeError(
                "`source` can be iterated over only once (a generator); training reads it many times. Give a list, "
                "or an object whose __iter__ starts from the beginning."
            )
        first = next(iter(source), None)
        if first is None:
            raise ValueError("`source` has no chunks; expected at least one (X, y) pair.")
        if is_lazy(first):
            return self._fit_parts(list(source), validation_data, has_template=False)
        if self.engine is not None:
            raise TypeError(
                f"`engine` is {self.engine!r} but the chunks of `source` are in this process; expected a list of "
                "dask.delayed chunks, which workers can load. Use `fit` for rows in memory, or leave out `engine`."
            )
        validate_table(self, first[0], ensure_min_samples=1, ensure_all_finite=self._all_finite)
        return self._fit_chunks(source, validation_data)

    def _fit_chunks(self, source: Iterable[Any], validation_data: Validation | None) -> Self:
        """Train on chunks that are read or computed anew on every pass."""
        is_gap = self.missing == "marginalise"
        chunks = CheckedChunks(source, self.n_features_in_, self._feature_names(), missing=is_gap)
        n, observed, has_errors = 0, np.zeros(self.n_features_in_, dtype=bool), False
        for rows in chunks:
            n += len(rows.y)
            observed |= np.isfinite(rows.X).any(axis=0)
            has_errors = rows.X_std is not None
        self._check_rows(n)
        self._require_observations(observed)
        valid = None if validation_data is None else self._check_validation(validation_data, has_errors)

        def member_data(rng: np.random.Generator) -> TrainingData:
            return StreamData(chunks, self.validation_fraction, valid, self._split_seed(rng))

        return self._fit(member_data, n)

    def _fit_parts(self, sources: list[Any], validation_data: Validation | None, *, has_template: bool = True) -> Self:
        """Train on delayed chunks: loaded by the workers of a cluster, or computed on every pass without one."""
        with self._cluster() as client:
            if not has_template:
                validate_table(self, lazy.head(sources[0], client), ensure_min_samples=0)
            if client is None:
                return self._fit_chunks(sources, validation_data)
            is_gap = self.missing == "marginalise"
            loaded = Partitions(client, sources, self.n_features_in_, self._feature_names(), missing=is_gap)
            valid = None if validation_data is None else self._check_validation(validation_data, loaded.has_errors)
            self._check_rows(loaded.n)
            self._require_observations(loaded.observed)

            def member_data(rng: np.random.Generator) -> TrainingData:
                return PartitionedData(loaded, self.validation_fraction, valid, self._split_seed(rng))

            return self._fit(member_data, loaded.n)

    def _check_options(self) -> None:
        check_options(self)
        check_engine(self.engine)

    def _check_rows(self, n: int) -> None:
        if n < 2:
            raise ValueError(f"`source` has {n} rows with a positive weight; expected at least 2 to train on.")

    def _feature_names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _cluster(self) -> AbstractContextManager[Any]:
        """Client of the cluster to train on, or None."""
        return nullcontext() if self.engine is None else connect(self.engine)

    def _require_observations(self, observed: npt.NDArray[np.bool_]) -> None:
        if not observed.all():
            columns = np.flatnonzero(~observed).tolist()
            raise ValueError(
                f"X has only NaN in feature{'s' if len(columns) > 1 else ''} {columns} (counted from 0); expected "
                "at least one value to learn from. Drop them."
            )

    def _check_validation(self, validation_data: Any, has_errors: bool) -> RawRows:
        if len(validation_data) not in (2, 3, 4):
            raise ValueError(
                f"`validation_data` has {len(validation_data)} parts; expected (X, y), (X, y, weight) or "
                "(X, y, weight, X_std)."
            )
        X, y = validate_table(
            self,
            validation_data[0],
            validation_data[1],
            y_numeric=True,
            reset=False,
            ensure_all_finite=self._all_finite,
        )
        omega = check_weights(validation_data[2] if len(validation_data) > 2 else None, len(y))
        errors = check_input_errors(validation_data[3] if len(validation_data) > 3 else None, X, "`validation_data`: ")
        if has_errors != (errors is not None):
            raise ValueError("`X_std` is given for training or validation rows only; give it for both or none.")
        return drop_weightless(RawRows(X, np.asarray(y, dtype=np.float64), omega, errors))

    def _shared_part(self) -> float:
        """Part of the rows held out that all members have in common, for recalibration."""
        return SHARED_PART if self.recalibrate != "none" and self.n_members > 1 else 0.0

    def _split_seed(self, rng: np.random.Generator) -> int:
        """Seed of the rows of a stream that are held out; the same for all members if these serve to recalibrate."""
        return 0 if self._shared_part() else int(rng.integers(2**31))

    def _learn_recalibration(self, data: TrainingData, rng: np.random.Generator) -> Recalibration | None:
        """Compare predictions for rows held out by all members with their targets."""
        rows = getattr(data, "valid", None)
        if self.recalibrate == "none" or rows is None:
            return None
        if isinstance(data, ArrayData) and data.valid_is_part and self._shared_part():
            rows = rows.take(slice(round(SHARED_PART * len(rows.y))))
        X, y, omega, X_std = rows
        if len(y) < MIN_ROWS:
            return None
        is_local = self.recalibrate == "local" and self.coverage_ is not None
        shares = self.coverage_.shares(X) if is_local and self.coverage_ is not None else None
        return fit_recalibration(self._predict_members(X, Team(self.n_threads), X_std), y, omega, shares, rng)

    def _training_options(self, n: int, d: int) -> TrainingOptions:
        n_basis = self.n_basis
        if n_basis == "auto":
            n_basis = choose_n_basis(n, d, get_structure(self.covariance))
        elif n_basis > n:
            warnings.warn(
                f"`n_basis` is {n_basis}, but there are {n} rows to train on; {n} basis functions are used.",
                DataWarning,
                stacklevel=4,
            )
        return TrainingOptions(
            n_basis=int(min(n_basis, n)),
            covariance=self.covariance,
            heteroscedastic=self.noise == "heteroscedastic",
            relevance=self.relevance == "ard",
            mean_function=self.mean_function,
            whitening=self.whitening,
            weighted_precision=self.weighting == "precision",
            init=self.init,
            shape_prior=self.shape_prior,
            coarse_to_fine=self.coarse_to_fine,
            calibrate_noise=self.calibrate_noise,
            memory=self.memory,
            density_components=None if self.density_components == "auto" else self.density_components,
            noise_classes=self.noise_classes,
            n_heads=self.n_heads,
            n_epochs=self.n_epochs,
            is_alone=self.n_members == 1,
            budget=Budget(
                max_iter=self.max_iter,
                max_evaluations=self.max_evaluations,
                max_time=self.max_time,
                patience=self.patience,
                tolerance=self.tol,
            ),
        )

    def _fit(self, member_data: Callable[[np.random.Generator], TrainingData], n: int) -> Self:
        options = self._training_options(n, self.n_features_in_)
        *generators, other = np.random.default_rng(self.random_state).spawn(self.n_members + 1)
        n_threads = self.n_threads or available_threads()
        n_parallel = min(self.n_members, n_threads) if self.engine is None else 1  # each has the whole cluster
        halt = threading.Event()
        first: list[TrainingData] = []
        sessions: dict[int, Session] = {}

        def train(index: int) -> Member:
            rng = generators[index]
            seed = int(rng.integers(2**63))
            data = member_data(np.random.default_rng(seed))
            if index == 0:
                first.append(data)
            path = self._checkpoint_path(index)
            run = "" if path is None else fingerprint((options, seed), *data.identity())
            session = None if path is None else load_checkpoint(path, run)
            on_step = self._make_on_step(index, path, run, halt, sessions)
            threads = max(1, n_threads // n_parallel)
            try:
                return train_member(
                    data,
                    options,
                    rng,
                    n_threads=threads,
                    session=session,
                    on_step=on_step,
                    on_epoch=self._make_on_epoch(index, path, run, halt, sessions),
                    record=path is not None,
                )
            except ClusterError:
                if path is not None and index in sessions:  # what was computed since the last checkpoint is not lost
                    save_checkpoint(path, sessions[index], run)
                raise

        with single_threaded_blas():
            self.members_ = run_in_parallel(train, self.n_members, n_parallel, halt)
            self.coverage_ = learn_coverage(first[0], other) if self.coverage else None
            self.recalibration_ = self._learn_recalibration(first[0], other)
        if first[0].has_errors:
            rows = first[0].sample(MIXTURE_ROWS, np.random.default_rng(0))
            warn_of_large_errors(rows.X, rows.X_std)
        if not self.keep_checkpoint:
            self.remove_checkpoints()
        self.n_basis_ = options.n_basis
        self.n_iter_ = max(1, *(len(report.history) for report in self.reports_))
        self._warn_if_unfinished()
        return self

    def remove_checkpoints(self) -> None:
        """Delete the checkpoint files of this estimator, if there are any."""
        for index in range(self.n_members):
            path = self._checkpoint_path(index)
            if path is not None and os.path.exists(path):
                os.unlink(path)

    def _checkpoint_path(self, index: int) -> str | None:
        if self.checkpoint is None:
            return None
        path = os.fspath(self.checkpoint)
        return path if self.n_members == 1 else f"{path}.{index}"

    def _make_on_step(
        self, index: int, path: str | None, run: str, halt: threading.Event, sessions: dict[int, Session]
    ) -> Callable[[Session], bool | None]:
        def on_step(session: Session) -> bool | None:
            sessions[index] = session
            progress = session.progress
            step = progress.history[-1]
            if path is not None and (halt.is_set() or step.iteration % self.checkpoint_every == 0):
                save_checkpoint(path, session, run)
            if halt.is_set():
                raise HaltedError
            if self.callback is None:
                return None
            info = StepInfo(
                index,
                session.stage,
                step.iteration,
                step.seconds,
                step.objective,
                step.score,
                progress.best_score,
            )
            return self.callback(info)

        return on_step

    def _make_on_epoch(
        self, index: int, path: str | None, run: str, halt: threading.Event, sessions: dict[int, Session]
    ) -> Callable[[Iteration], bool | None]:
        best = -np.inf

        def on_epoch(step: Iteration) -> bool | None:
            nonlocal best
            if path is not None and step.iteration == 1 and index in sessions:
                save_checkpoint(path, sessions[index], run)  # heads are trained anew from here, to the same result
            if halt.is_set():
                raise HaltedError
            if self.callback is None:
                return None
            best = np.fmax(best, step.score)
            info = StepInfo(index, HEADS_STAGE, step.iteration, step.seconds, step.objective, step.score, best)
            return self.callback(info)

        return on_epoch

    def _warn_if_unfinished(self) -> None:
        unfinished = [report for report in self.reports_ if report.status == "max_iter"]
        if unfinished:
            report = unfinished[0]
            last = report.history[-1]
            warnings.warn(
                f"training of {len(unfinished)} of {self.n_members} models stopped at `max_iter`={self.max_iter} with "
                f"a largest gradient of {last.gradient_norm:.1e}; the best iterate was kept. Raise `max_iter` for a "
                "better fit.",
                ConvergenceWarning,
                stacklevel=4,
            )
