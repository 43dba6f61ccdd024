"""Thin shells around the pipeline: the command line."""
