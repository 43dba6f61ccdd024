"""From the DC2 samples that come with RAIL to metrics: `python examples/dc2.py FOLDER`.

Writes `FOLDER/pipeline.yml` and `FOLDER/pipeline_config.yml`, runs them with `ceci`, and prints the metrics. Edit the
second file and run `ceci FOLDER/pipeline.yml` again to try other options.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import tables_io
from rail.utils.path_utils import find_rail_file

from rail.pipelines.estimation.gpzed import GPZedPipeline


def main() -> None:
    """Build the pipeline, run it, print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where everything goes")
    for name, part in (("training", "training"), ("test", "validation")):
        parser.add_argument(f"--{name}", default=find_rail_file(f"examples_data/testdata/test_dc2_{part}_9816.hdf5"))
    parser.add_argument("--stages", help="YAML file with options of inform_gpzed, estimate_gpzed, evaluate_gpzed")
    options = parser.parse_args()

    options.folder.mkdir(parents=True, exist_ok=True)
    inputs = {"input_train": os.path.abspath(options.training), "input_test": os.path.abspath(options.test)}
    pipeline = GPZedPipeline()
    run = {"output_dir": str(options.folder), "log_dir": str(options.folder), "resume": False}
    pipeline.initialize(inputs, run, options.stages)
    pipeline.save(str(options.folder / "pipeline.yml"))

    ceci = shutil.which("ceci", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    subprocess.run([ceci or "ceci", str(options.folder / "pipeline.yml")], check=True)
    for name, values in tables_io.read(str(options.folder / "summary_evaluate_gpzed.hdf5")).items():
        print(f"{name:40s} {float(np.ravel(values)[0]):10.5f}")


if __name__ == "__main__":
    main()
