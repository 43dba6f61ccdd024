"""Exceptions and warnings of gpzed; everything a caller may want to catch by name."""

from __future__ import annotations


class GPzError(Exception):
    """Base class of all errors that gpzed raises on its own behalf."""


class CatalogError(GPzError, ValueError):
    """Data in a catalogue file is not what was declared (says file, column and row)."""


class SchemaError(GPzError, ValueError):
    """Columns cannot be mapped to bands, errors, redshift, weight or identifier."""


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


class DataWarning(GPzWarning):
    """Input was usable only after a repair, which the message describes and counts."""
