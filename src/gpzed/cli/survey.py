"""`gpzed survey`."""

from __future__ import annotations

from typing import Any

import click

from gpzed.catalog import write_catalog
from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import check_outputs, common, field_options, load, schema_options, values_of, with_schema
from gpzed.errors import ConfigError
from gpzed.workflows.survey import SurveyOptions, SurveyReport, survey

SHOWN = 10

EXAMPLES = (
    "gpzed survey galaxies.gpzed survey.fits --objects targets.csv  # the hundred objects most worth a spectrum",
    "gpzed survey galaxies.gpzed survey.fits --figure cells.pdf --max-magnitude 22.5  # within reach of the telescope",
)


@click.command("survey", cls=Command, examples=EXAMPLES)
@click.argument("model", metavar="MODEL")
@click.argument("catalogue", metavar="FILE")
@click.option("--cells-table", "-o", help="Table of cells to write: .csv, .parquet, .fits or .hdf5.")
@click.option("--objects", help="Table of objects worth a spectrum to write.")
@click.option("--figure", help="Map of the cells to write: .pdf, .svg or .png.")
@field_options(SurveyOptions, "n_spectra", "max_magnitude", "magnitude", "cells", "per_cell", "max_objects", "seed")
@click.option("--colour", help="Colour: g-i. Default: well-measured bands on either side.")
@schema_options
@common
def command(model: str, catalogue: str, **given: Any) -> int:
    """Say where spectra, and where deeper bands, would lower the uncertainty of FILE most.

    Cells of colour and magnitude are ranked by the fall of the summed variance that spectra there would bring. The
    objects worth a spectrum represent, together, what the training rows do not; those that gain most come first.
    """
    terminal = Terminal(given["quiet"])
    check_outputs([model, catalogue], given["cells_table"], given["objects"], given["figure"])
    report = survey(
        model,
        catalogue,
        SurveyOptions(**values_of(SurveyOptions, given), colour=_bands(given["colour"])),
        schema=with_schema(load(None), given).schema,
    )
    terminal.save(given["cells_table"], lambda path: write_catalog(report.cells, path))
    terminal.save(given["objects"], lambda path: write_catalog(report.objects, path))
    terminal.save(given["figure"], lambda path: _draw(report, path))
    terminal.answer(given["as_json"], report.to_dict(), _lines(report))
    return 0


def _draw(report: SurveyReport, path: str) -> None:
    from gpzed.plots import plot_survey, save_figure

    save_figure(plot_survey(report.cells, report.magnitude, "-".join(report.colour)), path)


def _bands(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    parts = text.split("-")
    if len(parts) != 2 or not all(parts):
        raise ConfigError(f"--colour {text} is no colour; expected two bands, like g-i")
    return parts[0].strip(), parts[1].strip()


def _lines(report: SurveyReport) -> list[str]:
    cells, objects = report.cells, report.objects
    total = float(objects["gain_total"][-1])
    colour = "-".join(report.colour)
    lines = [
        f"{report.n_used:,} of {report.n_rows:,} objects; {len(objects)} spectra lower the summed variance by "
        f"{100.0 * total / report.variance:.2g} %",
        f"rank  {report.magnitude:>13}  {colour:>13}  objects  coverage  z_std  gain per spectrum, % of all",
    ]
    for k in range(min(SHOWN, len(cells))):
        row = {name: float(cells[name][k]) for name in cells.names}
        lines.append(
            f"{k + 1:4d}  {row['magnitude_low']:6.2f}-{row['magnitude_high']:6.2f}  "
            f"{row['colour_low']:6.2f}-{row['colour_high']:6.2f}  {row['n_objects']:7.0f}  {row['coverage']:8.3f}  "
            f"{row['z_std']:.3f}  {100.0 * row['gain_per_spectrum'] / report.variance:.4f}"
        )
    return lines
