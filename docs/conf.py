"""Settings of the documentation site: `make docs` builds it, with warnings as errors."""

from __future__ import annotations

import inspect
import os
import re
import sys
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

project = "gpzed"
author = "The gpzed developers"
copyright = "2026, the gpzed developers"
release = installed_version("gpzed")
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
nb_execution_mode = "cache"
nb_execution_excludepatterns = ["notebooks/lsst-survey.ipynb"]  # needs RAIL and LSDB: `make notebooks`
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # notebooks call `gpzed`

autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
default_role = "code"

intersphinx_mapping: dict[str, Any] = {}

html_theme = "pydata_sphinx_theme"
html_title = "gpzed"
html_static_path = ["_static"]
html_css_files = ["gpzed.css"]
html_theme_options = {
    "github_url": "https://github.com/gpzed/gpzed",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "secondary_sidebar_items": ["page-toc"],
    "switcher": {"json_url": "_static/versions.json", "version_match": version},
    "check_switcher": False,
    "navbar_start": ["navbar-logo", "version-switcher"],
}

OUTSIDE = re.compile(r"\]\((?:\.\./)+([A-Z]+\.(?:md|cff))(#[\w-]*)?\)")
"""Links to files at the top of the repository, which are not pages of the site."""


def _link_outside(app: Any, page: str, source: list[str]) -> None:
    base = "https://github.com/gpzed/gpzed/blob/main/"
    source[0] = OUTSIDE.sub(lambda found: f"]({base}{found[1]}{found[2] or ''})", source[0])


def _escape(app: Any, command: Any, lines: list[str]) -> None:
    """Help texts are plain; here a bar would begin a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


PACKAGES = {
    "gpzed": "The way in: tables or files to models and redshifts, and the estimator.",
    "gpzed.workflows": "Everything the command line does, as functions.",
    "gpzed.config": "The options of a run.",
    "gpzed.catalog": "Files to tables, and which column is what.",
    "gpzed.features": "Photometry to inputs; cost weights; splits.",
    "gpzed.model": "The estimator and what training reports.",
    "gpzed.prediction": "What may be asked of p(z).",
    "gpzed.evaluation": "Numbers from redshifts and predictions.",
    "gpzed.plots": "Figures from these numbers.",
    "gpzed.simulate": "Surveys with known truth.",
    "gpzed.distributed.lsdb": "HATS catalogues, partition by partition.",
    "gpzed.errors": "Errors and warnings.",
}
"""The public packages, in the order of the reference, each with what it is for."""


MEMBERS = [
    "   :members:",
    "   :inherited-members: BaseEstimator, RegressorMixin, TransformerMixin, tuple, int, object, Exception",
    "   :exclude-members: set_fit_request, set_predict_request, set_score_request, get_metadata_routing, set_output",
]
"""What is shown of a class: its own methods, and none of scikit-learn's."""


def _write_reference(app: Any) -> None:
    """Write a page for each public package: every public name, from its docstring, figures with their picture."""
    folder = Path(app.srcdir) / "reference" / "api"
    calls = dict(re.findall(r"(?ms)^## (plot_\w+)$.*?^```py\n(.*?)\n```$", (folder.parent / "gallery.md").read_text()))
    folder.mkdir(exist_ok=True)
    shown: list[Any] = []
    for package, purpose in PACKAGES.items():
        module = import_module(package)
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items()
            if name[0] != "_" and getattr(value, "__module__", "") == package
        ]  # fmt: skip
        lines = [package, "=" * len(package), "", purpose, "", f".. currentmodule:: {package}", ""]
        for name in names:
            value = getattr(module, name)
            kind = "autoclass" if inspect.isclass(value) else "autofunction" if callable(value) else ""
            if kind and value not in shown:
                lines += [f".. {kind}:: {name}", *MEMBERS * (kind == "autoclass"), ""]
                if name in calls:
                    lines += ["   .. code-block:: python", "", f"      {calls[name]}", ""]
                    lines += [f"   .. image:: ../gallery/{name}.png", ""]
                shown.append(value)
        text, page = "\n".join(lines), folder / f"{package}.rst"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def setup(app: Any) -> None:
    """Write the reference, and follow links out of the site to the repository."""
    app.connect("builder-inited", _write_reference)
    app.connect("source-read", _link_outside)
    app.connect("sphinx-click-process-description", _escape)
