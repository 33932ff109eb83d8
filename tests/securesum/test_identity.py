"""Keys of sites as ssh-keygen writes them, and nothing weaker."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fedcover.errors import FedcoverError
from fedcover.identity import is_signed, sign
from fedcover.securesum import Participant, load_identity, load_roster

GOOD = [lambda: ec.generate_private_key(ec.SECP384R1()), Ed25519PrivateKey.generate]
WEAK = [
    lambda: ec.generate_private_key(ec.SECP256R1()),
    lambda: rsa.generate_private_key(65537, 2048),
]


def private_file(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def public_file(key):
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
@pytest.mark.parametrize("kind", [["ecdsa", "-b", "384"], ["ed25519"]])
def test_keys_of_ssh_keygen(tmp_path, kind):
    file = tmp_path / "mercy"
    make = ["ssh-keygen", "-q", "-N", "", "-C", "mercy@host", "-f", str(file), "-t", *kind]
    subprocess.run(make, check=True)
    key = load_identity(file.read_bytes())
    roster = load_roster({"mercy": (tmp_path / "mercy.pub").read_bytes()})
    Participant("mercy", key, roster)
    assert is_signed(roster, "mercy", sign(key, b"text"), b"text")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_key_with_a_passphrase_is_refused(tmp_path):
    file = tmp_path / "mercy"
    make = ["ssh-keygen", "-q", "-N", "secret", "-f", str(file), "-t", "ecdsa", "-b", "384"]
    subprocess.run(make, check=True)
    with pytest.raises(FedcoverError, match="without a passphrase"):
        load_identity(file.read_bytes())


@pytest.mark.parametrize("make", GOOD)
def test_signatures_fit_one_text_and_one_key(make):
    key, other = make(), make()
    roster = {"mercy": key.public_key(), "stjohn": other.public_key()}
    signature = sign(key, b"text")
    assert is_signed(roster, "mercy", signature, b"text")
    assert not is_signed(roster, "mercy", signature, b"test")
    assert not is_signed(roster, "stjohn", signature, b"text")
    assert not is_signed(roster, "eve", signature, b"text")
    for wrong in (b"", signature[:-1], signature + b"\0", bytes(len(signature))):
        assert not is_signed(roster, "mercy", wrong, b"text")


@pytest.mark.parametrize("make", WEAK)
def test_other_kinds_of_keys_are_refused(make):
    key = make()
    with pytest.raises(FedcoverError, match="identity key cannot be used"):
        load_identity(private_file(key))
    with pytest.raises(FedcoverError, match="roster's key of 'mercy' cannot be used"):
        load_roster({"mercy": public_file(key)})


@pytest.mark.parametrize("data", [b"", b"ssh-ed25519", b"not a key", "text", None])
def test_what_is_no_key_is_refused(data):
    with pytest.raises(FedcoverError, match="ssh-keygen -t ecdsa"):
        load_identity(data)
    with pytest.raises(FedcoverError, match="ssh-keygen -t ecdsa"):
        load_roster({"mercy": data})


def test_errors_do_not_quote_the_key():
    text = private_file(GOOD[0]()).replace(b"\n", b"\nX", 3)
    with pytest.raises(FedcoverError) as e:
        load_identity(text)
    assert e.value.__cause__ is None
    assert text.split(b"\n")[2].decode()[:20] not in str(e.value)


def test_two_names_for_one_key_are_refused():
    line = public_file(GOOD[0]())
    with pytest.raises(FedcoverError, match="one key for 'mercy' and 'stjohn'"):
        load_roster({"mercy": line, "stjohn": line + b" a comment"})


@pytest.mark.parametrize("name", ["", "a\nb"])
def test_unprintable_names_are_refused(name):
    with pytest.raises(FedcoverError, match="name in the roster"):
        load_roster({name: public_file(GOOD[0]())})


def test_without_the_package_there_is_one_clear_error():
    """In a process of its own: what is imported stays imported."""
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import fedcover as fc, fedcover.signature, fedcover.engines.remote.client\n"
        "try:\n    import fedcover.identity\n"
        "except fc.FedcoverError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "keys and signatures need the package" in done.stdout
    assert "pip install 'fedcover[secure]'" in done.stdout
