"""Compiled substitutes for the hot paths of the mathematics, and their binding."""
