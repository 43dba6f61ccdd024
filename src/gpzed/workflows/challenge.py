"""An entry to DESC's photo-z data challenge, made from the names of its files.

The challenge has task sets, simulations and scenarios; ``pz_challenge_taskset_2_cardinal_training_1yr.hdf5`` and
``..._test_1yr.hdf5`` belong together. An entry holds a model file and a qp ensemble for each such pair, and two
functions for each task set: one that only estimates, and one that trains first.
"""

from __future__ import annotations

import os
import re
import tarfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from gpzed._files import check_output, replacing, write_atomically
from gpzed.catalog import catalog_info, read_catalog
from gpzed.errors import CatalogError, ConfigError
from gpzed.model import Run
from gpzed.prediction.qpform import load_qp
from gpzed.prediction.reduce import reduced
from gpzed.progress import Progress
from gpzed.workflows.model import PhotozModel, load_photoz_model
from gpzed.workflows.photoz_catalog import PhotozCatalog
from gpzed.workflows.train import train

FILE_NAME = re.compile(
    r"pz_challenge_taskset_(?P<taskset>\d+)_(?P<simulation>[A-Za-z0-9]+)_(?P<part>training|test)_(?P<scenario>\w+)"
    r"\.(?:hdf5|h5|parquet)"
)
"""Name of a training or test file."""
SENTINELS = {"nan": "not_detected"}
"""What the challenge's files mean by NaN."""
ID, POINT = "object_id", "zmode"
"""Ancillary data that an ensemble must have: the identifier of the test file, and the redshift that is scored."""
LABELS = ("redshift", "redshift_manyband")
"""Columns of redshifts in a training file, the better ones first; the second has scatter and wrong ones."""
REPRESENTATIVE = (1,)
"""Task sets whose training rows are drawn like the test rows; the others train for their target."""
SAMPLE_COLUMNS = ("z_std", "z_coverage", "z_flags")
"""Further columns of gpzed that go with the ensemble."""


@dataclass(frozen=True)
class Pair:
    """A training file and the test file that belongs to it."""

    taskset: int
    simulation: str
    scenario: str
    training: Path
    test: Path

    def name(self, what: str, suffix: str) -> str:
        """Return the name of a file of the entry."""
        return f"pz_challenge_taskset_{self.taskset}_{self.simulation}_{what}_{self.scenario}{suffix}"

    @property
    def model_name(self) -> str:
        """Name of the model file; the challenge looks for this suffix, whatever the format."""
        return self.name("pz_model", ".pkl")

    @property
    def estimate_name(self) -> str:
        """Name of the qp file."""
        return self.name("pz_estimate", ".hdf5")


@dataclass(frozen=True)
class EntryReport:
    """What became of one pair of files."""

    taskset: int
    simulation: str
    scenario: str
    rows: int
    training_seconds: float
    estimation_seconds: float
    model_bytes: int
    bytes_per_object: float
    problems: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        return {**asdict(self), "problems": list(self.problems)}


def find_pairs(folder: str | os.PathLike[str], tasksets: Iterable[int] | None = None) -> list[Pair]:
    """Return the training files of a folder with the test files that belong to them, in order.

    A task set without a test file of its own (the third has the rows of the second) takes that of the task set before.

    Parameters
    ----------
    folder : path
    tasksets : iterable of int, optional
        Only these.

    Raises
    ------
    CatalogError
        There are none, or a training file has no test file.
    """
    wanted = None if tasksets is None else set(tasksets)
    found = {
        (int(match["taskset"]), match["simulation"], match["scenario"], match["part"]): path
        for path in sorted(Path(folder).glob("pz_challenge_taskset_*"))
        if (match := FILE_NAME.fullmatch(path.name))
    }
    pairs = []
    for (taskset, simulation, scenario, part), path in sorted(found.items()):
        if part != "training" or (wanted is not None and taskset not in wanted):
            continue
        tests = [found.get((number, simulation, scenario, "test")) for number in (taskset, taskset - 1)]
        test = next((path for path in tests if path is not None), None)
        if test is None:
            expected = path.name.replace("_training_", "_test_")
            raise CatalogError(f"'{path}' has no test file beside it; expected '{expected}' in the same folder")
        pairs.append(Pair(taskset, simulation, scenario, path, test))
    if not pairs:
        which = "" if wanted is None else f" of task set {', '.join(map(str, sorted(wanted)))}"
        raise CatalogError(
            f"'{os.fspath(folder)}' has no training file{which}; expected names like "
            "'pz_challenge_taskset_1_cardinal_training_1yr.hdf5'"
        )
    return pairs


