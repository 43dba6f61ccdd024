"""Everything measured: experiments, their records in docs/results, and the tables of the pages (`make results`)."""
