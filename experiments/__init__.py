"""The paper's experiments and the methods it compares with; run from the root of the repository, not installed."""
