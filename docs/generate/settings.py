"""The reference of table.yaml, from the models that read it: every setting, what it may be, and what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, StringConstraints
from pydantic.fields import FieldInfo

from streamer.table.yaml.shape import TableSettings

HEAD = """\
# table.yaml

Every setting, from the models that read the file. All faults of a file are told in one go, each with its place.
`streamer check --table mine` says what a file means, `streamer config --table mine` what is in effect and where it
comes from.
"""

BOUNDS = {"ge": "{} at least", "gt": "above {}", "le": "{} at most", "lt": "below {}", "max_length": "{} at most"}
NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}

WRONG = (object(), "0", "1s")
"""No text, too little, too short a time: whoever reads a setting refuses one of them in its own words."""

Section = tuple[str, type[BaseModel]]


def page() -> str:
    """The whole page."""
    sections = dict.fromkeys(_sections("", TableSettings))
    parts = [HEAD, *(_section(place, model) for place, model in sections)]
    return "\n".join(parts)


def _sections(place: str, model: type[BaseModel]) -> Iterator[Section]:
    """A model and those below it, each with its place in the file."""
    yield place, model
    for name, setting in model.model_fields.items():
        for below in dict.fromkeys(_models(setting.annotation)):
            yield from _sections(f"{place}{name}.", below)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _section(place: str, model: type[BaseModel]) -> str:
    about, sentences = told(model)
    role = model.model_fields.get("role")
    name = f"`{place[:-1]}`" if place else "The file"
    if role is not None:
        name = f"{name}: {' or '.join(get_args(role.annotation))}{', of time' if 'Temporal' in model.__name__ else ''}"
    rows = [_row(setting, field, sentences.get(setting, "–")) for setting, field in model.model_fields.items()]
    head = ["| setting | may be | default | what |", "|---|---|---|---|"]
    return "\n".join([f"## {name}", "", f"{about}\n" if about else "", *head, *rows, ""])


def told(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """What the docstring of a model says of it, and of each of its settings."""
    text = re.sub(r"\s+", " ", model.__doc__ or "").strip()
    names = "|".join(map(re.escape, model.model_fields))
    about, *rest = re.split(rf"(?:^|(?<=[.;] ))({names}): ", text)
    return about.strip(), {name: _sentence(said) for name, said in zip(rest[::2], rest[1::2], strict=True)}


def _sentence(said: str) -> str:
    said = said.strip()
    return f"{said[0].upper()}{said[1:]}" if said[0].isalpha() else said


def _row(name: str, setting: FieldInfo, sentence: str) -> str:
    below = any(True for _ in _models(setting.annotation))
    may_be = "see below" if below else allowed(setting.annotation, setting.metadata)
    return f"| `{name}` | {may_be} | {_default(setting, below)} | {sentence} |".replace("||", "|")


def _default(setting: FieldInfo, below: bool) -> str:
    if setting.is_required():
        return "has to be said"
    value = setting.default
    if value is None and not below and allowed(setting.annotation, setting.metadata).endswith("`never`"):
        return "`never`"
    if below or value is None or value == ():
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def allowed(annotation: Any, metadata: list[Any]) -> str:
    """What a setting may be, in words: what refuses a wrong one says what is right."""
    inner = [one for one in get_args(annotation) if one is not type(None)]
    read = [one.func for one in metadata if isinstance(one, BeforeValidator)]
    if hasattr(annotation, "__metadata__"):
        return allowed(annotation.__origin__, [*annotation.__metadata__, *metadata])
    if read and (said := _said_by(read[0])):
        return ", ".join([said, *_bounds(metadata)])
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{one}`" for one in inner)
    if get_origin(annotation) is tuple:
        many = len(inner) > 1 and inner[1] is Ellipsis
        one = allowed(inner[0], [])
        return f"a list, or one: {one}" if many and read else f"a list: {one}" if many else f"two: {one}"
    if inner:
        return " or ".join(allowed(one, metadata) for one in inner)
    return ", ".join([NAMES.get(annotation, getattr(annotation, "__name__", str(annotation))), *_bounds(metadata)])


def _said_by(read: Any) -> str:
    """What the function that reads a setting says is right, where it refuses anything by itself."""
    said = []
    for wrong in WRONG:
        try:
            read(wrong)
        except ValueError as error:
            said.append(str(error).removeprefix("must be "))
    return ", ".join(dict.fromkeys(said))


def _bounds(metadata: list[Any]) -> Iterator[str]:
    for one in metadata:
        if isinstance(one, StringConstraints):
            yield from (f"of {one.max_length} characters at most",) if one.max_length else ()
        for name, words in BOUNDS.items():
            bound = None if isinstance(one, StringConstraints) else getattr(one, name, None)
            if bound is not None:
                yield words.format(f"{bound:,}" if isinstance(bound, int) else bound)
