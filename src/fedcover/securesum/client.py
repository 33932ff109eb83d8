"""The site half: five answers, and everything a site refuses.

A site believes its roster and its state, and nothing else. It gives one answer per stage and run;
whatever an honest server never asks gets an error, and the state stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from fedcover import wire
from fedcover.errors import FedcoverError
from fedcover.securesum import crypto, spec
from fedcover.securesum.crypto import SECRET
from fedcover.securesum.identity import (
    CARD,
    SEALED,
    Card,
    Identity,
    Roster,
    card_text,
    is_signed,
    new_card,
    public_bytes,
    read_card,
    repeated_keys,
    sealing_purpose,
    share_digests,
    sign,
    view_text,
)
from fedcover.securesum.masks import flat, pair_mask
from fedcover.securesum.spec import STAGES, SumSpec, refused
from fedcover.wire import Message

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
    terms: SumSpec | None = None
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
            name: spec.to_array(value)
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
        arrays |= spec.table("card", cards) | spec.table("held", self.held)
        numbers = {"version": spec.VERSION, "answered": self.answered}
        return wire.encode(Message(KIND, arrays, numbers))

    @classmethod
    def of_bytes(cls, data: bytes) -> State:
        """What `to_bytes` wrote; refuses anything else."""
        try:
            message = wire.decode(data)
            if message.kind != KIND or message.numbers.get("version") != spec.VERSION:
                raise spec.refused("bytes of another kind or version", "a state")
            blobs = {name: spec.blob(message, name) for name in STORED}
            survivors = spec.read_names(message, "survivors")
            terms, used = blobs.pop("terms"), blobs.pop("used")
            return cls(
                used=tuple(used[k : k + SECRET] for k in range(0, len(used), SECRET)),
                answered=int(message.numbers["answered"]),
                terms=SumSpec.of_query(wire.decode(terms)) if terms else None,
                cards={
                    name: Card.of_bytes(card)
                    for name, card in spec.read_table(message, "card", CARD).items()
                },
                held=spec.read_table(message, "held", 2 * SECRET),
                survivors=survivors if survivors != ("",) else (),
                **blobs,
            )
        except (FedcoverError, KeyError):
            raise FedcoverError(
                "the state of this site's secure sums cannot be read",
                allowed=f"the bytes that an earlier answer gave, of version {spec.VERSION}",
                fix="Bring back the file. Starting without it is safe only if this site then "
                "answers no run that it was in before",
            ) from None


STORED = ("used", "mask_key", "share_key", "seed", "query", "reply", "terms")


Contribute = Callable[[SumSpec], Message]

NEW_RUN = "A site answers each stage of a run once: start a run with another name"


@dataclass(frozen=True)
class Participant:
    """A site that takes part in secure sums.

    Parameters
    ----------
    name
        The site's name in the roster.
    identity
        Its long-term private key, from `load_identity`.
    roster
        The public keys of all sites, from `load_roster`: from the site's own configuration, never
        from the server.
    """

    name: str
    identity: Identity
    roster: Roster

    def __post_init__(self) -> None:
        known = self.roster.get(self.name)
        if known is None or public_bytes(known) != public_bytes(self.identity.public_key()):
            raise FedcoverError(
                f"the roster's key of {self.name!r} is not that of its identity",
                allowed="a roster in which this site stands with its own public key",
                fix="Compare the .pub file of the identity with the roster's line",
            )

    def answer(
        self, query: Message, state: bytes | None, contribute: Contribute
    ) -> tuple[Message, bytes]:
        """The reply to a query, and the state to go on with.

        Parameters
        ----------
        query
            From the server.
        state
            What the answer before returned; None at a site that has never answered. Secret.
        contribute
            Called in the stage "masked", once per run, with what the run is about: gives the
            integers of this site. What must hold of the question, the number of sites and the
            threshold is checked there, and so are sums that could leave 64 bits.

        Returns
        -------
        reply : Message
            For the server.
        state : bytes
            Must be on disk before the reply leaves: a site that forgets what it opened could be
            made to open more. A retry of the latest query gets the same reply.
        """
        known = State() if state is None else State.of_bytes(state)
        asked = crypto.digest("query", wire.encode(query))
        if state is not None and asked == known.query:
            return wire.decode(known.reply), state
        stage = spec.stage_of(query)
        if stage == "keys":
            reply, after = self._keys(query, known)
        else:
            terms = _present_run(query, stage, known)
            if stage == "shares":
                reply, after = self._shares(query, terms, known)
            elif stage == "masked":
                reply, after = self._masked(query, terms, known, contribute)
            elif stage == "agree":
                reply, after = self._agree(query, terms, known)
            else:
                reply, after = self._unmask(query, terms, known)
        answered = STAGES.index(stage) + 1
        after = replace(after, answered=answered, query=asked, reply=wire.encode(reply))
        return reply, after.to_bytes()

    def _keys(self, query: Message, known: State) -> tuple[Message, State]:
        """Fresh keys, signed. An unfinished run before this one is given up."""
        terms = SumSpec.of_query(query)
        if self.name not in terms.sites or not set(terms.sites) <= set(self.roster):
            strangers = sorted(set(terms.sites) - set(self.roster))
            raise refused(
                f"an invitation with {strangers} among the sites"
                if strangers
                else f"an invitation without {self.name!r} among the sites",
                "this site and others of its roster",
            )
        name = crypto.digest("run", terms.run)
        if name in known.used:
            raise refused(
                f"run {terms.run!r} was started here before, with these or other terms",
                "a name that no run has had",
                NEW_RUN,
            )
        mask_key, share_key, seed = (crypto.new_secret() for _ in range(3))
        card = new_card(terms, self.name, mask_key, share_key, seed)
        signature = sign(self.identity, card_text(terms, self.name, card))
        after = State(
            used=(*known.used, name),
            terms=terms,
            mask_key=mask_key,
            share_key=share_key,
            seed=seed,
            cards={self.name: card},
        )
        signed = spec.to_array(card.to_bytes() + signature)
        return spec.make("keys", {"card": signed}), after

    def _shares(self, query: Message, terms: SumSpec, known: State) -> tuple[Message, State]:
        """Shares of the seed and of the mask key, sealed for each site whose card is good."""
        found = {
            name: read_card(terms, self.roster, name, signed)
            for name, signed in spec.read_table(query, "card").items()
        }
        _enough(terms, found, "cards")
        if found.get(self.name) != known.cards[self.name]:
            raise refused("this site's own card is missing or another", "the card it has sent")
        if repeated := repeated_keys(found):
            raise refused(f"a public key that {list(repeated)} share", "different keys for all")
        seeds, keys = (
            crypto.split(secret, terms.needed, len(terms.sites))
            for secret in (known.seed, known.mask_key)
        )
        shares = dict(zip(terms.sites, map(bytes.__add__, seeds, keys), strict=True))
        sealed, digests = {}, {}
        for name, card in found.items():
            digests[name] = share_digests(terms, self.name, name, shares[name])
            if name != self.name:
                purpose = sealing_purpose(terms, self.name, name)
                key = crypto.shared_key(known.share_key, card.share_key, purpose)
                sealed[name] = crypto.seal(key, shares[name], purpose)
        arrays = spec.table("sealed", sealed) | spec.table("digests", digests)
        after = replace(known, cards=found, held={self.name: shares[self.name]})
        return spec.make("shares", arrays), after

    def _masked(
        self, query: Message, terms: SumSpec, known: State, contribute: Contribute
    ) -> tuple[Message, State]:
        """This site's integers plus its self-mask and a mask for each site that dealt shares."""
        sealed = spec.read_table(query, "sealed", SEALED)
        digests = spec.read_table(query, "digests", 2 * SECRET)
        if not set(sealed) == set(digests) <= set(known.cards) - {self.name}:
            raise refused("shares of sites that have dealt none", "shares of the sites with cards")
        held = dict(known.held)
        _enough(terms, held.keys() | sealed.keys(), "sites that dealt shares")
        for dealer, text in sealed.items():
            purpose = sealing_purpose(terms, dealer, self.name)
            key = crypto.shared_key(known.share_key, known.cards[dealer].share_key, purpose)
            shares = crypto.unseal(key, text, purpose)
            if shares is None or digests[dealer] != share_digests(terms, dealer, self.name, shares):
                raise refused(
                    f"shares of {dealer!r} that were changed on the way, or dealt wrongly",
                    "what that site sealed for this one in this run",
                )
            held[dealer] = shares
        total = flat(terms, contribute(terms)) + crypto.mask_words(known.seed, terms.count)
        for other in sealed:
            public = known.cards[other].mask_key
            total += pair_mask(terms, self.name, other, known.mask_key, public)
        after = replace(known.without_own_secrets(), held=held)
        return spec.make("masked", {"masked": total}), after

    def _agree(self, query: Message, terms: SumSpec, known: State) -> tuple[Message, State]:
        """A signature under the one list of survivors that this site will ever accept."""
        listed = spec.read_names(query, "survivors")
        if len(set(listed)) < len(listed) or not set(listed) <= set(known.held):
            raise refused("survivors that dealt no shares, or twice", "different sites that did")
        if self.name not in listed:
            raise refused(f"survivors without {self.name!r}", "a list with this site in it")
        _enough(terms, listed, "survivors")
        after = replace(known, survivors=terms.in_order(set(listed)))
        signature = sign(self.identity, _view(terms, after))
        return spec.make("agree", {"signature": spec.to_array(signature)}), after

    def _unmask(self, query: Message, terms: SumSpec, known: State) -> tuple[Message, State]:
        """Of each survivor a share of the seed, of each other a share of the key; never both."""
        signatures = spec.read_table(query, "signature")
        view = _view(terms, known)
        for name, signature in signatures.items():
            if name not in known.survivors or not is_signed(self.roster, name, signature, view):
                raise refused(
                    f"{name!r} did not sign what this site was told",
                    "signatures of survivors that were told the same",
                )
        _enough(terms, signatures, "sites that agree on the survivors")
        seeds = {name: known.held[name][:SECRET] for name in known.survivors}
        keys = {n: shares[SECRET:] for n, shares in known.held.items() if n not in seeds}
        arrays = spec.table("seed", seeds) | spec.table("key", keys)
        return spec.make("unmask", arrays), known.finished()


def _present_run(query: Message, stage: str, known: State) -> SumSpec:
    """The terms of the run under way, if the query belongs to it and comes in order."""
    due = STAGES[known.answered] if known.answered < len(STAGES) else "keys of a new run"
    if known.terms is None or stage != due:
        raise refused(
            f"stage {stage!r} was asked for",
            f"stage {due!r}, or the latest query once more",
            NEW_RUN,
        )
    if spec.blob(query, "terms", SECRET) != known.terms.digest:
        raise refused(f"a query of another run than {known.terms.run!r}", "the run under way")
    return known.terms


def _view(terms: SumSpec, state: State) -> bytes:
    dealers = terms.in_order(set(state.held))
    return view_text(terms, state.cards, dealers, state.survivors)


def _enough(terms: SumSpec, names: Collection[str], what: str) -> None:
    if len(names) < terms.needed:
        raise refused(f"{len(names)} {what}", f"at least {terms.needed}, the threshold")
