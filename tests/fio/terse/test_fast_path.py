"""The fast path and reading field by field give the same values."""

import pytest

from benchapp.fio.terse.fast_path import read_plain_line
from benchapp.fio.terse.line import UnreadableTerse, read_line
from tests.fio.outputs import read_bytes

V3 = read_bytes("versions/fio-3.28/terse_v3.txt").decode().strip()


def with_field(place: int, value: str) -> str:
    fields = V3.split(";")
    return ";".join((*fields[:place], value, *fields[place + 1 :]))


def test_line_of_fio_takes_the_fast_path() -> None:
    plain = read_plain_line(V3, stride=41)

    assert plain is not None
    assert plain.head == ["3", "fio-3.28", "mix", "0", "0"]
    assert (plain.blocks, plain.length, len(plain.numbers), len(plain.further)) == (2, 61, 156, 9)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (5, "-1"),
        (5, "007"),
        (9, "nan"),
        (11, "1e3"),
        (17, "%1=38"),
        (36, "%0=0"),
        (36, "0%1=0"),
        (88, "3.0%5"),
    ],
)
def test_line_with_an_unusual_field_is_read_field_by_field(place: int, value: str) -> None:
    assert read_plain_line(with_field(place, value), stride=41) is None


def test_number_of_more_than_forty_characters_is_refused() -> None:
    line = with_field(44, "97200." + "1" * 40)

    with pytest.raises(UnreadableTerse, match=r"97200\.1"):
        read_line(line, number=1, hostname=None, is_last=False)


def test_leading_zeros_are_ignored() -> None:
    plain, odd = (
        read_line(line, number=1, hostname=None, is_last=False) for line in (V3, with_field(5, "0094060"))
    )

    assert plain == odd
