"""The SDSS spectroscopic sample of the paper's appendix D, as a query that does what was meant."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import numpy as np

from gpzed.catalog._format import require
from gpzed.catalog._names import near_misses
from gpzed.catalog.table import Catalog
from gpzed.errors import CatalogError, ConfigError

PHOTO_FLAGS = {
    "PEAKCENTER": "centre is only the position of the peak pixel",
    "NOTCHECKED": "has pixels never searched for peaks",
    "DEBLEND_NOPEAK": "deblended child without a peak of its own",
    "PSF_FLUX_INTERP": "over 20 % of the PSF flux is interpolated",
    "BAD_COUNTS_ERROR": "interpolation makes the flux error too small",
    "INTERP_CENTER": "a pixel near the centre is interpolated",
}
"""Photometric flags that mark unreliable photometry, in the paper's order, and what each means."""

_HEADER = """\
-- SDSS galaxies with spectroscopic redshifts: the sample of Almosallam, Jarvis & Roberts (2016), appendix D.
-- Run it at https://skyserver.sdss.org/casjobs/ with context {release}; download {table} as CSV or FITS.
--
-- Differences from the query as printed:
{notes}"""

_CONSTANT = """\
-- 1. Flags. The paper writes  dbo.fPhotoFlags('PEAKCENTER') != 0  and so on. fPhotoFlags returns the value
--    of the named bit, a constant that is never 0: these tests hold for every object and exclude none."""
_FLAG_NOTE = f"""{_CONSTANT}
--    What was meant is that the object must NOT carry the bit:
--        (p.flags & dbo.fPhotoFlags('PEAKCENTER')) = 0
--    As printed, the query makes no cut on flags at all, and the paper counts 2,120,465 objects; this one
--    returns fewer."""
_NO_FLAG_NOTE = f"""{_CONSTANT}
--    They are left out here: this is what the printed query selects, objects with bad photometry included."""
_JOIN_NOTE = """\
-- 2. Join. The paper writes  p.SpecObjID = s.SpecObjID. Here it is  s.bestObjID = p.objID, the match by
--    position used in the sample queries of SDSS: SpecObj holds the one science-primary spectrum of an
--    object, bestObjID the photometric object it belongs to; with p.mode = 1 every galaxy comes once.
--    Spectra without a photometric match have bestObjID = 0 and drop out."""


def casjobs_query(
    release: str = "DR12",
    *,
    bands: Sequence[str] = ("u", "g", "r", "i", "z"),
    flags: Sequence[str] | None = None,
    table: str = "mydb.modelmag_dataset",
    limit: int | None = None,
) -> str:
    """Return the SQL that selects the paper's data set on the CasJobs service of SDSS.

    Its comments say where it departs from the query that the paper prints, and why; `guess_schema` recognises the
    columns it gives.

    Parameters
    ----------
    release : str
        Data release, "DR8" or later; the CasJobs context to run the query in.
    bands : sequence of str
        Which of u, g, r, i, z.
    flags : sequence of str, optional
        Photometric flags that an object must not have; by default the six of the paper (`PHOTO_FLAGS`). Empty for no
        cut on flags, which is what the paper's query does in effect.
    table : str
        Table of your own database (MyDB) to write to.
    limit : int, optional
        Return only this many objects, for a try.

    Examples
    --------
    >>> from gpzed.catalog.sdss import casjobs_query
    >>> print(casjobs_query(limit=10).splitlines()[0])
    -- SDSS galaxies with spectroscopic redshifts: the sample of Almosallam, Jarvis & Roberts (2016), appendix D.
    """
    release = release.upper()
    if not re.fullmatch(r"DR([89]|1\d|2\d)", release):
        raise ConfigError(
            f"`release` is {release!r}; expected a data release with BOSS tables: DR8, DR9, ... like 'DR12'"
        )
    if not re.fullmatch(r"(?i)mydb\.[a-z]\w*", table):
        raise ConfigError(f"`table` is {table!r}; expected a table of your own database, like 'mydb.modelmag_dataset'")
    for band in bands:
        if band not in "ugriz" or len(band) != 1:
            raise ConfigError(f"`bands` has {band!r}; SDSS has u, g, r, i, z")
    if not bands:
        raise ConfigError("`bands` is empty; give some of u, g, r, i, z")
    if limit is not None and limit < 1:
        raise ConfigError(f"`limit` is {limit}; expected at least 1")
    unwanted = list(PHOTO_FLAGS) if flags is None else [_flag(name) for name in flags]
    return _query(release, bands, unwanted, table, limit)


