"""What a site remembers between two messages: secret, small, and bytes with a version.

Every message may start a new process, so the state goes to the site's disk and comes back. It never
leaves the site. Its bytes are those of a `Message`, read as strictly as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fedcover.errors import FedcoverError
from fedcover.protocols import wire
from fedcover.protocols.message import Message
from fedcover.securesum import messages
from fedcover.securesum.cards import CARD, Card
from fedcover.securesum.crypto import SECRET
from fedcover.securesum.terms import Terms

KIND = "secure-sum/state"


@dataclass(frozen=True)
class State:
    """A site's memory: the run under way, and the names of all runs before it.

    Attributes
    ----------
    used
        Digests of the names of all runs that were ever started here.
    answered
        How many stages of the present run have been answered; 0 if there is none.
    terms
        What the present run is about.
    mask_key, share_key, seed
        Private keys and seed of the self-mask; gone once the masked integers are made.
    cards
        Public keys of the sites, by name.
    held
        By dealer, a share of its seed and one of its mask key: 64 bytes.
    survivors
        The list that this site has signed.
    query, reply
        Digest of the latest query, and the reply to it in bytes: a retry gets it again.
    """

    used: tuple[bytes, ...] = ()
    answered: int = 0
    terms: Terms | None = None
    mask_key: bytes = b""
    share_key: bytes = b""
    seed: bytes = b""
    cards: Mapping[str, Card] = field(default_factory=dict)
    held: Mapping[str, bytes] = field(default_factory=dict)
    survivors: tuple[str, ...] = ()
    query: bytes = b""
    reply: bytes = b""

    def finished(self) -> State:
        """The run is over: every secret is forgotten, its name is not."""
        return State(used=self.used, answered=self.answered)

    def without_own_secrets(self) -> State:
        """What is left once the masked integers are made: the shares that the site holds."""
        return replace(self, mask_key=b"", share_key=b"", seed=b"")

    def to_bytes(self) -> bytes:
        """For the site's disk."""
        arrays = {
            name: messages.to_array(value)
            for name, value in (
                ("used", b"".join(self.used)),
                ("mask_key", self.mask_key),
                ("share_key", self.share_key),
                ("seed", self.seed),
                ("query", self.query),
                ("reply", self.reply),
                ("terms", wire.encode(self.terms.query()) if self.terms else b""),
                ("survivors", "\n".join(self.survivors).encode()),
            )
        }
        cards = {name: card.to_bytes() for name, card in self.cards.items()}
        arrays |= messages.table("card", cards) | messages.table("held", self.held)
        numbers = {"version": messages.VERSION, "answered": self.answered}
        return wire.encode(Message(KIND, arrays, numbers))

    @classmethod
    def of_bytes(cls, data: bytes) -> State:
        """What `to_bytes` wrote; refuses anything else."""
        try:
            message = wire.decode(data)
            if message.kind != KIND or message.numbers.get("version") != messages.VERSION:
                raise messages.refused("bytes of another kind or version", "a state")
            blobs = {name: messages.blob(message, name) for name in STORED}
            survivors = messages.read_names(message, "survivors")
            terms, used = blobs.pop("terms"), blobs.pop("used")
            return cls(
                used=tuple(used[k : k + SECRET] for k in range(0, len(used), SECRET)),
                answered=int(message.numbers["answered"]),
                terms=Terms.of_query(wire.decode(terms)) if terms else None,
                cards={
                    name: Card.of_bytes(card)
                    for name, card in messages.read_table(message, "card", CARD).items()
                },
                held=messages.read_table(message, "held", 2 * SECRET),
                survivors=survivors if survivors != ("",) else (),
                **blobs,
            )
        except (FedcoverError, KeyError):
            raise FedcoverError(
                "the state of this site's secure sums cannot be read",
                allowed=f"the bytes that an earlier answer gave, of version {messages.VERSION}",
                fix="Bring back the file. Starting without it is safe only if this site then "
                "answers no run that it was in before",
            ) from None


STORED = ("used", "mask_key", "share_key", "seed", "query", "reply", "terms")
