"""Envelopes over Flower's message API: one config record with the bytes, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from logging import WARNING
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.common.logger import log

RECORD, KEY, QUERY = "fedcover", "letter", "fedcover"

PAUSE = 0.3
"""Seconds between two looks for replies; Flower's own call waits ten times as long."""


def packed(envelope: bytes) -> RecordDict:
    """An envelope as Flower carries it."""
    return RecordDict({RECORD: ConfigRecord({KEY: envelope})})


def unpacked(content: RecordDict) -> bytes:
    """The envelope of such a record; empty bytes, which no envelope is, where there is none."""
    record = content.config_records.get(RECORD)
    envelope = record.get(KEY) if record is not None else None
    return envelope if isinstance(envelope, bytes) else b""


@dataclass(frozen=True)
class GridTransport:
    """A `Transport` over the Grid of a ServerApp."""

    grid: Any

    def nodes(self) -> list[int]:
        return sorted(self.grid.get_node_ids())

    def exchange(self, envelopes: Mapping[int, bytes], seconds: float) -> dict[int, bytes]:
        messages = [
            Message(packed(envelope), dst_node_id=node, message_type=f"query.{QUERY}")
            for node, envelope in envelopes.items()
        ]
        until = time.monotonic() + seconds
        waiting = {sent for sent in self.grid.push_messages(messages) if sent}
        found: dict[int, bytes] = {}
        while waiting:
            for reply in self.grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                if reply.has_error():
                    _tell(reply)
                else:
                    found[reply.metadata.src_node_id] = unpacked(reply.content)
            if time.monotonic() > until:
                break
            if waiting:
                time.sleep(PAUSE)
        return found


def _tell(reply: Any) -> None:
    """Says of an error what the coordinator can do something about."""
    if reply.error.code == ErrorCode.INVALID_FAB:
        node = reply.metadata.src_node_id
        log(WARNING, "fedcover: node %d has not approved this app, and does not start it", node)
