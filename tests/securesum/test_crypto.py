"""The pieces of cryptography against published values, and shares by their law."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from fedcover.securesum import crypto


def test_mask_words_are_the_keystream_of_chacha20():
    """Key 0, nonce 0, block 0: RFC 8439, appendix A.1, test vector 1."""
    words = crypto.mask_words(bytes(32), 8)
    assert words.astype("<u8").tobytes() == bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )


def test_every_bit_of_a_seed_counts():
    seeds = [bytes(32)] + [(1 << k).to_bytes(32, "little") for k in range(256)]
    assert len({crypto.mask_words(seed, 4).tobytes() for seed in seeds}) == 257


def test_two_sites_find_the_same_key_for_one_purpose():
    a, b, c = (crypto.new_secret() for _ in range(3))
    key = crypto.shared_key(a, crypto.public_of(b), b"masks")
    assert key == crypto.shared_key(b, crypto.public_of(a), b"masks")
    assert len(key) == 32
    assert key != crypto.shared_key(a, crypto.public_of(b), b"shares")
    assert key != crypto.shared_key(a, crypto.public_of(c), b"masks")


@pytest.mark.parametrize(
    ("private", "public"),
    [
        (
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
        ),
        (
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
        ),
    ],
)
def test_public_keys_are_those_of_x25519(private, public):
    """RFC 7748, section 6.1."""
    assert crypto.public_of(bytes.fromhex(private)).hex() == public


@pytest.mark.parametrize(("threshold", "count"), [(2, 3), (3, 5), (4, 5), (5, 5)])
def test_any_threshold_of_the_shares_give_the_secret_and_fewer_do_not(threshold, count):
    secret = crypto.new_secret()
    shares = dict(enumerate(crypto.split(secret, threshold, count)))
    assert {len(share) for share in shares.values()} == {32}
    for some in combinations(shares, threshold):
        assert crypto.combine({k: shares[k] for k in some}) == secret
    for some in combinations(shares, threshold - 1):
        assert crypto.combine({k: shares[k] for k in some}) != secret


def test_a_share_belongs_to_its_position():
    secret = crypto.new_secret()
    a, b, _ = crypto.split(secret, 2, 3)
    assert crypto.combine({0: a, 1: b}) == secret
    assert crypto.combine({1: a, 0: b}) != secret


def test_joined_parts_are_told_apart():
    texts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), (b"ab", b"c", b"")]
    assert len({crypto.joined(*parts) for parts in texts}) == len(texts)


def test_sealing_twice_gives_different_bytes():
    key = crypto.new_secret()
    assert crypto.seal(key, bytes(64), b"") != crypto.seal(key, bytes(64), b"")


@pytest.mark.parametrize("package", ["cryptography", "Crypto"])
def test_a_missing_package_is_named_with_what_to_install(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import fedcover\n"
        "try:\n    import fedcover.securesum\n"
        "except fedcover.FedcoverError as e:\n    print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert package in done.stdout
    assert "pip install 'fedcover[secure]'" in done.stdout


def test_another_import_error_is_not_hidden():
    code = (
        "import sys; sys.modules['fedcover.securesum.masks'] = None\n"
        "try:\n    import fedcover.securesum\n"
        "except ModuleNotFoundError as e:\n    print(e.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "fedcover.securesum.masks"


def test_importing_fedcover_does_not_import_the_cryptography():
    code = "import fedcover, sys; print({'cryptography', 'Crypto'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_mask_words_of_different_lengths_start_alike():
    seed = crypto.new_secret()
    assert np.array_equal(crypto.mask_words(seed, 9)[:5], crypto.mask_words(seed, 5))
