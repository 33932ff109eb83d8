"""What version 0.1.0 has written is read, and what it has begun goes on."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

import fedcover as fc
from fedcover.engines.remote.envelope import VERSION, digest
from fedcover.securesum import SumSpec, crypto
from fedcover.securesum.state import State
from tests.before import cases, doors, facts
from tests.before.cases import bits
from tests.before.facts import FILES

WANTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
LETTERS = FILES / "letters"

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def plainly(found):
    """As JSON has it."""
    return json.loads(json.dumps(found))


def close(found, wanted):
    """Equal, but for the last bits of floating-point numbers, which depend on the machine.

    Only `test_results` compares those, and makes sure of the machine.
    """
    loose = ("ratios", "error", "records")
    assert {k: v for k, v in found.items() if k not in loose} == {
        k: v for k, v in wanted.items() if k not in loose
    }


@pytest.fixture
def copy(tmp_path):
    """A folder that was written, to be worked in."""

    def make(name):
        shutil.copytree(FILES / name, tmp_path / name)
        return tmp_path / name

    return make


@pytest.mark.parametrize("name", WANTED["calibrations"])
def test_calibrations(name, tmp_path):
    cal = fc.Calibration.load(FILES / "calibrations" / f"{name}.json")
    assert plainly(facts.of_calibration(cal)) == WANTED["calibrations"][name]
    cal.save(tmp_path / "again.json")
    again = fc.Calibration.load(tmp_path / "again.json")
    assert plainly(facts.of_calibration(again)) == WANTED["calibrations"][name]


def test_a_private_calibration_still_says_what_was_promised():
    cal = fc.Calibration.load(FILES / "calibrations/certified.json")
    asked = cases.SUMMED
    assert (cal.privacy.delta, cal.privacy.view) == (asked.delta, asked.view)
    assert 0 < cal.privacy.epsilon <= asked.epsilon
    assert fc.privacy.epsilon(cal.privacy.events, asked.delta) <= asked.epsilon
    assert cal.certificate.confidence == 0.9


@pytest.mark.parametrize("name", WANTED["sketches"])
def test_sketches(name, tmp_path):
    wanted = WANTED["sketches"][name]
    sketch = fc.SketchResult.load(FILES / "sketches" / f"{name}.npz")
    found = plainly(facts.of_sketch(name, sketch))
    assert found["sketch"] == wanted["sketch"]
    assert found.get("method") == wanted.get("method")
    close(found.get("personal", {}), wanted.get("personal", {}))
    sketch.save(tmp_path / "again.npz")
    again = fc.SketchResult.load(tmp_path / "again.npz")
    assert plainly(facts.of_sketch(name, again)) == found


@pytest.fixture
def ledger(tmp_path):
    return fc.privacy.Ledger(shutil.copy(FILES / "november.ledger", tmp_path))


def test_a_ledger_says_what_it_said(ledger):
    found = facts.of_ledger(ledger)
    assert found == {k: v for k, v in WANTED["ledger"].items() if k != "replies"}


def test_a_ledger_repeats_its_replies_at_no_cost(ledger):
    def compute():
        raise AssertionError("a stored reply is not made again")

    for name, query, events, _ in facts.questions():
        reply = ledger.answer(name, query, events, compute)
        assert doors.encoded(reply).hex() == WANTED["ledger"]["replies"][name]
    assert ledger.state().head == WANTED["ledger"]["head"]


def test_a_ledger_goes_on_charging(ledger):
    _, query, events, reply = facts.questions()[1]
    before = ledger.state()
    ledger.answer("december/a/0/steps", query, events, lambda: reply)
    after = ledger.state()
    assert len(after.entries) == len(before.entries) + 1
    assert before.spent < after.spent <= after.budget.epsilon
    with pytest.raises(fc.FedcoverError, match="with other content"):
        ledger.answer("november/a/0/counts", query, events, lambda: reply)
    ledger.set_budget(epsilon=after.spent)
    with pytest.raises(fc.FedcoverError, match="already spent"):
        ledger.answer("december/a/1/steps", query, events, lambda: reply)


@pytest.fixture
def rounds(copy):
    """The network in which a run of Algorithm 1 was killed before its eighth round."""
    return doors.Net(copy("interrupted"), doors.made(3), policy=doors.OPEN)


@cases.one_kernel
def test_an_interrupted_run_goes_on_to_the_same_thresholds():
    found = cases.computed("resumed")["interrupted"]
    assert found["thresholds"] == WANTED["interrupted"]
    assert (found["first asked"], found["rounds"]) == (7, 14)  # finished rounds are not repeated


def test_an_interrupted_run_does_not_go_on_as_another(rounds):
    server = facts.steps(rounds)
    server.seed = 1
    with pytest.raises(fc.FedcoverError, match="is of a run with other seed"):
        server.go()


def test_a_site_knows_a_run_that_has_said_hello(rounds, tmp_path):
    envelope = kept("plain-to-site-ask-counts.bin")
    reply = doors.envelope(rounds.node(0).handle(envelope))
    wanted = doors.envelope(kept("plain-from-site-ask-counts.bin"))
    assert reply[:3] == wanted[:3]
    assert reply[3] == {**wanted[3], "of": digest(envelope)}  # what it replies to
    assert doors.encoded(reply[4]) == doors.encoded(wanted[4])
    other = doors.Net(tmp_path / "other", doors.made(3), policy=doors.OPEN)
    assert refusal(other.node(0).handle(envelope)) == "hello"


@pytest.fixture
def summing(copy):
    """The network in which a secure sum was killed when all masked numbers were in."""
    return doors.Net(copy("sum"), budget=doors.BUDGET)


def kept(name):
    """A letter of 0.1 under today's version of envelopes: what is in it reads as it did then."""
    return doors.of_version((LETTERS / name).read_bytes(), VERSION)


