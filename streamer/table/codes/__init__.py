"""One column of a table: what its texts mean, the codes of its values, and the cells in which they are published.

Other rooms import from here; other names of the modules are for `table` alone.
"""

from streamer.table.codes.attributes import (
    Attribute,
    CategoricalAttribute,
    DistributionDemands,
    Diversity,
    KeptColumn,
    NumericAttribute,
    SourceText,
    TemporalAttribute,
)
from streamer.table.codes.calendar import Span
from streamer.table.codes.column_codes import from_code, is_stepless, null_exact
from streamer.table.codes.key_spellings import other_spellings_of_key
from streamer.table.codes.reference import (
    EQUAL,
    HIERARCHICAL,
    NO_REFERENCE,
    ORDERED,
    Reference,
    counted_rows,
    reference_of,
)
from streamer.table.codes.same_text import CountedText, Spellings
from streamer.table.codes.scalars import (
    CLOCKS,
    DATE,
    DIGITS_MAX,
    EPOCH,
    INFINITY,
    LOCAL_TIMESTAMP,
    SECONDS_PER_DAY,
    TIMESTAMP,
    Clock,
    constant_of,
    day_text,
    decimal_text,
    limit_of,
    moment_of,
    moment_text,
    read_decimal,
    time_text,
    timestamp_text,
)  # fmt: skip
from streamer.table.codes.source_texts import cell_text, is_scalar, source_cells, type_of_column

__all__ = [
    "CLOCKS", "DATE", "DIGITS_MAX", "EPOCH", "EQUAL", "HIERARCHICAL", "INFINITY", "LOCAL_TIMESTAMP", "NO_REFERENCE",
    "ORDERED", "SECONDS_PER_DAY", "TIMESTAMP", "Attribute", "CategoricalAttribute", "Clock", "CountedText",
    "DistributionDemands", "Diversity", "KeptColumn", "NumericAttribute", "Reference", "SourceText", "Span",
    "Spellings", "TemporalAttribute", "cell_text", "constant_of", "counted_rows", "day_text", "decimal_text",
    "from_code", "is_scalar", "is_stepless", "limit_of", "moment_of", "moment_text", "null_exact",
    "other_spellings_of_key", "read_decimal", "reference_of", "source_cells", "time_text", "timestamp_text",
    "type_of_column",
]  # fmt: skip
