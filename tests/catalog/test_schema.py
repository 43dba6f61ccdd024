from __future__ import annotations

import json

import pytest

from gpzed.catalog import CONVENTIONS, PhotometrySchema, guess_schema
from gpzed.catalog.conventions import wavelength_order
from gpzed.errors import SchemaError


def pairs(value: str, error: str, bands: str | tuple[str, ...]) -> list[str]:
    return [template.format(band=b) for b in bands for template in (value, error)]


EUCLID = ("vis", "y", "j", "h", "u_ext_decam", "g_ext_decam")

CASES = [
    # columns, convention, bands, redshift, id, zero point
    ([*pairs("mag_{band}", "mag_err_{band}", "zirgu"), "z_spec"], "gpzed", "ugriz", "z_spec", None, None),
    ([*pairs("mag_{band}", "magerr_{band}", "gr"), "ID", "specz"], "gpzed", "gr", "specz", "ID", None),
    (
        ["objid", *pairs("modelMag_{band}", "modelMagerr_{band}", "ugriz"), "zspec", "zspecErr"],
        "sdss_model",
        "ugriz",
        "zspec",
        "objid",
        None,
    ),
    (
        ["OBJID", *pairs("MODELMAG_{band}", "MODELMAGERR_{band}", "UGRIZ"), "Z"],
        "sdss_model",
        "ugriz",
        "Z",
        "OBJID",
        None,
    ),
    (
        ["objID", *pairs("dered_{band}", "err_{band}", "ugriz"), "redshift"],
        "sdss_dered",
        "ugriz",
        "redshift",
        "objID",
        None,
    ),
    ([*pairs("cModelMag_{band}", "cModelMagErr_{band}", "ugriz")], "sdss_cmodel", "ugriz", None, None, None),
    (
        ["u", "g", "r", "i", "z", "err_u", "err_g", "err_r", "err_i", "err_z", "zspec"],
        "sdss_short",
        "ugriz",
        "zspec",
        None,
        None,
    ),
    (["u", "g", "r", "i", "z", "err_u", "err_g", "err_r", "err_i", "err_z"], "sdss_short", "ugriz", None, None, None),
    (
        ["object_id", *pairs("mag_{band}_lsst", "mag_err_{band}_lsst", "ugrizy"), "redshift"],
        "lsst",
        "ugrizy",
        "redshift",
        "object_id",
        None,
    ),
    (
        ["objectId", *pairs("{band}_cModelFlux", "{band}_cModelFluxErr", "ugrizy")],
        "rubin_cmodel",
        "ugrizy",
        None,
        "objectId",
        31.4,
    ),
    (
        ["objectId", *pairs("{band}_psfFlux", "{band}_psfFluxErr", "ugrizy")],
        "rubin_psf",
        "ugrizy",
        None,
        "objectId",
        31.4,
    ),
    (
        ["COADD_OBJECT_ID", *pairs("MAG_AUTO_{band}", "MAGERR_AUTO_{band}", "GRIZY"), "Z_SPEC", "EBV_SFD98"],
        "des_auto",
        "grizY",
        "Z_SPEC",
        "COADD_OBJECT_ID",
        None,
    ),
    ([*pairs("WAVG_MAG_PSF_{band}", "WAVG_MAGERR_PSF_{band}", "GRIZY")], "des_wavg", "grizY", None, None, None),
    ([*pairs("MAG_DETMODEL_{band}", "MAGERR_DETMODEL_{band}", "GRIZ")], "des_detmodel", "griz", None, None, None),
    (
        ["object_id", *pairs("{band}_cmodel_mag", "{band}_cmodel_magsigma", "grizy"), "specz_redshift", "specz"],
        "hsc_cmodel",
        "grizy",
        "specz",
        "object_id",
        None,
    ),
    ([*pairs("{band}_cmodel_mag", "{band}_cmodel_magerr", "grizy")], "hsc_cmodel", "grizy", None, None, None),
    ([*pairs("{band}cmodel_mag", "{band}cmodel_magsigma", "grizy")], "hsc_cmodel_short", "grizy", None, None, None),
    (
        ["OBJECT_ID", *pairs("FLUX_{band}_UNIF", "FLUXERR_{band}_UNIF", tuple(b.upper() for b in EUCLID))],
        "euclid_unif",
        ("u_ext_decam", "g_ext_decam", "VIS", "Y", "J", "H"),
        None,
        "OBJECT_ID",
        23.9,
    ),
    (
        [*pairs("flux_{band}_templfit", "fluxerr_{band}_templfit", ("vis", "y"))],
        "euclid_templfit",
        ("VIS", "y"),
        None,
        None,
        23.9,
    ),
    (
        ["ID", *pairs("MAG_GAAP_{band}", "MAGERR_GAAP_{band}", ("u", "g", "r", "i", "Z", "Y", "J", "H", "Ks")), "Z_B"],
        "kids_gaap",
        ("u", "g", "r", "i", "Z", "Y", "J", "H", "Ks"),
        None,
        "ID",
        None,
    ),
]


