"""Exceptions and warnings of gpzed; everything a caller may want to catch by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class GPzError(Exception):
    """Base class of all errors that gpzed raises on its own behalf."""


class CatalogError(GPzError, ValueError):
    """Data in a catalogue file is not what was declared (says file, column and row)."""


class SchemaError(GPzError, ValueError):
    """Columns cannot be mapped to bands, errors, redshift, weight or identifier.

    `suggestion` holds the options that are likely to help, by name; the text ends with the call that has them.
    """

    def __init__(self, message: str, suggestion: Mapping[str, Any] | None = None, *, predicting: bool = False) -> None:
        super().__init__(message)
        self.message, self.suggestion, self.predicting = message, dict(suggestion or {}), predicting

    def __str__(self) -> str:
        if not self.suggestion:
            return self.message
        options = ", ".join(f"{name}={_literal(value)}" for name, value in self.suggestion.items())
        call = f"predict(model, data, schema=SchemaConfig({options}))" if self.predicting else f"train(data, {options})"
        return f"{self.message}. Try: gpzed.{call}"


def _literal(value: Any) -> str:
    return repr(tuple(value) if isinstance(value, list) else value)


class ConfigError(GPzError, ValueError):
    """A configuration key or value is unknown or out of range."""


class ModelFormatError(GPzError, ValueError):
    """A model file cannot be read: not a gpzed file, damaged, or of a later version."""


class CheckpointError(GPzError, ValueError):
    """A training checkpoint cannot be resumed: damaged, or made by a different run."""


class TrainingInterruptedError(GPzError):
    """Training was stopped on request; it can be resumed from its checkpoint, if one is kept."""


class NumericalError(GPzError, ArithmeticError):
    """The linear algebra broke down at a point where the model cannot go on."""


class ClusterError(GPzError, RuntimeError):
    """A Dask cluster cannot be reached, was lost, or its workers keep dying."""


class MissingDependencyError(GPzError, ImportError):
    """An optional package is needed; the message says which extra installs it."""


class GPzWarning(UserWarning):
    """Base class of all warnings that gpzed issues."""


class ConvergenceWarning(GPzWarning):
    """Training stopped before it converged."""


class SpeedWarning(GPzWarning):
    """Everything works, but more slowly than it could; the message says why."""


class DataWarning(GPzWarning):
    """Input was usable only after a repair, or is not what the model was made for; the message says which."""
