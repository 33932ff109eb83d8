"""Settings as the fields of a dataclass: what a key is unless set, and what it says, in one place.

Reading, refusing and the tables of the documentation go by the fields. A library would read them in
no fewer lines: its errors have to become ours, with what is allowed and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar, get_args, get_type_hints

from fedcover._io.facts import fits
from fedcover.errors import FedcoverError
from fedcover.inputs import is_plain

T = TypeVar("T")

WORDS = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}


def setting(says: str, usual: Any = MISSING) -> Any:
    """A field that is a setting; required unless it has a usual value."""
    return field(default=usual, metadata={"says": says})


def settings_of(kind: type[Any]) -> dict[str, Field[Any]]:
    """The settings by their keys, which have hyphens."""
    return {one.name.replace("_", "-"): one for one in fields(kind)}


def read_settings(kind: type[T], config: Mapping[str, Any], *, what: str, fix: str) -> T:
    """The settings in a configuration; a key that is not known or of another type is refused.

    Parameters
    ----------
    kind
        The dataclass of the settings.
    config
        Values by key.
    what, fix
        What the configuration is, and where it is corrected: for errors.
    """
    known, hints, values = settings_of(kind), get_type_hints(kind), {}
    if unknown := sorted(set(config) - set(known)):
        raise FedcoverError(f"{what} has {unknown[0]!r}", allowed=", ".join(known), fix=fix)
    for key, one in known.items():
        if key in config:
            values[one.name] = _typed(key, config[key], one, hints[one.name], fix)
        elif one.default is MISSING:
            allowed = f"{key}: {one.metadata['says']}"
            raise FedcoverError(f"{what} has no {key!r}", allowed=allowed, fix=fix)
    return kind(**values)


def _typed(key: str, value: Any, one: Field[Any], hint: Any, fix: str) -> Any:
    """A value of the type of its field; a whole number will do where a broken one may stand."""
    kind = (*get_args(hint), hint)[0]
    steers = isinstance(value, str) and not is_plain(value)  # no path has such characters either
    if not fits(value, kind) or steers or (value == "" and one.default != ""):
        allowed = f"{WORDS[kind]}: {one.metadata['says']}"
        raise FedcoverError(f"{key} is {value!r:.80}", allowed=allowed, fix=fix)
    return float(value) if kind is float else value