def train_for(
    train_file: str | os.PathLike[str],
    test_file: str | os.PathLike[str],
    model_file: str | os.PathLike[str] | None = None,
    *,
    taskset: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> PhotozModel:
    """Train as the task set asks; options are those of `gpzed.train`.

    Parameters
    ----------
    train_file, test_file : path
        The test file is what the model is trained for, unless training and test rows are drawn alike.
    model_file : path, optional
        To write.
    taskset : int, optional
        Told by the name of the training file if left out.
    """
    if taskset is None:
        match = FILE_NAME.fullmatch(Path(train_file).name)
        if match is None:
            raise ConfigError(
                f"'{os.fspath(train_file)}' does not tell its task set; expected a name like "
                "'pz_challenge_taskset_1_cardinal_training_1yr.hdf5', or give `taskset`"
            )
        taskset = int(match["taskset"])
    target = None if taskset in REPRESENTATIVE else test_file
    labels = [name for name in LABELS if name in catalog_info(train_file).names]
    chosen = {**SENTINELS, "redshift": ",".join(labels) or None, **options}
    return train(train_file, model_file, target=target, progress=progress, **chosen)


def estimate(
    model: PhotozModel | str | os.PathLike[str], test_file: str | os.PathLike[str], output_file: str | os.PathLike[str]
) -> int:
    """Write the qp ensemble of a test file, with `zmode` and `object_id`, and return the number of its rows."""
    check_output(output_file, "the ensemble", [test_file, None if isinstance(model, PhotozModel) else model])
    trained = model if isinstance(model, PhotozModel) else load_photoz_model(model)
    if ID not in catalog_info(test_file).names:
        raise CatalogError(f"'{os.fspath(test_file)}' has no column '{ID}', by which the challenge knows its objects")
    found = trained.predict(test_file)
    ensemble = _ensemble(found)
    ids = np.asarray(read_catalog(test_file, columns=[ID])[ID])
    columns = {name: np.array(found[name]) for name in SAMPLE_COLUMNS if name in found.columns}
    ensemble.set_ancil({POINT: np.array(found["z_phot"]), ID: ids, **columns})
    with replacing(output_file) as temporary:  # qp tells the format by the suffix
        whole = temporary.with_name(temporary.name + ".hdf5")
        try:
            ensemble.write_to(str(whole))
            os.replace(whole, temporary)
        finally:
            whole.unlink(missing_ok=True)
    return len(found)


def _ensemble(found: PhotozCatalog) -> Any:
    """Return the densities as few Gaussians in single precision: files stay small, scores stay the same."""
    qp = load_qp()
    few = reduced(found.prediction.truncate(None).components, None)
    most = max(int(np.count_nonzero(few.weights, axis=1).max(initial=1)), 1)  # qp has as many for every object
    arrays = {"weights": few.weights, "means": few.means, "stds": few.stds}
    return qp.Ensemble(
        qp.mixmod, data={name: np.ascontiguousarray(values[:, :most]) for name, values in arrays.items()}
    )


def train_and_estimate(
    train_file: str | os.PathLike[str],
    test_file: str | os.PathLike[str],
    output_file: str | os.PathLike[str],
    **options: Any,
) -> None:
    """Train on one file and write the qp ensemble of the other; options are those of `train_for`."""
    estimate(train_for(train_file, test_file, **options), test_file, output_file)


def check(estimate_file: str | os.PathLike[str], test_file: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return what the challenge's own checks would find wrong with an ensemble; nothing if it is all right.

    The file exists, qp reads it, it has ancillary data, among them `zmode` and `object_id`, and the identifiers are
    those of the test file. Beyond the challenge's checks: one finite `zmode` for each object, in the same order.
    """
    if not Path(test_file).exists():
        raise CatalogError(f"test file '{os.fspath(test_file)}' does not exist")
    if not Path(estimate_file).exists():
        return (f"'{os.fspath(estimate_file)}' does not exist",)
    qp = load_qp()
    try:
        ensemble = qp.read(str(estimate_file))
    except Exception as error:
        return (f"qp cannot read '{os.fspath(estimate_file)}': {error}",)
    ancillary = ensemble.ancil
    if not ancillary:
        return ("there are no ancillary data",)
    problems = [f"'{name}' is not among the ancillary data" for name in (POINT, ID) if name not in ancillary]
    if ID in ancillary:
        theirs, ours = np.asarray(read_catalog(test_file, columns=[ID])[ID]), np.asarray(ancillary[ID]).ravel()
        if set(theirs.tolist()) != set(ours.tolist()):
            problems.append(f"'{ID}' differs from that of '{os.fspath(test_file)}'")
        elif not np.array_equal(theirs, ours):
            problems.append(f"the rows are not in the order of '{os.fspath(test_file)}'")
    if POINT in ancillary and not np.isfinite(ancillary[POINT]).all():
        problems.append(f"'{POINT}' is not a number for some objects")
    return tuple(problems)


def make_entry(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    name: str = "gpzed",
    tasksets: Sequence[int] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[EntryReport]:
    """Make all files of an entry: models and ensembles, its functions, and what they need.

    Models that are there already, from a run that was interrupted, are used and not trained again.

    Parameters
    ----------
    folder : path
        With the challenge's files.
    output : path
        Folder to fill: ``submissions/NAME`` with models and ensembles, ``tests/test_NAME.py`` with the functions,
        ``requirements_NAME.txt``, as the challenge's repository wants them; ``NAME.tgz`` with models and ensembles,
        to be put where SUBMISSION_URL of the functions then points.
    name : str
        Name of the entry.
    tasksets : sequence of int, optional
        Only these.
    **options
        Of `gpzed.train`.
    """
    if re.fullmatch(r"[A-Za-z0-9_]+", name) is None:
        raise ConfigError(f"`name` is {name!r}; expected letters, digits and underscores: it is part of file names")
    progress = progress or Progress()
    pairs = find_pairs(folder, tasksets)
    place = Path(output, "submissions", name)
    place.mkdir(parents=True, exist_ok=True)
    reports = [_make_pair(pair, place, progress, options) for pair in pairs]
    text = functions_text(name, sorted({pair.taskset for pair in pairs}), options)
    for file, content in (
        (Path(output, "tests", f"test_{name}.py"), text),
        (Path(output, f"requirements_{name}.txt"), f"gpzed[cli,hdf5,qp]=={gpzed.__version__}\n"),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, content.encode())
    with replacing(Path(output, f"{name}.tgz")) as temporary, tarfile.open(temporary, "w:gz") as archive:
        for pair in pairs:
            for file in (place / pair.model_name, place / pair.estimate_name):
                archive.add(file, file.name)
    return reports


def _make_pair(pair: Pair, place: Path, progress: Progress, options: dict[str, Any]) -> EntryReport:
    label = f"task set {pair.taskset}, {pair.simulation}, {pair.scenario}"
    model_file, output_file = place / pair.model_name, place / pair.estimate_name
    start = time.monotonic()
    if model_file.exists():
        progress.say(f"{label}: '{model_file}' is there already")
        model = load_photoz_model(model_file)
    else:
        progress.say(f"{label}: training on '{pair.training}'")
        begun = bool(Run(Path(f"{model_file}.checkpoint")).checkpoints())
        model = train_for(
            pair.training, pair.test, model_file, taskset=pair.taskset, progress=progress, resume=begun, **options
        )
    trained = time.monotonic()
    rows = estimate(model, pair.test, output_file)
    done = time.monotonic()
    problems = check(output_file, pair.test)
    for problem in problems:
        progress.warn(f"{label}: {problem}")
    return EntryReport(
        pair.taskset,
        pair.simulation,
        pair.scenario,
        rows,
        trained - start,
        done - trained,
        model_file.stat().st_size,
        output_file.stat().st_size / max(rows, 1),
        problems,
    )


_HEADER = '''"""Entry "{name}" to the photo-z data challenge: gpzed, https://github.com/gpzed/gpzed.

Made by `gpzed challenge`. Set SUBMISSION_URL to where {name}.tgz can be had.
"""

import os

import pytest
from pz_data_challenge import submit_utils{imports}

from gpzed.workflows.challenge import estimate, train_and_estimate

SUBMISSION_NAME = "{name}"
SUBMISSION_URL = ""
SUBMIT_DIR = f"submissions/{{SUBMISSION_NAME}}"
PUBLIC_AREA = "tests/public"
OPTIONS = {options!r}


@pytest.fixture(scope="module")
def submit_area():
    """Have the files of the entry in their place."""
    if not os.path.exists(SUBMIT_DIR):
        assert SUBMISSION_URL, "set SUBMISSION_URL"
        submit_utils.download_and_extract_tar(SUBMISSION_URL, SUBMIT_DIR)
    for folder in ("outputs_2", "outputs_3"):
        os.makedirs(os.path.join(SUBMIT_DIR, folder), exist_ok=True)
'''
_FUNCTIONS = '''

def run_taskset_{n}_estimation_only(model_file, test_file, output_file):
    """Estimate with a model of the entry."""
    estimate(model_file, test_file, output_file)


def run_taskset_{n}_training_and_estimation(train_file, test_file, output_file):
    """Train, then estimate."""
    train_and_estimate(train_file, test_file, output_file, taskset={n}, **OPTIONS)


def test_taskset_{n}(setup_public_area, submit_area):
    """Run and check both."""
    run_taskset_{n}(
        PUBLIC_AREA, SUBMISSION_NAME, run_taskset_{n}_estimation_only, run_taskset_{n}_training_and_estimation
    )
'''


def functions_text(name: str, tasksets: Sequence[int], options: dict[str, Any]) -> str:
    """Return the file with the functions of an entry, two for each task set, and the tests that call them."""
    imports = "".join(f"\nfrom pz_data_challenge.taskset_{n} import run_taskset_{n}" for n in tasksets)
    header = _HEADER.format(name=name, imports=imports, options=options)
    return header + "".join(_FUNCTIONS.format(n=n) for n in tasksets)
