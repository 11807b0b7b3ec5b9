"""The references of errors and of dead letters' reasons: every class with its exit code, every sentence of the code."""

from __future__ import annotations

import re
from collections import defaultdict
from inspect import getdoc

from docs.generate.sentences import LEFT_OPEN, MENDS, Sources, sources
from streamer import errors
from streamer.errors import StreamerError
from streamer.incremental.store.redis_server import REFUSALS

OF_A_FIRST_LOOK = ("streamer/cli/demo/", "streamer/kafka/embedded.py")

ERRORS = """\
# Errors

Sorted by whose fault they are. The class stands in the log, and as `kind` in what `--json` prints; the exit code is
that of the command that it ends. What is known only when it happens (a shard, an offset, an address) is an ellipsis
here; where one of several texts stands, they are divided by a slash. Sentences of `ConfigError`, `UsageError` and
`LawViolated` speak of the file, the command line or the changelog at hand, and are not listed. What to do about each:
[operations](../operations.md#incidents-by-message).

"""
NOT_LISTED = {"StreamerError", "ConfigError", "UsageError", "LawViolated", "EventRefused", "GroupTooLarge"}

REASONS = """\
# Reasons of dead letters

A message that cannot be applied becomes a dead letter in `<table>.dead-letters`, with a reason, the column at fault,
a sentence, and where the message stands; never with anything of what it said. The sentences, from the code; what is
known only when it happens is an ellipsis. What to do about each:
[operations](../operations.md#dead-letters-by-reason).

Letters have a kind: `refused` (nothing of the message was applied), `partial` (a statement was, but some rows keep
their old values: `rows-left-unchanged`), and for messages that an operator had tried again `retried`, `superseded`
and `refused-again`.

| reason | sentences |
|---|---|
"""


def errors_page() -> str:
    """The page of errors."""
    parts = [ERRORS]
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StreamerError)]
    for kind in kinds:
        said = [] if kind.__name__ in NOT_LISTED else _said(sources(), kind.__name__)
        about = f"Exit code {kind.exit_code}. {_flowing(getdoc(kind) or '')}"
        parts += [f"## {kind.__name__}\n", f"{about}\n", *(f"* {one}" for one in said), *([""] if said else [])]
    parts += ["## Mends\n", "What sentences above call by these names:\n"]
    parts += [*(f"* *{_words(name)}*: {_safe(text)}" for name, text in MENDS.items()), ""]
    parts += ["## Redis\n", "What Redis' own errors become:\n", "| code | class | sentence |", "|---|---|---|"]
    parts += [f"| `{code}` | {kind.__name__} | {LEFT_OPEN} {_safe(text)} |" for code, (kind, text) in REFUSALS.items()]
    return "\n".join(parts) + "\n"


def _said(source: Sources, kind: str) -> list[str]:
    """The sentences of one class, each once, with the mends by their names."""
    found = [one.text for one in source.sentences(kind) if not one.module.startswith(OF_A_FIRST_LOOK)]
    with_words = [text for text in found if re.search(r"[a-z]", text)]
    return sorted({_safe(_with_mends_named(re.sub(rf"^(?:{LEFT_OPEN}: )+", "", text))) for text in with_words})


def _with_mends_named(text: str) -> str:
    for name, mend in sorted(MENDS.items(), key=lambda item: -len(item[1])):
        text = text.replace(mend, f"*{_words(name)}*")
    return text


def _words(name: str) -> str:
    return name.replace("_", " ")


def reasons_page() -> str:
    """The page of dead letters' reasons."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in sources().sentences("EventRefused"):
        if one.first and one.first != LEFT_OPEN:
            found[one.first].append(_safe(_with_mends_named(one.text)))
    rows = [f"| `{reason}` | {'<br>'.join(dict.fromkeys(found[reason]))} |" for reason in sorted(found)]
    return REASONS + "\n".join(rows) + "\n"


def _flowing(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _safe(text: str) -> str:
    """As markdown shows it: what stands in angle brackets is no tag."""
    return text.replace("<", "&lt;").replace("|", "\\|")
