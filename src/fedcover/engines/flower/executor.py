"""A site's own executor: starts the apps that the site has approved, and nothing else.

It takes the place of Flower's SuperExec beside a SuperNode with `--isolation process`. Flower's own
unpacks and runs whatever the server sends. This one hashes the bundle and runs the site's own copy
of it, in a process for each message. What the server asks for beside client apps is not taken.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from logging import ERROR, INFO
from pathlib import Path
from typing import Any

from flwr.app import Error, Message
from flwr.clientapp.client_app import LoadClientAppError
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.logger import log
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.object_ref import load_app
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedcover.engines.flower.approval import approved, client_of, digest_of
from fedcover.engines.flower.site_config import BY_EXECUTOR

PAUSE = 0.25
"""Seconds between two looks for work."""

UNAPPROVED = "this site has not approved the app"
FAILED = "the app failed; the reason is in the log of the site's executor"


def serve(node: str, folder: Path) -> None:
    """Works until it is stopped, one message after the other.

    Parameters
    ----------
    node
        Host and port of the SuperNode's own interface, on this machine.
    folder
        Where the approved apps are.
    """
    command = [sys.executable, "-P", "-m", __name__, node, str(folder)]
    environment = os.environ | {BY_EXECUTOR: "1"}
    wanted = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
    with _client(node, "SuperExec") as client:
        log(INFO, "fedcover: starts apps of %s, for the node at %s", folder, node)
        while True:
            given = client.AcquireTask(wanted)
            if given.token:
                subprocess.run(command, input=given.token, text=True, env=environment, check=False)
            time.sleep(PAUSE)


def work(node: str, token: str, folder: Path) -> None:
    """Answers one message: the process of a task."""
    with _client(node, "flwr-clientapp", RuntimeTokenHttpInterceptor(token)) as client:
        heart = HeartbeatSender(make_task_heartbeat_fn_http(client))
        heart.start()
        try:
            message, context, _, fab = pull_task_input(client)
            reply = answer(message, context, fab.content, folder)
            push_message(client, reply, context)
            status = SubStatus.FAILED if reply.has_error() else SubStatus.COMPLETED
            push_task_output(client, context, status, details="")
        finally:
            heart.stop()


def answer(message: Message, context: Any, content: bytes, folder: Path) -> Message:
    """The reply of an approved app, or an error that tells the server nothing of this site."""
    app = approved(content, folder)
    if app is None:
        log(ERROR, "fedcover: %s: %s is not in %s", UNAPPROVED, digest_of(content), folder)
        return Message(Error(ErrorCode.INVALID_FAB, UNAPPROVED), reply_to=message)
    try:
        client = load_app(client_of(app), LoadClientAppError, app)
        reply: Message = client(message, context)
    except Exception as error:  # its text may hold paths and data
        log(ERROR, "fedcover: the app failed", exc_info=error)
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, FAILED), reply_to=message)
    return reply


def _client(node: str, name: str, *interceptors: Any) -> RuntimeHttpClient:
    return RuntimeHttpClient.from_server_address(
        node,
        insecure=True,  # it is on this machine
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name=name), *interceptors],
        retry_invoker=make_simple_http_retry_invoker(),
    )


if __name__ == "__main__":
    work(sys.argv[1], sys.stdin.read(), Path(sys.argv[2]))
