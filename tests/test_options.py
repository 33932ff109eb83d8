"""An object of a class picked by name, with options given as key=value."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from fedcover.errors import FedcoverError
from fedcover.options import make, value_of


@dataclass(frozen=True)
class Mill:
    stones: int = 2
    grain: Any = None
    label: ClassVar[str] = "mill"
    worn: bool = field(default=False, init=False)


KINDS = {"mill": Mill}


def refused(name, options):
    with pytest.raises(FedcoverError) as error:
        make(KINDS, name, options, "method")
    return error.value


@pytest.mark.parametrize(
    ("text", "value"),
    [("True", True), ("false", False), ("none", None), ("7", 7), ("-1.5e-3", -0.0015),
     ("inf", float("inf")), ("rye", "rye"), ("", ""), ("0, .5,1", [0, 0.5, 1]),
     ("a,true", ["a", True])],
)  # fmt: skip
def test_values(text, value):
    read = value_of(text)
    assert read == value
    assert type(read) is type(value)


def test_an_object_with_its_options():
    assert make(KINDS, "Mill", None, "method") == Mill()
    assert make(KINDS, "mill", ["stones=3", "grain=a=b"], "method") == Mill(3, "a=b")


def test_an_unknown_name_is_answered_with_those_there_are():
    error = refused("oven", [])
    assert "'oven'" in error.given
    assert error.allowed == "mill"
    assert "--method" in error.fix


@pytest.mark.parametrize("option", ["speed=9", "stones", "label=x", "worn=true", "=3"])
def test_only_fields_that_can_be_set_are_options(option):
    error = refused("mill", [option])
    assert repr(option) in error.given
    assert error.allowed == "stones=…, grain=…"


def test_each_option_once():
    assert "'stones'" in refused("mill", ["stones=1", "stones=1"]).given


def test_an_option_of_an_earlier_version_says_what_to_use_instead():
    assert "certify" in refused("mill", ["mode=guaranteed"]).fix
