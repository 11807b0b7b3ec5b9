"""Which topic the rows of a captured table come to, through the routers of a connector.

What Java's regular expressions and Python's have in common is all that names of topics need; where a route cannot be
told, nothing is claimed.
"""

from __future__ import annotations

import re

from streamer.incremental.connectors.connector_config import ConnectorConfig, Transform

ROUTERS = {"RegexRouter": ("regex", "replacement"), "ByLogicalTableRouter": ("topic.regex", "topic.replacement")}
"""Transforms that rename topics, and the settings that say how."""

_ESCAPED = re.compile(r"\\(.)")
_META = re.compile(r"[\\^$*+?()\[\]{}|]")
_GROUP = re.compile(r"\$(\d)|\$\{(\w+)\}")


def relations_of(config: ConnectorConfig) -> list[str] | None:
    """The captured tables by their full names; None where the list is missing, or holds more than names."""
    listed = config.listed("table.include.list")
    plain = [name for name in map(_plain, listed) if name is not None]
    return plain if listed and len(plain) == len(listed) else None


def topic_of(config: ConnectorConfig, relation: str) -> str | None:
    """The topic that a table's rows come to; None where that cannot be told."""
    topic = f"{config.get('topic.prefix')}.{relation}"
    for transform in config.transforms():
        if transform.simple_type in ROUTERS:
            routed = _routed(transform, topic)
            if routed is None:
                return None
            topic = routed
    return topic


def _plain(pattern: str) -> str | None:
    r"""The one name that an expression matches; None where it may match several.

    >>> _plain(r"public\.people"), _plain("public.people"), _plain("public.*")
    ('public.people', 'public.people', None)
    """
    bare = _ESCAPED.sub("", pattern)
    return None if _META.search(bare) else _ESCAPED.sub(r"\1", pattern)


def _routed(transform: Transform, topic: str) -> str | None:
    pattern, replacement = (transform.settings.get(name, "") for name in ROUTERS[transform.simple_type])
    try:
        found = re.fullmatch(pattern, topic)
        return topic if found is None else found.expand(_GROUP.sub(r"\\g<\1\2>", replacement))
    except (re.error, IndexError):
        return None
