"""What a site remembers between two messages, in bytes for its disk.

A site is a function of a message and a state: it may be restarted between any two messages, and
keeps what it must not forget. The state is secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fedcover import checks, wire
from fedcover.errors import FedcoverError
from fedcover.securesum.commitments import ADVERTISEMENT, KeyAdvertisement
from fedcover.securesum.crypto import SECRET, can_share
from fedcover.securesum.spec import (
    STAGES,
    VERSION,
    SumSpec,
    read_bytes,
    read_names,
    read_table,
    refused,
    to_array,
    to_table,
)
from fedcover.wire import Message

KIND = "secure-sum/state"

MOST_NAMES = 10_000
"""Runs that a site takes part in before its memory is cleared by hand: a server chooses their
names, and each stays for ever. Forgetting old ones here would not do: a name is used once."""

STORED = ("used", "mask_key", "share_key", "seed", "query", "reply", "terms")
"""Arrays of bytes in a state on disk."""


@dataclass(frozen=True)
class State:
    """A site's memory: the run under way, and the names of all runs before it.

    Attributes
    ----------
    used
        Digests of the names of all runs that were ever started here.
    answered
        How many stages of the present run have been answered; 0 if there is none.
    spec
        What the present run is about.
    mask_key, share_key, seed
        Private keys and seed of the self-mask; gone once the masked integers are made.
    advertised
        What the sites have advertised, by name.
    held
        By dealer, a share of its seed and one of its mask key: 64 bytes.
    survivors
        The list that this site has signed.
    query, reply
        Digest of the latest query, and the reply to it in bytes: a retry gets it again.
    """

    used: tuple[bytes, ...] = ()
    answered: int = 0
    spec: SumSpec | None = None
    mask_key: bytes = b""
    share_key: bytes = b""
    seed: bytes = b""
    advertised: Mapping[str, KeyAdvertisement] = field(default_factory=dict)
    held: Mapping[str, bytes] = field(default_factory=dict)
    survivors: tuple[str, ...] = ()
    query: bytes = b""
    reply: bytes = b""

    def without_own_secrets(self) -> State:
        """What is left once the masked integers are made: the shares that the site holds.

        From here on a copy of the disk opens no vector that has left the site.
        """
        return replace(self, mask_key=b"", share_key=b"", seed=b"")

    def finished(self) -> State:
        """The run is over: every secret is forgotten, its name is not.

        A second run of that name would have the same digest if it said the same, and signatures of
        the first would be good in it.
        """
        return State(used=self.used, answered=self.answered)

    def _fits(self) -> bool:
        """Whether all that the next answer reads is there, and of the right length."""
        if self.spec is None:
            return self.answered in (0, len(STAGES))
        own = SECRET if self.answered <= STAGES.index("masked") else 0
        secrets = all(len(key) == own for key in (self.mask_key, self.share_key, self.seed))
        inside = set(self.survivors) <= set(self.held) <= set(self.advertised)
        agreed = bool(self.survivors) == (self.answered > STAGES.index("agree"))
        return (
            0 < self.answered < len(STAGES)
            and secrets
            and inside
            and agreed
            and set(self.advertised) <= set(self.spec.sites)
            and all(can_share(k.mask_key) and can_share(k.share_key) for k in self._others())
        )

    def _others(self) -> list[KeyAdvertisement]:
        """Keys with which secrets are still to be shared."""
        return list(self.advertised.values()) if self.mask_key else []

    def to_bytes(self) -> bytes:
        """For the site's disk. The names of the arrays are those of the first version."""
        arrays = {
            name: to_array(value)
            for name, value in (
                ("used", b"".join(self.used)),
                ("mask_key", self.mask_key),
                ("share_key", self.share_key),
                ("seed", self.seed),
                ("query", self.query),
                ("reply", self.reply),
                ("terms", wire.encode(self.spec.to_message()) if self.spec else b""),
                ("survivors", "\n".join(self.survivors).encode()),
            )
        }
        advertised = {name: keys.to_bytes() for name, keys in self.advertised.items()}
        arrays |= to_table("card", advertised) | to_table("held", self.held)
        return wire.encode(Message(KIND, arrays, {"version": VERSION, "answered": self.answered}))

    @classmethod
    def of_bytes(cls, data: bytes) -> State:
        """What `to_bytes` wrote; refuses anything else.

        A state that cannot be read is never taken for an empty one: the site would answer again
        what it has answered. One of version 1 gives the names of its runs. The run under way in it
        has ended: it is in `used`, and its messages are of a version that nobody speaks.
        """
        try:
            message = wire.decode(data)
            version = message.numbers.get("version")
            if message.kind != KIND or version not in (1, VERSION):
                raise refused("bytes of another kind or version", "a state")
            stored = {name: read_bytes(message, name) for name in STORED}
            survivors = read_names(message, "survivors")
            invitation, names = stored.pop("terms"), stored.pop("used")
            if len(names) % SECRET:
                raise refused("names of runs that are none", "digests")
            used = tuple(names[k : k + SECRET] for k in range(0, len(names), SECRET))
            if version == 1:
                return cls(used=used)
            state = cls(
                used=used,
                answered=checks.whole(message.numbers["answered"], "answered", 0, len(STAGES)),
                spec=SumSpec.of_message(wire.decode(invitation)) if invitation else None,
                advertised={
                    name: KeyAdvertisement.of_bytes(keys)
                    for name, keys in read_table(message, "card", ADVERTISEMENT).items()
                },
                held=read_table(message, "held", 2 * SECRET),
                survivors=survivors if survivors != ("",) else (),
                **stored,
            )
            if not state._fits():
                raise refused("a state that no answer leaves behind", "a state")
            return state
        except (FedcoverError, KeyError):
            raise FedcoverError(
                "the state of this site's secure sums cannot be read",
                allowed=f"the bytes that an earlier answer gave, of version 1 to {VERSION}",
                fix="Bring back the file. Starting without it is safe only if this site then "
                "answers no run that it was in before",
            ) from None
