"""Direct identifiers among the cells of a column: those of HIPAA's Safe Harbor (45 CFR 164.514(b)(2)) that cells hold.

A column holds one if so many of its different values have its form, or its check digit, that chance cannot explain it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from ipaddress import ip_address
from math import comb
from random import Random

LOOKED_AT = 100
"""The most different values of a column that are looked at, drawn from all."""
TIMES_CHANCE = 5
CHANCE_MAX = 1e-6
_LETTERS_MIN = 8
"""Letters and digits of a number that has a check digit; fewer are ages, years, postal and other short codes."""

# What each kind is, in the words of `init`. Of the modules of python-stdnum only those that check something: a form of
# digits alone, or of a day and digits, is too common.

_FORMS = {
    "an e-mail address": r"[^@\s]+@[^@\s]+\.\w{2,}",
    "a URL": r"(https?|ftp)://\S+|www\.\S+\.\S+",
    "a telephone or fax number": r"(\+|00)[1-9](?=(\D*\d){8,14}$)[\d ()./-]+|\(?[2-9]\d\d\)?[ .-]\d{3}[ .-]\d{4}"
    r"|0\d([ .]\d\d){4}|\(?0\d{2,4}(\) ?| ?/ ?)\d[\d -]{4,10}",
    "a file of a photo, a scan or a voice": r"[^\n]+\.(jpe?g|png|gif|bmp|tiff?|heic|webp|dcm|wsq|wav|mp[34]|mov|avi)",
    "a device's MAC address": r"[\da-f]{2}([:-][\da-f]{2}){5}",
    "a unique code (UUID)": r"\{?[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\}?",
    "a vehicle's plate": r"[a-z]{2}-\d{3}-[a-z]{2}|[a-z]{2}\d\d [a-z]{3}"
    r"|[a-z\u00e4\u00f6\u00fc]{1,3}-[a-z]{1,2} \d{1,4}[eh]?",
    "a British national insurance number": r"(?![dfiquv])[a-z](?![dfiquvo])[a-z] ?(\d\d ?){3}[a-d]",
    "an Indian tax number (PAN)": r"[a-z]{3}[abcfghljpt][a-z]\d{4}[a-z]",
    "a Danish CPR number": r"(0[1-9]|[12]\d|3[01])(0[1-9]|1[0-2])\d\d-\d{4}",
}  # fmt: skip
_SSN = re.compile(r"\d{3}-\d\d-\d{4}", re.ASCII)
"""Nine digits alone may be anything."""
_CHECKED = {
    "at.vnr": "an Austrian insurance number",
    "au.tfn": "an Australian tax number",
    "be.nn": "a Belgian national number",
    "bg.egn": "a Bulgarian personal number",
    "br.cpf": "a Brazilian tax number (CPF)",
    "ca.sin": "a Canadian social insurance number",
    "ch.ssn": "a Swiss insurance number",
    "cn.ric": "a Chinese identity number",
    "cz.rc": "a Czech or Slovak birth number",
    "de.idnr": "a German tax number",
    "ee.ik": "an Estonian or Lithuanian personal number",
    "es.ccc": "a Spanish bank account",
    "es.dni": "a Spanish identity number",
    "es.nie": "a Spanish foreigner's number",
    "fi.hetu": "a Finnish personal number",
    "fr.nir": "a French insurance number",
    "gb.nhs": "a British health number (NHS)",
    "gb.utr": "a British tax number (UTR)",
    "gr.amka": "a Greek insurance number",
    "hr.oib": "a Croatian personal number",
    "ie.pps": "an Irish personal number",
    "il.idnr": "an Israeli identity number",
    "in_.aadhaar": "an Indian identity number (Aadhaar)",
    "is_.kennitala": "an Icelandic personal number",
    "it.codicefiscale": "an Italian tax number",
    "jp.in_": "a Japanese individual number",
    "kr.rrn": "a Korean resident number",
    "mx.curp": "a Mexican population number",
    "nl.bsn": "a Dutch citizen number",
    "no.fodselsnummer": "a Norwegian birth number",
    "no.kontonr": "a Norwegian bank account",
    "nz.ird": "a New Zealand tax number",
    "pl.nip": "a Polish tax number (NIP)",
    "pl.pesel": "a Polish personal number (PESEL)",
    "pt.nif": "a Portuguese tax number",
    "ro.cnp": "a Romanian personal number",
    "se.personnummer": "a Swedish personal number",
    "si.emso": "a personal number of Slovenia or its neighbours",
    "tr.tckimlik": "a Turkish identity number",
    "za.idnr": "a South African identity number",
}
_CARD = re.compile(r"(3[4-9]|4\d|5\d|6\d|2[2-7])\d{11,17}", re.ASCII)
_VIN = re.compile(r"(?=.*[A-Z])[A-HJ-NPR-Z\d]{12}[A-HJ-NPR-Z\d]\d{4}", re.ASCII)
_PASSPORT = re.compile(r"(?=.*[A-Z])[A-Z\d<]{9}\d([A-Z<]{3}[A-Z\d<]{23,31})?", re.ASCII)
_FRACTION = re.compile(r"^(\d+)\.0$", re.ASCII)  # a whole number beside nulls, as pandas makes it
_SEPARATORS = re.compile(r"[ -]")
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
_VALUES = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "12345678123457923456789"), strict=True))


def identified(texts: Sequence[str]) -> str:
    """What identifies people in a column with these cells, and in how many of those looked at; "" if nothing does.

    The rule: of at most LOOKED_AT different values, m of n are of a kind that an arbitrary text is with chance p (a
    check digit: 1 in 10, that of an IBAN: 1 in 97, a form: 1 in 200). So many are found by chance with a probability of
    at most C(n, m) p^m (the union bound). This has to be at most CHANCE_MAX, and m / n at least TIMES_CHANCE p: seven
    numbers with a check digit are enough, or three texts of a form. Random numbers pass a check digit in a tenth of the
    cells, whatever their number, consecutive ones as well; half of the cells have to.

    >>> identified(["ann@example.com", "bob@example.com", "eve@example.org"]), identified(["21", "34"])
    ('an e-mail address in 3 of 3 values looked at', '')
    """
    different = sorted({_FRACTION.sub(r"\1", text.strip()) for text in texts} - {""})
    looked_at = different if len(different) <= LOOKED_AT else Random(0).sample(different, LOOKED_AT)
    long = [text for text in looked_at if sum(map(str.isalnum, text)) >= _LETTERS_MIN]
    found = dict[str, int]()
    n = len(looked_at)
    for what, (chance, holds) in _kinds().items():
        m = sum(1 for text in (looked_at if chance == FORM else long) if holds(text))
        if m and m >= TIMES_CHANCE * chance * n and comb(n, m) * chance**m <= CHANCE_MAX:
            found[what] = m
    most = max(found.values(), default=0)
    names = [what for what, m in found.items() if m == most]
    return f"{' or '.join(names)} in {most} of {n} values looked at" if names else ""


FORM, CHECK_DIGIT, IBAN = 1 / 200, 1 / 10, 1 / 97
"""The chance that an arbitrary text is of a kind."""


@cache
def _kinds() -> dict[str, tuple[float, Callable[[str], object]]]:
    """Every kind in words, with its chance and its test of a text."""
    return {
        **{what: (FORM, re.compile(form, re.ASCII | re.IGNORECASE).fullmatch) for what, form in _FORMS.items()},
        "an IP address": (FORM, _is_ip),
        "a US social security number": (FORM, lambda text: _SSN.fullmatch(text) and _is_valid("us.ssn", text)),
        "an IBAN": (IBAN, partial(_is_valid, "iban")),
        "a payment card's number": (CHECK_DIGIT, lambda text: _CARD.fullmatch(plain := _plain(text)) and _luhn(plain)),
        "a device's IMEI": (CHECK_DIGIT, lambda text: len(plain := _plain(text)) == 15 and _luhn(plain)),
        "a vehicle identification number": (CHECK_DIGIT, _is_vin),
        "a passport's or identity card's number": (CHECK_DIGIT, _is_passport),
        **{what: (CHECK_DIGIT, partial(_is_valid, name)) for name, what in _CHECKED.items()},
    }


@cache
def _checking(name: str) -> tuple[Callable[[str], str], type[Exception]]:
    """What a module of python-stdnum checks with, and what it raises; imported when it is asked for."""
    return import_module(f"stdnum.{name}").validate, import_module("stdnum.exceptions").ValidationError


def _is_valid(name: str, text: str) -> bool:
    validate, invalid = _checking(name)
    with suppress(invalid, LookupError):  # of a region that it does not know
        return len(validate(text)) >= (10 if name == "cz.rc" else _LETTERS_MIN)  # shorter ones had no check digit
    return False


_luhn = partial(_is_valid, "luhn")


def _plain(text: str) -> str:
    return _SEPARATORS.sub("", text).upper()


def _is_ip(text: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(text))
    return False


def _is_vin(text: str) -> bool:
    """True for a VIN (ISO 3779); outside of North America and China, which begin with 1 to 5 and L, few have the check
    digit of 49 CFR 565.15."""
    if not _VIN.fullmatch(vin := text.upper()):
        return False
    values = (_VALUES.get(sign) or int(sign) for sign in vin)
    rest = sum(weight * value for weight, value in zip(_VIN_WEIGHTS, values, strict=True)) % 11
    return vin[8] == "0123456789X"[rest] or vin[0] not in "12345L"


def _is_passport(text: str) -> bool:
    """True for a document's number with the check digit of ICAO 9303, alone or before the rest of a readable line."""
    if not _PASSPORT.fullmatch(plain := text.strip().upper()):
        return False
    values = (0 if sign == "<" else int(sign, 36) for sign in plain[:9])
    return sum(weight * value for weight, value in zip((7, 3, 1) * 3, values, strict=True)) % 10 == int(plain[9])
