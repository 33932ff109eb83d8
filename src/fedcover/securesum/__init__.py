"""A sum of integer vectors that shows nobody the vectors (Bonawitz et al. 2017), without sockets.

    stage     the server sends                     a site answers
    keys      run, sites, threshold, query         its public keys, signed
    shares    everybody's keys                     its secrets in shares, sealed for each other site
    masked    the shares meant for this site       its integers plus masks
    agree     who sent masked integers             its signature under that list and all it has seen
    unmask    the signatures                       per site one share: of a self-mask or of a key

spec.py          what a run is about, and the messages that carry it; every signature covers it
crypto.py        key agreement, sealing, mask streams, secret shares: each from a library
commitments.py   the keys a site advertises, digests of what it deals, and what it signs
masks.py         integers plus masks, and the server's last step, which takes the masks off
state.py         what a site remembers between two messages, in bytes for its disk
client.py        the site half
server.py        the server half
"""

from fedcover.errors import FedcoverError

try:
    from fedcover.identity import load_identity, load_roster
    from fedcover.securesum.client import Participant
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