@pytest.mark.parametrize(("columns", "convention", "bands", "redshift", "id", "zero_point"), CASES)
def test_conventions_are_recognised(columns, convention, bands, redshift, id, zero_point):
    schema = guess_schema(columns)
    assert schema.convention == convention
    assert schema.bands == tuple(bands)
    assert schema.redshift == redshift
    assert schema.id == id
    assert schema.zero_point == zero_point
    assert schema.kind == ("flux" if zero_point else "magnitude")
    assert set(schema.columns) <= set(columns)
    schema.require(columns, redshift=redshift is not None)
    assert PhotometrySchema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_every_convention_is_found_by_its_own_columns():
    for item in CONVENTIONS:
        bands = {"des_auto": ("g", "i"), "lsst_roman": ("g_lsst", "J_roman")}.get(item.name, ("g", "r"))
        for error in item.errors:
            schema = guess_schema(pairs(item.value, error, bands), convention=item.name)
            assert schema.bands == bands, item.name
            assert list(schema.errors.values()) == [error.format(band=b) for b in bands]


def test_flags_extra_bands_and_redshift_error():
    columns = [
        *pairs("mag_{band}", "mag_err_{band}", ("u", "i", "i2", "y", "odd")),
        "flag_u", "flag_i2", "z_spec", "z_spec_err", "weight", "ebv", "source",
    ]  # fmt: skip
    schema = guess_schema(columns)
    assert schema.bands == ("u", "i", "i2", "y", "odd")
    assert schema.flag == {"u": "flag_u", "i2": "flag_i2"}
    assert (schema.redshift_err, schema.weight, schema.ebv, schema.id) == ("z_spec_err", "weight", "ebv", None)
    assert ("flag i2", "flag_i2") in schema.describe()
    assert schema.describe()[0] == ("convention", "gpzed")
    assert "flag_u" in schema.photometry_columns
    assert "ebv" in schema.photometry_columns
    assert "z_spec" not in schema.photometry_columns


def test_bands_given_by_the_user_keep_order_and_spelling():
    columns = pairs("MAG_AUTO_{band}", "MAGERR_AUTO_{band}", "GRIZY")
    schema = guess_schema(columns, bands=("y", "g"))
    assert schema.bands == ("y", "g")
    assert schema.mag == {"y": "MAG_AUTO_Y", "g": "MAG_AUTO_G"}


def test_overrides():
    columns = [*pairs("mag_{band}", "mag_err_{band}", "gr"), "z_spec", "z_true", "mine", "e_g", "e_r"]
    schema = guess_schema(columns, redshift="z_true", weight="mine", err="e_{band}", id="")
    assert (schema.redshift, schema.weight, schema.id) == ("z_true", "mine", None)
    assert schema.mag_err == {"g": "e_g", "r": "e_r"}
    assert guess_schema(columns, redshift="").redshift is None
    templated = guess_schema(["A_g", "A_r"], bands="gr", flux="A_{band}", zero_point=27.0)
    assert (templated.flux, templated.flux_err, templated.zero_point) == ({"g": "A_g", "r": "A_r"}, {}, 27.0)


def test_two_conventions_that_fit_equally():
    columns = pairs("modelMag_{band}", "modelMagErr_{band}", "ugriz") + [f"dered_{b}" for b in "ugriz"]
    message = r"2 kinds of photometry fit .* 5 bands: sdss_model \(.*sdss_dered .*convention='sdss_model'"
    with pytest.raises(SchemaError, match=message):
        guess_schema(columns)
    schema = guess_schema(columns, convention="sdss_dered")
    assert schema.mag["u"] == "dered_u"
    assert schema.mag_err["u"] == "modelMagErr_u"


