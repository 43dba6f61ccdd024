"""Rows with gaps or errors: what is known of their inputs, and what the basis functions make of it."""
