"""Interrupted training resumes as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gpzed import Run
from gpzed.errors import CheckpointError, ConvergenceWarning, TrainingInterruptedError
from gpzed.model import training
from gpzed.model.container import pack, unpack
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def fit(rows, path=None, *, checkpoint_every=3, callback=None, validation_data=None, **options):
    model = one_model(**{"n_basis": 6, "max_iter": 30, "n_threads": 1, "random_state": 0} | options)
    run = Run(checkpoint=path, checkpoint_every=checkpoint_every, callback=callback)
    if isinstance(rows, list):
        return model.fit_stream(rows, run=run)
    return model.fit(*rows, validation_data=validation_data, run=run)


def both(model, X):
    return np.stack(model.predict(X, return_std=True))


def interrupt_after(k, member=0):
    count = iter(range(1, 10**6))

    def callback(info):
        if info.member == member and next(count) == k:
            raise KeyboardInterrupt

    return callback


def assert_resumes(rows, path, k, **options):
    """Train whole; train, interrupt after k steps, train again: the same bits, and less work."""
    whole = fit(rows, **options)
    with pytest.raises(KeyboardInterrupt):
        fit(rows, path, callback=interrupt_after(k), **options)
    steps = []
    resumed = fit(rows, path, callback=steps.append, **options)
    np.testing.assert_array_equal(both(resumed, rows[0]), both(whole, rows[0]))
    for one, two in zip(resumed.reports_, whole.reports_, strict=True):
        strip = [(s.iteration, s.evaluations, s.objective, s.score) for s in one.history]
        assert strip == [(s.iteration, s.evaluations, s.objective, s.score) for s in two.history]
        assert (one.best_iteration, one.best_score, one.status) == (two.best_iteration, two.best_score, two.status)
        assert (one.n_evaluations, one.n_rejected, one.stage) == (two.n_evaluations, two.n_rejected, two.stage)
    return whole, steps


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 15, 29])
def test_resumed_training_gives_the_same_bits(wave, tmp_path, k):
    whole, steps = assert_resumes(wave, tmp_path / "c", k)
    done = 3 * (k // 3)
    assert len(steps) == len(whole.report_.history) - done, "steps on record are not taken again"
    assert os.listdir(tmp_path) == [], "the checkpoint is removed at the end"


@pytest.mark.parametrize(
    "options", [{"covariance": "GL"}, {"validation_fraction": 0.0}, {"checkpoint_every": 1}], ids=str
)
def test_resumed_training_with_other_options(wave, tmp_path, options):
    assert_resumes(wave, tmp_path / "c", 8, **options)


def test_interrupted_several_times(wave, tmp_path):
    whole = fit(wave)
    for k in (4, 4, 5, 3):
        with pytest.raises(KeyboardInterrupt):
            fit(wave, tmp_path / "c", callback=interrupt_after(k))
    np.testing.assert_array_equal(both(fit(wave, tmp_path / "c"), wave[0]), both(whole, wave[0]))


@pytest.mark.parametrize("k", [2, 7, 20])
def test_committee(wave, tmp_path, k):
    assert_resumes(wave, tmp_path / "c", k, n_members=2)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("k", [2, 14, 30])
def test_committee_in_parallel(wave, tmp_path, k):
    assert_resumes(wave, tmp_path / "c", k, n_members=3, n_threads=2)


@pytest.mark.parametrize("k", [1, 5, 12, 20, 28])
def test_stages(funnel, tmp_path, monkeypatch, k):
    monkeypatch.setattr(training, "FIRST_STAGE_ROWS", 60)
    rows = funnel[:2]
    whole, _ = assert_resumes(rows, tmp_path / "c", k, max_iter=60, patience=20)
    assert len(whole.report_.n_rows) == 3


def test_stream(wave, tmp_path):
    X, y = wave
    source = [(X[:150], y[:150]), (X[150:], y[150:])]
    whole = fit(source)
    with pytest.raises(KeyboardInterrupt):
        fit(source, tmp_path / "c", callback=interrupt_after(8))
    resumed = fit(source, tmp_path / "c")
    np.testing.assert_array_equal(both(resumed, X), both(whole, X))


@pytest.fixture
def interrupted(wave, tmp_path):
    path = tmp_path / "c"
    with pytest.raises(KeyboardInterrupt):
        fit(wave, path, callback=interrupt_after(8))
    assert path.exists()
    return path


OTHER = "was made with other data, options or seed"


@pytest.mark.parametrize(
    "options",
    [{"random_state": 1}, {"n_basis": 7}, {"covariance": "GC"}, {"shape_prior": 2.0}, {"validation_fraction": 0.3},
     {"memory": 5}, {"weighting": "precision"}, {"random_state": None}, {"calibrate": "none"}],
    ids=str,
)  # fmt: skip
def test_checkpoint_of_other_options(wave, interrupted, options):
    with pytest.raises(CheckpointError, match=OTHER):
        fit(wave, interrupted, **options)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_refused_run_leaves_no_checkpoint_beside_those_it_refused(wave, tmp_path, n_threads):
    path, options = tmp_path / "state", {"n_members": 3, "n_threads": n_threads}
    with pytest.raises(KeyboardInterrupt):
        fit(wave, path, callback=interrupt_after(4, member=1), **options)
    (tmp_path / "state.0").unlink(missing_ok=True)  # as if member 0 had been slower
    before = sorted(file.name for file in tmp_path.iterdir())
    assert before
    with pytest.raises(CheckpointError, match=OTHER):
        fit(wave, path, max_iter=29, **options)
    assert sorted(file.name for file in tmp_path.iterdir()) == before
    np.testing.assert_array_equal(both(fit(wave, path, **options), wave[0]), both(fit(wave, **options), wave[0]))


def test_a_checkpoint_of_a_committee_of_another_size(wave, tmp_path):
    path = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        fit(wave, path, n_members=3, n_threads=1, callback=interrupt_after(4))
    assert [file.name for file in tmp_path.iterdir()] == ["state.0"]
    with pytest.raises(CheckpointError, match=OTHER):
        fit(wave, path, n_members=2, n_threads=1)


def test_a_checkpoint_of_a_member_that_this_run_does_not_have(wave, tmp_path):
    path = tmp_path / "run.checkpoint"
    (tmp_path / "run.checkpoint.4").write_bytes(b"of a larger committee")
    with pytest.raises(CheckpointError, match=OTHER):
        fit(wave, path, n_members=2)
    assert [file.name for file in tmp_path.iterdir()] == ["run.checkpoint.4"]


def test_checkpoint_of_other_data(wave, interrupted):
    X, y = (np.array(a) for a in wave)
    moved, target = X.copy(), y.copy()
    moved[5, 1] += 1e-12
    target[7] += 1e-9
    for rows in [(moved, y), (X, target), (X[:-1], y[:-1]), (X, y, np.linspace(1, 2, len(y)))]:
        with pytest.raises(CheckpointError, match=OTHER):
            fit(rows, interrupted)


def test_checkpoint_of_other_validation_data(wave, tmp_path):
    X, y = wave
    path = tmp_path / "c"
    with pytest.raises(KeyboardInterrupt):
        fit((X, y), path, callback=interrupt_after(8), validation_data=(X[:50], y[:50]))
    with pytest.raises(CheckpointError, match=OTHER):
        fit((X, y), path, validation_data=(X[:50], y[50:100]))
    with pytest.raises(CheckpointError, match=OTHER):
        fit((X, y), path)


def test_checkpoint_of_another_stream(wave, tmp_path):
    X, y = wave
    path = tmp_path / "c"
    with pytest.raises(KeyboardInterrupt):
        fit([(X, y)], path, callback=interrupt_after(8))
    with pytest.raises(CheckpointError, match=OTHER):
        fit([(X, -y)], path)


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "other"])
def test_damaged_checkpoint(wave, interrupted, damage):
    content = interrupted.read_bytes()
    middle = len(content) // 2
    interrupted.write_bytes(
        {
            "truncate": content[:middle],
            "flip": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "empty": b"",
            "other": b"something else entirely",
        }[damage]
    )
    with pytest.raises(CheckpointError, match=r"checksum|is empty|does not begin like"):
        fit(wave, interrupted)


def test_a_model_file_is_no_checkpoint(wave, tmp_path):
    fit(wave, max_iter=2).save(tmp_path / "m")
    with pytest.raises(CheckpointError, match="is a gpzed model file; expected a checkpoint file"):
        fit(wave, tmp_path / "m")


def test_a_checkpoint_is_no_model(interrupted):
    from gpzed import load_model
    from gpzed.errors import ModelFormatError

    with pytest.raises(ModelFormatError, match="is a gpzed checkpoint file; expected a model file"):
        load_model(interrupted)


def test_checkpoints_are_written_every_so_many_steps(wave, tmp_path):
    path = tmp_path / "c"
    seen = []
    fit(wave, path, checkpoint_every=5, max_iter=12, callback=lambda info: seen.append(path.exists()))
    assert seen == [False] * 4 + [True] * 8


SCRIPT = """
import sys
import numpy as np
from gpzed import GPzRegressor, Run, Training
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (2000, 3))
y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(2000)
def callback(info):
    print(info.iteration, flush=True)
