"""Module paths of version 0.1 that have moved: they work, with a warning, until version 0.3.

An old path gives the new module itself, or, where names in it have changed, a module with the old
names. An old package holds the names it had itself, and what is imported from it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "bounds.privacy_claim": "bounds.optimisation",
    "bounds.result": "bounds.coverage",
    "certificate.bets": "certificate.bounds",
    "certificate.binomial": "certificate.bounds",
    "certificate.counted": "certificate.label_mix",
    "certificate.known": "certificate.label_mix",
    "choice": "api",
    "cli.demo": "cli.reproduce",
    "cli.labelfile": "cli.files",
    "cli.merge": "cli.collect",
    "cli.sketchfile": "cli.files",
    "conclusion": "fit",
    "demo": "experiments.demo.command",
    "demo.data": "experiments.demo.data",
    "demo.experiment": "experiments.demo.results",
    "demo.files": "experiments.demo.command",
    "demo.glossary": "experiments.demo.text",
    "demo.leaves": "experiments.demo.text",
    "demo.page": "experiments.demo.command",
    "demo.plots": "experiments.demo.study",
    "demo.terminal": "experiments.demo.command",
    "demo.words": "experiments.demo.text",
    "engines.flower.channel": "engines.flower.transport",
    "engines.flower.client_app": "engines.flower.apps",
    "engines.flower.doctor.packages": "engines.flower.doctor.examination",
    "engines.flower.doctor.rehearsal": "engines.flower.doctor.app",
    "engines.flower.init": "engines.flower.scaffold",
    "engines.flower.run": "engines.flower.run_config",
    "engines.flower.server_app": "engines.flower.apps",
    "engines.flower.site": "engines.flower.site_config",
    "engines.flower.versions": "engines.flower.scaffold",
    "engines.network.checkpoint": "engines.remote.checkpoint",
    "engines.network.codes": "engines.remote.codes",
    "engines.network.conductor": "engines.remote.coordinator",
    "engines.network.greeting": "engines.remote.handshake",
    "engines.network.letters": "engines.remote.envelope",
    "engines.network.memory": "engines.remote.client_state",
    "engines.network.node": "engines.remote.client",
    "engines.network.post": "engines.remote.transport",
    "engines.network.published": "engines.remote.result_message",
    "engines.network.rules": "engines.remote.policy",
    "engines.network.summing": "engines.remote.secure_rounds",
    "engines.network.totals": "engines.remote.secure_rounds",
    "engines.sums": "engines.base",
    "experiments.agreeing": "experiments.sections",
    "experiments.catalogue": "experiments",
    "experiments.drawing": "report.figures.charts",
    "experiments.outputs": "experiments.federations",
    "experiments.pages": "experiments.sections",
    "experiments.privacy_figures": "experiments.privacy",
    "experiments.published": "experiments.algorithm1",
    "experiments.readings": "experiments.sections",
    "experiments.room": "experiments.runner",
    "experiments.showing": "experiments.sections",
    "experiments.theory_figures": "experiments.theory",
    "experiments.theory_run": "experiments.theory_measures",
    "experiments.theory_weights": "experiments.theory_measures",
    "federation": "api",
    "files": "_io.files",
    "labelshift.exact": "labelshift.weights",
    "labelshift.groups": "labelshift.estimate",
    "labelshift.mix": "labelshift.estimate",
    "labelshift.ratios": "labelshift.weights",
    "labelshift.simplex": "labelshift.estimators",
    "privacy.audit": "audit",
    "privacy.ledger_file": "privacy.ledger_store",
    "privacy.views": "methods.dp_fedcp.algorithm1",
    "protocols.averaging": "methods.dp_fedcp.algorithm1",
    "protocols.base": "methods.base",
    "protocols.dp_fedcp": "methods.dp_fedcp.method",
    "protocols.exponential": "methods.exponential",
    "protocols.local": "methods.site_quantiles",
    "protocols.message": "wire",
    "protocols.pooled": "methods.pooled",
    "protocols.quantile_average": "methods.site_quantiles",
    "protocols.quantile_of_quantiles": "methods.site_quantiles",
    "protocols.search": "methods.dp_fedcp.search",
    "protocols.sketch": "methods.sketch.method",
    "protocols.steps": "methods.dp_fedcp.steps",
    "protocols.tdigest": "methods.tdigest",
    "protocols.wire": "wire",
    "report.both": "report.page",
    "report.heat": "report.sketch",
    "report.personal_figures": "report.figures.sketch",
    "report.sketch_figures": "report.figures.sketch",
    "report.style": "report.figures.style",
    "securesum.cards": "securesum.commitments",
    "securesum.identity": "identity",
    "securesum.masking": "securesum.masks",
    "securesum.messages": "securesum.spec",
    "securesum.participant": "securesum.client",
    "securesum.terms": "securesum.spec",
    "securesum.unmasking": "securesum.masks",
    "sketch.blend": "methods.sketch.personalise",
    "sketch.certify": "methods.sketch.certify",
    "sketch.curve": "methods.sketch.curve",
    "sketch.factor": "methods.sketch.factor",
    "sketch.file": "methods.sketch.file",
    "sketch.gone": "checks",
    "sketch.grid": "methods.sketch.table",
    "sketch.groups": "methods.sketch.table",
    "sketch.mix": "methods.sketch.personalise",
    "sketch.personal": "methods.sketch.personalise",
    "sketch.plan": "methods.sketch.plan",
    "sketch.promises": "privacy.statement",
    "sketch.query": "methods.sketch.client",
    "sketch.reply": "methods.sketch.client",
    "sketch.result": "methods.sketch.result",
    "sketch.table": "methods.sketch.table",
    "sketch.totals": "methods.sketch.table",
    "tables": "_io.tables",
    "uniforms": "scores",
    "writing": "_io.writing",
}
"""Modules, old path to new path, inside the package."""

PACKAGES = {"demo", "engines.network", "protocols", "sketch"}
"""Packages of version 0.1 whose modules have all moved."""

RENAMED: dict[str, dict[str, str]] = {
    "demo.experiment": {"Results": "DemoResults"},
    "demo.files": {"write": "write_files"},
    "demo.page": {"write": "write_page"},
    "engines.flower.channel": {"GridChannel": "GridTransport"},
    "engines.flower.client_app": {"NodeMaker": "ClientMaker"},
    "engines.flower.site": {"read_rules": "read_policy", "site_node": "client_from_config"},
    "engines.network.codes": {"words": "refused_by"},
    "engines.network.conductor": {"Conductor": "Coordinator"},
    "engines.network.letters": {
        "Letter": "Envelope",
        "MOST_HEAD": "MAX_HEADER",
        "STAGES": "PHASES",
    },
    "engines.network.memory": {"Memory": "ClientState"},
    "engines.network.node": {"SiteNode": "Client"},
    "engines.network.post": {
        "Channel": "Transport",
        "Patience": "RetryPolicy",
        "exchange": "request_all",
    },
    "engines.network.rules": {"Rules": "SitePolicy", "check_room": "check_remaining_budget"},
    "engines.network.summing": {"Summing": "SecureSumSession"},
    "engines.sums": {"added_up": "sum_replies"},
    "experiments.room": {"Crew": "Executor", "bar": "progress_bars"},
    "protocols.base": {
        "AtServer": "ServerMethod",
        "SecureSum": "SumRound",
        "Counts": "methods.replies:Counts",
        "counts_reply": "methods.replies:counts_reply",
        "read_array": "methods.replies:read_array",
        "read_counts": "methods.replies:read_counts",
        "read_positions": "methods.replies:read_positions",
        "reply_of": "methods.replies:reply_of",
        "target_counts": "methods.replies:target_counts",
        "target_ratios": "methods.replies:target_ratios",
        "weighted_fit": "methods.replies:weighted_fit",
    },
    "securesum.cards": {
        "Card": "KeyAdvertisement",
        "card_text": "advertisement_text",
        "new_card": "advertise",
        "read_card": "read_advertisement",
    },
    "securesum.masking": {"flat": "flatten", "shaped": "unflatten"},
    "securesum.messages": {
        "blob": "read_bytes",
        "make": "stage_message",
        "table": "to_table",
        "text": "read_text",
    },
    "securesum.terms": {"Terms": "SumSpec"},
    "securesum.unmasking": {"unmasked": "unmask"},
    "sketch.promises": {"composed": "compose_sequential", "either": "compose_parallel"},
}
"""Names that have changed in a module that has moved, old to new; "module:name" where they went
elsewhere."""

_ROOT = "fedcover."


class _Old(ModuleType):
    """What stands at the old path of a package, and of a module with new names."""

    def __getattr__(self, name: str) -> Any:
        old = self.__name__.removeprefix(_ROOT)
        # A submodule is imported, and only then an attribute.
        if old not in MOVED or f"{old}.{name}" in MOVED or name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, _, new = RENAMED.get(old, {}).get(name, name).rpartition(":")
        value = getattr(import_module(_ROOT + (module or MOVED[old])), new)
        if old in PACKAGES:
            _warn(old)
        setattr(self, name, value)
        return value


class _Finder:
    """Asked last of all, so it costs nothing until a path is not found elsewhere.

    A finder and a loader by what it can do: to derive it from `importlib.abc` would make
    `import fedcover` slower by the modules that this one needs.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        old = fullname.removeprefix(_ROOT)
        if not fullname.startswith(_ROOT) or old not in MOVED.keys() | PACKAGES:
            return None
        # A package without places to look in: the new one's files are not to be loaded twice.
        loader: Any = self
        return ModuleSpec(fullname, loader, is_package=old in PACKAGES)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Old(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__.removeprefix(_ROOT)
        if old in PACKAGES:  # what is taken from it will warn
            return
        _warn(old)
        new = import_module(_ROOT + MOVED[old])
        if old not in RENAMED:
            sys.modules[module.__name__] = new


def _warn(old: str) -> None:
    # Past this function and its caller; the import system's own frames are not counted.
    warnings.warn(
        f"{_ROOT}{old} is now {_ROOT}{MOVED[old]}; the old path goes with version 0.3",
        DeprecationWarning,
        stacklevel=3,
    )


def install() -> None:
    """Let the old paths be found."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
