"""The model file: exact, atomic, checked, never executed."""

from __future__ import annotations

import hashlib
import json
import os
import pickletools
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpzed import GPzRegressor, Training, _files, load_model
from gpzed._files import write_atomically
from gpzed.errors import ConfigError, GPzError, ModelFormatError
from gpzed.model.container import DIGEST_SIZE, MAGIC, pack, unpack
from helpers import CODES, one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def quick(**options):
    return one_model(**({"n_basis": 4, "max_iter": 5, "n_threads": 1, "random_state": 0} | options))


@pytest.fixture(scope="module")
def model(wave):
    return quick().fit(*wave)


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.gpzed"
    model.save(path)
    return path.read_bytes()


def sealed(body):
    """A file with a checksum that fits, whatever is in it."""
    return body + hashlib.sha256(body).digest()


def assert_same(one, two, X):
    a, b = one.predict_distribution(X), two.predict_distribution(X)
    for name in ("mean", "variance", "model_variance", "noise_variance", "weights", "means"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(one.sample_y(X, 3), two.sample_y(X, 3))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise": "homoscedastic", "relevance": "shared", "mean_function": "linear"},
        {"mean_function": "zero", "whitening": "scale", "weighting": "precision", "calibrate": "none"},
        {"n_members": 2, "whitening": "none", "validation_fraction": 0.0},
    ],
    ids=["default", "flat", "precision", "committee"],
)
def test_predictions_are_the_same_to_the_bit(wave, tmp_path, code, options):
    X, y = wave
    model = quick(covariance=code, **options).fit(X, y)
    model.save(tmp_path / "m.gpzed")
    loaded = load_model(tmp_path / "m.gpzed")
    assert_same(model, loaded, X)
    assert loaded.get_params() == model.get_params()
    assert loaded.n_basis_ == model.n_basis_
    assert loaded.n_features_in_ == 2
    assert loaded.reports_ == model.reports_ or np.isnan(model.report_.best_score)
    loaded.save(tmp_path / "again.gpzed")
    assert (tmp_path / "again.gpzed").read_bytes() == (tmp_path / "m.gpzed").read_bytes()


def test_a_loaded_model_can_be_trained_again(wave, tmp_path, model):
    model.save(tmp_path / "m")
    loaded = load_model(str(tmp_path / "m"))
    assert_same(loaded.fit(*wave), model, wave[0])


