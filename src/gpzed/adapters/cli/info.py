"""`gpzed info`."""

from __future__ import annotations

from typing import Any

import click

from gpzed.adapters.cli.console import Terminal
from gpzed.adapters.cli.options import common
from gpzed.features import flag_legend
from gpzed.pipeline import TrainedPipeline, load_pipeline, model_hash

CITATION = "Almosallam, Jarvis & Roberts (2016), MNRAS 462, 726"


@click.command("info")
@click.argument("model", metavar="MODEL")
@common
def command(model: str, **given: Any) -> int:
    """Show what MODEL, a file written by `gpzed train`, holds."""
    terminal = Terminal(given["quiet"])
    facts = _facts(load_pipeline(model), model)
    if given["as_json"]:
        terminal.json(facts)
        return 0
    rows = facts["provenance"]["rows"]
    lines = {
        "model": f"{model} (sha256 {facts['sha256'][:16]}...)",
        "gpzed version": facts["provenance"]["gpzed_version"],
        "trained on": f"{facts['provenance']['catalogue']}, {rows['train']:,} of {rows['read']:,} rows",
        "date": facts["provenance"]["date"],
        "bands": ", ".join(facts["bands"]),
        "inputs": ", ".join(facts["features"]),
        "structure": f"{facts['covariance']}, {facts['n_members']} x {facts['n_basis']} basis functions",
        "training": ", ".join(f"{m['status']} after {m['iterations']} steps" for m in facts["members"]),
        "redshifts": f"mean {facts['redshift_mean']:.4f}, standard deviation {facts['redshift_std']:.4f}",
        "please cite": CITATION,
    }
    for name, text in lines.items():
        terminal.result(f"{name:>14}: {text}")
    terminal.result("         flags:")
    for name, text in flag_legend().items():
        terminal.result(f"                {name}: {text}")
    return 0


def _facts(trained: TrainedPipeline, path: str) -> dict[str, Any]:
    model = trained.model
    return {
        "file": path,
        "sha256": model_hash(path),
        "bands": list(trained.schema.bands),
        "schema": trained.schema.to_dict(),
        "features": list(trained.transformer.names),
        "covariance": model.covariance,
        "n_basis": model.n_basis_,
        "n_members": len(model.members_),
        "members": [
            {"status": report.status, "iterations": len(report.history), "seconds": report.seconds}
            for report in model.reports_
        ],
        "redshift_mean": trained.redshift_mean,
        "redshift_std": trained.redshift_variance**0.5,
        "config": trained.config.to_dict(),
        "provenance": trained.provenance,
        "flags": flag_legend(),
    }
