"""Workbooks of Excel, written part by part as Excel writes them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from xml.sax.saxutils import quoteattr

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OF_DOCUMENTS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_OF_PACKAGES = "http://schemas.openxmlformats.org/package/2006/relationships"


def workbook(path: Path, formats: tuple[str, ...] = (), **sheets: str) -> str:
    """A workbook of Excel, with sheets as Excel writes them; style 1 is that of days, 2 and on are the formats."""
    numbered = list(enumerate(sheets.items(), start=1))
    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, (name, _) in numbered)
    related = "".join(
        f'<Relationship Id="r{n}" Type="{_OF_DOCUMENTS}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n, _ in numbered
    )
    related += f'<Relationship Id="s" Type="{_OF_DOCUMENTS}/styles" Target="styles.xml"/>'
    codes = "".join(f'<numFmt numFmtId="{n}" formatCode={quoteattr(code)}/>' for n, code in enumerate(formats, 164))
    styles = "".join(f'<xf numFmtId="{n}" applyNumberFormat="1"/>' for n in (0, 14, *range(164, 164 + len(formats))))
    parts = {
        "_rels/.rels": f'<Relationships xmlns="{_OF_PACKAGES}"><Relationship Id="b"'
        f' Type="{_OF_DOCUMENTS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OF_DOCUMENTS}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_OF_PACKAGES}">{related}</Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><numFmts>{codes}</numFmts>'
        f"<cellXfs>{styles}</cellXfs></styleSheet>",
    }
    for n, (_, rows) in numbered:
        parts[f"xl/worksheets/sheet{n}.xml"] = f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w") as book:
        for name, text in parts.items():
            book.writestr(name, text)
    return str(path)


def cells(number: int, *written: str) -> str:
    """A row of a sheet: 'a text, d12 a day, !N/A an error, ?1 a boolean, =A1 a formula that was never computed, 2:7 a
    number of a style, empty no cell; others are numbers."""
    row = ""
    for letter, text in zip("ABCDEFG", written, strict=False):
        at = f'r="{letter}{number}"'
        if text.startswith("'"):
            row += f'<c {at} t="inlineStr"><is><t>{text[1:]}</t></is></c>'
        elif text.startswith("d"):
            row += f'<c {at} s="1"><v>{text[1:]}</v></c>'
        elif text.startswith("!"):
            row += f'<c {at} t="e"><v>#{text[1:]}</v></c>'
        elif text.startswith("?"):
            row += f'<c {at} t="b"><v>{text[1:]}</v></c>'
        elif text.startswith("="):
            row += f"<c {at}><f>{text[1:]}</f></c>"
        elif ":" in text:
            style, _, value = text.partition(":")
            row += f'<c {at} s="{style}"><v>{value}</v></c>'
        elif text:
            row += f"<c {at}><v>{text}</v></c>"
    return f'<row r="{number}">{row}</row>'