model = GPzRegressor(20, n_heads=1, n_members=1, random_state=0, n_threads=1, training=Training(max_iter=60))
model.fit(X, y, run=Run(checkpoint=sys.argv[1], checkpoint_every=2, callback=callback))
np.save(sys.argv[2], np.stack(model.predict(X, return_std=True)))
"""


def test_kill_and_resume(tmp_path):
    def run(name):
        return [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / name), str(tmp_path / f"{name}.npy")]

    subprocess.run(run("whole"), check=True, capture_output=True)
    with subprocess.Popen(run("killed"), stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if int(line) == 21:
                break
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "killed.npy").exists()
    assert (tmp_path / "killed").exists()
    result = subprocess.run(run("killed"), check=True, capture_output=True, text=True)
    assert int(result.stdout.split()[0]) >= 21, "it went on from the checkpoint"
    np.testing.assert_array_equal(np.load(tmp_path / "killed.npy"), np.load(tmp_path / "whole.npy"))
    assert not (tmp_path / "killed").exists()


def test_an_interrupt_ends_a_committee_soon(wave):
    """The other members must not train to their end first."""
    steps = []

    def callback(info):
        steps.append(info.member)
        if info.member == 0 and info.iteration == 3:
            raise KeyboardInterrupt
        time.sleep(0.005)

    with pytest.raises(KeyboardInterrupt):
        fit(wave, n_members=2, n_threads=2, max_iter=400, tol=0.0, patience=1000, callback=callback)
    assert steps.count(1) < 100


def test_the_checkpoint_stays_if_asked(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    path = tmp_path / "state"
    run = Run(checkpoint=path, checkpoint_every=1, keep_checkpoint=True)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        one_model(4, max_iter=5, random_state=0).fit(X, X[:, 0], run=run)
    assert run.checkpoints() == [path]
    run.remove_checkpoints()
    assert not path.exists()


@pytest.mark.parametrize("n_members", [1, 2])
def test_a_run_that_is_asked_to_stop_can_be_resumed(wave, tmp_path, n_members):
    asked = iter([False] * 4 + [True] * 100)
    options = {"n_basis": 6, "max_iter": 30, "n_threads": 1, "random_state": 0, "n_members": n_members}
    run = Run(checkpoint=tmp_path / "c", should_stop=lambda: next(asked))
    with pytest.raises(TrainingInterruptedError, match=r"training was stopped; its state is kept in '.*'"):
        one_model(**options).fit(*wave, run=run)
    steps = []
    resumed = one_model(**options).fit(*wave, run=Run(checkpoint=tmp_path / "c", callback=steps.append))
    whole = one_model(**options).fit(*wave)
    assert steps[0].iteration == 6
    np.testing.assert_array_equal(both(resumed, wave[0]), both(whole, wave[0]))


def test_a_run_without_a_checkpoint_says_so_when_stopped(wave):
    with pytest.raises(TrainingInterruptedError, match="there was no state to keep"):
        one_model(4, max_iter=5, random_state=0).fit(*wave, run=Run(should_stop=lambda: True))


def test_a_checkpoint_whose_numbers_break_training_is_named(wave, tmp_path):
    path = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        fit(wave, path, checkpoint_every=1, callback=interrupt_after(3))
    header, arrays = unpack(path.read_bytes(), "checkpoint", 1, source="", error=CheckpointError)
    arrays["session/progress/theta_start"][:] = 1e5
    path.write_bytes(pack("checkpoint", 1, header, arrays))
    with pytest.raises(CheckpointError, match=r'cannot be resumed from checkpoint ".*state": .*start afresh'):
        fit(wave, path)


@pytest.mark.parametrize(
    "change",
    [
        lambda h, a: h["session"].update(stage=1),
        lambda h, a: h["session"].update(stage=-1),
        lambda h, a: h["session"]["progress"].update(values=[]),
        lambda h, a: h["session"]["progress"]["values"].__setitem__(0, "nan"),
        lambda h, a: h["session"]["progress"].update(best_iteration=99),
        lambda h, a: a.update({"session/progress/best_theta": np.zeros(3)}),
        lambda h, a: a["session/progress/gradients/0"].fill(np.inf),
    ],
    ids=["stage", "before", "no values", "nan", "iteration", "parameters", "infinite"],
)
def test_a_sealed_checkpoint_that_does_not_fit_is_refused(wave, tmp_path, change):
    path = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        fit(wave, path, checkpoint_every=1, callback=interrupt_after(3))
    header, arrays = unpack(path.read_bytes(), "checkpoint", 1, source="", error=CheckpointError)
    change(header, arrays)
    path.write_bytes(pack("checkpoint", 1, header, arrays))
    with pytest.raises(CheckpointError, match="checkpoint"):
        fit(wave, path)
