"""An object of a class picked by name, with options as people write them: key=value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from fedcover.checks import GONE, refuse_gone
from fedcover.errors import FedcoverError


def make(kinds: Mapping[str, Any], name: str, options: Iterable[str] | None, what: str) -> Any:
    """An object of a named dataclass.

    Parameters
    ----------
    kinds
        The classes by name, in lower case.
    name
        The class to take, in any case.
    options
        Values of its fields, as key=value; the class checks them itself.
    what
        What the classes are, for messages: method, score.
    """
    kind = kinds.get(name.lower())
    if kind is None:
        raise FedcoverError(
            f"{what} is {name!r}", allowed=", ".join(kinds), fix=f"Choose one with --{what}"
        )
    allowed = [f.name for f in fields(kind) if f.init]
    values: dict[str, Any] = {}
    for text in options or ():
        key, eq, value = text.partition("=")
        if key in GONE and key not in allowed:
            refuse_gone(**{key: value})
        if not eq or key not in allowed:
            raise FedcoverError(
                f"option {text!r} of {what} {name}",
                allowed=", ".join(f"{k}=…" for k in allowed) or "no option",
                fix="Write it as key=value",
            )
        if key in values:
            raise FedcoverError(
                f"option {key!r} of {what} {name} is given twice",
                allowed="each option once",
                fix="Remove one of them",
            )
        values[key] = value_of(value)
    return kind(**values)


def value_of(text: str) -> Any:
    """What a text stands for: true, false, none, a number, a list with commas, or itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if "," in text:
        return [value_of(part.strip()) for part in text.split(",")]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
