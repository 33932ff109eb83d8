"""What a site may say when it does not answer: one of these words, never a text of its own.

Texts of exceptions hold paths, names and data. They stay in the site's log.
"""

from __future__ import annotations

from fedcover.errors import BudgetError, FedcoverError, FileError

CODES = {
    "version": (
        "runs another version of fedcover",
        "Install the same version at the server and at every site",
    ),
    "method": (
        "does not allow this method",
        "Choose another method, or ask the site to allow it by name in its configuration",
    ),
    "privacy": (
        "does not answer without a privacy budget and a ledger of its own",
        "Set epsilon, and have the site make a ledger; or ask it to allow exact answers",
    ),
    "budget": (
        "has not enough privacy budget left for this",
        "Ask for less, or have the site look at its ledger: fedcover ledger show",
    ),
    "size": (
        "does not take part in sums of so few sites",
        "Bring more sites, or ask it to lower its least-sum",
    ),
    "conspirators": (
        "takes part only in secure sums that hold against more sites that conspire",
        "Raise `conspirators` of the run, and the threshold with it; or ask the site to lower its",
    ),
    "data": (
        "cannot read its data, ledger or keys",
        "On that site: fedcover flower doctor",
    ),
    "executor": (
        "starts only apps that it has approved, and this one was started otherwise",
        "On that site: flower-supernode with --isolation process, and `fedcover flower executor`",
    ),
    "ledger": (
        "has a ledger that is older than the one it had before, or another one",
        "On that site: was the ledger put back from a copy? The one that was in use is needed",
    ),
    "hello": (
        "does not know this run",
        "Start the run again: it begins with a hello, and no budget is spent twice",
    ),
    "query": (
        "was asked for something it cannot answer",
        "Check that all sites have the same classes and score; the reason is in the site's log",
    ),
    "agreement": (
        "does not agree to this secure sum",
        "The reason is in the site's log; an interrupted run is repeated with the same sites, or "
        "under a new name and with new budget",
    ),
    "signature": (
        "did not get a result with a good signature of the coordinator",
        "Sign the run: set `key`, whose public key stands in the sites' `coordinator`",
    ),
    "result": (
        "does not believe what was published",
        "The reason is in the site's log; it checks by what was agreed to at the start of the run",
    ),
    "internal": ("failed", "The reason is in the site's log"),
}


class Refusal(FedcoverError):
    """A site's refusal, with the code that may travel; the text stays at the site."""

    def __init__(self, code: str, given: str, *, allowed: str, fix: str) -> None:
        super().__init__(given, allowed=allowed, fix=fix)
        self.code = code


def code_of(error: Exception) -> str:
    """The word for an error at a site."""
    if isinstance(error, Refusal):
        return error.code
    if isinstance(error, BudgetError):
        return "budget"
    if isinstance(error, FileError):
        return "data"
    return "query" if isinstance(error, FedcoverError) else "internal"


def known_code(code: object) -> str:
    """A code that a site sent; a word that is none of them counts as a failure."""
    return code if isinstance(code, str) and code in CODES else "internal"


def refused_by(site: str, code: str) -> FedcoverError:
    """The error that the server shows for a site's code."""
    what, fix = CODES[code]
    return FedcoverError(
        f"site {site!r} {what} (code {code!r})", allowed="an answer of every site", fix=fix
    )
