"""What sites say of themselves: odd things leave a site out, and sites must fit together."""

from __future__ import annotations

import pytest

import fedcover as fc
from tests.remote.federation import OPEN, Net, Server, made, with_facts


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path, policy=OPEN)


def exact(net, **more):
    return Server(net, **{"privacy": None, **more})


def test_a_declared_number_of_records_that_is_not_so_is_noticed(net):
    net.fault = lambda name, envelope, answer: (
        with_facts(answer(), records=10) if (name, envelope.phase) == ("s1", "hello") else answer()
    )
    with pytest.raises(fc.FedcoverError, match=r"'s1' answered 'table'.* 10 records"):
        exact(net).go()


ODD = {
    "name": [None, 3, "", "a\nb", "x" * 101, ["s1"]],
    "n_classes": [None, 1, 3.0, True, "3", 10**7, -1],
    "records": [0, -1, 1.5, True, "many", 10**16],
    "temperature": [0, -1, "1", None, [1]],
    "score": ["APS", 3, {"name": "APS", "u": {}}, {"name": 3}, {"name": "APS", "more": 1}],
    "label_names": [
        "abc",
        [1, "b", 3],
        [1.0, 2.0, 3.0],
        [True, 5, 6],
        [0, 1, 2],
        ["a", "b"],
        {"a": 1},
    ],
    "more": ["facts than are declared"],
}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, values in ODD.items() for v in values])
def test_a_site_that_says_odd_things_of_itself_is_left_out(net, key, value):
    net.fault = lambda name, envelope, answer: (
        with_facts(answer(), **{key: value}) if name == "s1" else answer()
    )
    server = exact(net, quorum=3)
    assert server.go().sites == ("s0", "s2", "s3")
    assert set(server.coordinator.missing) == {"node 1"}
    with pytest.raises(fc.FedcoverError, match=r"3 sites .* node 1 said"):
        exact(net).go()


def test_sites_that_do_not_fit_together_and_equal_names_are_refused(tmp_path):
    for k, other in enumerate(
        [fc.Site("s9", [0.5, 0.6], [0, 1], n_classes=4), made(1, n_classes=3)[0]]
    ):
        net = Net(tmp_path / str(k), [*made(2), other], policy=OPEN, roster=["s0", "s1", "s9"])
        with pytest.raises(
            fc.FedcoverError, match=r"differ in n_classes|two sites are called 's0'"
        ):
            exact(net).go()
