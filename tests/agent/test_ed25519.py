"""Signatures of RFC 8032, section 7.1, and altered ones."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.ed25519 import is_valid_key, is_valid_signature

# (public key, message, signature)
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
            "387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
            "4a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
    (
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        (
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
        (
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
            "3dca179c138ac17ad9bef1177331a704"
        ),
    ),
]
ORDER = 2**252 + 27742317777372353535851937790883648493


@pytest.mark.parametrize("vector", VECTORS)
def test_signature_of_the_standard_is_valid_and_that_of_another_text_is_not(
    vector: tuple[str, str, str],
) -> None:
    key, message, signature = (bytes.fromhex(text) for text in vector)

    assert is_valid_signature(key, message, signature)
    assert not is_valid_signature(key, message + b"\0", signature)


def test_altered_signatures_and_keys_are_not_valid() -> None:
    key, message, signature = (bytes.fromhex(text) for text in VECTORS[1])
    other = bytes.fromhex(VECTORS[2][0])
    scalar = int.from_bytes(signature[32:], "little") + ORDER

    altered = [
        (other, signature),
        (key, signature[:-1]),
        (key, b""),
        (key[:-1], signature),
        (key, bytes([signature[0] ^ 1]) + signature[1:]),
        (key, signature[:32] + bytes([signature[32] ^ 1]) + signature[33:]),
        # The same scalar modulo the order: section 5.1.7 requires the smaller one.
        (key, signature[:32] + scalar.to_bytes(32, "little")),
        (b"\xff" * 32, signature),
    ]

    assert [is_valid_signature(changed, message, signed) for changed, signed in altered] == [False] * 8


@pytest.mark.parametrize(
    ("key", "is_valid"),
    [
        (bytes.fromhex(VECTORS[0][0]), True),
        (b"\xff" * 32, False),
        (b"\x02" + bytes(31), False),
        (b"", False),
        # x is 0, and its sign 1.
        (b"\x01" + bytes(30) + b"\x80", False),
    ],
)
def test_key_is_a_point_of_the_curve(key: bytes, is_valid: bool) -> None:
    assert is_valid_key(key) is is_valid


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_documented_commands_make_a_key_and_a_valid_signature(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agent.md").read_text().partition("### Signatures")[2]
    generate, show_key, sign = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "bench-agent.pyz").write_bytes(b"archive")

    def run(command: str) -> bytes:
        return subprocess.check_output(
            ["bash", "-euo", "pipefail", "-c", command.partition("   #")[0]],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
        )

    run(generate)

    key, signature = base64.b64decode(run(show_key)), base64.b64decode(run(sign))
    assert is_valid_signature(key, b"archive", signature)
