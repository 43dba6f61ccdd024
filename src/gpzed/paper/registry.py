"""All experiments by name, in the order of the paper."""

from __future__ import annotations

from gpzed.paper.bench import Experiment
from gpzed.paper.bias import BIAS
from gpzed.paper.complexity import COMPLEXITY, NETWORK
from gpzed.paper.defaults import DEFAULTS
from gpzed.paper.fraction import FRACTION
from gpzed.paper.metrics import METRICS
from gpzed.paper.rejection import IMPROVEMENT, REJECTION
from gpzed.paper.scatter import SCATTER
from gpzed.paper.sinc import SINC
from gpzed.paper.surface import SURFACE
from gpzed.paper.times import TIME
from gpzed.paper.uncertainty import UNCERTAINTY

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
