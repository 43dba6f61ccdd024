"""Dask arrays and data frames: cut into partitions to train on, and predicted for without being computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpzed._types import FloatArray


def template(X: Any) -> Any:
    """Two rows that look like those of a Dask array or data frame: the same columns, no data."""
    if hasattr(X, "to_delayed") and hasattr(X, "_meta_nonempty"):
        return X._meta_nonempty
    if getattr(X, "ndim", None) != 2 or not np.isfinite(X.shape[1]):
        raise ValueError(
            f"`X` is a Dask {type(X).__name__} of shape {getattr(X, 'shape', None)}; expected a data frame, or an "
            "array of shape (n_samples, n_features) whose number of features is known."
        )
    return np.zeros((2, X.shape[1]))


def head(source: Any, client: Any = None) -> Any:
    """Fetch the inputs of a delayed chunk, without rows; from a cluster if there is one."""
    import dask

    lazy = dask.delayed(_first)(source)
    return lazy.compute() if client is None else client.compute(lazy).result()


def _first(chunk: Any) -> Any:
    return chunk[0][:0]


def partitions(X: Any, y: Any, sample_weight: Any = None) -> list[Any]:
    """Cut Dask collections into delayed chunks (X, y) or (X, y, sample_weight), one per partition."""
    import dask

    columns = {"X": X, "y": y} | ({} if sample_weight is None else {"sample_weight": sample_weight})
    pieces = {name: _pieces(name, data, X) for name, data in columns.items()}
    counts = {name: len(parts) for name, parts in pieces.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"`X`, `y` and `sample_weight` are cut into different numbers of partitions ({counts}); expected the same "
            "cuts: take them from one data frame, or repartition them."
        )
    return [dask.delayed(tuple)(list(chunk)) for chunk in zip(*pieces.values(), strict=True)]


def _pieces(name: str, data: Any, X: Any) -> list[Any]:
    if not hasattr(data, "to_delayed"):
        raise TypeError(
            f"`X` is a Dask {type(X).__name__} but `{name}` is a {type(data).__name__}; expected Dask collections "
            "throughout. Convert it: dask.array.from_array, or a column of the same data frame."
        )
    if hasattr(data, "chunks"):  # an array
        if data.ndim == 2:
            data = data.rechunk({1: -1})
        elif (
            hasattr(X, "chunks")
            and data.chunks[0] != X.chunks[0]
            and not np.isnan([*data.chunks[0], *X.chunks[0]]).any()
        ):
            if sum(data.chunks[0]) != sum(X.chunks[0]):
                raise ValueError(f"`{name}` has {data.shape[0]} rows but `X` has {X.shape[0]}; expected the same.")
            data = data.rechunk((X.chunks[0],))
    return list(np.ravel(data.to_delayed()))


def predict(model: Any, X: Any, return_std: bool) -> Any:
    """Predict for a Dask array or data frame, lazily; the model travels to every worker once.

    Returns
    -------
    mean : Dask array or series of shape (n_samples,)
    std : Dask array or series of shape (n_samples,)
        Only if `return_std`.
    """
    import dask

    shared = dask.delayed(model, pure=True, traverse=False)
    if hasattr(X, "chunks"):
        import dask.array

        X = X.rechunk({1: -1})
        pieces = np.ravel(X.to_delayed())
        both = [
            dask.array.from_delayed(dask.delayed(_moments)(shared, piece), (size, 2), np.float64)
            for piece, size in zip(pieces, X.chunks[0], strict=True)
        ]
        result = dask.array.concatenate(both, axis=0, allow_unknown_chunksizes=True)
        return (result[:, 0], result[:, 1]) if return_std else result[:, 0]
    import pandas as pd

    meta = pd.DataFrame({"mean": np.empty(0), "std": np.empty(0)}, index=X._meta.index)
    frame = X.map_partitions(_frame_moments, shared, meta=meta, enforce_metadata=False)
    return (frame["mean"], frame["std"]) if return_std else frame["mean"]


def _moments(model: Any, X: Any) -> FloatArray:
    return np.column_stack(model.predict(X, return_std=True))


def _frame_moments(frame: Any, model: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(_moments(model, frame), columns=["mean", "std"], index=frame.index)
