"""Rows with gaps or with uncertain inputs."""