@pytest.mark.parametrize(
    "options",
    [
        {"n_basis": np.int64(4)},
        {"random_state": np.int64(3)},
        {"random_state": np.random.default_rng(0)},
        {"random_state": None},
        {"coverage": np.True_},
        {"shape_prior": np.float32(1.0)},
        {"max_time": np.float64(100.0)},
        {"covariance": np.str_("VC")},
    ],
    ids=lambda options: "-".join((*options, type(next(iter(options.values()))).__name__)),
)
def test_options_that_json_does_not_know(wave, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.print", lambda *_: None)
    X, y = wave
    model = quick(**options).fit(X, y)
    model.save("m")
    assert_same(model, load_model("m"), X)


# ------------------------------------------------------------------------------------ damaged files


def test_truncated_anywhere(content, tmp_path):
    path = tmp_path / "m"
    lengths = {1, 5, 8, 12, 16, 20, 24, 31, 32, 33, 40, 100, len(content) // 2, len(content) - 33, len(content) - 1}
    for length in sorted(lengths):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFormatError, match=r"checksum|damaged|does not begin like a gpzed file"):
            load_model(path)


@settings(max_examples=150)
@given(data=st.data())
def test_one_byte_changed_anywhere(content, tmp_path_factory, data):
    index = data.draw(st.one_of(st.integers(0, 60), st.integers(0, len(content) - 1)))
    change = data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "changed.gpzed"
    path.write_bytes(content[:index] + bytes([content[index] ^ change]) + content[index + 1 :])
    with pytest.raises(ModelFormatError, match=r"changed\.gpzed"):
        load_model(path)


def test_bytes_appended(content, tmp_path):
    (tmp_path / "m").write_bytes(content + b"\n")
    with pytest.raises(ModelFormatError, match="fails its checksum"):
        load_model(tmp_path / "m")


def test_empty_file(tmp_path):
    (tmp_path / "m").touch()
    with pytest.raises(ModelFormatError, match="is empty; expected a gpzed model file"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize(
    "other", [b"PK\x03\x04 a zip file", b"SIMPLE  =                    T", b"\x80\x04\x95pickle", b"z,mag\n"]
)
def test_other_files(tmp_path, other):
    (tmp_path / "m").write_bytes(other * 20)
    with pytest.raises(ModelFormatError, match="does not begin like a gpzed file"):
        load_model(tmp_path / "m")


def test_missing_file(tmp_path):
    with pytest.raises(ModelFormatError, match=r'there is no file ".*nothing\.gpzed"'):
        load_model(tmp_path / "nothing.gpzed")


def test_directory(tmp_path):
    with pytest.raises(ModelFormatError, match="cannot be read: Is a directory"):
        load_model(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(content, tmp_path):
    (tmp_path / "m").write_bytes(content)
    (tmp_path / "m").chmod(0)
    with pytest.raises(ModelFormatError, match="cannot be read: Permission denied"):
        load_model(tmp_path / "m")


def test_future_version(content, tmp_path):
    body = content[:-DIGEST_SIZE].replace(b"model 1\n", b"model 7\n", 1)
    (tmp_path / "m").write_bytes(sealed(body))
    with pytest.raises(ModelFormatError, match=r"format version 7, but this gpzed reads up to version 1.*Upgrade"):
        load_model(tmp_path / "m")


def test_another_kind_of_file(tmp_path):
    (tmp_path / "m").write_bytes(pack("checkpoint", 1, {}, {}))
    with pytest.raises(ModelFormatError, match="is a gpzed checkpoint file; expected a model file"):
        load_model(tmp_path / "m")


def parts(content):
    header, arrays = unpack(content, "model", 1, source="m", error=ModelFormatError)
    return header, arrays


def damage(content, change):
    header, arrays = parts(content)
    change(header, arrays)
    return pack("model", 1, header, arrays)


RECALIBRATION = {"log_scale": 0.1, "wing_weight": 0.0, "wing_scale": 1.0, "n_rows": 300, "before": {}, "after": {}}
LOCAL = {"recalibration/local": np.array([0.1])}


@pytest.mark.parametrize(
    "change",
    [
        lambda h, a: h.pop("members"),
        lambda h, a: h.pop("parameters"),
        lambda h, a: h.pop("n_features"),
        lambda h, a: h.update(members=[]),
        lambda h, a: h.update(members=3),
        lambda h, a: h["parameters"].update(no_such_option=1),
        lambda h, a: h["members"][0]["layout"].update(structure="XX"),
        lambda h, a: h["members"][0]["parameters"].pop("b"),
        lambda h, a: h["members"][0]["parameters"].update(b=None),
        lambda h, a: h["members"][0]["layout"].update(m=99),
        lambda h, a: h["members"][0]["layout"].update(m=4.0),
        lambda h, a: h["members"][0].update(surprise=1),
        lambda h, a: h["coverage"].update(tail_scale="wide"),
        lambda h, a: a.pop("members/0/parameters/P"),
        lambda h, a: a.update(surprise=np.zeros(3)),
        lambda h, a: a.update({"members/0/parameters/P": a["members/0/parameters/P"][:-1]}),
        lambda h, a: a.update({"members/0/parameters/P": a["members/0/parameters/P"].astype(np.float32)}),
        lambda h, a: a.update({"members/0/posterior/w_mean": a["members/0/posterior/w_mean"][:-1]}),
        lambda h, a: a.update({"members/0/report/history": a["members/0/report/history"][:, 1:]}),
        lambda h, a: a.update({"coverage/density/means": a["coverage/density/means"][:, 1:]}),
        lambda h, a: a.update({"members/0/report/history": np.full_like(a["members/0/report/history"], np.inf)}),
        lambda h, a: h.update(n_features=10**30),
        lambda h, a: h.update(estimator="Zebra"),
        lambda h, a: h["parameters"].update(n_threads="many"),
        lambda h, a: h["parameters"].update(missing=[]),
        lambda h, a: h["parameters"].update(n_members=2),
        lambda h, a: h["parameters"].update(random_state="seven"),
        lambda h, a: h["parameters"].update(training={"max_iter": -1}),
        lambda h, a: h.update(feature_names=["u", "u"]),
        lambda h, a: h["members"][0]["standardisation"].update(y_scale=0.0),
        lambda h, a: h["members"][0]["standardisation"].update(y_mean="nan"),
        lambda h, a: h["members"][0]["parameters"].update(P=None),
        lambda h, a: h["coverage"].update(tail_scale=-1.0),
        lambda h, a: a["members/0/parameters/P"].fill(np.nan),
        lambda h, a: a["members/0/parameters/P"].fill(1e199),
        lambda h, a: a["members/0/posterior/factor/s"].fill(0.0),
        lambda h, a: np.fill_diagonal(a["members/0/posterior/factor/L"], -1.0),
        lambda h, a: a["members/0/standardisation/whitening/matrix"].fill(1.0),
        lambda h, a: a["members/0/standardisation/inputs/density/weights"].fill(0.4),
        lambda h, a: a["members/0/standardisation/inputs/density/covariances"].fill(-1.0),
        lambda h, a: a.update({"coverage/log_density": -a["coverage/log_density"]}),
        lambda h, a: a.update({"coverage/level": np.zeros(0), "coverage/log_density": np.zeros(0)}),
        lambda h, a: h.update(recalibration=RECALIBRATION | {"wing_weight": 1.5}) or a.update(LOCAL),
        lambda h, a: (
            h.update(recalibration=RECALIBRATION, coverage=None)
            or [a.pop(name) for name in list(a) if name.startswith("coverage")]
            or a.update(LOCAL)
        ),
        lambda h, a: (
            h["members"][0].update(posterior=None)
            or [a.pop(name) for name in list(a) if name.startswith("members/0/posterior")]
        ),
    ],
    ids=[
        "no members",
        "no options",
        "no number of features",
        "zero members",
        "members a number",
        "unknown option",
        "unknown structure",
        "no b",
        "b null",
        "other m",
        "m not whole",
        "unknown field",
        "text for a number",
        "no centres",
        "unknown array",
        "a centre short",
        "single precision",
        "a weight short",
        "a column short",
        "an input short",
        "infinite history",
        "features without end",
        "another estimator",
        "threads in words",
        "a list for an option",
        "a member short",
        "a seed in words",
        "no iterations",
        "a name twice",
        "no scale",
        "no mean",
        "an array twice",
        "a negative scale",
        "centres not numbers",
        "centres far away",
        "no scale of the factor",
        "a negative factor",
        "a singular matrix",
        "weights short of one",
        "negative covariances",
        "a falling density",
        "an empty density",
        "a weight above one",
        "regions without a density",
        "neither posterior nor heads",
    ],
)
def test_a_sealed_file_with_parts_missing_or_garbled(content, tmp_path, change):
    (tmp_path / "m").write_bytes(damage(content, change))
    with pytest.raises(ModelFormatError, match=r'm"'):
        load_model(tmp_path / "m")


def raw(text, arrays=b""):
    return sealed(MAGIC + b"model 1\n" + len(text).to_bytes(8, "little") + text + arrays)


@pytest.mark.parametrize(
    "payload",
    [
        raw(b"not json"),
        raw(b"[]"),
        raw(b"{}"),
        raw(b"\xff\xfe"),
        raw(json.dumps({"header": {}, "arrays": [["a", "|O", [1]]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [1000]]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [-1]]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "nonsense", [1]]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8"]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [1], "<f8"]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<i8", [2], "<f4", False]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [1, 2], "<f8", True]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [9, 9], "<f4", True]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [1], "<f8", 0]]}).encode(), bytes(8)),
        raw(b'{"header": ' + b"[" * 100_000 + b"]" * 100_000 + b', "arrays": []}'),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [10**30]]]}).encode(), bytes(8)),
        raw(b'{"header": {"pipeline": ' + b"[" * 900 + b"]" * 900 + b'}, "arrays": []}'),
        raw(b'{"header": {"n": 1e999}, "arrays": []}'),
        raw(b'{"header": {"n": NaN}, "arrays": []}'),
        raw(b'{"header": {"n": 1' + b"0" * 4000 + b'}, "arrays": []}'),
        raw(b'{"header": {"n": 1, "n": 2}, "arrays": []}'),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [True]]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [1] * 70]]}).encode(), bytes(8)),
        raw(json.dumps({"header": {}, "arrays": [["a", "<f8", [1]], ["a", "<f8", [1]]]}).encode(), bytes(16)),
        raw(json.dumps({"header": {}, "arrays": []}).encode(), bytes(8)),
        sealed(MAGIC + b"model 1\n" + (2**62).to_bytes(8, "little")),
        sealed(MAGIC + b"model 1\n"),
    ],
    ids=[
        "text",
        "list",
        "no parts",
        "not utf-8",
        "objects",
        "beyond the end",
        "negative",
        "no such type",
        "no shape",
        "stored how",
        "whole numbers as single",
        "no triangle",
        "triangle beyond the end",
        "lower a number",
        "deep",
        "huge",
        "900 levels",
        "an overflow",
        "a nan",
        "4000 digits",
        "a key twice",
        "a truth for a length",
        "70 axes",
        "an array twice",
        "bytes left over",
        "endless header",
        "no header",
    ],
)
def test_a_sealed_file_with_nonsense_in_it(tmp_path, payload):
    (tmp_path / "m").write_bytes(payload)
    with pytest.raises(ModelFormatError, match=r'm"'):
        load_model(tmp_path / "m")


