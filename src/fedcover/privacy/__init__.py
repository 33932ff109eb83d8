"""Privacy: what was released, what it costs in ε, the noise, and the ledger of a site.

statement.py    Privacy (asked for) and PrivacyStatement (what holds)
events.py       what was released, as frozen facts
accounting.py   from events to ε and back; all ε arithmetic is there
randomness.py   where noise takes its bytes: the operating system, or a seed in experiments
noise.py        exact integer noise, settled by uniform bits
distributed.py  noise shares for secure sums, and the true ε of the sum
ledger.py       a site's own budget: check, write, then answer
  ledger_entries.py   what stands in it, chained by hashes
  ledger_key.py       the key that seals it
  ledger_data.py      the records it is about
  ledger_store.py     the SQLite file under it
  ledger_key.py       the key that seals it
  ledger_data.py      which records it is about
"""

from fedcover.privacy.accounting import epsilon, gaussian_epsilon, noise_multiplier, split_noise
from fedcover.privacy.distributed import NoiseShares
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import Budget
from fedcover.privacy.noise import discrete_gaussian, skellam
from fedcover.privacy.randomness import SeededBytes, SystemBytes
from fedcover.privacy.statement import Privacy, PrivacyStatement

__all__ = [
    "Budget",
    "Event",
    "ExactRelease",
    "GaussianRelease",
    "Ledger",
    "NoiseShares",
    "Privacy",
    "PrivacyStatement",
    "SeededBytes",
    "SystemBytes",
    "discrete_gaussian",
    "epsilon",
    "gaussian_epsilon",
    "noise_multiplier",
    "skellam",
    "split_noise",
]
