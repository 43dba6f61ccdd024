"""The mathematics of GPz: pure functions on float64 arrays, NumPy and SciPy only."""
