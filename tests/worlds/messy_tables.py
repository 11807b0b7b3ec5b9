"""Five tables as people export them: three languages, words for what is not known, and how each column is drafted."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

Cell = Callable[[random.Random, int], str]


@dataclass(frozen=True)
class Column:
    """A column; each `one_in` rows hold a word that stands for nothing; left_out: drafted without a role."""

    name: str
    cell: Cell
    unknown: tuple[str, ...] = ()
    one_in: int = 97
    type: str | None = None
    written: str | None = None
    left_out: bool = False


def _days(text: Callable[[date], str]) -> Cell:
    return lambda draw, row: text(date(1930, 1, 1) + timedelta(draw.randrange(28_000)))


def _incomes(text: Callable[[int], str]) -> Cell:
    return lambda draw, row: text(int(draw.gauss(28_000, 6_000)) + 10_000)


def _codes(digits: int) -> Cell:
    return lambda draw, row: f"{draw.randrange(10 ** (digits - 2), 10**digits):0{digits}}"


def _one_of(*words: str) -> Cell:
    return lambda draw, row: draw.choice(words)


def _phone(draw: random.Random, row: int) -> str:
    return f"0{draw.randrange(10**8, 10**9)}"


def _number(prefix: str = "") -> Cell:
    return lambda draw, row: f"{prefix}{100_000 + row}"


FRENCH = [
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
]
SPANISH = [
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
]


def _grouped(number: int, mark: str) -> str:
    return f"{number:,}".replace(",", mark)


MESSY: dict[str, tuple[Column, ...]] = {
    "kunden": (
        Column("Kundennummer", _number("K")),
        Column("Geburtsdatum", _days(lambda d: f"{d:%d.%m.%Y}"), ("unbekannt", "00.00.0000"), 97, "date", "DD.MM.YYYY"),
        Column("Jahreseinkommen", _incomes(lambda n: _grouped(n, ".") + ",50"), ("k. A.",), 97, "decimal", "1.234,5"),
        Column("PLZ", _codes(5), ("unbekannt",), 97, "code", "digits"),
        Column("Telefonnummer", _phone, left_out=True),
        Column("Geschlecht", _one_of("m", "w", "d")),
        Column("Kreditlimit", _incomes(str), ("keins",), 97, "integer"),
    ),
    "mitglieder": (
        Column("Mitglieds-Nr.", _number()),
        Column("geb.", _days(lambda d: f"{d.day}. {d:%b} {d.year}"), ("?", "fehlt"), 40, "date", "DD MMM YYYY"),
        Column("Beitrag", _incomes(lambda n: _grouped(n // 100, ".") + ",00 \u20ac"), ("frei",), 50, "decimal",
               "1.234,5 \u20ac"),
        Column("Postleitzahl", _codes(5), ("-", "k. A."), 60, "code", "digits"),
        Column("Gr\u00f6\u00dfe", lambda draw, row: f"{draw.randrange(150, 200)} cm", (), 97, "integer", "1234.5 cm"),
    ),
    "clients": (
        Column("N\u00b0 Client", _number("C-")),
        Column("Date de naissance", _days(lambda d: f"{d.day} {FRENCH[d.month - 1]} {d.year}"), ("inconnu",), 97,
               "date", "DD MMM YYYY"),
        Column("Revenu annuel", _incomes(lambda n: _grouped(n, " ") + ",25"), ("n.c.", "inconnu"), 97, "decimal",
               "1 234,5"),
        Column("CodePostal", _codes(5), ("inconnu",), 97, "code", "digits"),
        Column("Verbalis\u00e9", _one_of("oui", "non")),
        Column("T\u00e9l\u00e9phone", _phone, left_out=True),
        Column("Nombre d'enfants", _one_of("0", "1", "2", "3"), (), 97, "integer"),
    ),
    "assures": (
        Column("matricule", _number()),
        Column("n\u00e9 le", _days(lambda d: f"{d:%d/%m/%Y}"), ("inconnue", "00/00/0000"), 300, "date", "DD/MM/YYYY"),
        Column("salaire", _incomes(lambda n: f"{n},5"), ("non communiqu\u00e9",), 97, "decimal", "1.234,5"),
        Column("code postal", _codes(5), (), 97, "code", "digits"),
    ),
    "clientes": (
        Column("ID cliente", _number()),
        Column("Fecha de nacimiento", _days(lambda d: f"{d.day} de {SPANISH[d.month - 1]} de {d.year}"),
               ("desconocido",), 97, "date", "DD de MMM de YYYY"),
        Column("Ingresos", _incomes(lambda n: "$" + _grouped(n, ",") + ".75"), ("s/d",), 97, "decimal", "$ 1,234.5"),
        Column("C\u00f3digo postal", _codes(5), ("desconocido",), 97, "code", "digits"),
        Column("Tel\u00e9fono", _phone, left_out=True),
        Column("Sexo", _one_of("H", "M"), ("no consta",), 20),
        Column("Alta", _days(lambda d: f"{d:%Y-%m-%d}"), ("pendiente",), 97, "date"),
    ),
}  # fmt: skip


def cells_of(column: Column, seed: int, n: int = 600) -> list[str]:
    """The cells of a column, the same for the same seed."""
    draw = random.Random(f"{column.name} {seed}")
    cells = [column.cell(draw, row) for row in range(n)]
    for number, row in enumerate(range(seed % 7, n, column.one_in) if column.unknown else ()):
        cells[row] = column.unknown[number % len(column.unknown)]
    return cells