def refusal(reply):
    """The code of a refusal."""
    stage, _, _, said, body = doors.envelope(reply)
    assert (stage, body) == ("refused", None)
    return said["code"]


def test_an_interrupted_secure_sum_goes_on_with_the_same_noise_and_charges_nothing(summing):
    table = facts.summed(summing).go()
    found = {key: bits(array) for key, array in doors.table_of(table).items()}
    assert found == WANTED["sum"]["arrays"]
    assert summing.heads() == WANTED["sum"]["heads"]
    assert summing.answers() == dict.fromkeys(summing.ledgers, 1)


@pytest.mark.parametrize("stage", ["keys", "shares", "masked", "agree", "unmask"])
def test_a_secure_sum_of_version_0_1_does_not_go_on_in_the_middle(summing, stage):
    """Nobody said then how many conspire. The run is repeated as a whole, as above."""
    query = kept(f"sum-to-site-sum-{stage}.bin")
    assert refusal(summing.node(0).handle(query)) == "version"
    assert summing.heads() == WANTED["sum"]["heads"]


def test_runs_of_version_0_1_keep_their_names(summing):
    """The names of all runs are read from a site's memory, and nothing else of it."""
    data = (summing.folder / "s0" / "sums.bin").read_bytes()
    state = State.of_bytes(data)
    terms = doors.decoded(doors.decoded(data).arrays["terms"].tobytes())
    name = terms.arrays["run"].tobytes().decode()
    assert state == State(used=state.used)
    assert crypto.digest("run", name) in state.used
    spec = SumSpec(name, ("s0", "s1", "s2", "s3"), {"table": (1,)})
    participant = summing.node(0).participant
    with pytest.raises(fc.FedcoverError, match="was started here before"):
        participant.answer(spec.to_message(), data, lambda spec: None)


def test_a_secure_sum_does_not_go_on_among_other_sites(summing):
    del summing.sites[3]
    server = facts.summed(summing)
    server.checkpoint = None
    with pytest.raises(fc.FedcoverError, match=r"does not agree .*\(code 'agreement'\)"):
        server.go()
    assert "among other sites" in summing.log("s0")
    assert summing.heads() | {"s3": WANTED["sum"]["heads"]["s3"]} == WANTED["sum"]["heads"]


def test_numbers_that_were_charged_do_not_leave_a_site_that_has_lost_its_memory(summing):
    shutil.rmtree(summing.folder / "s0")
    server = facts.summed(summing)
    server.min_survivors, server.checkpoint = 4, None  # all of them, or nothing
    with pytest.raises(fc.FedcoverError, match=r"'s0' does not agree"):
        server.go()
    assert "this site's memory knows nothing" in summing.log("s0")


