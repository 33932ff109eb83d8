"""What the tests of the network share."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """No waiting for the disk: half of the time of these tests. `test_memory` undoes it."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
