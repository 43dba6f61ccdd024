"""Tables and summaries that several commands print."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from gpzed.adapters.cli.console import Terminal
from gpzed.catalog import PhotometrySchema, SentinelReport
from gpzed.config import RunConfig
from gpzed.features import Flag
from gpzed.pipeline import TrainingPlan

#: Metrics of the tables: name, heading, format, and which way is better.
HEADINGS = (
    ("n", "n", ",.0f"),
    ("rmse", "RMSE", ".4f"),
    ("mll", "MLL", ".3f"),
    ("fr_0.15", "FR0.15 %", ".2f"),
    ("fr_0.05", "FR0.05 %", ".2f"),
    ("bias", "bias", "+.5f"),
    ("sigma_nmad", "sigma_NMAD", ".4f"),
    ("crps", "CRPS", ".4f"),
    ("cde_loss", "CDE loss", ".2f"),
    ("pit_ks", "PIT KS", ".4f"),
    ("coverage_68", "in 68 %", ".3f"),
    ("coverage_95", "in 95 %", ".3f"),
)


def metrics_table(scores: Mapping[str, Mapping[str, float]], what: str) -> Table:
    """Return metrics as a table: one line per metric, the sets of predictions side by side."""
    table = Table(what, *scores, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
        column.overflow = "fold"
    for key, heading, style in HEADINGS:
        table.add_row(heading, *(format(metrics[key], style) for metrics in scores.values()))
    return table


def show_schema(terminal: Terminal, schema: PhotometrySchema) -> None:
    """Tell which column is taken for what."""
    terminal.say(f"columns (recognised as {schema.convention}):")
    for band in schema.bands:
        parts = [schema.values[band], schema.errors.get(band, "no error"), schema.flag.get(band, "")]
        terminal.say(f"  {schema.kind} {band}: {', '.join(part for part in parts if part)}")
    others = [(role, getattr(schema, role)) for role in ("redshift", "id", "weight", "ebv")]
    terminal.say("  " + ", ".join(f"{role}: {column or 'none'}" for role, column in others))


def show_sentinels(terminal: Terminal, report: SentinelReport | None) -> None:
    """Tell how many values are no measurements, and why."""
    if report is None:
        return
    if not report.n_rows:
        terminal.say("the catalogue has no rows")
        return
    if not report.n_missing:
        terminal.say(f"all {report.n_rows:,} rows have measurements in all bands")
        return
    for line in str(report).splitlines():
        terminal.say(f"  {line}")


def show_flags(terminal: Terminal, flags: Mapping[str, int], what: str) -> None:
    """Tell how many rows needed a repair or a caution."""
    for name, count in flags.items():
        terminal.say(f"  {what} flagged {name} ({int(Flag[name])}): {count:,}")


def show_redshifts(terminal: Terminal, used: tuple[float, float], none: Mapping[str, int]) -> None:
    """Tell which redshifts are used, and what stood in the place of the others."""
    terminal.say(f"redshifts used: {used[0]:.4g} to {used[1]:.4g}")
    for cause, count in none.items():
        terminal.say(f"  no redshift ({cause}): {count:,}")


def show_plan(terminal: Terminal, plan: TrainingPlan, config: RunConfig) -> None:
    """Tell what training will do."""
    show_schema(terminal, plan.schema)
    show_sentinels(terminal, plan.sentinels)
    left_out = {reason: plan.counts[reason] for reason in ("no redshift", "redshift out of range", "no band measured")}
    dropped = ", ".join(f"{count:,} with {reason}" for reason, count in left_out.items() if count)
    terminal.say(f"rows: {plan.counts['read']:,} read" + (f"; left out: {dropped}" if dropped else ""))
    parts = ", ".join(f"{plan.counts[part]:,} {part}" for part in ("train", "validation", "test") if plan.counts[part])
    terminal.say(f"      {parts}")
    show_redshifts(terminal, plan.redshift_range, plan.no_redshift)
    show_flags(terminal, plan.flags, "training rows")
    terminal.say(f"inputs: {', '.join(plan.features)}")
    model = config.model
    terminal.say(
        f"model: {model.covariance}, {model.n_basis} basis functions, {model.n_members} member(s), seed {config.seed}; "
        f"weights: {config.weights.method}"
    )
