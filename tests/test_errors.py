"""Errors have one form and survive a process boundary."""

from __future__ import annotations

import pickle

import pytest

import fedcover as fc
from fedcover.errors import FedcoverError, FedcoverWarning, FileError


def test_message_says_given_allowed_and_fix():
    error = FedcoverError("alpha is 3", allowed="(0, 1)", fix="Lower it")
    assert str(error) == "alpha is 3. Allowed: (0, 1). Lower it."
    assert (error.given, error.allowed, error.fix) == ("alpha is 3", "(0, 1)", "Lower it")


@pytest.mark.parametrize("kind", [FedcoverError, FileError])
def test_survives_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("a", allowed="b", fix="c")))
    assert type(error) is kind
    assert str(error) == "a. Allowed: b. c."


def test_family():
    assert issubclass(FileError, FedcoverError)
    assert issubclass(FedcoverError, ValueError)
    assert issubclass(FedcoverWarning, UserWarning)
    assert fc.FedcoverError is FedcoverError
