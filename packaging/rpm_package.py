"""A binary package for RHEL, Fedora and SUSE, as the RPM file format V4 describes it; needs no rpmbuild.

Lead, signature header, header, and a gzip-compressed cpio archive (rpm.org, "Package format"). Digests, no signature:
`rpm --addsign` adds one.
"""

import gzip
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

# Types of header entries, with the alignment of their values.
_INT16: Final = 3
_INT32: Final = 4
_STRING: Final = 6
_BINARY: Final = 7
_STRINGS: Final = 8
_I18N: Final = 9
_ALIGNMENTS: Final = {_INT16: 2, _INT32: 4}

_SIGNATURE_REGION: Final = 62
_HEADER_REGION: Final = 63
_SHA256_ALGORITHM: Final = 8
# Comparisons of a requirement.
_LESS: Final = 2
_GREATER: Final = 4
_EQUAL: Final = 8
_RPMLIB: Final = 1 << 24
_RPMLIB_REQUIREMENTS: Final = {
    "rpmlib(CompressedFileNames)": "3.0.4-1",
    "rpmlib(FileDigests)": "4.6.0-1",
    "rpmlib(PayloadFilesHavePrefix)": "4.0-1",
}


@dataclass
class _Header:
    """Entries of a header: (type, count, encoded values) by tag."""

    region: int
    entries: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)

    def add_text(self, tag: int, text: str, *, kind: int = _STRING) -> None:
        self.entries[tag] = (kind, 1, text.encode() + b"\0")

    def add_texts(self, tag: int, texts: Sequence[str]) -> None:
        self.entries[tag] = (_STRINGS, len(texts), b"".join(text.encode() + b"\0" for text in texts))

    def add_numbers(self, tag: int, numbers: Sequence[int], *, kind: int = _INT32) -> None:
        code = "H" if kind == _INT16 else "I"
        self.entries[tag] = (kind, len(numbers), struct.pack(f">{len(numbers)}{code}", *numbers))

    def add_bytes(self, tag: int, content: bytes) -> None:
        self.entries[tag] = (_BINARY, len(content), content)

    def encode(self) -> bytes:
        """Return magic, index and store; the region, which digests cover, is the whole header."""
        index, store = [], b""
        for tag, (kind, count, content) in sorted(self.entries.items()):
            store += b"\0" * (-len(store) % _ALIGNMENTS.get(kind, 1))
            index.append(struct.pack(">4I", tag, kind, len(store), count))
            store += content
        number = len(index) + 1
        region = struct.pack(">4I", self.region, _BINARY, len(store), 16)
        store += struct.pack(">2IiI", self.region, _BINARY, -16 * number, 16)
        return (
            b"\x8e\xad\xe8\x01\0\0\0\0"
            + struct.pack(">2I", number, len(store))
            + region
            + b"".join(index)
            + store
        )


def build_rpm(
    files: Mapping[str, tuple[bytes, int]], *, version: str, summary: str, description: str
) -> bytes:
    """Return the package bench-agent. files: (content, mode) by path without the leading slash."""
    name = f"bench-agent-{version}-1"
    archive = _pack(files)
    payload = gzip.compress(archive, mtime=0)
    header = _describe(files, version=version, summary=summary, description=description)
    header.add_texts(5092, [hashlib.sha256(payload).hexdigest()])
    header.add_numbers(5093, [_SHA256_ALGORITHM])
    encoded = header.encode()
    signature = _Header(_SIGNATURE_REGION)
    signature.add_text(269, hashlib.sha1(encoded, usedforsecurity=False).hexdigest())
    signature.add_text(273, hashlib.sha256(encoded).hexdigest())
    signature.add_numbers(1000, [len(encoded) + len(payload)])
    signature.add_bytes(1004, hashlib.md5(encoded + payload, usedforsecurity=False).digest())
    signature.add_numbers(1007, [len(archive)])
    signed = signature.encode()
    # Major and minor version, binary, noarch, name, Linux, type of the signature.
    lead = struct.pack(">4s2B2H66s2H16x", b"\xed\xab\xee\xdb", 3, 0, 0, 1, name.encode(), 1, 5)
    return lead + signed + b"\0" * (-len(signed) % 8) + encoded + payload


