"""`gpzed survey`."""

from __future__ import annotations

from typing import Any

import click

from gpzed.cli.console import Terminal
from gpzed.cli.options import common, load, schema_options, with_schema
from gpzed.errors import ConfigError
from gpzed.workflows.survey import SurveyOptions, SurveyReport, survey, write_table

SHOWN = 10


@click.command("survey")
@click.argument("model", metavar="MODEL")
@click.argument("catalogue", metavar="FILE")
@click.option("--cells-table", "-o", help="Table of cells to write: .csv, .parquet, .fits or .hdf5.")
@click.option("--objects", help="Table of objects worth a spectrum to write.")
@click.option("--figure", help="Map of the cells to write: .pdf, .svg or .png.")
@click.option("--n-spectra", type=int, default=100, show_default=True, help="Objects to choose for spectra.")
@click.option("--max-magnitude", type=float, help="Faintest magnitude of which a spectrum can be taken.")
@click.option("--magnitude", help="Band of the magnitude. Default: the middle one.")
@click.option("--colour", help="Colour: g-i. Default: the neighbours of the middle band.")
@click.option("--cells", type=int, default=10, show_default=True, help="Cells along each axis.")
@click.option("--per-cell", type=int, default=10, show_default=True, help="Spectra that a cell's gain is for.")
@click.option("--max-objects", type=int, default=20_000, show_default=True, help="Objects that stand for all of FILE.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random choices.")
@schema_options
@common
def command(model: str, catalogue: str, **given: Any) -> int:
    """Say where spectra, and where deeper bands, would lower the uncertainty of FILE most.

    Cells of colour and magnitude are ranked by the fall of the summed variance that spectra there would bring. The
    objects worth a spectrum represent, together, what the training rows do not; those that gain most come first.
    """
    terminal = Terminal(given["quiet"])
    report = survey(
        model,
        catalogue,
        SurveyOptions(
            given["magnitude"],
            _bands(given["colour"]),
            given["cells"],
            given["n_spectra"],
            given["per_cell"],
            given["max_objects"],
            given["max_magnitude"],
            given["seed"],
        ),
        schema=with_schema(load(None), given).schema,
    )
    for table, path in ((report.cells, given["cells_table"]), (report.objects, given["objects"])):
        if path:
            write_table(table, path)
            terminal.say(f"wrote {path}")
    if given["figure"]:
        from gpzed.plots import plot_survey, save_figure

        save_figure(plot_survey(report.cells, report.magnitude, "-".join(report.colour)), given["figure"])
        terminal.say(f"wrote {given['figure']}")
    if given["as_json"]:
        terminal.json(report.to_dict())
    else:
        for line in _lines(report):
            terminal.result(line)
    return 0


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
        f"{100.0 * total / report.variance:.1f} %",
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
