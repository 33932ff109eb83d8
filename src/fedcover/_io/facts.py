"""Facts as canonical JSON, and back: the one codec of files and headers, strict to read.

`to_json` and `from_json` are about text. `facts_of` and `made_of` are about frozen dataclasses:
their annotations say what the plain values of their fields are. Of several dataclasses in a union,
such as the events of privacy, "type" tells which one it is. A number that should be a float may be
a whole one, and stays as it is: equal facts keep equal bytes, of which hashes are taken.

No library does this for us: msgspec and pydantic take the last of repeated keys, and make other
numbers of whole ones.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from fedcover.inputs import is_plain

MAX_JSON = 1 << 28
"""Longest JSON that is read, in bytes or characters: a calibration of a million labels and more."""

MOST_INSIDE = 1 << 21
"""Most lists and objects in it: an empty one takes thirty times the memory of its text."""

FIELDS_THAT_CANNOT_BE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What it takes to make something of facts that somebody else has written: whoever reads a file
turns these into its own error. Anything else is a fault of ours."""


def to_json(facts: Mapping[str, Any], *, ascii_only: bool = True, compact: bool = False) -> str:
    """Keys in order, so that equal facts give equal text; a ValueError for what is no number."""
    return json.dumps(
        facts,
        sort_keys=True,
        ensure_ascii=ascii_only,
        separators=(",", ":") if compact else None,
        allow_nan=False,
    )


def from_json(text: bytes | str, most: int = MAX_JSON) -> dict[str, Any]:
    """The facts of such a text; a ValueError for anything that two readers could read as two."""
    if len(text) > most:
        raise ValueError(f"it is longer than {most}")
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if raw.count(b"[") + raw.count(b"{") > MOST_INSIDE:
        raise ValueError("it has too many lists and objects in it")
    try:
        facts = json.loads(
            text if isinstance(text, str) else text.decode(),
            object_pairs_hook=_once,
            parse_constant=_number,
            parse_float=_number,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(facts, dict):
        raise ValueError("it is not an object")
    return facts


def plain_texts(facts: Any) -> bool:
    """Whether all texts in facts show what they say: they come to screens and pages."""
    if isinstance(facts, str):
        return is_plain(facts.replace("\n", " "))
    if isinstance(facts, dict):
        return all(plain_texts(key) and plain_texts(value) for key, value in facts.items())
    return not isinstance(facts, list) or all(map(plain_texts, facts))


def digest(content: bytes | str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def facts_of(thing: Any, kind: Any = None) -> Any:
    """A dataclass, or what may stand in one, as plain values.

    Parameters
    ----------
    thing
        A dataclass, a list or tuple, a number, text, None.
    kind
        Its annotation, where that is a union of dataclasses.
    """
    if type(thing) in (str, int, float, NoneType):  # most are, and ledgers are long
        return thing
    options = _options(kind)
    if is_dataclass(thing) and not isinstance(thing, type):
        plain = {name: facts_of(getattr(thing, name), k) for name, k in _hints(type(thing)).items()}
        return {"type": type(thing).__name__, **plain} if len(options) > 1 else plain
    if isinstance(thing, (list, tuple)):
        inner = (*get_args(options[0]), None)[0]
        return [facts_of(one, inner) for one in thing]
    return thing.item() if isinstance(thing, np.generic) else thing


def made_of(kind: Any, facts: Any) -> Any:
    """What `facts_of` made facts of; a ValueError or TypeError if they are of something else.

    Parameters
    ----------
    kind
        A dataclass, or another annotation of str, int, float, bool, None, dict, tuples and unions.
    facts
        Plain values. A field may be missing if it has a default.
    """
    if type(facts) is kind:
        return facts
    options = _options(kind)
    if facts is None and NoneType in get_args(kind):
        return None
    if len(options) > 1:
        facts = dict(facts)
        name = facts.pop("type", None)
        options = tuple(one for one in options if one.__name__ == name)
        if not options:
            raise ValueError(f"no type is called {name!r:.80}")
    (kind,) = options
    if is_dataclass(kind):
        return _dataclass(kind, facts)
    if get_origin(kind) is tuple and isinstance(facts, list):
        inner = get_args(kind)
        many = inner[-1] is Ellipsis
        pairs = zip(repeat(inner[0]) if many else inner, facts, strict=not many)
        return tuple(made_of(one, fact) for one, fact in pairs)
    if not fits(facts, kind):
        raise ValueError(f"{facts!r:.80} is not of type {kind}")
    return facts


def fits(fact: Any, kind: Any) -> bool:
    """Whether a plain value may stand where that type is meant; true is no number."""
    plain = get_origin(kind) or kind
    return type(fact) is plain or (plain is float and type(fact) is int)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of the fields of a dataclass."""
    return get_type_hints(kind)


def _dataclass(kind: Any, facts: Any) -> Any:
    types = _hints(kind)
    if not isinstance(facts, dict) or not facts.keys() <= types.keys():
        raise ValueError(f"{kind.__name__} has {', '.join(types)}, not {list(facts)!r:.200}")
    return kind(**{name: made_of(types[name], fact) for name, fact in facts.items()})


@cache
def _options(kind: Any) -> tuple[Any, ...]:
    """What an annotation allows besides None."""
    union = get_origin(kind) in (Union, UnionType)
    return tuple(one for one in (get_args(kind) if union else (kind,)) if one is not NoneType)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are different: two readers could believe two different ones."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def _number(text: str) -> float:
    """A finite number: NaN and Infinity are not JSON, and 1e999 is no number either."""
    if not math.isfinite(value := float(text)):
        raise ValueError("not a finite number")
    return value
