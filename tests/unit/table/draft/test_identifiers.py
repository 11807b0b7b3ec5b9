"""What identifies people is found by its values, and what only looks like it is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum.exceptions import ValidationError

from streamer.table.codes import cell_text, source_cells
from streamer.table.draft.columns import drafted
from streamer.table.draft.identifiers import LOOKED_AT, identified
from streamer.table.sources import RowSource
from worlds.checkout import ROOT
from worlds.people_files import begun, init, write

PUBLISHED = {
    "at.vnr": ("1237 010180", "Austrian"),
    "au.tfn": ("123 456 782", "Australian"),
    "be.nn": ("85 07 30 033 28", "Belgian"),
    "bg.egn": ("8032056031", "Bulgarian"),
    "br.cpf": ("390.533.447-05", "Brazilian"),
    "ca.sin": ("123-456-782", "Canadian"),
    "ch.ssn": ("756.9217.0769.85", "Swiss"),
    "cn.ric": ("360426199101010071", "Chinese"),
    "cz.rc": ("710319/2745", "Czech or Slovak"),
    "de.idnr": ("36 574 261 809", "German"),
    "ee.ik": ("36805280109", "Estonian"),
    "es.ccc": ("1234-1234-16 1234567890", "Spanish bank"),
    "es.dni": ("54362315-K", "Spanish identity"),
    "es.nie": ("x-2482300w", "Spanish foreigner"),
    "fi.hetu": ("131052-308T", "Finnish"),
    "fr.nir": ("2 95 10 99 126 111 93", "French"),
    "gb.nhs": ("943-476-5870", "(NHS)"),
    "gb.utr": ("1955839661", "(UTR)"),
    "gr.amka": ("01013099997", "Greek"),
    "hr.oib": ("33392005961", "Croatian"),
    "iban": ("GB82 WEST 1234 5698 7654 32", "IBAN"),
    "ie.pps": ("6433435OA", "Irish"),
    "il.idnr": ("3933742-3", "Israeli"),
    "in_.aadhaar": ("2341 2341 2346", "Aadhaar"),
    "is_.kennitala": ("450401-3150", "Icelandic"),
    "it.codicefiscale": ("RCCMNL83S18D969H", "Italian"),
    "jp.in_": ("6214 9832 0257", "Japanese"),
    "kr.rrn": ("971013-9019902", "Korean"),
    "luhn": ("4111111111111111", "payment card"),
    "mx.curp": ("BOXW310820HNERXN09", "Mexican"),
    "nl.bsn": ("1112.22.333", "Dutch"),
    "no.fodselsnummer": ("151086 95088", "Norwegian birth"),
    "no.kontonr": ("8601 11 17947", "Norwegian bank"),
    "nz.ird": ("4909185-0", "New Zealand"),
    "pl.nip": ("8567346215", "(NIP)"),
    "pl.pesel": ("44051401359", "(PESEL)"),
    "pt.nif": ("501 964 843", "Portuguese"),
    "ro.cnp": ("1630615123457", "Romanian"),
    "se.personnummer": ("880320-0016", "Swedish"),
    "si.emso": ("0101006500006", "Slovenia"),
    "tr.tckimlik": ("17291716060", "Turkish"),
    "us.ssn": ("536-90-4399", "US social security"),
    "za.idnr": ("7503305044089", "South African"),
}
"""A number of each kind as its authority, or who documents it, gives one as an example, and a word of its name."""


def others_like(example: str, is_one: Callable[[str], bool], n: int) -> list[str]:
    """The example and others, which differ from it in a few digits."""
    draw, found = random.Random(example), {example: None}
    digits = [i for i, sign in enumerate(example) if sign.isdigit()][1:]  # the first may tell the kind
    while len(found) < n:
        text = [*example]
        for i in draw.sample(digits, min(3, len(digits))):
            text[i] = draw.choice("0123456789")
        if is_one("".join(text)):
            found["".join(text)] = None
    return [*found]


@pytest.mark.parametrize(("kind", "example", "word"), [(kind, *of) for kind, of in PUBLISHED.items()], ids=[*PUBLISHED])
def test_a_number_with_a_check_digit_is_known_and_without_it_is_not(kind: str, example: str, word: str) -> None:
    validate = import_module(f"stdnum.{kind}").validate

    def is_valid(text: str) -> bool:
        with suppress(ValidationError, LookupError):
            return bool(validate(text))
        return False

    held = identified(others_like(example, is_valid, 8))
    assert word in held
    assert held.endswith("in 8 of 8 values looked at")
    if kind != "us.ssn":  # has no check digit
        any_digits = others_like(example, lambda text: True, 400)
        assert word not in identified(any_digits)


FORMS = {
    "an e-mail address": ["ann@example.com", "b.c@example.org", "d+e@mail.example.net"],
    "a URL": ["https://example.com/ann", "http://example.org", "www.example.net/~eve"],
    "a telephone or fax number": ["+49 30 1234567", "(555) 123-4567", "01 23 45 67 89", "0171/1234567"],
    "a file of a photo, a scan or a voice": ["ann.jpg", "scans/7.dcm", "B 7.PNG"],
    "a device's MAC address": ["00:1a:2B:3c:4d:5e", "00-1A-2B-3C-4D-5F", "ff:ff:ff:ff:ff:fe"],
    "a unique code (UUID)": [f"123e4567-e89b-12d3-a456-42661417400{n}" for n in range(3)],
    "a vehicle's plate": ["AB-123-CD", "AB12 CDE", "B-MW 1234"],
    "an IP address": ["192.0.2.0", "198.51.100.7", "2001:db8::1"],
    "a US social security number": ["536-90-4399", "123-45-6780", "401-01-1111"],
    "a British national insurance number": ["QQ 12 34 56 C".replace("QQ", pair) for pair in ("AB", "CE", "JT")],
    "an Indian tax number (PAN)": ["ABCPK1234F", "AFZPK7190K", "ALWPG5809L"],
}  # fmt: skip


@pytest.mark.parametrize("what", FORMS)
def test_what_has_a_form_of_its_own_is_known_by_three_values(what: str) -> None:
    values = FORMS[what]
    assert identified(values) == f"{what} in {len(values)} of {len(values)} values looked at"
    assert identified(values[:2]) == ""
    assert identified([*values, *(f"word {n}" for n in range(300))]) == ""


def test_a_column_that_holds_identifiers_is_left_out_and_says_so_without_a_value(tmp_path: Path) -> None:
    _, text = begun(tmp_path, age=["31", "44", "58"] * 3, contact=[f"p{n}@example.com" for n in range(9)])
    assert "# left out: contact: holds an e-mail address in 9 of 9 values looked at" in text
    assert "@" not in text
    assert drafted("contact", [f"p{n}@example.com" for n in range(9)], "sensitive").role == ""


def test_numbers_that_a_column_with_nulls_made_fractions_are_still_numbers() -> None:
    numbers = others_like("4111111111111111", import_module("stdnum.luhn").is_valid, 8)
    assert identified([f"{number}.0" for number in numbers]) == identified(numbers) != ""


def icao(text: str) -> bool:
    """The check digit of ICAO 9303, part 3, 4.9, in the words of the standard."""
    values = [int(sign, 36) if sign != "<" else 0 for sign in text]
    return sum(value * (7, 3, 1)[i % 3] for i, value in enumerate(values[:9])) % 10 == values[9]


def test_a_document_is_known_by_its_machine_readable_number() -> None:
    alone = others_like("L898902C36", icao, 8)
    for numbers in (alone, [f"{number}UTO7408122F1204159ZE184226B<<<<<10" for number in alone]):
        assert identified(numbers) == "a passport's or identity card's number in 8 of 8 values looked at"


def test_a_vehicle_is_known_by_its_check_digit_where_there_is_one() -> None:
    european = [f"WAUZZZ8K9BA12345{n}" for n in range(7)]
    assert "vehicle identification number in 8 of 8" in identified(["1M8GDM9AXKP042788", *european])
    assert "vehicle identification number in 7 of 8" in identified(["1M8GDM9A1KP042788", *european])


def test_the_key_of_a_table_may_identify_people_and_says_so(tmp_path: Path) -> None:
    cells = {"mail": [f"p{n}@example.com" for n in range(9)], "age": ["31", "44", "58"] * 3}
    result = init(write(tmp_path / "rows.csv", cells), tmp_path / "out")
    assert "key mail, which is never published (holds an e-mail address in 9 of 9 values looked at)" in result.stdout
    key = "key: mail  # different in every row; never published; holds an e-mail address in 9 of 9 values looked at"
    assert key in (tmp_path / "out" / "table.yaml").read_text()


@pytest.mark.parametrize("name", ["license", "Medical Record", "patient_card"])
def test_a_name_alone_is_a_guess_and_only_of_columns_of_codes(name: str) -> None:
    by_name = "its name says that it identifies people, its values do not: a guess"
    assert drafted(name, [f"{n:07}" for n in range(40)]).why == by_name
    assert drafted(name, ["class A", "class B"] * 20).role == "quasi-identifier"
    assert drafted(name, [f"2024-01-{n:02}" for n in range(1, 29)]).role == "quasi-identifier"


# False alarms.

DRAW = random.Random(40)
DAYS = [date(1940, 1, 1) + timedelta(DRAW.randrange(30_000)) for _ in range(400)]
HARMLESS = {
    "ages": [str(n) for n in range(100)],
    "years": [str(n) for n in range(1900, 2030)],
    "postal codes": [f"{DRAW.randrange(100_000):05}" for _ in range(400)],
    "ZIP+4": [f"{DRAW.randrange(100_000):05}-{DRAW.randrange(10_000):04}" for _ in range(400)],
    "British postcodes": [f"SW{n}A {m}AA" for n in range(20) for m in range(10)],
    "amounts": [f"{DRAW.randrange(10**9) / 100:.2f}" for _ in range(400)],
    "amounts with marks": [f"{DRAW.randrange(10**9):,}" for _ in range(400)],
    "salaries": [str(1000 * n) for n in range(20, 400)],
    "days": [day.isoformat() for day in DAYS],
    "days in digits": [f"{day:%Y%m%d}" for day in DAYS],
    "days with points": [f"{day:%d.%m.%Y}" for day in DAYS],
    "days with blanks": [f"{day:%d %m %Y}" for day in DAYS],
    "times": [f"{day:%Y-%m-%d} 12:30:00" for day in DAYS],
    "times in digits": [f"{day:%Y%m%d}{DRAW.randrange(10**6):06}" for day in DAYS],
    "seconds since 1970": [str(1_700_000_000 + DRAW.randrange(10**7)) for _ in range(400)],
    "milliseconds since 1970": [str(1_700_000_000_000 + DRAW.randrange(10**10)) for _ in range(400)],
    "ICD-10": [f"{sign}{n:02}.{n % 10}" for sign in "CEIJ" for n in range(100)],
    "NACE": [f"{n:02}.{m:02}" for n in range(1, 99) for m in (11, 20)],
    "orders": [f"A-{n:06}" for n in range(400)],
    "coordinates": [f"{DRAW.uniform(-180, 180):.6f}" for _ in range(400)],
    **{f"serial numbers of {n} digits": [str(10 ** (n - 1) + i) for i in range(400)] for n in range(5, 19)},
    **{f"every seventh of {n} digits": [str(10 ** (n - 1) + 7 * i) for i in range(400)] for n in range(8, 19)},
    **{f"random numbers of {n} digits": [f"{DRAW.randrange(10**n):0{n}}" for _ in range(400)] for n in range(8, 20)},
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_everybody_has_or_a_counter_gives_is_no_identifier(what: str) -> None:
    assert identified(HARMLESS[what]) == ""
    assert identified(HARMLESS[what][:9]) == ""


@given(st.integers(8, 18).flatmap(lambda n: st.lists(st.integers(0, 10**n - 1), min_size=2, max_size=6, unique=True)))
def test_few_numbers_are_never_enough_for_a_check_digit(numbers: list[int]) -> None:
    assert "number" not in identified([f"{number:08}" for number in numbers])


def test_false_alarms_on_the_tables_of_the_house(adult: Path) -> None:
    """Printed with `pytest -rP`: every column, how many values were looked at, and what was found: nothing."""
    files = sorted({*(ROOT / "examples").glob("*/*.csv"), *(ROOT / "examples").glob("*/*.tsv"), *adult.glob("*.csv")})
    alarms = dict[str, str]()
    for file in files:
        frame = RowSource(str(file)).rows().head(2_000)
        for name in frame.columns:
            texts = list(map(cell_text, source_cells(frame[name]).tolist()))
            held = identified(texts)
            print(f"{file.parent.name}/{file.name:16} {name:16} {min(len({*texts}), LOOKED_AT):4}  {held or '-'}")
            alarms |= {f"{file.name}: {name}": held} if held else {}
    assert alarms == {}
