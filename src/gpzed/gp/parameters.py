"""The free parameters theta = {P, Gamma, u, b, ln alpha, ln eta} (appendix C); the only file that slices theta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpzed._types import FloatArray
from gpzed.gp.covariance import Structure, get_structure

MeanFunction = Literal["zero", "constant", "linear"]


@dataclass(frozen=True)
class Parameters:
    """A point in parameter space, or a gradient at one."""

    P: FloatArray  # (m, d) centres of the basis functions
    Gamma: FloatArray  # shape by structure; square roots of the precision matrices
    u: FloatArray  # (m,) weights of the log noise precision
    b: float  # offset of the log noise precision
    log_alpha: FloatArray  # (m + k,) or (1 + k,) log prior precisions of the weights, those of the mean function last
    log_eta: FloatArray  # (m,) log prior precisions of ``u``


@dataclass(frozen=True)
class Layout:
    """Which parameters are free, and where they stand in the flat vector theta."""

    m: int  # basis functions
    d: int  # features
    structure: Structure
    heteroscedastic: bool = True  # whether ``u`` and ``eta`` are free; otherwise ``u = 0`` (section 3)
    relevance: bool = True  # one ``alpha`` per weight (section 4), or one for all basis functions (Eq. 3.9)
    mean_function: MeanFunction = "zero"  # columns of the quadratic map that enter the mean, too

    @classmethod
    def of(cls, m: int, d: int, code: str, **options: object) -> Layout:
        """Build a layout from the code of a structure."""
        return cls(m, d, get_structure(code), **options)  # type: ignore[arg-type]

    @property
    def k(self) -> int:
        """Number of weights of the mean function."""
        return {"zero": 0, "constant": 1, "linear": 1 + self.d}[self.mean_function]

    @property
    def n_weights(self) -> int:
        """Length of w: basis functions and mean function."""
        return self.m + self.k

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every free block, in the order in which theta holds them."""
        shapes: dict[str, tuple[int, ...]] = {
            "P": (self.m, self.d),
            "Gamma": self.structure.gamma_shape(self.m, self.d),
            "b": (),
            "log_alpha": ((self.m if self.relevance else 1) + self.k,),
        }
        if self.heteroscedastic:
            shapes |= {"u": (self.m,), "log_eta": (self.m,)}
        return shapes

    @property
    def size(self) -> int:
        """Length of theta."""
        return int(sum(np.prod(shape, dtype=int) for shape in self.shapes().values()))

    def pack(self, parameters: Parameters) -> FloatArray:
        """Flatten parameters (or a gradient) into theta."""
        return np.concatenate([np.ravel(getattr(parameters, name)) for name in self.shapes()])

    def unpack(self, theta: FloatArray) -> Parameters:
        """Inverse of `pack`; blocks that are not free come back as zeros."""
        blocks: dict[str, FloatArray] = {"u": np.zeros(self.m), "log_eta": np.zeros(self.m)}
        start = 0
        for name, shape in self.shapes().items():
            stop = start + int(np.prod(shape, dtype=int))
            blocks[name] = theta[start:stop].reshape(shape)
            start = stop
        b = float(blocks.pop("b"))
        return Parameters(b=b, **blocks)

    def expand_alpha(self, log_alpha: FloatArray) -> FloatArray:
        """Prior precision of every weight, (m + k,), from the free ``log_alpha``."""
        if self.relevance:
            return np.exp(log_alpha)
        return np.asarray(np.exp(np.concatenate([np.full(self.m, log_alpha[0]), log_alpha[1:]])))

    def fold_alpha(self, grad: FloatArray) -> FloatArray:
        """Gradient for the free ``log_alpha`` from the one for every weight."""
        if self.relevance:
            return grad
        return np.concatenate([[grad[: self.m].sum()], grad[self.m :]])
