"""The pages are tested like code: blocks run, links resolve, commands parse, tables agree with the source.

A ```python block runs unchanged (or as a doctest, if it has prompts), and the lines of a ```bash block that
begin with ``gpzed`` run too, all blocks of a page in order, in one namespace and one temporary folder. A ```sh
block is only parsed. ``python tests/test_docs.py`` regenerates the option table in its page.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpzed.errors
from gpzed import GPzRegressor, Run, Training
from gpzed.catalog import Catalog, write_catalog
from gpzed.features import FLAG_MEANINGS
from gpzed.simulate import simulate_survey

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not part of this distribution", allow_module_level=True)
NOTEBOOKS = sorted(path for path in ROOT.glob("docs/*/*.ipynb") if "_build" not in path.parts)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
OPTIONS_PAGE = ROOT / "docs" / "reference" / "options.md"
BEGIN, END = "<!-- options: begin -->", "<!-- options: end -->"
FENCE = re.compile(r"(?ms)^( *)```(\w*)\n(.*?)^\1```$")


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every fenced block, indentation of the fence removed."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [(language, re.sub(rf"(?m)^{indent}", "", text)) for indent, language, text in found]


def commands(text: str) -> list[str]:
    """Lines of a shell block that call gpzed, continued lines joined."""
    return [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("gpzed ")]


def named(pages: list[Path]) -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


def pages_with(*languages: str) -> list[Path]:
    return [page for page in PAGES if any(language in languages for language, _ in blocks(page))]


@pytest.fixture(scope="module")
def survey_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue with spectra and one to predict for: the files that the pages speak of."""
    folder = tmp_path_factory.mktemp("survey")
    galaxies = Catalog(simulate_survey(1500, survey="sdss", random_state=0, only_spectroscopic=True).columns())
    for suffix in ("fits", "parquet"):
        write_catalog(galaxies.slice(0, 1000), folder / f"spectra.{suffix}")
        write_catalog(galaxies.slice(1000), folder / f"survey.{suffix}")
    return folder


@pytest.fixture
def folder(survey_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in survey_files.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


def run_command(line: str) -> None:
    from gpzed.cli import main

    line, _, target = line.partition(" > ")
    with contextlib.ExitStack() as stack:
        if target:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(target.strip(), "w"))))
        assert main(shlex.split(line, comments=True)[1:]) == 0, line


