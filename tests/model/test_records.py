"""Trees of dataclasses as (JSON, arrays), and back."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, field
from typing import Any, Literal, get_origin

import numpy as np
import pytest

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.model import records
from gpzed.model.records import from_parts, may_be_infinite, to_parts


@dataclass(frozen=True)
class Step:
    number: int
    score: float


@dataclass(frozen=True)
class Leaf:
    values: FloatArray
    seen: BoolArray | None = None
    name: str = ""


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    gradients: list[FloatArray]
    sizes: tuple[int, ...]
    blur: Literal["a", "b"]
    limit: float | None
    size: int | Literal["auto"]
    best: float
    scores: dict[str, float] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    anything: AnyArray | None = None


may_be_infinite(Tree, "best")


def tree(**options):
    leaves = (Leaf(np.arange(3.0)), Leaf(np.zeros((0, 2)), np.array([True, False]), "second"))
    steps = (Step(1, -0.5), Step(2, math.nan))
    given = {"limit": None, "size": "auto", "best": -math.inf, "scores": {"rmse": 0.1}, "options": {"n": [1, None]}}
    gradients = [np.ones(2), np.zeros(2)]
    return Tree(leaves, steps, gradients, (4, 5), "a", **given | options)


def test_what_is_taken_apart_can_be_put_together():
    made = tree(anything=np.arange(3, dtype=np.int32))
    stored, arrays = to_parts(made)
    again = from_parts(Tree, json.loads(json.dumps(stored, allow_nan=False)), arrays)
    np.testing.assert_array_equal(again.leaves[0].values, made.leaves[0].values)
    np.testing.assert_array_equal(again.leaves[1].seen, made.leaves[1].seen)
    np.testing.assert_array_equal(again.anything, made.anything)
    assert again.leaves[0].seen is None
    assert again.leaves[1].values.shape == (0, 2)
    assert again.steps[0] == made.steps[0]
    assert isinstance(again.steps[0].number, int)
    assert math.isnan(again.steps[1].score)
    assert [g.tolist() for g in again.gradients] == [[1.0, 1.0], [0.0, 0.0]]
    for name in ("sizes", "blur", "limit", "size", "best", "scores", "options"):
        assert getattr(again, name) == getattr(made, name)


def test_arrays_are_named_by_their_place():
    stored, arrays = to_parts(tree())
    assert set(arrays) == {
        "leaves/0/values", "leaves/1/values", "leaves/1/seen", "steps", "gradients/0", "gradients/1",
    }  # fmt: skip
    assert stored["leaves"] == [{"seen": None, "name": ""}, {"name": "second"}]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s, a: s.pop("blur"), "`blur` is missing"),
        (lambda s, a: s.update(blur="c"), r"`blur` is 'c'; expected one of \('a', 'b'\)"),
        (lambda s, a: s.update(sizes=[1, True]), "`sizes/1` is 'True'; expected int"),
        (lambda s, a: s.update(sizes=3), "`sizes` is '3'; expected list"),
        (lambda s, a: s.update(limit="low"), "`limit` is 'low'; expected float"),
        (lambda s, a: s.update(more=1), "unknown field 'more' in `Tree`"),
        (lambda s, a: s["leaves"][0].update(more=1), "unknown field 'more' in `leaves/0`"),
        (lambda s, a: s["leaves"].append(None), "`leaves/2` is 'None'; expected dict"),
        (lambda s, a: a.pop("leaves/0/values"), "`leaves/0/values` is missing"),
        (lambda s, a: a.pop("gradients/1"), "array 'gradients/1' is missing"),
        (lambda s, a: a.update(steps=np.zeros((2, 3))), r"'steps' has shape \(2, 3\); expected \(rows, 2\)"),
        (lambda s, a: a.update({"leaves/0/values": np.zeros(3, int)}), "is of type int64; expected float64"),
        (lambda s, a: a.update(extra=np.zeros(3)), "unknown array 'extra'"),
    ],
)
def test_what_does_not_fit_is_refused(change, reason):
    stored, arrays = to_parts(tree())
    change(stored, arrays)
    with pytest.raises(ValueError, match=reason):
        from_parts(Tree, stored, arrays)


def test_objects_are_not_stored():
    with pytest.raises(TypeError, match="`options/f` is a builtin_function_or_method"):
        to_parts(tree(options={"f": print}))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has aliases of types")
def test_aliases_of_types_are_what_they_stand_for() -> None:
    from typing import TypeAliasType, TypeVar

    kind = TypeVar("kind", bound=np.generic)
    alias = TypeAliasType("alias", np.ndarray[tuple[Any, ...], np.dtype[kind]], type_params=(kind,))
    found = records._choices(alias[np.float64] | None)
    assert get_origin(found[0]) is np.ndarray
    assert found[1] is type(None)
