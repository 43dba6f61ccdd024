"""Write the patches that make RAIL know this package: `python for_rail/make_patches.py RAIL RAIL_BASE`.

RAIL and RAIL_BASE are clones of https://github.com/LSSTDESC/rail and rail_base, with pz-rail-gpzed installed beside the
pz-rail-base of the clone. Without them, only the stubs of `rail.interactive` are made anew, against the installed
pz-rail-base, and the rest of the patches stays. A test compares the stubs. The patches go beside this file; the README
there says what to do with them.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STUBS = "src/rail/interactive/estimation/algos"
MODULES = ("gpzed", "gpzed_compat")
PACKAGE_LINE = "rail_gpzed: pz-rail-gpzed\n"


def diff(name: str, before: str, after: str) -> str:
    """Return a patch of one file, which is new if it was empty."""
    source = f"a/{name}" if before else "/dev/null"
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), source, f"b/{name}")
    return "".join(lines)


def with_line(text: str, line: str) -> str:
    """Return the list of packages with one more, behind the entry that it follows in the alphabet."""
    lines = text.splitlines(True)
    if line in lines:
        return text
    at = next((k for k, other in enumerate(lines) if other.startswith("rail_gpz_v1:")), len(lines) - 1)
    return "".join([*lines[: at + 1], line, *lines[at + 1 :]])


def stubs() -> dict[str, str]:
    """Return the stubs of this package's interactive functions, as RAIL writes them, by file name."""
    from rail.utils.interactive.initialize_utils import _initialize_interactive_module

    name = "rail.interactive.estimation.algos"
    importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        _initialize_interactive_module(name, write_stubs=True, stub_directory=Path(folder))
        return {f"{module}.pyi": Path(folder, f"{module}.pyi").read_text() for module in MODULES}


def with_modules(text: str) -> str:
    """Return the stub of the folder with this package's modules among those that it imports."""
    missing = [name for name in MODULES if f"    {name},\n" not in text]
    return text.replace("    gpz,\n", "    gpz,\n" + "".join(f"    {name},\n" for name in missing))


def parts(patch: str) -> dict[str, str]:
    """Return the parts of a patch by the file that they change."""
    found = [part for part in re.split(r"(?m)^(?=--- )", patch) if part]
    return {part.splitlines()[1].removeprefix("+++ b/"): part for part in found}


def stub_parts(folder: Path) -> dict[str, str]:
    """Return the parts of the patch that add stubs, against those in a folder."""
    index = (folder / "__init__.pyi").read_text()
    changed = {"__init__.pyi": diff(f"{STUBS}/__init__.pyi", index, with_modules(index))}
    changed |= {name: diff(f"{STUBS}/{name}", "", text) for name, text in stubs().items()}
    return {f"{STUBS}/{name}": part for name, part in changed.items()}


def installed_stubs() -> Path:
    """Return the folder of the stubs of the installed pz-rail-base."""
    import rail.interactive.estimation.algos as installed

    assert installed.__file__ is not None
    return Path(installed.__file__).parent


def of_clone(rail_base: Path) -> dict[str, str]:
    """Return the parts of the patch that enter the package into the lists of a clone of rail_base."""
    names = (rail_base / "rail_packages.yml").read_text()
    script = (rail_base / "create_interactive_structure.py").read_text()
    known, ours = '        "rail.gpz": "pz-rail-gpz-v1",\n', '        "rail.gpzed": "pz-rail-gpzed",\n'
    changed = {
        "rail_packages.yml": (names, with_line(names, PACKAGE_LINE)),
        "create_interactive_structure.py": (script, script if ours in script else script.replace(known, known + ours)),
    }
    return {name: diff(name, *texts) for name, texts in changed.items()}


def main() -> None:
    """Write both patches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rail", type=Path, nargs="?", help="clone of rail")
    parser.add_argument("rail_base", type=Path, nargs="?", help="clone of rail_base")
    parser.add_argument("--output", type=Path, default=HERE)
    options = parser.parse_args()
    if options.rail is not None:
        before = (options.rail / "rail_packages.yml").read_text()
        patch = diff("rail_packages.yml", before, with_line(before, PACKAGE_LINE))
        (options.output / "rail.patch").write_text(patch)
    found = parts((HERE / "rail_base.patch").read_text())
    found |= stub_parts(installed_stubs() if options.rail_base is None else options.rail_base / STUBS)
    if options.rail_base is not None:
        found |= of_clone(options.rail_base)
    (options.output / "rail_base.patch").write_text("".join(found.values()))


if __name__ == "__main__":
    main()