def _describe(
    files: Mapping[str, tuple[bytes, int]], *, version: str, summary: str, description: str
) -> _Header:
    header = _Header(_HEADER_REGION)
    header.add_texts(100, ["C"])
    for tag, text in (
        (1000, "bench-agent"),
        (1001, version),
        (1002, "1"),
        (1014, "MIT"),
        (1021, "linux"),
        (1022, "noarch"),
        (1044, f"bench-agent-{version}-1.src.rpm"),
        (1064, "4.14.0"),
        (1124, "cpio"),
        (1125, "gzip"),
        (1126, "9"),
        (5062, "utf-8"),
    ):
        header.add_text(tag, text)
    for tag, text in ((1004, summary), (1005, description), (1016, "Applications/System")):
        header.add_text(tag, text, kind=_I18N)
    # The same sources give the same bytes: no time of the build.
    header.add_numbers(1006, [0])
    header.add_numbers(1009, [sum(len(content) for content, _ in files.values())])
    _describe_files(header, files)
    requirements = [
        ("python3", _GREATER | _EQUAL, "3.8"),
        *((name, _LESS | _EQUAL | _RPMLIB, least) for name, least in _RPMLIB_REQUIREMENTS.items()),
    ]
    header.add_texts(1049, [name for name, _, _ in requirements])
    header.add_numbers(1048, [flags for _, flags, _ in requirements])
    header.add_texts(1050, [least for _, _, least in requirements])
    header.add_texts(1047, ["bench-agent"])
    header.add_numbers(1112, [_EQUAL])
    header.add_texts(1113, [f"{version}-1"])
    header.add_texts(5046, ["fio"])
    header.add_texts(5047, [""])
    header.add_numbers(5048, [0])
    return header


def _describe_files(header: _Header, files: Mapping[str, tuple[bytes, int]]) -> None:
    paths = [PurePosixPath("/") / name for name in sorted(files)]
    contents = [files[name] for name in sorted(files)]
    directories = sorted({f"{path.parent}/" for path in paths})
    header.add_numbers(1028, [len(content) for content, _ in contents])
    header.add_numbers(1030, [0o100000 | mode for _, mode in contents], kind=_INT16)
    header.add_texts(1035, [hashlib.sha256(content).hexdigest() for content, _ in contents])
    header.add_numbers(1116, [directories.index(f"{path.parent}/") for path in paths])
    header.add_texts(1117, [path.name for path in paths])
    header.add_texts(1118, directories)
    header.add_numbers(5011, [_SHA256_ALGORITHM])
    header.add_numbers(1096, list(range(1, len(paths) + 1)))
    for tag, number in ((1034, 0), (1037, 0), (1045, 2**32 - 1), (1095, 1)):
        header.add_numbers(tag, [number] * len(paths))
    header.add_numbers(1033, [0] * len(paths), kind=_INT16)
    for tag, text in ((1036, ""), (1039, "root"), (1040, "root"), (1097, "")):
        header.add_texts(tag, [text] * len(paths))


def _pack(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Return a cpio archive in the format newc."""
    packed = b"".join(
        _pack_member(f"./{name}", *files[name], inode=number)
        for number, name in enumerate(sorted(files), start=1)
    )
    return packed + _pack_member("TRAILER!!!", b"", 0, inode=0)


def _pack_member(name: str, content: bytes, mode: int, *, inode: int) -> bytes:
    encoded = name.encode() + b"\0"
    kind = 0o100000 if mode else 0
    fields = (inode, kind | mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    member = b"070701" + b"".join(b"%08x" % number for number in fields) + encoded
    member += b"\0" * (-len(member) % 4)
    return member + content + b"\0" * (-len(content) % 4)
