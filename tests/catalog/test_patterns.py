"""Columns that no survey's list has, recognised by how their names are built."""

from __future__ import annotations

import pytest

from gpzed.catalog import guess_schema
from gpzed.catalog.conventions import wavelength_order
from gpzed.catalog.patterns import parse_translate
from gpzed.errors import SchemaError

HST = ("f435w", "f606w", "f775w", "f814w", "f850lp", "f105w", "f125w", "f160w")


def pairs(value: str, error: str, bands: object) -> list[str]:
    return [template.replace("{}", band) for band in bands for template in (value, error)]  # type: ignore[attr-defined]


CASES = [
    (pairs("flux_{}", "flux_err_{}", HST), {"unit": "uJy"}, HST, "flux", 23.9, False),
    (pairs("f_{}", "e_{}", [b.upper() for b in HST]), {"unit": "nJy"}, [b.upper() for b in HST], "flux", 31.4, False),
    (pairs("modelFlux_{}", "modelFluxIvar_{}", "ugriz"), {}, "ugriz", "flux", 22.5, True),
    (pairs("psfFlux_{}", "psfFluxIvar_{}", "ugriz"), {}, "ugriz", "flux", 22.5, True),
    (pairs("FLUX_{}", "FLUX_IVAR_{}", ["G", "R", "Z", "W1"]), {}, ["g", "r", "z", "W1"], "flux", 22.5, True),
    (pairs("maggies_{}", "maggies_ivar_{}", "ugriz"), {}, "ugriz", "flux", 0.0, True),
    (pairs("maggies_{}", "ivar_{}", "ugriz"), {}, "ugriz", "flux", 0.0, True),
    (pairs("{}mag", "e_{}mag", "ugriz"), {}, "ugriz", "magnitude", None, False),
    (pairs("F{}", "E{}", ["12", "13", "205"]), {"zero_point": 25.0}, ["F12", "F13", "F205"], "flux", 25.0, False),
    (pairs("{}_FLUX", "{}_FLUXERR", ["CFHT_u", "HSC_g", "HSC_r", "UVISTA_Ks"]), {"unit": "uJy"},
     ["CFHT_u", "HSC_g", "HSC_r", "UVISTA_Ks"], "flux", 23.9, False),
    (pairs("{}_MAG_AUTO", "{}_MAGERR_AUTO", ["u", "B", "Ks"]), {}, ["u", "B", "Ks"], "magnitude", None, False),
    (pairs("flux_{}", "flux_{}_err", ["Y106", "J129", "H158"]), {"unit": "nJy"}, ["Y106", "J129", "H158"], "flux", 31.4,
     False),
    (pairs("flux_njy_{}", "flux_njy_{}_err", "griz"), {}, "griz", "flux", 31.4, False),
    (pairs("{}MeanPSFMag", "{}MeanPSFMagErr", "grizy"), {}, "grizy", "magnitude", None, False),
    (pairs("fnu_{}", "dfnu_{}", "ugri"), {"unit": "Jy"}, "ugri", "flux", 8.9, False),
    (pairs("{}", "e_{}", ["F435W", "F606W"]), {}, ["F435W", "F606W"], "magnitude", None, False),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "options", "bands", "kind", "zero_point", "inverse"), CASES)
def test_names_are_recognised_by_pattern(columns, options, bands, kind, zero_point, inverse):
    schema = guess_schema(["ra", "dec", *columns, "flag_star"], **options)
    assert schema.bands == tuple(bands)
    assert (schema.kind, schema.zero_point, schema.inverse_variance) == (kind, zero_point, inverse)
    assert list(schema.values.values()) == columns[::2]
    assert list(schema.errors.values()) == columns[1::2]


def test_units_tell_fluxes_from_magnitudes():
    columns = pairs("{}", "e_{}", ["F435W", "F606W"])
    schema = guess_schema(columns, units=dict.fromkeys(columns, "nJy"))
    assert (schema.kind, schema.zero_point) == ("flux", 31.4)


@pytest.mark.parametrize(("name", "found"), [("Z_BEST", "Z_BEST"), ("zsp", "zsp"), ("redshift", "redshift")])
def test_redshifts_of_other_names(name, found):
    columns = [*pairs("{}mag", "e_{}mag", "ugriz"), name]
    assert guess_schema(columns).redshift == found
    assert guess_schema([*columns, "z_spec"] if name != "redshift" else columns).redshift in ("z_spec", "redshift")


