"""Mixture densities: several heads on the same basis functions."""
