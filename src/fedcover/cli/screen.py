"""Screens that cannot show every character: words take the place of the symbols."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

WORDS = {
    "α": "alpha", "γ": "gamma", "δ": "delta", "Δ": "Delta", "ε": "epsilon", "λ": "lambda",
    "Σ": "sum", "σ": "sigma", "≥": ">=", "≤": "<=", "≈": "about ", "±": "+-", "−": "-", "×": "x",
    "·": "*", "√": "sqrt", "∞": "infinity", "∅": "(none)", "✓": "yes", "✗": "NO", "→": "->",
    "…": "...", "–": "-", "—": "-", "“": '"', "”": '"', "‘": "'", "’": "'",
}  # fmt: skip
"""What is printed where a symbol cannot be."""

HANDLER = "fedcover-words"
"""The name under which codecs know it."""


def in_words(text: str, encoding: str) -> str:
    """A text with words in place of what an encoding does not have."""
    return text.encode(encoding, HANDLER).decode(encoding)


def for_help(text: str | None) -> str | None:
    """A text of the help, as the terminal can show it."""
    return (
        text if text is None else in_words(text, getattr(sys.stdout, "encoding", None) or "utf-8")
    )


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_word, error.object[error.start : error.end])), error.end


def _word(character: str) -> str:
    folded = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return WORDS.get(character) or folded or "?"


codecs.register_error(HANDLER, _replace)


def prepare_streams() -> None:
    """From here on nothing that is printed can fail for the sake of a character."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=HANDLER)


class Screen(Console):
    """A console that puts words for symbols before it lays a table out, so that lines stay even."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich prints, in words where that is needed."""
        if not self.encoding.startswith("utf"):
            objects = tuple(self._plain(thing) for thing in objects)
        super().print(*objects, **options)

    def _plain(self, thing: Any) -> Any:
        if isinstance(thing, str):
            return in_words(thing, self.encoding)
        if isinstance(thing, Text):
            parts = ((in_words(s.text, self.encoding), s.style or "") for s in thing.render(self))
            plain = Text.assemble(*parts, style=thing.style, justify=thing.justify)
            plain.no_wrap, plain.overflow = thing.no_wrap, thing.overflow
            return plain
        if isinstance(thing, Panel):
            thing.renderable, thing.title = self._plain(thing.renderable), self._plain(thing.title)
        if isinstance(thing, Table):
            thing.title, thing.caption = self._plain(thing.title), self._plain(thing.caption)
            for column in thing.columns:
                column.header = self._plain(column.header)
                column._cells = [self._plain(cell) for cell in column._cells]
        return thing