def run_python(text: str, namespace: dict[str, object], page: Path) -> None:
    if text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(text, namespace, page.name, str(page), 0)
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        runner = doctest.DocTestRunner(optionflags=flags)
        runner.run(test, clear_globs=False)
        assert runner.summarize(verbose=False).failed == 0
        namespace.update(test.globs)
    else:
        exec(compile(text, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", named(pages_with("python", "bash")))
def test_blocks_run(page: Path, folder: Path) -> None:
    pytest.importorskip("click")
    for package in ("rich", "astropy", "pyarrow", "dask"):
        pytest.importorskip(package)
    namespace: dict[str, object] = {"__name__": "page"}
    for language, text in blocks(page):
        if language == "python":
            run_python(text, namespace, page)
        elif language == "bash":
            for line in commands(text):
                run_command(line)


@pytest.mark.parametrize("page", named(pages_with("bash", "sh")))
def test_commands_parse(page: Path) -> None:
    click = pytest.importorskip("click")
    pytest.importorskip("rich")
    from gpzed.cli.app import COMMANDS, cli

    for language, text in blocks(page):
        for line in commands(text) if language in ("bash", "sh") else ():
            name, *arguments = shlex.split(line.partition(" > ")[0], comments=True)[1:]
            assert name in COMMANDS, line
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            with command.make_context(name, arguments):
                pass


def command_names() -> list[str]:
    try:
        from gpzed.cli.app import COMMANDS
    except ImportError:
        return []
    return list(COMMANDS)


@pytest.mark.parametrize("name", command_names())
def test_every_command_helps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from gpzed.cli import main

    assert main([name, "--help"]) == 0
    assert f"gpzed {name}" in capsys.readouterr().out


def links(page: Path) -> Iterator[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"(?m)^#+ +(.*)$", FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", named(PAGES))
def test_links_resolve(page: Path) -> None:
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def contents(page: Path) -> list[str]:
    """Pages that the tables of contents of a page name."""
    found = re.findall(r"(?ms)^```{toctree}\n(.*?)^```$", page.read_text(encoding="utf-8"))
    names = [line for text in found for line in text.split() if not line.startswith(":")]
    return [str(path) for name in names for path in page.parent.glob(f"{name}.*") if path.suffix != ".rst"]


def test_every_page_is_reachable() -> None:
    """The front page leads to all, through the tables of contents from which the site is made."""
    reached, todo = set(), [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop().resolve()
        if page.suffix == ".md" and page not in reached:
            todo += [Path(name) for name in contents(page)]
        reached.add(page)
    assert {*ROOT.glob("docs/**/*.md"), *NOTEBOOKS} <= reached


@pytest.mark.parametrize("notebook", named(NOTEBOOKS))
def test_notebooks_have_pictures_and_results_and_lead_somewhere(notebook: Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    cells = json.loads(text)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code), "run `make notebooks`"
    kinds = [kind for cell in code for output in cell["outputs"] for kind in output.get("data", ())]
    assert kinds.count("image/png") >= 2
    assert not re.search(r"(?<![\w.])/(home|work|root|tmp|Users)/", text)
    for link in re.findall(r"\]\(([^)\s:#]+)[^)\s:]*\)", "".join(line for cell in cells for line in cell["source"])):
        assert (notebook.parent / link).exists(), link


def option_table() -> str:
    """Options of `GPzRegressor`, `Training` and `Run`: names and defaults of signatures, text of docstrings."""
    lines = []
    for kind in (GPzRegressor, Training, Run):
        text = inspect.cleandoc(kind.__doc__ or "")
        section = re.search(r"(?ms)^Parameters\n-+\n(.*?)(?:^\w+\n-+$|\Z)", text)
        assert section is not None
        entries = re.findall(r"(?m)^(\w+) : (.*)\n((?:    .*(?:\n|\Z))+)", section[1])
        documented = {name: (type_, " ".join(body.split())) for name, type_, body in entries}
        lines += ["", f"## {kind.__name__}", "", "| option | type | default | meaning |", "|---|---|---|---|"]
        for name, parameter in inspect.signature(kind).parameters.items():
            type_, meaning = documented[name]
            default = parameter.default
            shown = f'"{default}"' if isinstance(default, str) else str(default)
            lines.append(f"| `{name}` | {type_} | `{shown}` | {meaning.replace('``', '`')} |")
    return "\n".join(lines).strip()


def test_option_table_is_in_step() -> None:
    page = OPTIONS_PAGE.read_text(encoding="utf-8")
    written = page.partition(BEGIN)[2].partition(END)[0].strip()
    assert written == option_table(), "run `python tests/test_docs.py` to regenerate the table"


def test_flags_and_errors_are_documented() -> None:
    flags = (ROOT / "docs" / "reference" / "flags-and-columns.md").read_text(encoding="utf-8")
    for flag, meaning in FLAG_MEANINGS.items():
        assert f"| {int(flag)} | `{flag.name}` | {meaning} |" in flags
    errors = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    for name, kind in inspect.getmembers(gpzed.errors, inspect.isclass):
        if kind.__module__ == "gpzed.errors":
            assert f"| `{name}` |" in errors, name


def test_metrics_are_documented() -> None:
    from gpzed.evaluation import METRICS

    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert [name for name in METRICS if f"| `{name}` |" not in page] == []


def test_numbers_on_the_pages_are_those_of_the_code() -> None:
    from gpzed.engine.lbfgs import Budget
    from gpzed.gp.initialize import MAX_ROWS
    from gpzed.gp.linalg import MAX_JITTER, WELL_CONDITIONED
    from gpzed.gp.prior import ETA_RATE
    from gpzed.model.data import MAX_STREAM_VALIDATION, MIN_VALIDATION
    from gpzed.model.objective import NOISE_SHIFTS
    from gpzed.model.training import FIRST_STAGE_ROWS, STAGE_FACTOR

    training = (ROOT / "docs" / "explanation" / "training.md").read_text(encoding="utf-8")
    for phrase in (
        f"fewer than {MIN_VALIDATION} rows",
        f"{MAX_ROWS:,} rows",
        f"improved by {Budget().min_gain:.0e}".replace("e-0", "e-"),
        f"-{ETA_RATE:g} sum eta",
        f"between {NOISE_SHIFTS.min():g} and {NOISE_SHIFTS.max():g}",
        f"more than {STAGE_FACTOR * FIRST_STAGE_ROWS:,} training rows",
        f"between {FIRST_STAGE_ROWS:,} and {STAGE_FACTOR * FIRST_STAGE_ROWS:,} rows",
    ):
        assert phrase in training, phrase
    streaming = (ROOT / "docs" / "howto" / "larger-than-memory.md").read_text(encoding="utf-8")
    assert f"at most {MAX_STREAM_VALIDATION:,} held-out rows" in streaming
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert f"{MAX_JITTER:.0e}; beyond".replace("e-0", "e-") in architecture
    assert f"exceeds {WELL_CONDITIONED:.0e}".replace("e-0", "e-") in architecture


def test_the_gallery_shows_every_figure() -> None:
    plots = pytest.importorskip("gpzed.plots")
    pytest.importorskip("matplotlib")
    from experiments import gallery

    assert set(gallery.FIGURES) == {name for name in plots.__all__ if name.startswith("plot_")}
    assert gallery.page() == gallery.PAGE.read_text(encoding="utf-8"), "run `python -m experiments.gallery`"
    assert {path.stem for path in gallery.FOLDER.glob("*.png")} == set(gallery.FIGURES)
    assert sum(path.stat().st_size for path in gallery.FOLDER.iterdir()) < 500_000


def test_every_public_function_has_an_example() -> None:
    """In its docstring, or in the gallery, from which the reference takes it."""
    pytest.importorskip("matplotlib")
    tree = ast.parse((ROOT / "docs" / "conf.py").read_text(encoding="utf-8"))
    assigned = [
        node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PACKAGES"
    ]
    packages = ast.literal_eval(assigned[0].value)
    gallery = (ROOT / "docs" / "reference" / "gallery.md").read_text(encoding="utf-8")
    for package in (name for name in packages if name != "gpzed.distributed.lsdb"):  # needs LSDB
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            function = getattr(module, name)
            if inspect.isfunction(function):
                assert ">>>" in (function.__doc__ or "") or f"plots.{name}(" in gallery, f"{package}.{name}"


def test_citation_file() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    keys = re.findall(r"(?m)^([a-z-]+):", text)
    assert {"cff-version", "message", "title", "authors", "version", "license", "preferred-citation"} <= set(keys)
    assert len(keys) == len(set(keys))
    version, date = newest_release()
    assert f"\nversion: {version}\ndate-released: {date}\n" in text
    assert "10.1093/mnras/stw1618" in text
    assert "\t" not in text
    with contextlib.suppress(ImportError):
        import yaml

        content = yaml.safe_load(text)
        assert content["cff-version"] == "1.2.0"
        assert [person["family-names"] for person in content["preferred-citation"]["authors"]] == [
            "Almosallam", "Jarvis", "Roberts",
        ]  # fmt: skip


def newest_release() -> tuple[str, str]:
    """Version and date of the newest release in the changelog, made or prepared."""
    headings = re.findall(
        r"(?m)^## \[(\d\S+)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    )
    return headings[0]


def test_the_tree_is_of_the_newest_release_or_later() -> None:
    sys.path.insert(0, str(ROOT))
    try:
        import hatch_version
    finally:
        sys.path.remove(str(ROOT))
    assert newest_release()[0] == hatch_version.FIRST or "dev" not in hatch_version.version()
    assert hatch_version.from_description("v0.2.0-0-g1a2b3c4") == "0.2.0"
    assert hatch_version.from_description("v0.2.0-3-g1a2b3c4") == "0.2.1.dev3+g1a2b3c4"
    assert hatch_version.from_description("nonsense") is None
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", hatch_version.version())


@pytest.mark.parametrize("page", named(PAGES))
def test_pages_hold_no_machine_paths(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(home|work|root|tmp|Users)/", text)


if __name__ == "__main__":
    before, _, rest = OPTIONS_PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    OPTIONS_PAGE.write_text(f"{before}{BEGIN}\n{option_table()}\n{END}{after}", encoding="utf-8")
    sys.stdout.write(f"wrote {os.path.relpath(OPTIONS_PAGE)}\n")
