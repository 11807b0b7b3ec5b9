"""Twelve files as offices of six countries export them: same people, other ways to write.

Each differs in encoding, delimiter, dates, numbers, postal codes, words for yes, no and "not known", and in lines that
are no rows: titles above the header, units below it, blank lines, totals and notes at the end.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from worlds.messy_tables import FRENCH
from worlds.workbooks import cells, workbook

ROWS = 400
FIRST_SERIAL = date(1899, 12, 30)
"""The day before the first of Excel."""

NARROW, HARD = "\u202f", "\u00a0"
"""Blanks between thousands, at which no line breaks."""

Text = Callable[["Person"], str]


@dataclass(frozen=True)
class Person:
    """What is known of one, before it is written."""

    number: int
    born: date
    seen: date
    income: int  # in cents
    weight: int  # in tenths of a kilogram
    children: int
    postal: int
    is_member: bool
    sex: int
    draw: random.Random

    def unless(self, one_in: int, text: str, word: str) -> str:
        """The text, but a word in some rows."""
        return text if self.draw.randrange(one_in) else word


def people(seed: int) -> list[Person]:
    draw = random.Random(seed)
    return [
        Person(
            number=i + 1,
            born=date(1935, 1, 1) + timedelta(draw.randrange(25_000)),
            seen=date(2022, 1, 1) + timedelta(draw.randrange(900)),
            income=draw.randrange(90_000, 1_200_000),
            weight=draw.randrange(450, 1_200),
            children=draw.randrange(5),
            postal=draw.randrange(24),
            is_member=draw.random() < 0.4,
            sex=draw.randrange(2),
            draw=draw,
        )
        for i in range(ROWS)
    ]


def number(cents: int, thousands: str, point: str, digits: int = 2) -> str:
    """
    >>> number(123456, ".", ","), number(567, " ", ",", 1)
    ('1.234,56', '56,7')
    """
    whole, fraction = divmod(cents, 10**digits)
    return f"{whole:,}".replace(",", thousands) + f"{point}{fraction:0{digits}}"


@dataclass(frozen=True)
class NationalFile:
    """One file: its columns in order, the first of which is the key, and what is around its rows."""

    columns: dict[str, Text]
    encoding: str = "utf-8"
    told: str | None = None  # --encoding
    delimiter: str = ";"
    above: tuple[str, ...] = ()
    below_header: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    quote_all: bool = False
    ending: str = ".csv"
    line_end: str = "\r\n"
    strays: tuple[int, ...] = ()  # the numbers of rows that are no people
    left_out: frozenset[str] = frozenset()  # columns of names or free text

    def rows(self) -> list[list[str]]:
        return [[text(person) for text in self.columns.values()] for person in people(len(self.columns))]

    def write(self, folder: Path, name: str) -> Path:
        path, rows = folder / f"{name}{self.ending}", self.rows()
        if self.ending == ".xlsx":
            return self._write_workbook(path, rows)
        text = io.StringIO()
        writer = csv.writer(
            text,
            delimiter=self.delimiter,
            lineterminator=self.line_end,
            quoting=csv.QUOTE_ALL if self.quote_all else csv.QUOTE_MINIMAL,
        )
        for line in self.above:
            text.write(line + self.line_end)
        writer.writerow(self.columns)
        for line in self.below_header:
            text.write(line + self.line_end)
        writer.writerows(rows)
        for line in self.below:
            text.write(line + self.line_end)
        path.write_bytes(text.getvalue().encode(self.encoding))
        return path

    def _write_workbook(self, path: Path, rows: list[list[str]]) -> Path:
        header = [f"'{name}" for name in self.columns]
        lines = [*(line.split("|") for line in self.above), header, *rows, *(line.split("|") for line in self.below)]
        sheet = "".join(f'<row r="{n}">{cells(n, *line)}</row>' for n, line in enumerate(lines, 1))
        workbook(path, ("00000",), Blatt1=sheet)
        return path


def _pick(*words: str) -> Text:
    return lambda one: words[one.postal % len(words)]


def _yes(yes: str, no: str) -> Text:
    return lambda one: yes if one.is_member else no


def _sex(*words: str) -> Text:
    return lambda one: words[one.sex]


POLISH = [
    "stycznia",
    "lutego",
    "marca",
    "kwietnia",
    "maja",
    "czerwca",
    "lipca",
    "sierpnia",
    "września",
    "października",
    "listopada",
    "grudnia",
]
SPANISH = ("ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sep", "oct", "nov", "dic")
DUTCH = [
    "januari",
    "februari",
    "maart",
    "april",
    "mei",
    "juni",
    "juli",
    "augustus",
    "september",
    "oktober",
    "november",
    "december",
]

FILES: dict[str, NationalFile] = {
    "de-kunden": NationalFile(
        {
            "Kunden-Nr.": lambda one: f"{one.number:06}",
            "Name": lambda one: f"M\u00fcller, J{one.number}",
            "Geburtsdatum": lambda one: one.unless(40, f"{one.born:%d.%m.%Y}", "unbekannt"),
            "PLZ": lambda one: f"{1060 + 4 * one.postal:05}",
            "Nettoeinkommen": lambda one: one.unless(4, number(one.income, ".", ",") + " \u20ac", "k. A."),
            "Gewicht": lambda one: number(one.weight, ".", ",", 1),
            "Newsletter": _yes("ja", "nein"),
            "Geschlecht": _sex("m\u00e4nnlich", "weiblich"),
        },
        encoding="cp1252",
        told="cp1252",
        below=("Summe;;;;1.234.567,89 \u20ac;;;",),
        strays=(401,),
        left_out=frozenset({"Name"}),
    ),
    "de-personal": NationalFile(
        {
            "Personalnummer": lambda one: str(10_000 + one.number),
            "Geburtstag": lambda one: f"d{(one.born - FIRST_SERIAL).days}",
            "Postleitzahl": lambda one: f"2:{1060 + 4 * one.postal}",
            "Jahresgehalt": lambda one: one.unless(20, str(one.income / 100), "'n. b."),
            "Kinder": lambda one: str(one.children),
            "F\u00fchrungskraft": lambda one: f"?{int(one.is_member)}",
            "Abteilung": _pick("'Eink\u00e4ufer", "'Vertrieb", "'IT"),
        },
        ending=".xlsx",
        above=("'Personalliste 2024", ""),
        below=("'Gesamt|||1234567",),
        strays=(401,),
    ),
    "fr-adherents": NationalFile(
        {
            "N\u00b0 adh\u00e9rent": lambda one: f"A{one.number:05}",
            "Date de naissance": lambda one: one.unless(30, f"{one.born:%d/%m/%Y}", "NC"),
            "Code postal": lambda one: f"{1000 + 10 * one.postal:05}",
            "Revenu mensuel": lambda one: one.unless(10, number(one.income, NARROW, ","), "NC"),
            "Poids": lambda one: number(one.weight, NARROW, ",", 1) + " kg",
            "Adh\u00e9rent": _yes("Oui", "Non"),
            "Sexe": _sex("Homme", "Femme"),
        },
        encoding="utf-8-sig",
        above=("Liste des adh\u00e9rents au 31/12/2024", ""),
        below=("", "Source : service des adh\u00e9sions;;;;;;"),
        strays=(401,),
    ),
    "fr-patients": NationalFile(
        {
            "Identifiant": lambda one: str(one.number),
            "Commentaire": lambda one: f"vu le {one.seen:%d/%m}\nligne {one.number}",
            "N\u00e9(e) le": lambda one: f"{one.born.day} {FRENCH[one.born.month - 1]} {one.born.year}",
            "CP": lambda one: f"{1000 + 10 * one.postal:05}",
            "Co\u00fbt": lambda one: one.unless(9, number(one.income, " ", ","), "n.c."),
            "Enfants": lambda one: one.unless(8, str(one.children), "NC"),
            "Fumeur": _yes("oui", "non"),
        },
        encoding="utf-16",
        delimiter="\t",
        ending=".txt",
        left_out=frozenset({"Commentaire"}),
    ),
    "es-socios": NationalFile(
        {
            "N.\u00ba socio": lambda one: f"S-{one.number}",
            "Fecha de nacimiento": lambda one: one.unless(25, f"{one.born:%d/%m/%Y}", "no consta"),
            "C\u00f3digo postal": lambda one: f"{8001 + one.postal:05}",
            "Ingresos": lambda one: one.unless(12, number(one.income, ".", ",") + " \u20ac", "s/d"),
            "Peso": lambda one: number(one.weight, ".", ",", 1),
            "Socio activo": _yes("S\u00ed", "No"),
            "Sexo": _sex("Hombre", "Mujer"),
        },
        encoding="iso8859-15",
        told="iso8859-15",
        above=("Listado de socios;;;;;;", "Ejercicio 2024;;;;;;"),
        below=("Total general;;;2.345.678,90 \u20ac;;;",),
        strays=(401,),
    ),
    "es-clientes": NationalFile(
        {
            "id": lambda one: str(one.number),
            "nacimiento": lambda one: f"{one.born.day:02}-{SPANISH[one.born.month - 1]}-{one.born.year}",
            "cp": lambda one: f"{8001 + one.postal:05}",
            "gasto": lambda one: number(one.income, ".", ","),
            "hijos": lambda one: one.unless(6, str(one.children), "N/D"),
            "alta": lambda one: f"{one.seen:%Y-%m-%d} 00:00:00",
            "provincia": _pick("Barcelona", "Le\u00f3n", "M\u00e1laga"),
        },
        delimiter=",",
        quote_all=True,
    ),
    "pl-klienci": NationalFile(
        {
            "Nr klienta": lambda one: f"K/{one.number}",
            "Data urodzenia": lambda one: one.unless(15, f"{one.born:%d.%m.%Y}", "brak"),
            "Kod pocztowy": lambda one: f"00-{950 + one.postal}",
            "Doch\u00f3d": lambda one: one.unless(7, number(one.income, HARD, ",") + " z\u0142", "brak"),
            "Waga": lambda one: number(one.weight, HARD, ",", 1),
            "Zgoda": _yes("tak", "nie"),
            "P\u0142e\u0107": _sex("m\u0119\u017cczyzna", "kobieta"),
        },
        encoding="cp1250",
        told="cp1250",
        below=("Razem;;;12 345,00 z\u0142;;;",),
        strays=(401,),
    ),
    "pl-pacjenci": NationalFile(
        {
            "Lp.": lambda one: str(one.number),
            "Urodzony": lambda one: f"{one.born.day} {POLISH[one.born.month - 1]} {one.born.year}",
            "Miasto": _pick("\u0141\u00f3d\u017a", "Krak\u00f3w", "Gda\u0144sk"),
            "Zarobki": lambda one: one.unless(9, number(one.income, " ", ","), "b.d."),
            "Dzieci": lambda one: one.unless(11, str(one.children), "brak danych"),
            "Pal\u0105cy": _yes("TAK", "NIE"),
            "Przyj\u0119ty": lambda one: f"{one.seen:%Y.%m.%d}",
        },
        encoding="iso8859-2",
        told="iso8859-2",
        delimiter="|",
        line_end="\n",
    ),
    "nl-leden": NationalFile(
        {
            "Lidnummer": lambda one: str(20_000 + one.number),
            "Geboortedatum": lambda one: one.unless(20, f"{one.born:%d-%m-%Y}", "onbekend"),
            "Postcode": lambda one: f"{1011 + one.postal} A{'BCDE'[one.postal % 4]}",
            "Inkomen": lambda one: one.unless(13, "\u20ac " + number(one.income, ".", ","), "n.v.t."),
            "Gewicht": lambda one: number(one.weight, ".", ",", 1),
            "Nieuwsbrief": _yes("ja", "nee"),
            "Geslacht": _sex("man", "vrouw"),
        },
        encoding="utf-8-sig",
        above=("sep=;",),
        below_header=("(nr);(dag);;(EUR);(kg);;",),
        below=("Totaal;;;;;;",),
        strays=(1, 402),
    ),
    "nl-bezoeken": NationalFile(
        {
            "Volgnummer": lambda one: str(one.number),
            "Geboren": lambda one: f"{one.born.day} {DUTCH[one.born.month - 1]} {one.born.year}",
            "Bezoek": lambda one: f"{one.seen:%d-%m-%Y} {one.number % 24:02}:{one.number % 60:02}",
            "Bedrag": lambda one: one.unless(12, number(one.income, ".", ","), "-"),
            "Kinderen": lambda one: str(one.children),
            "Roker": _yes("J", "N"),
            "Woonplaats": _pick("Den Haag", "'s-Hertogenbosch", "Utrecht"),
        },
        delimiter="\t",
        ending=".tsv",
    ),
    "us-members": NationalFile(
        {
            "Member ID": lambda one: f"M{one.number:07}",
            "Date of Birth": lambda one: one.unless(50, f"{one.born:%m/%d/%Y}", "N/A"),
            "ZIP Code": lambda one: f"{2100 + one.postal:05}",
            "Annual Income": lambda one: one.unless(9, "$" + number(one.income, ",", "."), "n/a"),
            "Weight (lb)": lambda one: number(one.weight, ",", ".", 1),
            "Active": _yes("Yes", "No"),
            "Notes": lambda one: f'says "hello",\nrow {one.number}',
        },
        delimiter=",",
        below=("", "Grand Total,,,$12,,,"),
        strays=(401,),
        left_out=frozenset({"Notes"}),
    ),
    "uk-patients": NationalFile(
        {
            "Patient No.": lambda one: str(one.number),
            "DOB": lambda one: one.unless(33, f"{one.born:%d/%m/%Y}", "not known"),
            "Postcode": lambda one: f"{('SW1A', 'M1', 'EC2')[one.postal % 3]} {one.postal % 4 + 1}AA",
            "Salary": lambda one: one.unless(9, "\u00a3" + number(one.income, ",", "."), "not stated"),
            "BMI": lambda one: one.unless(5, number(one.weight // 3, ",", ".", 1), "-"),
            "Smoker": _yes("Y", "N"),
            "Admitted": lambda one: f"{one.seen.day} {one.seen:%b} {one.seen.year}",
        },
        encoding="cp1252",
        told="cp1252",
        delimiter=",",
        above=("Outpatients 2024",),
        below_header=("",),
        below=("Average,,,,23.5,,", "Source: clinic register"),
        strays=(401, 402),
    ),
}
