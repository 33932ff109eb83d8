"""A sum of integer vectors that shows nobody the vectors (Bonawitz et al. 2017), without sockets.

    stage     the server sends                     a site answers
    keys      run, sites, threshold, question      its public keys, signed
    shares    everybody's keys                     its secrets in shares, sealed for each other site
    masked    the shares meant for this site       its integers plus masks
    agree     who sent masked integers             its signature under that list and all it has seen
    unmask    the signatures                       per site one share: of a self-mask or of a key

terms.py         what a run is about; every signature covers it
identity.py      long-term keys of the sites, and the roster of public ones
crypto.py        key agreement, sealing, mask streams, secret shares
messages.py      versions, kinds and bytes of the messages
cards.py         what a site advertises, what it deals out, and what the sites sign
masking.py       integers, masks and shapes
state.py         what a site remembers between two messages
participant.py   the site half
server.py        the server half
unmasking.py     the server's last step
"""

from fedcover.errors import FedcoverError

try:
    from fedcover.securesum.client import Participant
    from fedcover.securesum.identity import load_identity, load_roster
    from fedcover.securesum.server import Total, server
    from fedcover.securesum.spec import SumSpec
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("cryptography", "Crypto"):
        raise
    raise FedcoverError(
        f"secure sums need the package {missing.name!r}, which is not installed",
        allowed="fedcover without secure sums, or with cryptography and pycryptodome",
        fix="pip install 'fedcover[secure]'",
    ) from None

__all__ = ["Participant", "SumSpec", "Total", "load_identity", "load_roster", "server"]
