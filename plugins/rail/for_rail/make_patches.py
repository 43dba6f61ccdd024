"""Write the patches that make RAIL know this package: `python for_rail/make_patches.py RAIL RAIL_BASE`.

RAIL and RAIL_BASE are clones of https://github.com/LSSTDESC/rail and rail_base, with pz-rail-gpzed installed beside the
pz-rail-base of the clone. Without them, the stubs of the installed pz-rail-base are taken as they were. The patches go
beside this file; the README there says what to do with them.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
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
    import rail.interactive.estimation.algos as installed

    assert installed.__file__ is not None
    folder = Path(installed.__file__).parent if options.rail_base is None else options.rail_base / STUBS
    index = (folder / "__init__.pyi").read_text()
    parts = [diff(f"{STUBS}/__init__.pyi", index, with_modules(index))]
    parts += [diff(f"{STUBS}/{name}", "", text) for name, text in stubs().items()]
    if options.rail_base is not None:
        before = (options.rail_base / "rail_packages.yml").read_text()
        parts.append(diff("rail_packages.yml", before, with_line(before, PACKAGE_LINE)))
        script = (options.rail_base / "create_interactive_structure.py").read_text()
        known = '        "rail.gpz": "pz-rail-gpz-v1",\n'
        ours = '        "rail.gpzed": "pz-rail-gpzed",\n'
        if ours not in script:
            parts.append(diff("create_interactive_structure.py", script, script.replace(known, known + ours)))
    (options.output / "rail_base.patch").write_text("".join(parts))


if __name__ == "__main__":
    main()
