"""The ClientApp of a site: a letter in, a letter out, and nothing else ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedcover.engines.flower.channel import QUERY, packed, unpacked
from fedcover.engines.flower.site import site_node
from fedcover.engines.network.letters import Letter
from fedcover.engines.network.memory import Memory
from fedcover.engines.network.node import SiteNode, guarded

NodeMaker = Callable[[Context], SiteNode]


def client_app(make_node: NodeMaker | None = None) -> ClientApp:
    """A ClientApp whose sites come from `make_node`; default: from each node's configuration."""
    app = ClientApp()

    @app.query(QUERY)
    def answer(message: Message, context: Context) -> Message:
        letter = unpacked(message.content)
        try:
            node = site_node(context.node_config) if make_node is None else make_node(context)
            reply = node.handle(letter)
        except Exception as error:  # its text must not reach the server
            reply = guarded(letter, _memory(context.node_config), _raising(error))
        return Message(packed(reply), reply_to=message)

    return app


def _raising(error: Exception) -> Callable[[Letter], Letter]:
    def answer(letter: Letter) -> Letter:
        raise error

    return answer


def _memory(config: Any) -> Memory | None:
    """Where to log that the site could not be set up, if even that is known."""
    try:
        return Memory(Path(str(config["state"])))
    except Exception:
        return None
