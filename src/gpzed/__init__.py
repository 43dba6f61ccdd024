"""Photometric redshifts with uncertainties you can trust: GPz (Almosallam, Jarvis & Roberts 2016)."""

from __future__ import annotations

__version__ = "0.1.0"