MAX_DOWNLOAD = 100_000
"""Objects that are fetched at once; more take longer than the server allows."""


def download_sdss(
    limit: int = 10_000,
    release: str = "DR17",
    *,
    bands: Sequence[str] = ("u", "g", "r", "i", "z"),
    flags: Sequence[str] | None = None,
) -> Catalog:
    """Fetch a small sample of SDSS galaxies with spectroscopic redshifts, through astroquery.

    Parameters
    ----------
    limit : int
        Objects to fetch, at most `MAX_DOWNLOAD`; the server chooses which.
    release, bands, flags
        As for `casjobs_query`, which is the way to larger samples.

    Raises
    ------
    CatalogError
        If the server cannot be reached, refuses, or finds nothing.

    Examples
    --------
    >>> from gpzed.catalog.sdss import download_sdss
    >>> galaxies = download_sdss(1000)  # doctest: +SKIP
    """
    if not 1 <= limit <= MAX_DOWNLOAD:
        raise ConfigError(
            f"`limit` is {limit}; expected 1 to {MAX_DOWNLOAD}: get larger samples from CasJobs with the query of "
            "`gpzed sdss --sql`"
        )
    query = casjobs_query(release, bands=bands, flags=flags, limit=limit)
    lines = (line.split("--")[0].strip() for line in query.splitlines())
    plain = " ".join(line for line in lines if line and not line.startswith("INTO "))
    service = require("astroquery.sdss", "fetching from SDSS", "sdss").SDSS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = service.query_sql(plain, data_release=int(release.upper().removeprefix("DR")), cache=False)
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CatalogError(
            f"SDSS could not be asked: {reason}; check the network, ask for fewer objects, or use CasJobs with the "
            "query of `gpzed sdss --sql`"
        ) from error
    if found is None:
        raise CatalogError(f"SDSS {release} found no object; try another release")
    return Catalog({name: np.asarray(found[name]) for name in found.colnames}, metadata={"query": plain})


def _query(release: str, bands: Sequence[str], unwanted: Sequence[str], table: str, limit: int | None) -> str:
    """Return the query with its comments."""
    notes = "\n".join((_FLAG_NOTE if unwanted else _NO_FLAG_NOTE, _JOIN_NOTE))
    photometry = [f"p.{name}_{band}" for name in ("modelMag", "modelMagErr") for band in bands]
    selected = ["p.objID AS objid", *photometry, "s.z AS zspec", "s.zErr AS zspecErr"]
    tests = ["s.class = 'GALAXY'", "s.zWarning = 0", "p.mode = 1"]
    tests += [f"(p.flags & dbo.fPhotoFlags('{name}')) = 0" for name in unwanted]
    why = ["a galaxy, by its spectrum", "no known problem with the redshift", "primary detection"]
    why += [f"not: {PHOTO_FLAGS[name]}" if name in PHOTO_FLAGS else "" for name in unwanted]
    width = max(len(test) for test in tests) + 5
    where = "\n".join(
        f"{('    ' if i == 0 else 'AND ') + test:<{width}} -- {reason}".rstrip(" -")
        for i, (test, reason) in enumerate(zip(tests, why, strict=True))
    )
    top = f" TOP {limit}" if limit is not None else ""
    return (
        _HEADER.format(release=release, table=table, notes=notes)
        + f"\n\nSELECT{top}\n    "
        + ",\n    ".join(selected)
        + f"\nINTO {table}\nFROM PhotoObjAll AS p\nJOIN SpecObj AS s ON s.bestObjID = "
        f"p.objID\nWHERE\n{where}\n"
    )


def _flag(name: str) -> str:
    """Return a flag name in capitals if it is a plain word; near misses of the known ones are pointed out."""
    upper = name.upper()
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", upper):
        raise ConfigError(f"`flags` has {name!r}; expected a flag name like 'PEAKCENTER'")
    near = near_misses(upper, PHOTO_FLAGS, n=1)
    if upper not in PHOTO_FLAGS and near:
        raise ConfigError(f"`flags` has {name!r}; did you mean {near[0]!r}?")
    return upper
