"""All experiments by name, in the order of the paper."""

from __future__ import annotations

from experiments.paper.bench import Experiment
from experiments.paper.bias import BIAS
from experiments.paper.complexity import COMPLEXITY, NETWORK
from experiments.paper.defaults import DEFAULTS
from experiments.paper.fraction import FRACTION
from experiments.paper.metrics import METRICS
from experiments.paper.rejection import IMPROVEMENT, REJECTION
from experiments.paper.scatter import SCATTER
from experiments.paper.sinc import SINC
from experiments.paper.surface import SURFACE
from experiments.paper.times import TIME
from experiments.paper.uncertainty import UNCERTAINTY

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        COMPLEXITY,
        METRICS,
        FRACTION,
        SCATTER,
        REJECTION,
        IMPROVEMENT,
        BIAS,
        UNCERTAINTY,
        TIME,
        NETWORK,
        SINC,
        SURFACE,
        DEFAULTS,
    )
}
