"""The paper's numbers (Almosallam, Jarvis & Roberts 2016), for comparison."""

from __future__ import annotations

METRICS: dict[str, dict[str, float]] = {
    "TPZ": {"rmse": 0.0628, "mll": 1.21, "fr_0.15": 98.69, "fr_0.05": 68.47},
    "ANNz2": {"rmse": 0.0422, "mll": 1.65, "fr_0.15": 98.77, "fr_0.05": 89.08},
    "SPGP": {"rmse": 0.0427, "mll": 1.95, "fr_0.15": 98.67, "fr_0.05": 90.60},
    "GPGL": {"rmse": 0.0413, "mll": 1.91, "fr_0.15": 98.75, "fr_0.05": 90.45},
    "GPVL": {"rmse": 0.0406, "mll": 1.91, "fr_0.15": 98.79, "fr_0.05": 90.16},
    "GPVC": {"rmse": 0.0388, "mll": 2.00, "fr_0.15": 98.90, "fr_0.05": 91.85},
}
"""Table 1: metrics at 100 basis functions, trees or learners on SDSS DR12."""

IMPROVEMENT: dict[str, dict[str, float]] = {
    "TPZ": {"rmse": 59.87, "mll": 85.76, "fr_0.15": 0.0448, "fr_0.05": 35.36},
    "ANNz2": {"rmse": 27.44, "mll": 58.04, "fr_0.15": 0.0715, "fr_0.05": 2.03},
    "SPGP": {"rmse": 4.29, "mll": 1.91, "fr_0.15": 0.0099, "fr_0.05": 0.326},
    "GPGL": {"rmse": 10.89, "mll": 5.69, "fr_0.15": 0.0149, "fr_0.05": 0.772},
    "GPVL": {"rmse": 10.80, "mll": 5.02, "fr_0.15": 0.0137, "fr_0.05": 0.840},
}
"""Table 2: average relative improvement of GPVC over the others along the rejection curves, per cent."""

STANDS_FOR = {"forest": "TPZ", "randomised": "ANNz2"}
"""Our stand-ins for methods of the paper whose code is not available."""

SECONDS = {"ANN": 1241.0, "SPGP": 125.0, "GPGL": 88.0, "GPVL": 88.0, "GPVC": 152.0, "forest": 3.0, "TPZ": 6402.0}
"""Section 7.6: seconds to train on 100,000 rows: 500 iterations of 5 basis functions or neurons (ANNz2), or 5 trees."""

SURFACE = {"GPVC": 0.0589, "GPVD": 0.1140, "GPVL": 0.1305, "GPGC": 0.1077, "GPGD": 0.1290, "GPGL": 0.1363}
"""Figure C3: RMSE of the six structures with three basis functions each."""
