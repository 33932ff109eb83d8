"""The mutants: where the package is broken, how, what that breaks, and who should notice.

A patch is exact text of one file, which stands there once, and what takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

SKETCH = "src/fedcover/methods/sketch/"
SUMS = "src/fedcover/securesum/"
REMOTE = "src/fedcover/engines/remote/"
PRIVACY = "src/fedcover/privacy/"
FLOWER = "src/fedcover/engines/flower/"

SERVER = "sketch --epsilon 1 --runs 200000"
IN_SUM = f"{SERVER} --view secure-sum"
CONFUSED = f"{SERVER} --option confusion=true"
LIMITED = "sketch --epsilon 1 --runs 5000 --relation add-remove --option most_per_site=100"
SITES = "sketch --epsilon 1 --runs 5000 --unit site --option most_per_site=3"

CHARGES = "tests/sketch/test_charges.py"
SOURCE = "tests/methods/test_source.py"


@dataclass(frozen=True)
class Mutant:
    """One way to break the package.

    Attributes
    ----------
    name, breaks
        What it is called, and what is wrong with it, in a few words.
    path, old, new
        The file, the text that stands there once, and what takes its place.
    audits
        Arguments of `fedcover audit`, one of which should refute.
    tests
        Tests of which one should fail.
    """

    name: str
    breaks: str
    path: str
    old: str
    new: str
    audits: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


def _less_noise() -> list[Mutant]:
    """Every release with less noise than is charged, by three factors."""
    releases = (
        (
            "table",
            'out["table"] = _noisy(values * spec.scale, spec.table_sigma, source)',
            "spec.table_sigma",
            (SERVER,),
        ),
        (
            "label totals",
            'out["labels"] = _noisy(totals * spec.scale, spec.label_sigma, source)',
            "spec.label_sigma",
            (SERVER,),
        ),
        (
            "confusion matrix",
            'out["confusion"] = _noisy(pairs * spec.scale, spec.confusion_sigma, source)',
            "spec.confusion_sigma",
            (CONFUSED,),
        ),
    )
    made = [
        Mutant(
            f"{what.replace(' ', '-')}-noise-{factor:g}",
            f"noise of the {what}, times {factor:g}",
            SKETCH + "client.py",
            old,
            old.replace(sigma, f"{sigma} * {factor:g}"),
            audits,
            (CHARGES, SOURCE),
        )
        for what, old, sigma, audits in releases
        for factor in (0.9, 0.7, 0.5)
    ]
    made += [
        Mutant(
            f"share-noise-{factor:g}",
            f"each site's share of the noise in a secure sum, times {factor:g}",
            SKETCH + "plan.py",
            "sigmas = [e.sigma / others for e in events] + [0.0]",
            f"sigmas = [e.sigma * (1 if others == 1 else {factor:g}) / others for e in events]"
            " + [0.0]",
            (IN_SUM,),
            (CHARGES, "tests/sketch/test_plan.py"),
        )
        for factor in (0.9, 0.7, 0.5)
    ]
    made += [
        Mutant(
            f"noise-shares-{factor:g}",
            f"`NoiseShares` with shares times {factor:g}",
            PRIVACY + "distributed.py",
            "square = (g * Fraction(sigma)) ** 2 / m",
            f"square = (g * Fraction(sigma) * Fraction({round(10 * factor)}, 10)) ** 2 / m",
            tests=("tests/privacy/test_distributed.py",),
        )
        for factor in (0.9, 0.7, 0.5)
    ]
    return made


_NOISE = [
    Mutant(
        "bare-cell",
        "one number of the table leaves without noise",
        SKETCH + "client.py",
        "    # A release of its own, with noise independent of the table's",
        '    if "table" in out:\n'
        '        out["table"][-1, -1] = values[-1, -1] * spec.scale\n'
        "    # A release of its own, with noise independent of the table's",
        (SERVER,),
        (CHARGES, SOURCE),
    ),
    Mutant(
        "exact-table",
        "the table leaves without noise",
        SKETCH + "client.py",
        'out["table"] = _noisy(values * spec.scale, spec.table_sigma, source)',
        'out["table"] = _noisy(values * spec.scale, 0.0, source)',
        (SERVER, IN_SUM),
        (CHARGES, SOURCE),
    ),
    Mutant(
        "exact-totals",
        "label totals leave without noise",
        SKETCH + "client.py",
        'out["labels"] = _noisy(totals * spec.scale, spec.label_sigma, source)',
        'out["labels"] = _noisy(totals * spec.scale, 0.0, source)',
        (SERVER, IN_SUM),
        (CHARGES, SOURCE),
    ),
    Mutant(
        "exact-confusion",
        "the confusion matrix leaves without noise",
        SKETCH + "client.py",
        'out["confusion"] = _noisy(pairs * spec.scale, spec.confusion_sigma, source)',
        'out["confusion"] = _noisy(pairs * spec.scale, 0.0, source)',
        audits=(CONFUSED,),
        tests=("tests/sketch/test_confusion.py", SOURCE),
    ),
    Mutant(
        "one-draw-for-all-labels",
        "every label's row gets the same noise",
        SKETCH + "client.py",
        "return values + noise.discrete_gaussian(Fraction(sigma), values.shape, source)",
        "return values + noise.discrete_gaussian(Fraction(sigma), values.shape[-1:], source)",
        (SERVER,),
        (CHARGES, SOURCE),
    ),
    Mutant(
        "one-draw-for-two-releases",
        "label totals get noise that the table has as well",
        SKETCH + "client.py",
        'out["labels"] = _noisy(totals * spec.scale, spec.label_sigma, source)',
        'out["labels"] = totals * spec.scale\n'
        "    if spec.label_sigma:\n"
        '        shared = (out["table"] - values * spec.scale)[spec.rows, 0]\n'
        "        ratio = spec.label_sigma / max(spec.table_sigma, 1.0)\n"
        '        out["labels"] = out["labels"] + np.rint(shared * ratio).astype(np.int64)',
        (SERVER,),
        (CHARGES, SOURCE),
    ),
    Mutant(
        "known-noise",
        "noise takes its bytes from a generator with a fixed seed",
        PRIVACY + "randomness.py",
        "return os.urandom(count)",
        "return np.random.default_rng(0).bytes(count)",
        (SERVER,),
        ("tests/privacy/test_randomness.py",),
    ),
    Mutant(
        "zero-twice-as-likely",
        "the sampler keeps 0 with either sign",
        PRIVACY + "noise.py",
        "kept &= ~(negative & (size == 0))",
        "kept &= ~(negative & (size < 0))",
        tests=("tests/privacy/test_noise.py",),
    ),
    Mutant(
        "narrow-sampler",
        "the sampler rejects by a larger x: too narrow a law",
        PRIVACY + "noise.py",
        "low = ((square * law.inverse) >> (39 - law.e)) - (turns << 16) + law.half",
        "low = ((square * law.inverse * 5 // 4) >> (39 - law.e)) - (turns << 16) + law.half",
        (SERVER,),
        ("tests/privacy/test_noise.py",),
    ),
    Mutant(
        "count-noise-0.9",
        "noise of DP-FedCP's label counts, times 0.9",
        "src/fedcover/methods/dp_fedcp/method.py",
        "noise.discrete_gaussian(sigma, site.n_classes, source)",
        "noise.discrete_gaussian(0.9 * sigma, site.n_classes, source)",
        tests=(SOURCE, "tests/methods/test_dp_fedcp.py"),
    ),
]

_SENSITIVITY = [
    Mutant(
        "no-root-two",
        "a replaced record is said to move one cell, not two",
        SKETCH + "plan.py",
        'cells = math.sqrt(2) if privacy.relation == "replace" or limited else 1.0',
        "cells = math.sqrt(2) if limited else 1.0",
        (SERVER,),
        (CHARGES,),
    ),
    Mutant(
        "no-root-two-under-a-limit",
        "an added record that drives out another is said to move one cell",
        SKETCH + "plan.py",
        'cells = math.sqrt(2) if privacy.relation == "replace" or limited else 1.0',
        'cells = math.sqrt(2) if privacy.relation == "replace" else 1.0',
        audits=(LIMITED,),
        tests=(CHARGES,),
    ),
    Mutant(
        "no-limit-per-site",
        "most_per_site is asked for and not kept to",
        SKETCH + "client.py",
        "if 0 < spec.most < len(site):",
        "if False:",
        audits=(SITES,),
        tests=(CHARGES,),
    ),
    Mutant(
        "first-records-under-a-limit",
        "the first records are taken where a random choice is said to be",
        SKETCH + "client.py",
        "pick = sample(source, len(site), spec.most)",
        "pick = np.arange(spec.most)",
        tests=(CHARGES,),
    ),
    Mutant(
        "factor-column-left-out",
        "a record is said to move a row by 1, not by a column of the factor",
        SKETCH + "plan.py",
        "column = factor.reach(layout.bins)",
        "column = 1.0",
        (SERVER,),
        (CHARGES,),
    ),
    Mutant(
        "view-not-asked",
        "a server that sees every reply gets the noise of a secure sum",
        SKETCH + "plan.py",
        "return max(1, n_sites - privacy.conspirators) if privacy.secure_sum else 1",
        "return max(1, n_sites - privacy.conspirators)",
        audits=(SERVER,),
        tests=(CHARGES, "tests/sketch/test_plan.py"),
    ),
    Mutant(
        "all-shares-unknown",
        "the share that a site knows counts as noise against it",
        SKETCH + "plan.py",
        "return max(1, n_sites - privacy.conspirators) if privacy.secure_sum else 1",
        "return n_sites if privacy.secure_sum else 1",
        audits=(IN_SUM,),
        tests=(CHARGES, "tests/sketch/test_plan.py"),
    ),
    Mutant(
        "one-share-known-whoever-conspires",
        "the account takes off one share of the noise, however many may conspire",
        SKETCH + "plan.py",
        "return max(1, n_sites - privacy.conspirators) if privacy.secure_sum else 1",
        "return max(1, n_sites - 1) if privacy.secure_sum else 1",
        audits=(f"{IN_SUM} --conspirators 2",),
        tests=(CHARGES, "tests/privacy/test_conspirators.py"),
    ),
    Mutant(
        "charged-as-if-nobody-conspires",
        "a site's ledger is charged as if nobody conspired, whatever the sum says",
        REMOTE + "client.py",
        'facts = (run_method, privacy, "secure-sum", terms.threshold, terms.conspirators)',
        'facts = (run_method, privacy, "secure-sum", terms.threshold, 0)',
        tests=("tests/remote/test_conspirators.py",),
    ),
    Mutant(
        "site-insists-on-no-conspirators",
        "a site takes part in sums against fewer conspirators than its policy says",
        REMOTE + "policy.py",
        "if announced < self.conspirators:",
        "if announced < 0:",
        tests=("tests/remote/test_conspirators.py",),
    ),
    Mutant(
        "conspirators-of-the-invitation-not-looked-at",
        "a site looks at the number of conspirators at hello, and not in what is summed",
        REMOTE + "policy.py",
        "        self._check_conspirators(conspirators)\n",
        "",
        tests=("tests/remote/test_conspirators.py",),
    ),
    Mutant(
        "announced-more-than-summed",
        "a run may announce more conspirators than its sum holds against",
        REMOTE + "policy.py",
        "            if conspirators < promised:",
        "            if conspirators < 0:",
        tests=("tests/remote/test_conspirators.py",),
    ),
    Mutant(
        "all-survive",
        "noise shares are worked out as if no site could drop out",
        "src/fedcover/methods/base.py",
        "return len(self.sites) if self.min_survivors is None else self.min_survivors",
        "return len(self.sites)",
        tests=("tests/remote/test_sums.py",),
    ),
    Mutant(
        "charged-as-if-all-survive",
        "a site charges itself as if all invited sites' noise were in the sum",
        REMOTE + "client.py",
        'facts = (run_method, privacy, "secure-sum", terms.threshold, terms.conspirators)',
        'facts = (run_method, privacy, "secure-sum", len(terms.sites), terms.conspirators)',
        tests=("tests/remote/test_sums.py",),
    ),
    Mutant(
        "sizes-without-noise",
        "numbers of records leave though records may be added",
        REMOTE + "client.py",
        'return named == {("replace", "record")}',
        "return True",
        tests=("tests/remote/test_policy.py",),
    ),
]

_ACCOUNT = [
    Mutant(
        "delta-ignored",
        "ε is worked out at δ = .001, whatever δ is",
        PRIVACY + "accounting.py",
        "    delta = _delta(delta)\n    released = _released(events)",
        "    delta = max(_delta(delta), 1e-3)\n    released = _released(events)",
        audits=(SERVER,),
        tests=("tests/privacy/test_accounting.py",),
    ),
    Mutant(
        "multiplier-too-small",
        "noise for a budget is nine tenths of what it needs",
        PRIVACY + "accounting.py",
        "single = _multiplier_for(epsilon, _delta(delta))",
        "single = 0.9 * _multiplier_for(epsilon, _delta(delta))",
        audits=(SERVER,),
        tests=("tests/privacy/test_accounting.py",),
    ),
    Mutant(
        "totals-not-stated",
        "label totals are missing from the statement's events",
        SKETCH + "method.py",
        "events = plan.noise_for(*given, self.most_per_site, self.confusion).events",
        "events = plan.noise_for(*given, self.most_per_site, self.confusion).events[1:]",
        audits=(SERVER,),
        tests=(CHARGES,),
    ),
    Mutant(
        "totals-not-charged",
        "label totals are missing from what a site charges",
        SKETCH + "client.py",
        '        ("label totals", spec.label_sigma, moved),\n',
        "",
        tests=(CHARGES,),
    ),
    Mutant(
        "exact-is-free",
        "a part asked for without noise costs nothing",
        SKETCH + "client.py",
        "        for what, sigma, reach in parts\n",
        "        for what, sigma, reach in parts\n        if sigma\n",
        tests=(CHARGES, "tests/remote/test_policy.py"),
    ),
    Mutant(
        "not-charged",
        "an answer is written down as free",
        "src/fedcover/engines/base.py",
        "events = method.charges(query, seen, noise_sites)",
        "events = ()",
        tests=("tests/sketch/test_collect.py",),
    ),
    Mutant(
        "budget-not-checked",
        "the ledger answers beyond its budget",
        PRIVACY + "ledger.py",
        "if total > budget.epsilon + TOLERANCE:",
        "if False:",
        tests=("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "charged-after-the-reply",
        "the reply is computed before the budget is looked at",
        PRIVACY + "ledger.py",
        "                spent = self._affordable(state, released)\n"
        "                reply = wire.encode(compute())\n",
        "                reply = wire.encode(compute())\n"
        "                spent = self._affordable(state, released)\n",
        tests=("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "fresh-noise-on-a-retry",
        "the same query again gets new noise for the old price",
        PRIVACY + "ledger.py",
        "reply = self._file.reply(db, earlier)",
        "reply = wire.encode(compute())",
        tests=("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "another-query-under-one-name",
        "a name that was answered gives its reply to any query",
        PRIVACY + "ledger.py",
        "elif earlier.query == asked and tuple(earlier.events) == tuple(released):",
        "elif True:",
        tests=("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "chain-not-checked",
        "an entry need not name the one before it",
        PRIVACY + "ledger_store.py",
        "if not good or entry.previous != last:",
        "if not good:",
        tests=("tests/privacy/test_ledger.py",),
    ),
]

_SECURE_SUM = [
    Mutant(
        "constant-self-mask",
        "all sites mask themselves with the same words",
        SUMS + "masks.py",
        "return mask_words(seed, spec.count)",
        "return mask_words(bytes(32), spec.count)",
        tests=("tests/securesum/test_masks.py",),
    ),
    Mutant(
        "constant-pair-mask",
        "all pairs of sites have the same mask",
        SUMS + "masks.py",
        "words = mask_words(shared_key(private, public, purpose), spec.count)",
        "words = mask_words(bytes(32), spec.count)",
        tests=("tests/securesum/test_masks.py",),
    ),
    Mutant(
        "one-mask-for-all-runs",
        "a pair's mask is the same in every run with the same keys",
        SUMS + "masks.py",
        'purpose = joined("fedcover secure sum: pair", spec.digest, *first)',
        'purpose = joined("fedcover secure sum: pair", *first)',
        tests=("tests/securesum",),
    ),
    Mutant(
        "wrong-modulus",
        "masks have 63 bits: a sum is no longer modulo 2^64, and the top bit shows",
        SUMS + "crypto.py",
        'return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8")',
        'return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8") >> np.uint64(1)',
        tests=("tests/securesum/test_crypto.py", "tests/securesum/test_masks.py"),
    ),
    Mutant(
        "unsigned-survivors",
        "a site opens shares though nobody signed the list of survivors",
        SUMS + "client.py",
        "if name not in before.survivors or not is_signed(self.roster, name, signature, view):",
        "if name not in before.survivors:",
        tests=("tests/securesum/test_lying_about_survivors.py",),
    ),
    Mutant(
        "few-signatures",
        "a site opens shares with fewer signatures than the threshold",
        SUMS + "client.py",
        '        _enough(spec, signatures, "sites that agree on the survivors")\n',
        "",
        tests=("tests/securesum/test_lying_about_survivors.py",),
    ),
    Mutant(
        "few-survivors",
        "a site agrees to fewer survivors than the threshold",
        SUMS + "client.py",
        '        _enough(spec, listed, "survivors")\n',
        "",
        tests=("tests/securesum/test_lying_about_survivors.py",),
    ),
    Mutant(
        "both-secrets",
        "a site opens the mask keys of survivors as well as their seeds",
        SUMS + "client.py",
        "keys = {n: shares[SECRET:] for n, shares in before.held.items() if n not in seeds}",
        "keys = {n: shares[SECRET:] for n, shares in before.held.items()}",
        tests=("tests/securesum/test_lying_about_survivors.py", "tests/securesum/test_client.py"),
    ),
    Mutant(
        "half-is-enough",
        "a threshold of half of those sites is accepted that are told one story: 2t = n + c",
        SUMS + "spec.py",
        'if checks.whole(t, "threshold", 1, n) * 2 <= n + c:',
        'if checks.whole(t, "threshold", 1, n) * 2 < n + c:',
        tests=("tests/securesum/test_spec.py", "tests/securesum/test_conspirators.py"),
    ),
    Mutant(
        "conspirators-sign-nothing",
        "a threshold is accepted as if no site conspired: 2t > n",
        SUMS + "spec.py",
        'if checks.whole(t, "threshold", 1, n) * 2 <= n + c:',
        'if checks.whole(t, "threshold", 1, n) * 2 <= n:',
        tests=("tests/securesum/test_spec.py", "tests/securesum/test_conspirators.py"),
    ),
    Mutant(
        "conspirators-not-signed",
        "the number of conspirators is not in what all sites sign",
        SUMS + "spec.py",
        "            conspirators=self.conspirators,\n",
        "            conspirators=1,\n",
        tests=("tests/securesum/test_spec.py", "tests/securesum/test_lying_about_keys.py"),
    ),
    Mutant(
        "keys-not-verified",
        "signatures of key advertisements are not looked at",
        SUMS + "commitments.py",
        "if len(signed) <= ADVERTISEMENT or not is_signed(roster, name, signature, text):",
        "if len(signed) <= ADVERTISEMENT:",
        tests=("tests/securesum/test_lying_about_keys.py",),
    ),
    Mutant(
        "no-signature-is-verified",
        "every signature is good",
        "src/fedcover/identity.py",
        "    except InvalidSignature:\n        return False\n",
        "    except InvalidSignature:\n        return True\n",
        tests=("tests/securesum/test_identity.py",),
    ),
    Mutant(
        "run-names-twice",
        "a site takes part in two runs of one name",
        SUMS + "client.py",
        "if name in before.used:",
        "if False:",
        tests=("tests/securesum/test_client.py",),
    ),
    Mutant(
        "shares-not-sealed-to-the-run",
        "sealed shares may be misdirected",
        SUMS + "commitments.py",
        'return joined("fedcover secure sum: shares", spec.digest, dealer, holder)',
        'return joined("fedcover secure sum: shares", dealer, holder)',
        tests=("tests/securesum/test_lying_about_survivors.py",),
    ),
    Mutant(
        "another-sum-of-the-same-numbers",
        "a repeated round may be opened over other survivors",
        REMOTE + "secure_rounds.py",
        'if before is None or before.get("survivors") not in (None, listed):',
        "if before is None:",
        tests=("tests/remote/test_repeats.py",),
    ),
]

_AT_A_SITE = [
    Mutant(
        "any-method",
        "a site answers methods that it does not allow",
        REMOTE + "policy.py",
        "if name not in self.methods:",
        "if False:",
        tests=("tests/remote/test_policy.py",),
    ),
    Mutant(
        "private-without-a-ledger",
        "a site without a ledger answers a run that announces a budget",
        REMOTE + "policy.py",
        "if not has_ledger and not self.exact:",
        "if privacy is None and not has_ledger and not self.exact:",
        tests=("tests/remote/test_policy.py",),
    ),
    Mutant(
        "fresh-noise-without-a-ledger",
        "a repeated message gets new noise where there is no ledger",
        REMOTE + "client_state.py",
        '        if stored is None:\n            self._forget("reply")',
        '        if True:\n            self._forget("reply")',
        tests=("tests/remote/test_policy.py",),
    ),
    Mutant(
        "large-delta",
        "a ledger may have any δ",
        PRIVACY + "ledger_entries.py",
        "if self.delta * records > MOST_DELTA:",
        "if False:",
        tests=("tests/remote/test_policy.py", "tests/privacy/test_ledger_key.py"),
    ),
    Mutant(
        "seal-not-checked",
        "a keyed ledger is read whoever has written it",
        PRIVACY + "ledger_store.py",
        '        if not good:\n            raise self.damaged("it was changed',
        '        if False:\n            raise self.damaged("it was changed',
        tests=("tests/privacy/test_ledger_key.py",),
    ),
    Mutant(
        "delta-raised",
        "δ is raised after answers, and what was spent looks like less",
        PRIVACY + "ledger.py",
        "if budget.delta > state.budget.delta and state.answers:",
        "if False:",
        tests=("tests/privacy/test_ledger_key.py",),
    ),
    Mutant(
        "fingerprint-ignored",
        "records may change under a ledger unnoticed",
        PRIVACY + "ledger.py",
        "if state.data is not None and found != state.data:",
        "if False:",
        tests=("tests/privacy/test_ledger_data.py",),
    ),
    Mutant(
        "two-ledgers-for-the-same-records",
        "the tag beside the records is not looked at",
        PRIVACY + "ledger_data.py",
        "if owner is None or owner == ledger:",
        "if True:",
        tests=("tests/privacy/test_ledger_data.py",),
    ),
    Mutant(
        "ledger-for-all-to-read",
        "a ledger is made as the umask likes",
        PRIVACY + "ledger_store.py",
        "part_of(self.path, 0o600, new=True)",
        "part_of(self.path, 0o666, new=True)",
        tests=("tests/privacy/test_ledger_key.py",),
    ),
    Mutant(
        "trimmed-is-drawn-anew",
        "a reply that was removed for room is answered with new noise",
        PRIVACY + "ledger.py",
        "            if earlier is None:\n                self._check_room(state)",
        "            if earlier is None or earlier.number < state.kept_from:\n"
        "                self._check_room(state)",
        tests=("tests/privacy/test_ledger_key.py",),
    ),
    Mutant(
        "heads-not-kept",
        "the coordinator forgets the heads of the ledgers",
        REMOTE + "heads.py",
        "if after != before:",
        "if False:",
        tests=("tests/remote/test_heads.py",),
    ),
    Mutant(
        "older-ledger-taken",
        "a ledger that is shorter than before takes part",
        REMOTE + "heads.py",
        "return told is None or told[0] < known[0] or (told[0] == known[0] and told != known)",
        "return False",
        tests=("tests/remote/test_heads.py",),
    ),
    Mutant(
        "site-believes-its-own-ledger",
        "a site does not look whether its ledger was ever where the server knows it",
        REMOTE + "client.py",
        "if known is not None and (",
        "if False and (",
        tests=("tests/remote/test_heads.py",),
    ),
    Mutant(
        "files-for-ever",
        "every run leaves a file",
        REMOTE + "client_state.py",
        "if len(names) >= MOST_FILES[kind]:",
        "if False:",
        tests=("tests/remote/test_resources.py",),
    ),
    Mutant(
        "names-for-ever",
        "a site takes part in any number of sums",
        SUMS + "client.py",
        "if len(before.used) >= MOST_NAMES:",
        "if False:",
        tests=("tests/remote/test_resources.py",),
    ),
    Mutant(
        "words-of-errors-travel",
        "a refusal carries its text",
        REMOTE + "client.py",
        'code = {"code": code_of(error)}',
        'code = {"code": code_of(error), "text": str(error)}',
        tests=("tests/remote/test_what_leaves.py",),
    ),
    Mutant(
        "state-after-the-reply",
        "the memory of a secure sum is not on the disk when the reply leaves",
        REMOTE + "secure_rounds.py",
        "        self.state.keep_sum_state(after)\n",
        "",
        tests=("tests/remote/test_client_state.py",),
    ),
    Mutant(
        "folder-open-to-others",
        "everybody on the machine reads the secrets of a sum",
        REMOTE + "client_state.py",
        "with part_of(self.folder / name, 0o600) as part:",
        "with part_of(self.folder / name, 0o644) as part:",
        tests=("tests/remote/test_client_state.py",),
    ),
]

_COVERAGE = [
    Mutant(
        "quantile-one-short",
        "a level that is reached exactly takes the next score",
        "src/fedcover/quantile.py",
        'index = np.searchsorted(self.cumulative, mass - slack, side="left")',
        'index = np.searchsorted(self.cumulative, mass - slack, side="left") - 1',
        tests=("tests/test_quantile.py",),
    ),
    Mutant(
        "bin-one-short",
        "the threshold is one bin too low",
        SKETCH + "curve.py",
        '    at = np.searchsorted(misses, level + slack, side="right")\n',
        '    at = np.searchsorted(misses, level + slack, side="right") + 1\n',
        tests=("tests/sketch/test_curve.py",),
    ),
    Mutant(
        "noise-not-certified",
        "the certificate forgets the noise of the table",
        "src/fedcover/certificate/label_mix.py",
        "wealth = np.logaddexp(wealth, lead - seen @ phi - proxy @ phi**2 / 2)",
        "wealth = np.logaddexp(wealth, lead - seen @ phi)",
        tests=("tests/certificate/test_certificate.py",),
    ),
    Mutant(
        "noise-not-certified-of-counted-labels",
        "the same where the label mix is counted",
        "src/fedcover/certificate/label_mix.py",
        "won += math.log(bet.stake / views) - raw[view] @ phi - noise[view] @ phi**2 / 2",
        "won += math.log(bet.stake / views) - raw[view] @ phi",
        tests=("tests/certificate/test_certificate.py",),
    ),
    Mutant(
        "totals-taken-as-sure",
        "n in place of n_low: noisy totals count as exact",
        "src/fedcover/certificate/bounds.py",
        "return totals - sd * math.sqrt(2 * math.log(len(totals) / beta))",
        "return totals",
        tests=("tests/certificate/test_certificate.py",),
    ),
    Mutant(
        "levels-do-not-share",
        "several levels are certified with all of β each",
        "src/fedcover/certificate/label_mix.py",
        "each = (t.beta - on_totals) / len(t.alphas)",
        "each = t.beta - on_totals",
        tests=("tests/certificate/test_certificate.py",),
    ),
]

USABILITY = ("tests/test_usability.py",)

_IN_HAND = [
    Mutant(
        "columns-as-they-stand",
        "named columns in another order are read as if they were in order",
        "src/fedcover/classnames.py",
        "return any_array(values, what)[:, order]",
        "return any_array(values, what)",
        tests=USABILITY,
    ),
    Mutant(
        "numbers-for-places",
        "labels that are numbers of their own are read as places",
        "src/fedcover/inputs.py",
        "return found.astype(np.int64)",
        "return np.minimum(y, len(known) - 1).astype(np.int64)",
        tests=USABILITY,
    ),
    Mutant(
        "a-site-keeps-its-order",
        "a site with its columns in another order keeps its labels in its own",
        "src/fedcover/site.py",
        "in_words(place[self.labels], known)",
        "in_words(self.labels, known)",
        tests=USABILITY,
    ),
    Mutant(
        "lost-digits-stay-lost",
        "rounded rows are not divided by their sum",
        "src/fedcover/outputs.py",
        "part[lost] /= part[lost].sum(axis=1, keepdims=True)",
        "part[lost] /= 1.0",
        tests=USABILITY,
    ),
    Mutant(
        "arrays-are-all-equal",
        "two results are equal whatever their thresholds",
        "src/fedcover/results.py",
        "return type(one) is type(two) and np.array_equal(one, two)",
        "return type(one) is type(two)",
        tests=USABILITY,
    ),
    Mutant(
        "labels-as-text",
        "labels without names come back as text",
        "src/fedcover/prediction.py",
        "if self.label_names else inside",
        "if self.label_names else [str(c) for c in inside]",
        tests=USABILITY,
    ),
]

HOSTILE = "tests/test_hostile_files.py"

_FILES = [
    Mutant(
        "declared-shape-believed",
        "an array's header may say more than its bytes are",
        "src/fedcover/_io/archives.py",
        "if not dtype.hasobject and found.start + found.nbytes != info.file_size:",
        "if False:",
        tests=(f"{HOSTILE}::test_an_array_is_as_long_as_its_header_says",),
    ),
    Mutant(
        "sketch-of-any-shape",
        "a sketch's table is unpacked whatever its shape is",
        SKETCH + "file.py",
        'if member.shape != shape or member.dtype.kind != "i" or member.fortran:',
        "if False:",
        tests=(
            "tests/sketch/test_file.py::test_what_unpacks_to_too_much_is_refused_before_unpacking",
        ),
    ),
    Mutant(
        "formula-in-a-cell",
        "a cell may begin with an equals sign",
        "src/fedcover/_io/cells.py",
        "if _FIRST.match(text) and not _NUMBER.fullmatch(text):",
        "if False:",
        tests=(HOSTILE,),
    ),
    Mutant(
        "names-that-steer",
        "names of classes may hold control characters",
        "src/fedcover/classnames.py",
        "if len(text) > LONGEST_NAME or not is_plain(text):",
        "if False:",
        tests=(f"{HOSTILE}::test_names_that_steer_a_screen_are_refused",),
    ),
    Mutant(
        "texts-that-steer",
        "texts of a calibration may hold control characters",
        "src/fedcover/calibration.py",
        "if not plain_texts(body):",
        "if False:",
        tests=(f"{HOSTILE}::test_texts_of_a_file_steer_no_screen",),
    ),
    Mutant(
        "query-without-end",
        "a query may ask for more noise than memory holds",
        "src/fedcover/methods/queries.py",
        "if math.prod(lengths) > LONGEST:",
        "if False:",
        tests=(
            "tests/methods/test_queries.py::test_noise_for_more_steps_than_memory_holds_is_refused",
        ),
    ),
    Mutant(
        "query-of-any-shape",
        "arrays of a query may have any shape",
        "src/fedcover/methods/queries.py",
        "if not good or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):",
        "if not good:",
        tests=("tests/methods/test_queries.py",),
    ),
    Mutant(
        "state-without-sense",
        "a site's memory of a secure sum is taken as it is",
        SUMS + "state.py",
        "if not state._fits():",
        "if False:",
        tests=("tests/securesum/test_state.py",),
    ),
    Mutant(
        "errors-with-an-old-list",
        "errors name methods by a list of their own",
        "src/fedcover/methods/base.py",
        "allowed=f\"privacy with {those_that('private')}\",",
        'allowed="privacy with DPFedCP() or Local()",',
        tests=("tests/test_statements.py::test_errors_name_the_methods_that_the_registry_does",),
    ),
]

_DOORS = [
    Mutant(
        "any-app-starts",
        "the executor runs an app that the site has not approved, if there is any copy",
        FLOWER + "approval.py",
        "    own = folder / digest_of(content)\n    return own if own.is_dir() else None\n",
        "    return next(folder.iterdir(), folder)\n",
        tests=("tests/flower/test_doors.py",),
    ),
    Mutant(
        "app-texts-travel",
        "the text of an app's exception is sent to the server",
        FLOWER + "executor.py",
        "Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, FAILED)",
        "Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(error))",
        tests=("tests/flower/test_doors.py",),
    ),
    Mutant(
        "approval-not-enforced",
        "a site with approved apps answers when Flower's own executor starts the app",
        FLOWER + "site_config.py",
        "if own.approved is not None and BY_EXECUTOR not in os.environ:",
        "if False:",
        tests=("tests/flower/test_doors.py",),
    ),
    Mutant(
        "unknown-is-closed",
        "the doctor takes a failure of the Control API for a closed door",
        FLOWER + "doctor/doors.py",
        "CLOSED = (401, 403, 404, 405)",
        "CLOSED = (302, 401, 403, 404, 405, 500)",
        tests=("tests/flower/test_doors.py",),
    ),
    Mutant(
        "open-runtime-not-tried",
        "the doctor tries the Control API alone",
        FLOWER + "doctor/doors.py",
        "    for path in CONTROL:\n",
        "    for path in CONTROL[:1]:\n",
        tests=("tests/flower/test_doors.py",),
    ),
    Mutant(
        "other-addresses-not-tried",
        "the doctor believes that a SuperLink at 127.0.0.1 is nowhere else",
        FLOWER + "doctor/doors.py",
        "    for other in _other_addresses():\n",
        "    for other in ():\n",
        tests=("tests/flower/test_doors.py",),
    ),
]

LYING = "tests/remote/test_lying_server.py"
SIGNED = "tests/test_signature.py"

_LAST_MESSAGE = [
    Mutant(
        "statement-unchecked",
        "a site takes any statement of privacy",
        REMOTE + "belief.py",
        "        self._check(said, agreed)\n",
        "",
        tests=(LYING,),
    ),
    Mutant(
        "statement-less-than-charged",
        "a statement may promise more than the ledger was charged with",
        REMOTE + "belief.py",
        "said.epsilon < self._least(agreed) * (1 - CLOSE)",
        "said.epsilon < 0",
        tests=(LYING,),
    ),
    Mutant(
        "statement-not-marked",
        "without a ledger, what the server says is said as if the site knew",
        REMOTE + "belief.py",
        "return replace(said, word=REPORTED)",
        "return said",
        tests=(LYING,),
    ),
    Mutant(
        "other-runs-charged",
        "charges of every run count for this one",
        "src/fedcover/engines/base.py",
        'return name.startswith(begin) and number.isdecimal() and "/" not in kind',
        "return bool(name)",
        tests=(LYING,),
    ),
    Mutant(
        "thresholds-in-any-order",
        "thresholds may grow with α",
        REMOTE + "belief.py",
        "if not np.array_equal(nested(alphas, fit.positions), fit.positions):",
        "if False:",
        tests=(LYING,),
    ),
    Mutant(
        "coverage-unchecked",
        "thresholds may cover own records as badly as they like",
        REMOTE + "own_records.py",
        "if chance < FALSE_ALARMS / len(cal.alpha):",
        "if False:",
        tests=(LYING, "tests/remote/test_own_records.py"),
    ),
    Mutant(
        "coverage-too-strict",
        "nothing is allowed for the calibration sample: honest runs are refused",
        REMOTE + "own_records.py",
        "return max(1.0, 1 / doubt - 2)",
        "return 1e12",
        tests=("tests/remote/test_own_records.py",),
    ),
    Mutant(
        "own-cells-unchecked",
        "a table may lack this site's own records",
        REMOTE + "own_records.py",
        "if (table.cells.ravel() < held - FAR * table.cell_deviation - 0.5).any():",
        "if False:",
        tests=(LYING,),
    ),
    Mutant(
        "refusal-by-data-travels",
        "the server hears of what own records contradict",
        REMOTE + "client.py",
        "                self.state.log(traceback.format_exc())\n            else:",
        "                self.state.log(traceback.format_exc())\n"
        "                raise\n            else:",
        tests=(LYING,),
    ),
    Mutant(
        "older-envelopes",
        "a site or a server of before is talked to, and keeps its own rules",
        REMOTE + "envelope.py",
        'if outer.kind == "letter" and version != VERSION:',
        'if outer.kind == "letter" and version > VERSION:',
        tests=("tests/remote/test_envelope.py",),
    ),
    Mutant(
        "publication-unsigned",
        "a site that names the coordinator's key takes unsigned results",
        REMOTE + "client.py",
        "if self.coordinator is not None:",
        'if self.coordinator is not None and "signature" in envelope.header:',
        tests=(LYING,),
    ),
    Mutant(
        "publication-of-another-run",
        "a signature of another run or site will do",
        REMOTE + "publication.py",
        "if getattr(found, what) != value:",
        'if what == "digest" and getattr(found, what) != value:',
        tests=(LYING,),
    ),
    Mutant(
        "publication-header-unsigned",
        "the coordinator signs the message without its header",
        REMOTE + "publication.py",
        'content = {"header": digest(to_json(header)), "payload"',
        'content = {"header": "", "payload"',
        tests=(LYING,),
    ),
    Mutant(
        "old-publication-holds",
        "an older result that was signed as well takes the place of the latest",
        REMOTE + "publication.py",
        "    if when < latest:",
        "    if when < 0:",
        tests=(LYING,),
    ),
    Mutant(
        "own-epsilon-at-any-delta",
        "a site states its own ε at the δ that the server announced",
        REMOTE + "belief.py",
        "delta = min(agreed.delta, budget.delta)",
        "delta = agreed.delta",
        tests=(LYING,),
    ),
    Mutant(
        "sum-in-the-server-view",
        "a share of the noise is charged in a run whose statement counts on all of it",
        REMOTE + "policy.py",
        "if announced is not None and not announced.secure_sum:",
        "if False:",
        tests=("tests/remote/test_conspirators.py",),
    ),
    Mutant(
        "statement-in-another-view",
        "a second hello moves a statement to a view that the sums were not charged for",
        REMOTE + "belief.py",
        "if self.summed and not",
        "if False and not",
        tests=(LYING,),
    ),
    Mutant(
        "levels-without-end",
        "a server names as many levels as it likes",
        REMOTE + "result_message.py",
        "if len(alphas) > MOST_LEVELS or",
        "if",
        tests=(LYING,),
    ),
    Mutant(
        "log-as-it-comes",
        "words of a server steer the screen of who reads a site's log",
        REMOTE + "client_state.py",
        "c if c.isprintable() else ascii(c)[1:-1] for c in line",
        "line",
        tests=("tests/remote/test_client_state.py",),
    ),
    Mutant(
        "revoked-keys-hold",
        "a revoked key is believed",
        "src/fedcover/identity.py",
        "if owner is None and text not in gone:",
        "if owner is None:",
        tests=(SIGNED,),
    ),
    Mutant(
        "files-by-anybody",
        "any trusted site's signature will do for a calibration of another",
        "src/fedcover/signature.py",
        "if target is None or one.name in (target, COORDINATOR)]",
        "]",
        tests=(SIGNED,),
    ),
    Mutant(
        "files-by-a-part",
        "what the coordinator signed of the run is enough for the whole file",
        "src/fedcover/signature.py",
        "if not any((one.of, one.digest) == (of, digest) for one in own):",
        "if not own:",
        tests=(SIGNED,),
    ),
]

MUTANTS: tuple[Mutant, ...] = (
    *_less_noise(),
    *_NOISE,
    *_SENSITIVITY,
    *_ACCOUNT,
    *_SECURE_SUM,
    *_AT_A_SITE,
    *_COVERAGE,
    *_IN_HAND,
    *_FILES,
    *_DOORS,
    *_LAST_MESSAGE,
)
