"""Where rows live, how sums over them are made, and the optimisers; no mathematics."""
