"""The page itself: one HTML file that needs no server, no network and nothing beside it."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import gpzed
from gpzed.evaluation.display import HEADINGS
from gpzed.report.data import ReportData
from gpzed.report.sample import PERCENT

PLOTLY = "plotly-cartesian.min.js"
SCRIPTS = ("unpack.js", "paint.js", "object.js", "figures.js", "report.js")
"""Scripts of the page, in this order."""


def _asset(name: str) -> str:
    return files("gpzed.report").joinpath("assets", name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    """Return text gzipped (always to the same bytes) and as base64, which an HTML page can hold."""
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def render(data: Sequence[ReportData], title: str) -> str:
    """Return the page.

    Parameters
    ----------
    data : sequence of ReportData
        One for each set of predictions, from `gpzed.report.prepare`.
    title : str
        Of the page.

    Returns
    -------
    str
        HTML.

    Notes
    -----
    plotly.js and the numbers are stored compressed and unpacked by the browser (DecompressionStream: all browsers
    since 2023). Equal data give equal pages.
    """
    content: dict[str, Any] = {
        "version": gpzed.__version__,
        "percent": PERCENT.tolist(),
        "headings": [[name, heading] for name, heading, _ in HEADINGS],
        "sets": [one.content for one in data],
    }
    parts = {
        "title": html.escape(title),
        "version": html.escape(gpzed.__version__),
        "style": _asset("report.css"),
        "plotly": _packed(_asset(PLOTLY)),
        "data": _packed(json.dumps(content, allow_nan=False, separators=(",", ":"))),
        "script": "".join(_asset(name) for name in SCRIPTS),
    }
    page = _asset("report.html")
    for name, text in parts.items():
        before, marker, after = page.partition(f"<!--{name}-->")
        while marker:
            page = before + text + after
            before, marker, after = page.partition(f"<!--{name}-->")
    return page