# --------------------------------------------------------------------------------- nothing is executed


def test_no_pickle_in_the_file(content):
    """No stretch of the file is a pickle: none starts with the protocol mark and runs to a proper end."""
    start = content.find(b"\x80")
    while start >= 0:
        if content[start + 1] <= 5:
            with pytest.raises(Exception, match=r".+"):
                list(pickletools.genops(content[start:]))
        start = content.find(b"\x80", start + 1)
    assert b"sklearn" not in content
    assert b"numpy" not in content


def test_loading_imports_nothing_that_executes(model, tmp_path):
    model.save(tmp_path / "m.gpzed")
    code = (
        "import sys, builtins\n"
        "import numpy as np; import gpzed; from gpzed import GPzRegressor, load_model\n"
        "own = GPzRegressor(2, n_members=1, n_heads=1, random_state=0).fit(np.eye(30), np.arange(30.0))\n"
        "own.predict(np.eye(30))  # loads our own libraries\n"
        "banned = ('pickle.loads', 'eval', 'exec')\n"
        "def audit(event, args):\n"
        "    if event in ('pickle.find_class', 'exec', 'compile', 'os.system', 'subprocess.Popen', 'ctypes.dlopen'):\n"
        "        raise RuntimeError(event)\n"
        "sys.addaudithook(audit)\n"
        f"model = load_model({str(tmp_path / 'm.gpzed')!r})\n"
        "print(model.n_features_in_)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout == "2\n", result.stderr


# -------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_while_writing_leaves_the_old_file(model, tmp_path, monkeypatch, step):
    path = tmp_path / "m.gpzed"
    path.write_bytes(b"the old one")

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_files.os, step, fail)
        with pytest.raises(OSError, match="the disk is full"):
            model.save(path)
    assert path.read_bytes() == b"the old one"
    assert os.listdir(tmp_path) == ["m.gpzed"], "no temporary file is left behind"


