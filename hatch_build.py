"""Build hook: compile the C file with the loops of an evaluation, where a C compiler is at hand.

The package works without it (NumPy is used instead, more slowly), so a missing
compiler is not an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
LIBRARIES = ["-lm"]


class KernelBuildHook(BuildHookInterface):
    """Compile ``compiled/_kernels.c`` beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and make the wheel a platform wheel if that worked."""
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
        if compiler is None or os.name != "posix":
            return
        source = Path(self.root, "src", "gpzed", "compiled", "_kernels.c")
        target = source.with_name("_kernels.so")
        try:
            subprocess.run(
                [compiler, *FLAGS, "-o", str(target), str(source), *LIBRARIES], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"gpzed's C kernels were not compiled, NumPy is used instead: {error}")
            return
        build_data["artifacts"].append("src/gpzed/compiled/_kernels.so")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