def test_a_folder_of_another_site_is_refused(summing):
    shutil.rmtree(summing.folder / "s1")
    (summing.folder / "s0").rename(summing.folder / "s1")
    hello = kept("sum-to-site-hello.bin")
    assert refusal(summing.node(1).handle(hello)) == "data"


def test_a_site_makes_its_calibration_of_a_published_sketch(summing):
    """The letter that was kept states no privacy in a run that has a budget: a site refuses it."""
    letter = kept("sum-to-site-finish.bin")
    assert refusal(summing.node(0).handle(letter)) == "result"
    told = doors.with_statement(letter, fc.privacy.PrivacyStatement(2.0, 1e-5, view="secure-sum"))
    stage, *_ = doors.envelope(summing.node(0).handle(told))
    assert stage == "finish"
    cal = fc.Calibration.load(summing.folder / "s0.json")
    close(plainly(cases.calibration_bits(replace(cal, privacy=None))), WANTED["sum"]["personal"])


@pytest.mark.parametrize("name", WANTED["letters"])
def test_letters(name):
    data = kept(name)
    assert plainly(facts.of_letter(data)) == WANTED["letters"][name]
    assert doors.rewritten(data) == data


def test_there_is_a_letter_of_every_stage():
    stages = {one["stage"] for one in WANTED["letters"].values()}
    assert stages == {"hello", "ask", "sum", "finish", "refused"}
    kinds = {one["body"]["kind"] for one in WANTED["letters"].values() if one["body"]}
    sums = {f"secure-sum/{stage}" for stage in ("keys", "shares", "masked", "agree", "unmask")}
    assert {*sums, "counts", "totals", "steps", "sketch-file"} == kinds


def test_a_message_of_every_type():
    data = (FILES / "message.bin").read_bytes()
    message = doors.decoded(data)
    assert {array.dtype.str for array in message.arrays.values()} == {
        *(f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)),
        *("|i1", "|u1", "<f2", "<f4", "<f8"),
    }
    assert message.arrays["u4"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert message.numbers == {"whole": -(2**40), "broken": 0.1, "endless": float("inf")}
    assert doors.encoded(message) == data


@pytest.mark.parametrize("name", [n for n in WANTED["letters"] if "-to-site-" in n])
def test_letters_of_another_version_are_refused_with_one_word(summing, name):
    """Those that 0.1 wrote among them."""
    data = kept(name)
    for other in (
        (LETTERS / name).read_bytes(),
        doors.of_version(data, VERSION + 1),
        data[:3] + b"\2" + data[4:],
    ):
        assert refusal(summing.node(0).handle(other)) == "version"
    assert summing.heads() == WANTED["sum"]["heads"]


def test_a_site_of_another_version_is_named_to_the_people_at_the_server(rounds):
    def fault(name, envelope, answer):
        return doors.of_version(answer(), 1) if name == "s1" else answer()

    rounds.fault = fault
    with pytest.raises(fc.FedcoverError, match=r"another version of fedcover \(code 'version'\)"):
        facts.steps(rounds).go()


@pytest.mark.parametrize("name", ["north", "south"])
def test_node_configurations(copy, name):
    folder = copy("nodes")
    doors.key_files(folder, "north", ("north", "south", "east", "west"))
    fc.privacy.Ledger(folder / "north.ledger", create=doors.BUDGET, key=folder / "north.key")
    text = (folder / f"{name}.toml").read_text()
    seed = (folder / "north/score-seed").read_bytes()
    found = plainly(facts.of_node(doors.node_of(text, folder)))
    wanted = WANTED["nodes"][name]
    del wanted["policy"]["most-epsilon"]  # without a ledger there is no private run now
    assert found == wanted
    assert (folder / "north/score-seed").read_bytes() == seed


@pytest.mark.parametrize("name", ["run", "open-run"])
def test_run_configurations(name):
    text = (FILES / "nodes" / f"{name}.toml").read_text()
    assert plainly(doors.run_of(text)) == WANTED["nodes"][name]
