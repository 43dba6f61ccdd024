"""gpzed as RAIL stages: `GPZedInformer` and `GPZedEstimator`."""

from rail.estimation.algos.gpzed import GPZedEstimator, GPZedInformer, GPZedModelHandle

__all__ = ["GPZedEstimator", "GPZedInformer", "GPZedModelHandle"]
