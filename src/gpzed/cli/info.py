"""`gpzed info`."""

from __future__ import annotations

from typing import Any

import click

from gpzed._files import file_hash
from gpzed.catalog import PhotometrySchema, local_path
from gpzed.catalog.units import name_of
from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import common
from gpzed.features import flag_legend
from gpzed.model import GPzRegressor
from gpzed.workflows import PhotozModel, load_model
from gpzed.workflows.columns import POINTS
from gpzed.workflows.redshifts import Limits

SHOWN = {"pit_ks": "PIT KS", "mll": "MLL"}
"""Scores of the recalibration that are shown."""
CITATION = "Almosallam, Jarvis & Roberts (2016), MNRAS 462, 726"

EXAMPLES = (
    "gpzed info galaxies.gpzed",
    "gpzed info galaxies.gpzed --json > galaxies.json",
)


@click.command("info", cls=Command, examples=EXAMPLES)
@click.argument("model", metavar="MODEL")
@common
def command(model: str, **given: Any) -> int:
    """Show what MODEL, a file written by `gpzed train` or by `GPzRegressor.save`, holds."""
    terminal = Terminal(given["quiet"])
    stored = load_model(model)
    facts: dict[str, Any] = {"file": model, "sha256": file_hash(local_path(model))}
    if isinstance(stored, PhotozModel):
        facts |= _estimator(stored.regressor) | _pipeline(stored)
        lines = _estimator_lines(facts) | _pipeline_lines(facts)
    else:
        facts |= _estimator(stored)
        lines = _estimator_lines(facts) | {
            "saved by": "GPzRegressor.save: no schema and features; use it from Python with gpzed.load_model"
        }
    if given["as_json"]:
        terminal.json(facts)
        return 0
    for name, text in {**lines, "please cite": CITATION}.items():
        terminal.result(f"{name:>14}: {text}")
    if "flags" in facts:
        terminal.result("         flags:")
        for name, text in facts["flags"].items():
            terminal.result(f"                {name}: {text}")
    return 0


def _estimator_lines(facts: dict[str, Any]) -> dict[str, str]:
    names = facts["features"] or []
    return {
        "model": f"{facts['file']} (sha256 {facts['sha256'][:16]}...)",
        "inputs": ", ".join(names) if names else f"{facts['n_features']}, without names",
        "structure": f"{facts['covariance']}, {facts['n_members']} x {facts['n_basis']} basis functions, "
        f"{_count(facts['n_heads'], 'head')}, {_count(facts['n_networks'], 'network')}",
        "training": ", ".join(f"{m['status']} after {m['iterations']} steps" for m in facts["members"]),
        "wrong labels": _wrong_labels_line(facts["wrong_rate"], facts["wrong_rate_is_learned"]),
        "recalibrated": _recalibration_line(facts["recalibration"]),
    }


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _wrong_labels_line(rate: float, is_learned: bool) -> str:
    if rate > 0.0:
        return f"{100.0 * rate:.2g} % of the targets, {'learned' if is_learned else 'as given'}"
    return "none assumed"  # whether any were looked for depends on how the rows came


def _recalibration_line(found: dict[str, Any] | None) -> str:
    if found is None:
        return "no"
    if not found["changed"]:
        return f"not needed, by {found['rows']:,} held-out rows"
    changes = (f"{name} {found['before'][key]:.4f} -> {found['after'][key]:.4f}" for key, name in SHOWN.items())
    return f"{found['method']}, by {found['rows']:,} held-out rows: {', '.join(changes)}"


def _pipeline_lines(facts: dict[str, Any]) -> dict[str, str]:
    provenance = facts["provenance"]
    rows, (low, high) = provenance["rows"], provenance["redshift_range"]
    return {
        "gpzed version": provenance["gpzed_version"],
        "trained on": f"{provenance['catalogue']}, {rows['train']:,} of {rows['read']:,} rows",
        "target": facts["target"] or "none",
        "date": provenance["date"],
        "bands": ", ".join(facts["bands"]),
        "photometry": facts["photometry"],
        "errors": provenance["errors"],
        "z_phot": f"{facts['point']}, by default: {POINTS[facts['point']]}",
        "redshifts": f"{low:.4g} to {high:.4g}, mean {facts['redshift_mean']:.4f}, "
        f"standard deviation {facts['redshift_std']:.4f}; limits: {facts['redshift_limits']}",
    }


def _estimator(model: GPzRegressor) -> dict[str, Any]:
    names, found = getattr(model, "feature_names_in_", None), model.recalibration_
    recalibration = None
    if found is not None:
        about = {"method": model.calibrate, "changed": found.changes, "rows": found.n_rows}
        recalibration = {**about, "before": found.before, "after": found.after}
    return {
        "recalibration": recalibration,
        "features": None if names is None else [str(name) for name in names],
        "n_features": model.n_features_in_,
        "covariance": model.covariance,
        "n_basis": model.n_basis_,
        "n_members": len(model.members_),
        "n_heads": max(member.n_heads for member in model.members_),
        "n_networks": len(model.networks_),
        "wrong_rate": model.wrong_rate_,
        "wrong_rate_is_learned": model.wrong_labels == "auto" and model.wrong_rate_ > 0.0,
        "members": [
            {"status": report.status, "iterations": len(report.history), "seconds": report.seconds}
            for report in model.reports_
        ],
    }


def _pipeline(trained: PhotozModel) -> dict[str, Any]:
    cuts = trained.config.split
    return {
        "photometry": _photometry(trained.schema),
        "target": trained.config.target.catalogue or None,
        "point": trained.asked().point,
        "redshift_limits": str(Limits.of(cuts.min_redshift, cuts.max_redshift, "as asked")),
        "bands": list(trained.schema.bands),
        "schema": trained.schema.to_dict(),
        "features": list(trained.transformer.names),
        "redshift_mean": trained.redshift_mean,
        "redshift_std": trained.redshift_variance**0.5,
        "config": trained.config.to_dict(),
        "provenance": trained.provenance,
        "flags": flag_legend(),
    }


def _photometry(schema: PhotometrySchema) -> str:
    """Say in what the photometry of training was."""
    kind = {"magnitude": "magnitudes", "flux": "fluxes"}[str(schema.kind)]
    said = dict.fromkeys(schema.units[column] for column in schema.values.values() if column in schema.units)
    if said:
        return f"{kind}, in {', '.join(said)}"
    if schema.kind == "flux" and schema.zero_point is not None:
        return f"{kind}, in {name_of(schema.zero_point)}, which the catalogue did not say"
    return f"{kind}, without a unit"
