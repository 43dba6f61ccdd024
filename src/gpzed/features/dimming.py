r"""Training rows that look like a deeper target: galaxies with known redshift, dimmed, with the noise of the target.

Every target object is explained by galaxies of a library, scaled in flux: with F, σ its fluxes and errors and f those
of a galaxy, the scale a fits best, and

.. math:: \ln L = -\tfrac12 \sum_j (F_j - a f_j)^2 / (\sigma_j^2 + \epsilon^2 F_j^2) - \tfrac12 (\Delta m / \tau)^2

(the second term for dimming by Δm: the less, the more alike are the galaxies). How frequent each galaxy is among
objects of a magnitude is found by expectation maximisation, beginning with a prior on redshifts. Objects are then drawn
from the target, for each a galaxy by its probability, and noise is added up to that of the object.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.catalog.photometry import Status
from gpzed.errors import CatalogError
from gpzed.features.bands import POGSON
from gpzed.features.fluxes import SEEN, Survey, detection_limit, usable_galaxies
from gpzed.features.labels import Labels
from gpzed.features.library import (
    MAX_PRIOR_ROWS,
    MIN_GALAXIES,
    Galaxies,
    RedshiftPrior,
    counts_by_redshift,
    fit_redshift_prior,
    interpolated,
    joined_galaxies,
)
from gpzed.features.weights import target_weights

LIBRARY_SIZE = 8000
MAX_OBJECTS = 5000
"""Target objects that are explained, drawn at random."""
MIN_SLICE, MAX_SLICES = 200, 10
"""Objects at least in a slice of magnitude, and slices at most."""
SOFTNESS = 0.03
"""ε: part of the flux by which a galaxy may differ from those of the library."""
DIMMING_SCALE = 1.0
"""τ: magnitudes of dimming that are a standard deviation."""
MAX_BRIGHTENING = 0.5
"""Magnitudes by which a galaxy may be made brighter."""
REDSHIFT_BLUR = 0.01
"""Redshift, in units of 1 + z, by which a galaxy may differ from one that looks alike and is a magnitude brighter; it
grows with the square of the dimming, from two magnitudes on in proportion."""
UNKNOWN_PART = 0.02
"""Part of the galaxies, per magnitude of dimming, that may be of a kind without spectra: their redshifts are drawn from
the prior, so that densities have wings where labels end."""
SIMULATED_TRUST = 0.1
"""Weight of a simulated galaxy beside one with a spectrum."""
STEPS = 5
MIN_OVERLAP = 0.1
"""Effective part of the galaxies with spectra that must look like objects of the target to be weighted like these."""
PRIOR_PART = 0.5
"""Part of how frequent galaxies are that stays as the prior says: noisy objects would make a few of them stand out."""
UNEXPLAINED = 1e-3
"""Probability of a worse fit below which an object is not explained by any galaxy."""
MIN_KEPT = 0.3
"""Part of the scale that fits best below which noise in the reference band may not lower it."""


@dataclass(frozen=True)
class Dimmed:
    """Rows made from galaxies with known redshift, in the likeness of a target."""

    survey: Survey
    labels: Labels
    held_out: BoolArray  # (n,) made of galaxies that are held out
    dimming: FloatArray  # (n,) magnitudes
    unexplained: float  # share of the target that no galaxy explains

    @property
    def z(self) -> FloatArray:
        """Redshifts."""
        return self.labels.z


def dim(
    training: Survey,
    labels: Labels,
    held_out: BoolArray,
    target: Survey,
    n: int,
    rng: np.random.Generator,
    simulated: Galaxies | None = None,
) -> Dimmed:
    """Make `n` rows that look like the target.

    Galaxies that are held out and others are never mixed: a row comes from one kind or the other. `simulated` galaxies
    join the library with little weight, so that they count where there are no others.

    Raises
    ------
    CatalogError
        Training or target have no errors, or too few rows are measured in all bands.
    """
    if not (np.isfinite(training.error).any(axis=0) & np.isfinite(target.error).any(axis=0)).all():
        raise CatalogError("rows cannot be dimmed without errors in every band, of training and of target")
    reference = target.reference
    usable = usable_galaxies(training, reference) & (labels.z > 0.0)
    if min((usable & ~held_out).sum(), len(target.flux)) < MIN_GALAXIES:
        raise CatalogError(f"fewer than {MIN_GALAXIES} training rows are measured in all bands of the target")
    filled = Galaxies.of(
        np.where(np.isfinite(training.flux), training.flux, 0.0),
        np.where(np.isfinite(training.error), training.error, training.typical_error),
        labels,
    )
    library, is_held = _library(filled, usable, held_out, reference, rng)
    objects = target.take(rng.permutation(len(target.flux))[:MAX_OBJECTS])
    prior = _prior(filled.take(usable), objects, reference, rng)
    log_trust = np.zeros(len(library.z))
    if simulated is not None:
        library = joined_galaxies([library, simulated])
        is_held = np.concatenate([is_held, rng.random(len(simulated.z)) < is_held.mean()])
        log_trust = np.concatenate([log_trust, np.full(len(simulated.z), np.log(SIMULATED_TRUST))])
    # The library is flat in ln(1 + z), so this takes the prior, a density per z, for one per ln(1 + z). Less dimming is
    # preferred, which favours high redshifts: a factor 1 + z on top made shallow surveys worse.
    return _drawn(objects, library, log_trust - np.log(counts_by_redshift(library.z)), is_held, prior, n, rng)


def _prior(galaxies: Galaxies, objects: Survey, reference: int, rng: np.random.Generator) -> RedshiftPrior:
    """Fit redshifts at a magnitude to galaxies, with weights that give them the colours of the target where both are.

    Where few galaxies have all the weight, all count alike.
    """
    galaxies = galaxies.take(rng.permutation(len(galaxies.z))[:MAX_PRIOR_ROWS])
    typical, weights = objects.typical_error, np.ones(len(galaxies.z))
    filled = Galaxies.of(
        np.nan_to_num(objects.flux), np.broadcast_to(typical, objects.flux.shape), np.zeros(len(objects.flux))
    )
    own, wanted = (np.column_stack([part.magnitudes(j) for j in range(len(typical))]) for part in (galaxies, filled))
    with suppress(CatalogError):  # nothing in common
        found = target_weights(_colours(own, reference), _colours(wanted, reference))
        weights = found if found.sum() ** 2 / (found @ found) > MIN_OVERLAP * len(found) else weights
    return fit_redshift_prior(own[:, reference], galaxies.z, weights)


def _colours(magnitudes: FloatArray, reference: int) -> FloatArray:
    """Return colours and the reference magnitude."""
    return np.column_stack([np.diff(magnitudes, axis=1), magnitudes[:, reference]])


def _library(
    galaxies: Galaxies, usable: BoolArray, held_out: BoolArray, reference: int, rng: np.random.Generator
) -> tuple[Galaxies, BoolArray]:
    """Interpolate between galaxies of each kind, held out or not; say which are held out."""
    parts, kinds = [], []
    for kind in (False, True):
        rows = np.flatnonzero(usable & (held_out == kind))
        if len(rows) < 3:
            continue
        n = round(LIBRARY_SIZE * len(rows) / int(usable.sum()))
        parts.append(interpolated(galaxies.take(rows), n, reference, rng))
        kinds.append(np.full(n, kind))
    return joined_galaxies(parts), np.concatenate(kinds)


def _drawn(
    objects: Survey,
    library: Galaxies,
    log_weight: FloatArray,
    is_held: BoolArray,
    prior: RedshiftPrior,
    n: int,
    rng: np.random.Generator,
) -> Dimmed:
    """Draw objects and a galaxy for each, slice by slice in magnitude; galaxies have weights beside the prior."""
    reference, typical = objects.reference, objects.typical_error
    with np.errstate(invalid="ignore", divide="ignore"):
        magnitudes = -POGSON * np.log(np.fmax(objects.flux[:, reference], 0.3 * typical[reference]))
    order = np.argsort(magnitudes)
    slices = np.array_split(order, int(np.clip(len(order) // MIN_SLICE, 1, MAX_SLICES)))
    parts, n_bad = [], 0
    for rows in slices:
        share = objects.take(rows)
        log_prior = prior.log_density(library.z, float(np.median(magnitudes[rows]))) + log_weight
        found = explain(share, library, typical, log_prior)
        n_bad += int((~found.explained).sum())
        wanted = rng.integers(len(rows), size=round(n * len(rows) / len(order)))
        which = _choose(found.probability, wanted, rng)
        scale = found.scale[wanted, which]
        seen, scale = _observe(share.take(wanted), library.take(which), scale, typical, reference, rng)
        dimming = -POGSON * np.log(scale)
        blur = REDSHIFT_BLUR * np.maximum(dimming, 0.0) * np.clip(dimming, 0.0, 2.0) * rng.standard_normal(len(which))
        z = np.maximum(library.z[which] + (1.0 + library.z[which]) * blur, 1e-3)
        strange = rng.random(len(which)) < UNKNOWN_PART * np.maximum(dimming, 0.0)
        z[strange] = prior.draw(float(np.median(magnitudes[rows])), int(strange.sum()), rng)
        z_std, wrong = np.where(strange, 0.0, library.z_std[which]), library.wrong[which]
        parts.append((seen.status, dimming, is_held[which], Galaxies(seen.flux, seen.error, z, z_std, wrong)))
    status, dimming, held = (np.concatenate(arrays) for arrays in list(zip(*parts, strict=True))[:3])
    made = joined_galaxies([part[3] for part in parts])
    survey = Survey(made.flux, made.error, status, objects.is_logarithmic)
    return Dimmed(survey, made.labels, held, dimming, n_bad / len(order))


class Explanation(NamedTuple):
    """How galaxies of a library explain objects of about one magnitude."""

    probability: FloatArray  # (n, L), of each galaxy
    scale: FloatArray  # (n, L), of its flux
    explained: BoolArray  # (n,) whether any galaxy fits


def explain(objects: Survey, library: Galaxies, typical: FloatArray, log_prior: FloatArray) -> Explanation:
    """Find the galaxies that explain objects, and how frequent they are among them, by expectation maximisation."""
    unseen = objects.status == Status.NOT_DETECTED
    known = np.isfinite(objects.flux)
    flux = np.where(known, objects.flux, 0.0)
    error = np.where(known, objects.error, typical)
    precision = np.where(known | unseen, 1.0 / (error**2 + (SOFTNESS * flux) ** 2), 0.0)
    cross, square = (precision * flux) @ library.flux.T, precision @ (library.flux**2).T  # (n, L)
    scale = np.maximum(cross / np.maximum(square, 1e-300), 1e-12)
    chi2 = np.maximum((precision * flux**2).sum(axis=1)[:, None] - scale * cross, 0.0)
    noise = np.median((library.error / np.median(error, axis=0)) ** 2, axis=1)  # of the galaxies, relative
    widening = 1.0 + scale**2 * noise
    free = np.maximum((known | unseen).sum(axis=1) - 1.0, 1.0)[:, None]
    dimming = -POGSON * np.log(scale)
    log_like = -0.5 * chi2 / widening - 0.5 * free * np.log(widening) - 0.5 * (dimming / DIMMING_SCALE) ** 2
    log_like = np.where(dimming < -MAX_BRIGHTENING, -1e3 + log_like, log_like)
    like = np.exp(log_like - log_like.max(axis=1, keepdims=True))
    share = np.exp(log_prior - log_prior.max())
    share /= share.sum()
    expected = share
    for step in range(STEPS + 1):
        probability = like * share
        probability /= np.maximum(probability.sum(axis=1, keepdims=True), 1e-300)
        if step < STEPS:
            share = (1.0 - PRIOR_PART) * probability.mean(axis=0) + PRIOR_PART * expected
    fits = chi2 / widening < chdtri(free, UNEXPLAINED)
    return Explanation(probability, scale, np.asarray((fits & (dimming > -MAX_BRIGHTENING)).any(axis=1)))


def _choose(probability: FloatArray, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw a galaxy for each of some rows, by its probability."""
    reached = np.cumsum(probability, axis=1)
    at = rng.random(len(rows)) * reached[rows, -1]
    which = [np.searchsorted(reached[row], value) for row, value in zip(rows, at, strict=True)]
    return np.asarray(np.minimum(np.array(which, dtype=np.intp), probability.shape[1] - 1))


