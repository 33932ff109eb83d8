"""Texts as cells of csv files: none that a spreadsheet would run, and all that can be read back.

A spreadsheet takes a cell that begins with = + - or @ for a formula, also after blanks, and some do
so within a cell, after what separates cells elsewhere. Quotes do not keep them from it; an
apostrophe in front does. So an apostrophe is put before

- a cell that begins with one of ``= + - @``, their full-width forms, a tab or a line break, with or
  without apostrophes of its own before it, unless all of it is a number such as -5 or +1e3;
- one of ``= + - @`` that follows, blanks aside, a ``;``, a comma, a quote, a tab or a line break.

`text_of` takes the apostrophes away again, and `text_of(cell_of(text))` is the text. All csv files
that this package writes and reads go through the two.
"""

from __future__ import annotations

import re

_SIGNS = "=+\\-@＝＋－＠"
_BLANKS = r"[^\S\t\r\n]*"
_FIRST = re.compile(rf"'*{_BLANKS}[\t\r\n{_SIGNS}]")
_INSIDE = re.compile(rf"(?<=[;,\"\t\r\n])({_BLANKS})('*)(?=[{_SIGNS}])")
_INSIDE_MARKED = re.compile(rf"(?<=[;,\"\t\r\n])({_BLANKS})'('*)(?=[{_SIGNS}])")
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def cell_of(text: str) -> str:
    """The text as a cell that stays a text."""
    marked = _INSIDE.sub(r"\1'\2", text)
    if _FIRST.match(text) and not _NUMBER.fullmatch(text):
        return "'" + marked
    return marked


def text_of(cell: str) -> str:
    """The text of a cell that `cell_of` made."""
    if cell.startswith("'") and _FIRST.match(cell):
        cell = cell[1:]
    return _INSIDE_MARKED.sub(r"\1\2", cell)
