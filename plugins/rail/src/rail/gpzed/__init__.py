"""gpzed as RAIL stages: `GPZedInformer` and `GPZedEstimator`, and the same under the options of RAIL's GPz."""

from rail.estimation.algos.gpzed import GPZedEstimator, GPZedInformer, GPZedModelHandle
from rail.estimation.algos.gpzed_compat import GPzCompatEstimator, GPzCompatInformer

__all__ = ["GPZedEstimator", "GPZedInformer", "GPZedModelHandle", "GPzCompatEstimator", "GPzCompatInformer"]