def _observe(
    objects: Survey,
    galaxies: Galaxies,
    scale: FloatArray,
    typical: FloatArray,
    reference: int,
    rng: np.random.Generator,
) -> tuple[Survey, FloatArray]:
    """Scale galaxies to objects, near to the `scale` that fits best, and add noise up to theirs; return scales, too.

    With its noise, a galaxy has the flux of an object that was seen in the `reference` band: magnitudes are those of
    the target, with its limit, and not blurred twice. A band is a gap where the flux came out below what the target
    detects, and where the object has a gap though the galaxy would have been seen.
    """
    error = np.where(np.isfinite(objects.error), objects.error, typical)
    noise = np.sqrt(np.maximum(error**2 - (scale[:, None] * galaxies.error) ** 2, 0.0))
    noise *= rng.standard_normal(noise.shape)
    seen = np.nan_to_num(objects.flux[:, reference])
    fitted, kept = scale * galaxies.flux[:, reference], seen - noise[:, reference]
    keeps = (seen > SEEN * error[:, reference]) & (kept > MIN_KEPT * fitted)
    scale = scale * np.where(keeps, kept / np.where(fitted > 0.0, fitted, 1.0), 1.0)
    flux = scale[:, None] * galaxies.flux
    noisy, error = flux + noise, np.maximum(error, scale[:, None] * galaxies.error)
    status = np.zeros(flux.shape, dtype=np.int8)
    for j, column in enumerate(objects.status.T):
        gaps = column[column != Status.MEASURED]
        if not len(gaps):
            continue
        kinds, counts = np.unique(gaps, return_counts=True)
        lost = (column != Status.MEASURED) & (flux[:, j] > SEEN * error[:, j])
        status[lost, j] = column[lost]
        status[(noisy[:, j] <= detection_limit(objects, j) * error[:, j]) & ~lost, j] = kinds[np.argmax(counts)]
    missing = status != Status.MEASURED
    return Survey(np.where(missing, np.nan, noisy), np.where(missing, np.nan, error), status), scale
