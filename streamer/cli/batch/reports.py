"""The reports of `anonymize`, `compare`, `audit`. Their modules, which take a second to load, are imported on use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamer.cli.support.progress import Stages
from streamer.cli.support.signals import interruptible
from streamer.errors import needs_extra
from streamer.recoding.algorithms.contract import Algorithm, Options
from streamer.recoding.report.findings import Drawn
from streamer.table.files import STDIN, sha256_by_name
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import file_of, files_of

if TYPE_CHECKING:
    from streamer.audit.found import Found
    from streamer.recoding.report.page import Provenance
    from streamer.recoding.report.tradeoffs import Curve


def require_report() -> None:
    """Raises LibraryMissing if the extra for reports is not installed."""
    with needs_extra("report"):
        import jinja2  # noqa: F401


def sources_of(table: str, data: RowSource) -> dict[str, Any]:
    """The input of a run, for its report: SHA-256 of all files that it comes from."""
    files, folder = files_of(table), file_of(table).parent
    names = (str(path.relative_to(folder) if path.is_relative_to(folder) else path) for path in files)
    settings = {name: one for name, path in zip(names, files, strict=True) for one in sha256_by_name(path).values()}
    read = {name: one for path in data.files if str(path) != STDIN for name, one in sha256_by_name(path).items()}
    return {"input": read, "settings": settings}


def with_digests(found: dict[str, Any], sources: Mapping[str, Any], output: Mapping[str, str]) -> dict[str, Any]:
    """The figures with the SHA-256 of all files."""
    return found | {"sha256": {"input": sources["input"], "output": output, "settings": sources["settings"]}}


def anonymize_report(
    facts: Mapping[str, Any], schema: Table, drawn: Drawn, table: str, data: str, curves: Sequence[Curve]
) -> str:
    """The page of one run; table: its file; data: the name of the rows."""
    from streamer.recoding.report.page import anonymize_page

    return anonymize_page(facts, schema, drawn, _provenance(table, data), curves)


def compare_report(report: Mapping[str, Any], table: str, data: str, curves: Sequence[Curve]) -> str:
    """The page of one comparison."""
    from streamer.recoding.report.page import compare_page

    return compare_page(report, _provenance(table, data), curves)


def audit_report(facts: Mapping[str, Any], found: Found | None, table: str, log: Path) -> str:
    """The page of one audit."""
    from streamer.audit.page import audit_page

    return audit_page(facts, found, _provenance(table, "standard input" if str(log) == STDIN else log.name))


def curves_of(microdata: Microdata, algorithm: Algorithm, options: Options, progress: Stages) -> Sequence[Curve]:
    """Loss for other k, in a stage of its own."""
    from streamer.recoding.report.tradeoffs import sampled, tradeoffs

    with progress.stage("trade-offs"):
        return interruptible(lambda: tradeoffs(sampled(microdata), algorithm, options))


def _provenance(table: str, data: str) -> Provenance:
    from streamer.recoding.report.page import Provenance

    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Provenance(made, version("streamer"), data, file_of(table).read_text(encoding="utf-8"))
