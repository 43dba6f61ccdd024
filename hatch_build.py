"""Build hooks: compile the C files with the loops of an evaluation, where there is a C compiler, and tidy the sdist.

The package works without the library (NumPy is used instead, more slowly), so a missing compiler is not an error; with
GPZED_NO_KERNELS=1 none is looked for. Run as a script, it compiles the library beside its sources, or to the path that
is its first argument with the flags that follow.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # as a script, outside a build
    BuildHookInterface = object  # type: ignore[assignment,misc]

FLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
LIBRARIES = ["-lm"]
STRIPPED = ["-Wl,-x" if sys.platform == "darwin" else "-s"]
"""Leave symbols out that only a debugger would read."""


class GPzedBuildHook(BuildHookInterface):
    """For a wheel, compile ``compiled/_kernels.c`` beside its source; from an sdist, leave .gitignore out."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and make the wheel a platform wheel if that worked."""
        if self.target_name == "sdist":
            for path in [path for path in build_data["force_include"] if Path(path).name == ".gitignore"]:
                del build_data["force_include"][path]
            return
        try:
            target = compile_kernels(Path(self.root), flags=STRIPPED)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"gpzed's C kernels were not compiled, NumPy is used instead: {error}")
            return
        if target is None:
            return
        build_data["artifacts"].append(target.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"


def platform_tag() -> str:
    """Return the platform of the library: of one architecture, though Python itself may be of two."""
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return tag.replace("universal2", platform.machine())


def compile_kernels(root: Path, target: Path | None = None, flags: Sequence[str] = ()) -> Path | None:
    """Compile the library of a checkout and return its path; None where there is no compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or os.name != "posix" or os.environ.get("GPZED_NO_KERNELS"):
        return None
    folder = root / "src" / "gpzed" / "compiled"
    target = target or folder / "_kernels.so"
    checksum = zlib.crc32((folder / "gpzed.h").read_bytes())  # by which `binding.py` knows its header
    define = f"-DGPZED_CHECKSUM={checksum}u"
    architecture = shlex.split(os.environ.get("ARCHFLAGS", ""))  # how macOS is asked for another one
    command = [
        compiler,
        *FLAGS,
        *architecture,
        *flags,
        define,
        "-o",
        str(target),
        str(folder / "_kernels.c"),
        *LIBRARIES,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return target


if __name__ == "__main__":
    options = sys.argv[1:]
    built = compile_kernels(Path(__file__).parent, Path(options[0]) if options else None, options[1:])
    sys.exit(0 if built else "no C compiler was found")
