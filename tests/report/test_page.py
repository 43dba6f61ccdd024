"""The page in a real, headless Chromium: numbers, slider, hover, colours, phone, and no word to the network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpzed.cli import main
from gpzed.evaluation.display import HEADINGS, shown
from gpzed.workflows import EvaluationOptions, evaluate, predict, train, write_report
from report_pages import browser, prediction_table
from workflows.galaxy_files import galaxies, quick_config, write

WAIT = 120_000
Open = Callable[..., Any]
#: Seconds from a movement of the slider until all that it moves is painted, for each of some positions.
PAINT_TIMES = """async (positions) => { const keep = document.getElementById('keep'), seconds = [];
    for (const position of positions) {
        const started = performance.now();
        keep.value = position;
        keep.dispatchEvent(new Event('input'));
        while (document.body.dataset.painted != position) await new Promise((then) => setTimeout(then, 1));
        seconds.push((performance.now() - started) / 1000);
    }
    return seconds }"""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.fixture
def open_page(chrome: Any) -> Iterator[Open]:
    """Return a function that opens a page and waits until it is drawn; no errors and no requests are allowed."""
    contexts, troubles = [], []

    def open_it(path: Path, **options: Any) -> Any:
        context = chrome.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else troubles.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready=yes]", timeout=WAIT, state="attached")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    tables = {
        "many": prediction_table(6000),
        "other": prediction_table(6000, seed=1),
        "few": prediction_table(300),
        "blind": prediction_table(3000, truth=False),
    }
    found = {name: write(table, folder / f"{name}.parquet") for name, table in tables.items()}
    for name in tables:
        write_report([found[name]], folder / f"{name}.html")
    write_report([found["many"], found["other"]], folder / "both.html", training=found["few"])
    return {path.name: path for path in folder.iterdir()}


def move(page: Any, percent: int) -> None:
    """Move the slider as a hand would, and wait until all is drawn."""
    page.locator("#keep").fill(str(percent))
    page.wait_for_selector(f'body[data-at="{percent}"]', timeout=WAIT, state="attached")


def expected(path: Path, percent: int) -> dict[str, str]:
    """Return what `gpzed evaluate --keep` says."""
    result = evaluate(path, EvaluationOptions(keep=percent / 100))
    return shown({**result.metrics, "n": result.n_used})


@pytest.mark.parametrize("name", ["many", pytest.param("few", marks=pytest.mark.slow)])
def test_numbers_equal_those_of_evaluate_at_every_position(name: str, files: dict[str, Path], open_page: Open) -> None:
    page = open_page(files[f"{name}.html"])
    for percent in (100, 63, 7):
        if percent != 100:
            move(page, percent)
        assert page.locator("#percent").text_content() == f"{percent} %"
        wanted = expected(files[f"{name}.parquet"], percent)
        for metric, _, _ in HEADINGS:
            assert page.locator(f'#scores tr[data-metric="{metric}"] td').nth(1).text_content() == wanted[metric]
        for metric in ("rmse", "fr_0.15", "fr_0.05", "bias", "sigma_nmad", "mll", "coverage_68", "n"):
            assert page.locator(f'.tile[data-metric="{metric}"] b').text_content() == wanted[metric]


def test_the_slider_moves_scatter_and_redshifts(files: dict[str, Path], open_page: Open) -> None:
    page = open_page(files["many.html"])
    total = "() => document.getElementById('scatter').data[0].customdata.flat().reduce((a, b) => a + b, 0)"
    drawn = "() => document.getElementById('scatter').data[1].x.length"
    curve = "() => document.getElementById('nz').data[1].y.join()"
    before = (page.evaluate(total), page.evaluate(drawn), page.evaluate(curve))
    assert 5950 < before[0] <= 6000
    move(page, 40)
    after = (page.evaluate(total), page.evaluate(drawn), page.evaluate(curve))
    assert 2380 < after[0] <= 2400
    assert 0 < after[1] < before[1]
    assert after[2] != before[2]
    move(page, 100)
    assert (page.evaluate(total), page.evaluate(drawn), page.evaluate(curve)) == before
    page.locator("#colour").select_option("std")
    colours = page.evaluate("() => document.getElementById('scatter').data[0].z.flat().filter(v => v !== null)")
    std = np.log10(prediction_table(6000)["z_std"])
    assert std.min() - 0.1 < min(colours) < max(colours) < std.max() + 0.1


def test_while_the_slider_moves_figures_are_painted_and_then_drawn(files: dict[str, Path], open_page: Open) -> None:
    page = open_page(files["many.html"])
    sheets = "() => [...document.querySelectorAll('canvas.moving')].map(sheet => sheet.parentNode.id)"
    inked = """() => [...document.querySelectorAll('canvas.moving')].every(sheet =>
        sheet.getContext('2d').getImageData(0, 0, sheet.width, sheet.height).data.some(v => v > 0))"""
    assert page.evaluate(sheets) == []
    step = "const keep = document.getElementById('keep'); keep.value = 99; keep.dispatchEvent(new Event('input'))"
    page.evaluate(f"() => {{ window.hand = setInterval(() => {{ {step} }}, 20) }}")  # a hand that does not rest
    page.wait_for_selector('body[data-painted="99"]', timeout=WAIT, state="attached")
    assert {"scatter", "rejection", "reliability"} <= set(page.evaluate(sheets))
    assert page.evaluate(inked)
    assert page.locator('.tile[data-metric="n"] b').text_content() == "5,940"
    assert page.evaluate("() => document.body.dataset.at") == "100"
    page.evaluate("() => clearInterval(window.hand)")
    page.wait_for_selector('body[data-at="99"]', timeout=WAIT, state="attached")
    assert page.evaluate(sheets) == []


def test_hovering_an_outlier_shows_id_and_photometry(files: dict[str, Path], open_page: Open) -> None:
    page = open_page(files["many.html"])
    table = prediction_table(6000)
    z, mean = table["z_spec"], table["z_phot"]
    distance = np.abs(z - mean) / (1 + z)
    row = int(np.argmax(np.where((distance >= 0.15) & (z < 1.0) & (mean > 1.2) & (mean < 2.0), distance, 0)))
    where = page.evaluate(
        """([x, y]) => { const plot = document.getElementById('scatter'), { xaxis, yaxis } = plot._fullLayout;
        const box = plot.getBoundingClientRect();
        return [box.left + xaxis._offset + xaxis.l2p(x), box.top + yaxis._offset + yaxis.l2p(y)] }""",
        [float(z[row]), float(mean[row])],
    )
    page.mouse.move(where[0] - 30, where[1] - 30)
    page.mouse.move(where[0], where[1], steps=4)
    label = page.locator("#scatter .hoverlayer .hovertext")
    label.first.wait_for(timeout=WAIT)
    text = label.first.text_content()
    assert str(table["id"][row]) in text
    assert f"z_spec {float(f'{z[row]:.5g}'):.4f}" in text
    for band in "gri":
        if table[f"mag_{band}"][row] < 90:
            told = re.search(rf"{band} (\d+\.\d+) ± (\d\.\d+)", text)
            assert told is not None
            numbers = [table[f"{stem}_{band}"][row] for stem in ("mag", "mag_err")]
            assert [float(part) for part in told.groups()] == pytest.approx(numbers, abs=2e-3)


def heading(page: Any) -> str:
    return str(page.locator("#pz-note b").text_content())


def test_p_of_z_of_an_object_found_clicked_or_drawn(files: dict[str, Path], open_page: Open) -> None:
    page = open_page(files["many.html"])
    table = prediction_table(6000)
    told = page.evaluate("() => [...document.querySelectorAll('#ids option')].map(one => one.value)")
    row = int(told[5]) - 10**17
    page.locator("#find").fill(told[5])
    page.locator("#find").press("Enter")
    assert heading(page) == told[5]
    quoted = float(f"{table['z_phot'][row]:.5g}")
    assert f"z_phot {quoted:.4f}" in page.locator("#pz-note").text_content()
    names = page.evaluate("() => document.getElementById('pz').data.map(trace => trace.name)")
    assert names[0] == "p(z)"
    assert names[-2:] == [f"z_spec {table['z_spec'][row]:.3f}", f"z_phot {table['z_phot'][row]:.3f}"]
    area = """() => { const { x, y } = document.getElementById('pz').data[0];
        return x.slice(1).reduce((sum, v, i) => sum + (v - x[i]) * (y[i] + y[i + 1]) / 2, 0) }"""
    assert page.evaluate(area) == pytest.approx(1.0, abs=0.01)
    page.locator("#find").fill("nobody")
    page.locator("#find").press("Enter")
    assert "No object “nobody” among the 600 of 6,000" in page.locator("#pz-note").text_content()
    page.locator("#outlier").click()
    chosen = int(heading(page)) - 10**17
    assert abs(table["z_spec"][chosen] - table["z_phot"][chosen]) / (1 + table["z_spec"][chosen]) >= 0.15
    page.evaluate(
        "() => document.getElementById('scatter').emit('plotly_click',"
        " { points: [{ data: { name: 'points' }, pointIndex: 0, x: 0, y: 0 }] })"
    )
    first = page.evaluate("() => document.getElementById('scatter').data[1].text[0].match(/<b>(.*)<.b>/)[1]")
    assert heading(page) == first


def test_trends_follow_slider_and_choice(files: dict[str, Path], open_page: Open) -> None:
    page = open_page(files["many.html"])
    counts = (
        "() => document.getElementById('bias').data[1].text.map(t => +t.replace(',', '')).reduce((a, b) => a + b, 0)"
    )
    assert 5950 < page.evaluate(counts) <= 6000
    move(page, 50)
    assert 2950 < page.evaluate(counts) <= 3000
    page.locator("#by").select_option("magnitude i")
    assert page.evaluate("() => document.getElementById('bias').layout.xaxis.title.text") == "magnitude i"
    share = page.evaluate("() => document.getElementById('outliers').data[1].y")
    assert all(0 <= value <= 1 for value in share)
    page.locator("#trouble").select_option("rmse")
    assert page.evaluate("() => document.getElementById('outliers').data[1].y") != share
    page.locator("#space-x").select_option(label="i")
    assert page.evaluate("() => document.getElementById('space').layout.xaxis.title.text") == "i"


def test_toolbars_show_on_hover_only(files: dict[str, Path], open_page: Open) -> None:
    page = open_page(files["few.html"])
    bars = "() => [...document.querySelectorAll('.modebar-group')].map(bar => getComputedStyle(bar).opacity)"
    assert set(page.evaluate(bars)) == {"0"}
    page.locator("#nz").hover()
    page.wait_for_function(
        "() => getComputedStyle(document.querySelector('#nz .modebar-group')).opacity === '1'", timeout=WAIT
    )


def test_light_and_dark(files: dict[str, Path], open_page: Open) -> None:
    colour = "() => getComputedStyle(document.body).backgroundColor"
    ink = "() => document.getElementById('pit')._fullLayout.font.color"
    page, seen = open_page(files["few.html"], color_scheme="light"), {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_selector(f"html[data-theme={scheme}]", timeout=WAIT)
        seen[scheme] = (page.evaluate(colour), page.evaluate(ink))
    assert sum(map(int, re.findall(r"\d+", seen["light"][0]))) > 700
    assert sum(map(int, re.findall(r"\d+", seen["dark"][0]))) < 120
    assert page.locator("#theme").is_visible()
    page.locator("#theme").click()
    assert (page.evaluate(colour), page.evaluate(ink)) == seen["light"]


def open_on_phone(open_page: Open, path: Path) -> Any:
    """Open a page on a small screen, and see that it fits and can be read."""
    page = open_page(path, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.locator("#control").bounding_box()["height"] < 740 / 3
    for box in (plot.bounding_box() for plot in page.locator(".plot:visible").all()):
        assert box["width"] <= 360
        assert box["height"] >= 200
    assert float(page.evaluate("() => getComputedStyle(document.querySelector('.tile b')).fontSize")[:-2]) >= 14
    return page


def test_without_true_redshifts_on_a_phone(files: dict[str, Path], open_page: Open) -> None:
    page = open_on_phone(open_page, files["blind.html"])
    assert page.locator("#scores").count() == 0
    assert page.locator('.tile[data-metric="rmse"]').count() == 0
    move(page, 50)
    assert page.locator('.tile[data-metric="n"] b').text_content() == "1,500"
    assert len(page.evaluate("() => document.getElementById('nz').data")) == 2


def test_several_files_on_a_phone(files: dict[str, Path], open_page: Open) -> None:
    page = open_on_phone(open_page, files["both.html"])
    move(page, 50)
    wanted = [expected(files[f"{name}.parquet"], 50) for name in ("many", "other")]
    row = page.locator('#scores tr[data-metric="crps"] td')
    assert [row.nth(i + 1).text_content() for i in range(2)] == [one["crps"] for one in wanted]
    for i, one in enumerate(wanted):
        page.locator("#sets button").nth(i).click()
        assert page.locator('.tile[data-metric="rmse"] b').text_content() == one["rmse"]
    assert len(page.evaluate("() => document.getElementById('rejection').data")) == 4


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_what_predict_writes_for_a_committee(tmp_path: Path, open_page: Open) -> None:
    config = quick_config(model={"n_basis": 4, "n_members": 2, "n_heads": 1}, training={"max_iter": 10, "patience": 2})
    train(write(galaxies(300), tmp_path / "train.parquet"), tmp_path / "m.gpzed", config)
    predict(tmp_path / "m.gpzed", write(galaxies(200, seed=1), tmp_path / "in.parquet"), tmp_path / "out.fits")
    write_report([tmp_path / "out.fits"], tmp_path / "out.html")
    page = open_page(tmp_path / "out.html")
    assert "mixtures of up to 8 Gaussians" in page.locator("#about").text_content()  # as wide as FITS stores them
    assert page.locator('.tile[data-metric="mll"] b').text_content() == expected(tmp_path / "out.fits", 100)["mll"]


@pytest.mark.slow
def test_a_million_objects_stay_below_five_megabytes(tmp_path: Path, open_page: Open) -> None:
    path = write(prediction_table(1_000_000), tmp_path / "million.parquet")
    report = write_report([path], tmp_path / "million.html")
    assert report.size < 5_000_000
    page = open_page(tmp_path / "million.html")
    move(page, 30)
    wanted = expected(path, 30)
    assert page.locator('.tile[data-metric="rmse"] b').text_content() == wanted["rmse"]
    assert page.locator('.tile[data-metric="n"] b').text_content() == "300,000"
    seconds = page.evaluate(PAINT_TIMES, list(range(40, 70)))
    assert min(seconds) < 0.15  # the fewest: others may be using the machine


def test_the_command(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    assert main(["report", str(files["few.parquet"]), "-o", str(out), "--json", "--title", "Mine"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bytes"] == out.stat().st_size < 2_000_000
    assert result["sets"] == [{"name": "few", "objects": 300, "has_truth": True}]
    assert "<title>Mine</title>" in out.read_text(encoding="utf-8")
    for arguments, code, message in (
        (["-o", str(tmp_path / "page.pdf")], 2, "expected a name that ends in .html"),
        (["-o", str(tmp_path / "none" / "page.html")], 2, "does not exist; create it"),
        (["-o", str(out), "--redshift", "zz"], 1, "has no column 'zz'"),
        (["-o", str(out), "--objects", "nobody"], 2, "no object is called 'nobody'"),
    ):
        assert main(["report", str(files["few.parquet"]), *arguments]) == code
        assert message in " ".join(capsys.readouterr().err.split())
