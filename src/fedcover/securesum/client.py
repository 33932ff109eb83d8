"""The site half: five answers, and everything a site refuses.

A site believes its roster and its state, and nothing else. It gives one answer per stage and run;
whatever an honest server never asks gets an error, and the state stays as it was. The stages are
the rounds of figure 4 in Bonawitz et al. 2017, in the form against a lying server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from fedcover import wire
from fedcover.errors import FedcoverError
from fedcover.identity import Identity, Roster, is_signed, keys_of, public_bytes, sign
from fedcover.securesum import crypto
from fedcover.securesum.commitments import (
    SEALED,
    advertise,
    read_advertisement,
    repeated_keys,
    sealing_purpose,
    share_digests,
    sign_advertisement,
    view_text,
)
from fedcover.securesum.crypto import SECRET
from fedcover.securesum.masks import flatten, pair_mask, self_mask
from fedcover.securesum.spec import (
    STAGES,
    SumSpec,
    read_bytes,
    read_names,
    read_table,
    refused,
    stage_message,
    stage_of,
    to_array,
    to_table,
)
from fedcover.securesum.state import MOST_NAMES, State
from fedcover.wire import Message

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
        own = public_bytes(self.identity.public_key())
        if own not in map(public_bytes, keys_of(self.roster, self.name)):
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
            integers of this site. What must hold of the query, the number of sites and the
            threshold is checked there, and so are sums that could leave 64 bits.

        Returns
        -------
        reply : Message
            For the server.
        state : bytes
            Must be on disk before the reply leaves: a site that forgets what it opened could be
            made to open more. A retry of the latest query gets the same reply.
        """
        before = State() if state is None else State.of_bytes(state)
        own = before.held if before.answered > STAGES.index("shares") else before.advertised
        if before.spec is not None and self.name not in own:
            raise refused("a state that another site has left behind", f"that of {self.name!r}")
        # A reply may be lost. The bytes that were sent are sent again and nothing is drawn anew: a
        # second draw of noise would say more than the first alone, and shares of two draws do not
        # fit together.
        received = crypto.digest("query", wire.encode(query))
        if state is not None and received == before.query:
            return wire.decode(before.reply), state
        stage = stage_of(query)
        if stage == "keys":
            reply, after = self._keys(query, before)
        else:
            spec = _present_run(query, stage, before)
            if stage == "shares":
                reply, after = self._shares(query, spec, before)
            elif stage == "masked":
                reply, after = self._masked(query, spec, before, contribute)
            elif stage == "agree":
                reply, after = self._agree(query, spec, before)
            else:
                reply, after = self._unmask(query, spec, before)
        answered = STAGES.index(stage) + 1
        after = replace(after, answered=answered, query=received, reply=wire.encode(reply))
        return reply, after.to_bytes()

    def _keys(self, query: Message, before: State) -> tuple[Message, State]:
        """Fresh keys, signed. An unfinished run before this one is given up."""
        spec = SumSpec.of_message(query)
        if self.name not in spec.sites or not set(spec.sites) <= set(self.roster):
            strangers = sorted(set(spec.sites) - set(self.roster))
            raise refused(
                f"an invitation with {strangers} among the sites"
                if strangers
                else f"an invitation without {self.name!r} among the sites",
                "this site and others of its roster",
            )
        # Under one name there is one run, whatever else the invitation says: with fresh keys under
        # an old digest, signatures of the first run would be good in the second.
        name = crypto.digest("run", spec.run)
        if name in before.used:
            raise refused(
                f"run {spec.run!r} was started here before, about this or something else",
                "a name that no run has had",
                NEW_RUN,
            )
        if len(before.used) >= MOST_NAMES:
            raise refused(
                f"run {spec.run!r}, after {len(before.used):,} others",
                f"{MOST_NAMES:,} runs with one memory",
                "Look at who asks so much. Then, while nothing is asked, remove sums.bin and all "
                "sum-*.json from the folder for state, and keep the ledger: numbers that it was "
                "charged for are then not sent again",
            )
        # Fresh in every run, since a run opens the mask key or the seed. Two key pairs, because the
        # one may be opened and the other must not be: see `KeyAdvertisement`.
        mask_key, share_key, seed = (crypto.new_secret() for _ in range(3))
        own = advertise(spec, self.name, mask_key, share_key, seed)
        after = State(
            used=(*before.used, name),
            spec=spec,
            mask_key=mask_key,
            share_key=share_key,
            seed=seed,
            advertised={self.name: own},
        )
        signed = sign_advertisement(spec, self.identity, self.name, own)
        return stage_message("keys", {"card": to_array(signed)}), after

    def _shares(self, query: Message, spec: SumSpec, before: State) -> tuple[Message, State]:
        """Shares of the seed and of the mask key, sealed for each site with good keys."""
        advertised = {
            name: read_advertisement(spec, self.roster, name, signed)
            for name, signed in read_table(query, "card").items()
        }
        _enough(spec, advertised, "key advertisements")
        if advertised.get(self.name) != before.advertised[self.name]:
            raise refused(
                "this site's own key advertisement is missing or another", "the one it has sent"
            )
        if repeated := repeated_keys(advertised):
            raise refused(f"a public key that {list(repeated)} share", "different keys for all")
        # Both secrets are shared, since nobody knows yet which one the server will need: the seed
        # if this site stays, the mask key if it is lost. Each polynomial has degree t - 1.
        seeds, keys = (
            crypto.split(secret, spec.threshold, len(spec.sites))
            for secret in (before.seed, before.mask_key)
        )
        shares = dict(zip(spec.sites, map(bytes.__add__, seeds, keys), strict=True))
        sealed, digests = {}, {}
        for name, theirs in advertised.items():
            digests[name] = share_digests(spec, self.name, name, shares[name])
            if name != self.name:
                # The server carries the shares, and t of them in the clear would be the secrets.
                purpose = sealing_purpose(spec, self.name, name)
                key = crypto.shared_key(before.share_key, theirs.share_key, purpose)
                sealed[name] = crypto.seal(key, shares[name], purpose)
        arrays = to_table("sealed", sealed) | to_table("digests", digests)
        after = replace(before, advertised=advertised, held={self.name: shares[self.name]})
        return stage_message("shares", arrays), after

    def _masked(
        self, query: Message, spec: SumSpec, before: State, contribute: Contribute
    ) -> tuple[Message, State]:
        """y_u: this site's integers plus its self-mask and a mask for each site that dealt."""
        sealed = read_table(query, "sealed", SEALED)
        digests = read_table(query, "digests", 2 * SECRET)
        if not set(sealed) == set(digests) <= set(before.advertised) - {self.name}:
            raise refused("shares of sites that have dealt none", "of sites that advertised keys")
        held = dict(before.held)
        # Fewer dealers than t could not open the sum, and may all be in league with the server,
        # which then knows every pair mask.
        _enough(spec, held.keys() | sealed.keys(), "sites that dealt shares")
        # All shares are unsealed before anything is masked: a dealer whose shares do not fit is
        # found now, and not when its mask has to come off.
        for dealer, text in sealed.items():
            purpose = sealing_purpose(spec, dealer, self.name)
            public = before.advertised[dealer].share_key
            key = crypto.shared_key(before.share_key, public, purpose)
            shares = crypto.unseal(key, text, purpose)
            if shares is None or digests[dealer] != share_digests(spec, dealer, self.name, shares):
                raise refused(
                    f"shares of {dealer!r} that were changed on the way, or dealt wrongly",
                    "what that site sealed for this one in this run",
                )
            held[dealer] = shares
        masked = flatten(spec, contribute(spec)) + self_mask(spec, before.seed)
        # Only for those that dealt: the mask for a site that is lost comes off with its shares.
        for other in sealed:
            public = before.advertised[other].mask_key
            masked += pair_mask(spec, self.name, other, before.mask_key, public)
        after = replace(before.without_own_secrets(), held=held)
        return stage_message("masked", {"masked": masked}), after

    def _agree(self, query: Message, spec: SumSpec, before: State) -> tuple[Message, State]:
        """A signature under the one list of survivors that this site will ever accept."""
        listed = read_names(query, "survivors")
        if len(set(listed)) < len(listed) or not set(listed) <= set(before.held):
            raise refused("survivors that dealt no shares, or twice", "different sites that did")
        if self.name not in listed:
            raise refused(f"survivors without {self.name!r}", "a list with this site in it")
        # The sum of fewer than t vectors hides less than was promised, and noise that was shared
        # out for t sites would be too small in it.
        _enough(spec, listed, "survivors")
        after = replace(before, survivors=spec.in_order(listed))
        # Signed before anything opens: a server that told sites different survivors could have one
        # site's pair masks opened by these and another's by those, and be left with the sum of a
        # few (section 6.2, the consistency check).
        signature = sign(self.identity, _view(spec, after))
        return stage_message("agree", {"signature": to_array(signature)}), after

    def _unmask(self, query: Message, spec: SumSpec, before: State) -> tuple[Message, State]:
        """Of each survivor a share of the seed, of each other a share of the key; never both."""
        signatures = read_table(query, "signature")
        view = _view(spec, before)
        for name, signature in signatures.items():
            if name not in before.survivors or not is_signed(self.roster, name, signature, view):
                raise refused(
                    f"{name!r} did not sign what this site was told",
                    "signatures of survivors that were told the same",
                )
        # Since 2t > n + c, any two sets of t sites have an honest one in common, and it signs one
        # list: no second list can have t signatures. `SumSpec` has the whole argument.
        _enough(spec, signatures, "sites that agree on the survivors")
        # With both secrets of a site the server takes off all its masks, and the vector is bare.
        seeds = {name: before.held[name][:SECRET] for name in before.survivors}
        keys = {n: shares[SECRET:] for n, shares in before.held.items() if n not in seeds}
        arrays = to_table("seed", seeds) | to_table("key", keys)
        return stage_message("unmask", arrays), before.finished()


def _present_run(query: Message, stage: str, state: State) -> SumSpec:
    """What the run under way is about, if the query belongs to it and comes in order."""
    # One answer to each stage: two vectors under the same masks would give away their difference,
    # and two lists of survivors both kinds of shares.
    due = STAGES[state.answered] if state.answered < len(STAGES) else "keys of a new run"
    if state.spec is None or stage != due:
        raise refused(
            f"stage {stage!r} was asked for",
            f"stage {due!r}, or the latest query once more",
            NEW_RUN,
        )
    if read_bytes(query, "terms", SECRET) != state.spec.digest:
        raise refused(f"a query of another run than {state.spec.run!r}", "the run under way")
    return state.spec


def _view(spec: SumSpec, state: State) -> bytes:
    dealers = spec.in_order(state.held.keys())
    return view_text(spec, state.advertised, dealers, state.survivors)


def _enough(spec: SumSpec, names: Collection[str], what: str) -> None:
    if len(names) < spec.threshold:
        raise refused(f"{len(names)} {what}", f"at least {spec.threshold}, the threshold")
