"""Tables and summaries that several commands print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Column, Table

from gpzed.catalog import PhotometrySchema, SentinelReport
from gpzed.catalog.units import name_of
from gpzed.cli.console import Terminal
from gpzed.config import RunConfig
from gpzed.evaluation import BinnedMetrics, RejectionCurve
from gpzed.evaluation.display import HEADINGS
from gpzed.features import Flag
from gpzed.workflows import TrainingPlan


def numbers_table(*headings: str) -> Table:
    """Return an empty table: a name in the first column, numbers in the others."""
    first, *others = headings
    return Table(first, *(Column(heading, justify="right") for heading in others), box=None, pad_edge=False)


def metrics_table(
    scores: Mapping[str, Mapping[str, float]],
    what: str,
    errors: Mapping[str, Mapping[str, float]] | None = None,
    headings: Sequence[tuple[str, str, str]] = HEADINGS,
) -> Table:
    """Return metrics as a table: one line per metric, the sets of predictions side by side, errors behind them."""
    table = numbers_table(what, *scores)
    for column in table.columns[1:]:
        column.overflow = "fold"
    for key, heading, style in headings:
        cells = []
        for name, metrics in scores.items():
            error = (errors or {}).get(name, {}).get(key)
            more = "" if error is None else f" ± {format(error, style.lstrip('+'))}"
            cells.append(format(metrics[key], style) + more)
        table.add_row(heading, *cells)
    return table


def _short() -> dict[str, tuple[str, str]]:
    """Return headings, short enough for narrow columns, and formats."""
    return {key: (heading.removesuffix(" of dz/(1+z)"), style) for key, heading, style in HEADINGS}


def bins_table(bins: BinnedMetrics, label: str) -> list[Table]:
    """Return metrics in bins, one table per fraction kept."""
    tables = []
    styles = _short()
    for i, fraction in enumerate(bins.fractions):
        table = numbers_table(f"{label}, {100 * fraction:g} % kept", "n", *(styles[name][0] for name in bins.values))
        for b in range(len(bins.edges) - 1):
            if bins.counts[i, b]:
                values = (format(bins.values[name][i, b], styles[name][1]) for name in bins.values)
                low, high = bins.edges[b : b + 2]
                table.add_row(f"{low:.4g} to {high:.4g}", f"{bins.counts[i, b]:,}", *values)
        tables.append(table)
    return tables


def rejection_table(curves: Mapping[str, RejectionCurve], label: str, percent: Sequence[int]) -> Table:
    """Return metrics at some percentages kept, and their mean over all."""
    styles = _short()
    table = numbers_table(label, *(f"{p} %" for p in percent), "mean")
    for name, curve in curves.items():
        at = [curve.values[abs(curve.fractions - p / 100).argmin()] for p in percent]
        table.add_row(styles[name][0], *(format(value, styles[name][1]) for value in (*at, curve.area)))
    return table


def show_schema(terminal: Terminal, schema: PhotometrySchema, unknown: Mapping[str, str] | None = None) -> None:
    """Tell which column is taken for what; of the `unknown` ones the catalogue says no unit, or this strange one."""
    unknown = unknown or {}
    terminal.say(f"columns (recognised as {schema.convention}):")
    for band in schema.observed:
        parts = [schema.values[band], schema.errors.get(band, "no error"), schema.flag.get(band, "")]
        unit = said = schema.units.get(schema.values[band])
        if schema.values[band] in unknown:
            strange = unknown[schema.values[band]]
            why = f"'{strange}' is no unit of photometry" if strange else "no unit"
            said = f"{why}; taken as in training: {unit}"
        terminal.say(
            f"  {schema.kind} {band}: {', '.join(part for part in parts if part)}{f' [{said}]' if unit else ''}"
        )
    if schema.absent:
        terminal.say(f"  taken as not observed: {', '.join(schema.absent)}")
    if schema.kind == "flux" and schema.zero_point is not None and not schema.units:
        terminal.say(f"  unit: {name_of(schema.zero_point)}{', which the catalogue does not say' if unknown else ''}")
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


def show_redshifts(
    terminal: Terminal, used: tuple[float, float], none: Mapping[str, int], limits: object = None
) -> None:
    """Tell which redshifts are used, and what stood in the place of the others."""
    terminal.say(f"redshifts used: {used[0]:.4g} to {used[1]:.4g}" + (f"; limits: {limits}" if limits else ""))
    for cause, count in none.items():
        terminal.say(f"  no redshift ({cause}): {count:,}")


def show_labels(terminal: Terminal, plan: TrainingPlan) -> None:
    """Tell what was learned of redshift columns and quality flags."""
    for column, found in plan.labels.items():
        if "rows_used" not in found:
            rates = ", ".join(f"{100 * rate:.1f} % of {value}" for value, rate in found.items())
            terminal.say(f"  wrong redshifts by '{column}': {rates}")
            continue
        terminal.say(
            f"  {found['rows_used']:,} redshifts from '{column}': scatter {found['scatter']:.4f} (1+z), "
            f"{100 * found['wrong']:.1f} % wrong at magnitude {found['magnitude']:.1f}, by {found['rows_with_both']:,} "
            "rows with a better one"
        )


def show_plan(terminal: Terminal, plan: TrainingPlan, config: RunConfig) -> None:
    """Tell what training will do."""
    show_schema(terminal, plan.schema)
    show_sentinels(terminal, plan.sentinels)
    parts_of_split = ("read", "train", "validation", "test")
    left_out = {reason: count for reason, count in plan.counts.items() if reason not in parts_of_split}
    if plan.out_of_range:
        del left_out["redshift out of range"]
        left_out |= plan.out_of_range
    dropped = ", ".join(f"{count:,} with {reason}" for reason, count in left_out.items() if count)
    terminal.say(f"rows: {plan.counts['read']:,} read" + (f"; left out: {dropped}" if dropped else ""))
    parts = ", ".join(f"{plan.counts[part]:,} {part}" for part in ("train", "validation", "test") if plan.counts[part])
    terminal.say(f"      {parts}")
    show_redshifts(terminal, plan.redshift_range, plan.no_redshift)
    show_labels(terminal, plan)
    show_flags(terminal, plan.flags, "training rows")
    terminal.say(f"inputs: {', '.join(plan.features)}")
    terminal.say(f"errors: {plan.errors}")
    model = config.model
    terminal.say(
        f"model: {model.covariance}, {model.n_basis} basis functions, {model.n_members} member(s), seed {config.seed}; "
        f"weights: {config.weights.method}"
    )
    for line in str(plan.target or "").splitlines():
        terminal.say(line)