def test_an_interrupt_while_writing_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "f", b"x")
    assert os.listdir(tmp_path) == []


def test_saving_replaces_and_respects_the_umask(model, tmp_path):
    path = tmp_path / "m.gpzed"
    path.write_bytes(b"the old one")
    old = os.umask(0o027)
    try:
        model.save(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    load_model(path)


def test_saving_to_a_folder_that_is_not_there(model, tmp_path):
    with pytest.raises(ConfigError, match=r"folder '.*no' does not exist; create it, or write the model elsewhere"):
        model.save(tmp_path / "no" / "m.gpzed")


def test_saving_a_number_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="Out of range float"):
        pack("model", 2, {"b": float("nan")}, {})


def test_container_refuses_objects():
    with pytest.raises(TypeError, match="array 'a' has dtype object"):
        pack("model", 2, {}, {"a": np.array([object()])})


@settings(max_examples=50)
@given(data=st.data())
def test_container_round_trip(data):
    names = data.draw(st.lists(st.text(max_size=5), unique=True, max_size=4))
    rng = np.random.default_rng(0)
    arrays = {}
    for name in names:
        shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
        dtype = data.draw(st.sampled_from(["<f8", ">f8", "<f4", "<i8", "?", "u1", "<u4"]))
        arrays[name] = (rng.standard_normal(shape) * 100).astype("f4").astype(np.int32).clip(0).astype(dtype)
    header = data.draw(st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text()))
    payload = pack("thing", 2, header, arrays)
    got_header, got = unpack(payload, "thing", 2, source="s", error=GPzError)
    assert got_header == header
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(got[name], array)
        assert got[name].shape == array.shape
        assert got[name].dtype == array.dtype.newbyteorder("=")
        assert got[name].flags.writeable


def test_arrays_come_back_as_they_were_and_take_no_more_than_they_must() -> None:
    rng = np.random.default_rng(0)
    lower = np.tril(rng.standard_normal((40, 40)))
    arrays = {
        "lower": lower,
        "single lower": lower.astype(np.float32).astype(np.float64),
        "single": np.array([[0.5, np.nan], [np.inf, -0.0]]),
        "double": np.array([0.1, 1e300]),
        "float32": np.ones((2, 3), np.float32),
        "integers": np.arange(4).reshape(2, 2),
        "empty": np.empty((0, 0)),
        "number": np.array([[2.0]]),
    }
    payload = pack("model", 1, {}, arrays)
    _, found = unpack(payload, "model", 1, source="here", error=ModelFormatError)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    numbers = 40 * 41 // 2
    assert len(payload) < numbers * (8 + 4) + 800


def test_heads_are_stored_in_single_precision_and_without_the_model_they_started_from() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    y = np.where(rng.random(400) < 0.5, 1.0, -1.0) * (2.0 + X[:, 0])  # two branches: heads are kept
    model = GPzRegressor(n_basis=5, n_heads=2, n_members=1, random_state=0, training=Training(n_epochs=10)).fit(X, y)
    (member,) = model.members_
    assert member.mixture is not None
    assert member.posterior is None
    heads = member.mixture.heads
    assert all(np.array_equal(part, part.astype(np.float32)) for part in (heads.P, heads.Gamma))