def test_what_is_no_photometry_is_no_band():
    columns = [
        *pairs("FLUX_{}", "FLUX_IVAR_{}", "GRZ"), *(f"MW_TRANSMISSION_{b}" for b in "GRZ"),
        *(f"NOBS_{b}" for b in "GRZ"), *(f"flag_{b}" for b in "GRZ"), "z_err", "TYPE",
    ]  # fmt: skip
    assert guess_schema(columns).convention == "FLUX_{band} with FLUX_IVAR_{band}"


def test_bands_with_the_name_of_their_instrument_answer_to_the_letter():
    columns = pairs("{}_MAG", "{}_MAGERR", ["CFHT_u", "HSC_g", "HSC_r"])
    assert guess_schema(columns, bands=("u", "g")).mag == {"u": "CFHT_u_MAG", "g": "HSC_g_MAG"}


def test_failure_says_what_was_found_and_how_to_go_on():
    columns = ["ra", "dec", *(f"mag_{b}" for b in "griz"), "mystery_1", "mystery_2"]
    with pytest.raises(SchemaError) as caught:
        guess_schema(columns)
    text = str(caught.value)
    assert "Found: mag_{band} (g, r, i, z); others: ra, dec, mystery_1, mystery_2" in text
    assert "Try: gpzed.train(data, bands=('g', 'r', 'i', 'z'), mag='mag_{band}')" in text
    assert len(text) < 500
    assert guess_schema(columns, **caught.value.suggestion).mag["g"] == "mag_g"


def test_other_columns_of_every_band_are_proposed_as_errors():
    columns = [*(f"bright.{b}" for b in "ugr"), *(f"sigmaX{b}" for b in "ugr")]
    with pytest.raises(SchemaError, match=r"bands=\('u', 'g', 'r'\), mag='bright.{band}', err='sigmaX{band}'"):
        guess_schema(columns)


def test_a_band_without_errors_is_named_and_flags_are_no_errors():
    columns = [*pairs("mag_{}", "mag_err_{}", "ugr"), "mag_y", *(f"flag_{band}" for band in "ugry")]
    with pytest.raises(SchemaError, match=r"there is no 'mag_err_y' beside 'mag_y'; .* leave the band out") as caught:
        guess_schema(columns, bands=("u", "g", "y"))
    assert caught.value.suggestion == {"bands": ["u", "g"]}
    with pytest.raises(SchemaError, match=r"Try: gpzed.train\(data, bands=\('u', 'g'\), mag='mag_\{band\}'\)"):
        guess_schema(["mag_u", "mag_g", "flag_u", "flag_g"])


def test_columns_beside_errors_are_proposed_where_only_these_follow_a_pattern():
    with pytest.raises(SchemaError, match="no columns were recognised") as caught:
        guess_schema(pairs("qq{}", "qqerr_{}", "ugr"))
    assert caught.value.suggestion == {"bands": ["u", "g", "r"], "mag": "qq{band}", "err": "qqerr_{band}"}


def test_two_groups_are_a_choice_with_a_ready_answer():
    columns = pairs("a_{}_mag", "a_{}_magerr", "gri") + pairs("b_{}_mag", "b_{}_magerr", "gri")
    with pytest.raises(SchemaError, match=r"2 kinds of photometry fit equally well.*b_{band}_mag") as caught:
        guess_schema(columns)
    assert guess_schema(columns, **caught.value.suggestion).mag["g"] == "a_g_mag"


def test_fluxes_without_a_unit_ask_for_it():
    with pytest.raises(SchemaError, match=r"fluxes need a unit.*Try: gpzed.train\(data, unit='UNIT'\)"):
        guess_schema(pairs("flux_{}", "flux_err_{}", "gri"))


def test_translate_file_of_eazy():
    text = "# names\nf_u F103\ne_u E103\nf_F160W F4  # WFC3\ne_F160W E4\nzs z_spec\nf_lonely F9\n"
    columns = ["id", "f_u", "e_u", "f_F160W", "e_F160W", "zs", "f_lonely"]
    schema = guess_schema(columns, translate=parse_translate(text), zero_point=25.0)
    assert schema.flux == {"u": "f_u", "F160W": "f_F160W"}
    assert (schema.redshift, schema.zero_point) == ("zs", 25.0)
    with pytest.raises(SchemaError, match="has no band 'g'; it has u, F160W"):
        guess_schema(columns, ("u", "g"), translate=parse_translate(text), zero_point=25.0)
    with pytest.raises(SchemaError, match="fewer than 2 bands"):
        guess_schema(columns, translate={}, zero_point=25.0)


def test_filters_are_ordered_by_the_wavelengths_in_their_names():
    assert wavelength_order(["F160W", "F435W", "F356W", "F814W", "ACS_F606W", "Ks"]) == (
        "F435W", "ACS_F606W", "F814W", "F160W", "Ks", "F356W",
    )  # fmt: skip
