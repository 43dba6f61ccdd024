"""Mixtures of all members of a committee for a block of rows in one compiled call, in single precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import array_of, call, fill, inputs
from gpzed.compiled.heads import outputs_struct
from gpzed.compiled.passes import basis_struct
from gpzed.engine.blocks import Scratch
from gpzed.gp.basis import Gaussians
from gpzed.mixture.network import QuickNetwork
from gpzed.mixture.quick import Columns, Place, Quick, QuickHeads

_structs: WeakKeyDictionary[Quick, dict[Place, Any]] = WeakKeyDictionary()
"""What members are in C, for the next block, as long as they live."""


def fill_columns(
    X: FloatArray, members: Sequence[tuple[Quick, Place]], columns: Columns, scratch: Scratch, *, spare: bool = False
) -> bool:
    """Predict mixtures into the columns of a committee, see `gpzed.mixture.quick.fill_columns`."""
    heads = [_struct(member, place) for member, place in members if isinstance(member, QuickHeads)]
    networks = [_struct(member, place) for member, place in members if isinstance(member, QuickNetwork)]
    assert len(heads) + len(networks) == len(members)
    return call(
        "committee",
        scratch,
        inputs=inputs(X.T),
        n_heads=len(heads),
        n_networks=len(networks),
        heads=array_of("quick_heads", heads),
        networks=array_of("quick_network", networks),
        step=columns.weights.shape[1],
        spare=spare,
        **columns._asdict(),
    )


def _struct(member: QuickHeads | QuickNetwork, place: Place) -> Any:
    kept = _structs.setdefault(member, {})
    if place not in kept:
        kept[place] = _heads(member, place) if isinstance(member, QuickHeads) else _network(member, place)
    return kept[place]


def _heads(member: QuickHeads, place: Place) -> Any:
    assert isinstance(member.state.basis, Gaussians)
    return fill(
        "quick_heads",
        place=fill("place", **place._asdict()),
        mean=member.whitening.mean,
        matrix=member.whitening.matrix,
        basis=basis_struct(member.state.basis, member.state.k),
        outputs=outputs_struct(member.squares.shape[1], member.Theta),
        squares=member.squares,
    )


def _network(member: QuickNetwork, place: Place) -> Any:
    layers = member.layers
    units = np.array([len(layers[0]) - 1, *(layer.shape[1] for layer in layers)], dtype=np.int64)
    return fill(
        "quick_network",
        place=fill("place", **place._asdict()),
        mean=member.whitening.mean,
        matrix=member.whitening.matrix,
        lower=member.lower,
        upper=member.upper,
        n_layers=len(layers),
        widest=int(units.max()),
        units=units,
        layers=np.concatenate([np.ravel(layer) for layer in layers]),
        outputs=outputs_struct(int(units[-1]) // 3, None),
    )