def test_two_redshift_columns():
    columns = [*pairs("mag_{band}", "mag_err_{band}", "gr"), "z_spec", "redshift"]
    with pytest.raises(
        SchemaError, match=r"2 columns could be the redshift: 'z_spec', 'redshift'; choose .*redshift='z_spec'"
    ):
        guess_schema(columns)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            ["ra", "dec"],
            {},
            r"no columns were recognised as at least 2 bands with errors. Found: others: ra, dec. Say which",
        ),
        (
            pairs("mag_{band}", "mag_err_{band}", "gr"),
            {"bands": "gi"},
            r"bands g, i \(gpzed has only g, r\)",
        ),
        (["mag_g", "mag_r"], {}, r"Found: mag_{band} \(g, r\).* Try: .*bands=\('g', 'r'\), mag='mag_{band}'"),
        (["a"], {"convention": "sdss_modell"}, "unknown `convention` 'sdss_modell'; did you mean 'sdss_model'"),
        (["a"], {"mag": "m_{band}"}, "template 'm_{band}' needs band names"),
        (["m_g"], {"mag": "m_x", "bands": "g"}, "template 'm_x' has no '{band}'"),
        (["mg_g"], {"mag": "mag_{band}", "bands": "g"}, "band 'g': there is no column 'mag_g'; did you mean 'mg_g'"),
        (["M_G", "m_G"], {"mag": "m_{band}", "bands": "g"}, r"could be any of M_G, m_G"),
        (["f_g"], {"flux": "f_{band}", "bands": "g"}, "fluxes need a unit"),
        (
            [*pairs("mag_{band}", "mag_err_{band}", "gr"), "zz"],
            {"redshift": "zspec"},
            "redshift: there is no column 'zspec'; the catalogue has",
        ),
    ],
)
def test_guess_errors(columns, options, message):
    with pytest.raises(SchemaError, match=message):
        guess_schema(columns, **options)


def test_templates_ignore_case_and_know_capitals():
    schema = PhotometrySchema.from_templates(
        ["MAG_G", "magerr_g", "Zspec"], ("g",), mag="MAG_{BAND}", err="MagErr_{band}", redshift="zspec"
    )
    assert (schema.mag, schema.mag_err, schema.redshift) == ({"g": "MAG_G"}, {"g": "magerr_g"}, "Zspec")
    with pytest.raises(SchemaError, match="`mag` and `flux` are both given or both missing"):
        PhotometrySchema.from_templates(["a"], ("g",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either `mag` or `flux`"),
        ({"mag": {"g": "a"}, "flux": {"g": "a"}}, "either `mag` or `flux`"),
        ({"mag": {"r": "a"}}, r"magnitude values are given for bands r but `bands` is g"),
        ({"mag": {"g": "a"}, "mag_err": {"r": "a"}}, "magnitude errors are given"),
        ({"mag": {"g": "a"}, "kind": "flux"}, "`kind` is 'flux' but magnitude columns are given"),
        ({"mag": {"g": "a"}, "flag": {"r": "x"}}, "names bands that are not in `bands`: r"),
        ({"flux": {"g": "a"}}, "fluxes need a unit"),
    ],
)
def test_inconsistent_schemas(options, message):
    with pytest.raises(SchemaError, match=message):
        PhotometrySchema(("g",), **options)


def test_from_dict_and_require_name_near_misses():
    stored = PhotometrySchema(("g",), mag={"g": "mag_g"}, mag_err={"g": "mag_err_g"}).to_dict()
    with pytest.raises(SchemaError, match="unknown schema entry 'redshft'; did you mean 'redshift'"):
        PhotometrySchema.from_dict({**stored, "redshft": "z"})
    with pytest.raises(SchemaError, match="has no `bands`"):
        PhotometrySchema.from_dict({"mag": {"g": "a"}})
    schema = PhotometrySchema.from_dict(stored)
    with pytest.raises(SchemaError, match=r"2 column\(s\) of the schema are missing: 'mag_g' \(near: 'mag_r'"):
        schema.require(["mag_r", "mag_err_r"])
    with pytest.raises(SchemaError, match="the schema has no redshift column"):
        schema.require(["mag_g", "mag_err_g"], redshift=True)


def test_wavelength_order_knows_both_cases():
    assert wavelength_order(["H", "Y", "y", "J", "Ks", "W1", "NUV", "VIS", "x"]) == (
        "NUV", "VIS", "y", "Y", "J", "H", "Ks", "W1", "x",
    )  # fmt: skip


def test_bands_are_named_after_what_tells_columns_apart():
    schema = PhotometrySchema.from_columns(["mag_u_lsst", "mag_g_lsst"], ["e1", "e2"], redshift="z", id="")
    assert (schema.bands, schema.mag_err, schema.redshift, schema.id) == (
        ("u", "g"), {"u": "e1", "g": "e2"}, "z", None,
    )  # fmt: skip
    assert PhotometrySchema.from_columns(["G", "R"]).bands == ("G", "R")
    assert PhotometrySchema.from_columns(["mag_g"]).bands == ("mag_g",)
    assert PhotometrySchema.from_columns(["mag_g_1", "mag_g_2"]).bands == ("1", "2")
    assert PhotometrySchema.from_columns(["mag_g_1", "mag_r"]).bands == ("g_1", "r")
    with pytest.raises(SchemaError, match="1 error columns are given for 2 magnitude columns"):
        PhotometrySchema.from_columns(["mag_g", "mag_r"], ["e"])
    with pytest.raises(SchemaError, match="magnitude column 'mag_g' is given twice"):
        PhotometrySchema.from_columns(["mag_g", "mag_g"])
