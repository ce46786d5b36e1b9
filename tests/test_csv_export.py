"""CSV that a spreadsheet opens: what a reader gets back, and that no cell is a formula."""

import csv
import io
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.framework.csv_export import Cell, write_csv

FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def read_back(body: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(body.decode(), newline=""), strict=True))


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1+1", "'\t=1+1"),
        ("\r=1+1", "'\r=1+1"),
        ("\n=1+1", "'\n=1+1"),
        ("\r\n=1+1", "'\r\n=1+1"),
        ("＝1+1", "'＝1+1"),
        ("＋1", "'＋1"),
        ("－1", "'－1"),
        ("＠SUM(A1)", "'＠SUM(A1)"),
        ("a\r=1+1", "a\r=1+1"),
        ("a\n=1+1", "a\n=1+1"),
        ('a","=1+1', 'a","=1+1'),
        ("a;=1+1", "a;=1+1"),
        ("db-7", "db-7"),
        ("", ""),
        (None, ""),
        (-1, "-1"),
        (-1.5, "-1.5"),
        (Decimal("-0.25"), "-0.25"),
        (0.1, "0.1"),
        (33415.123456789, "33415.1"),
        (2345.678912, "2345.68"),
        (-1234567.89, "-1234568"),
        (99999.96, "100000"),
        (1000.0, "1000"),
        (0.000051234567, "5.12346e-05"),
        (12345678901, "12345678901"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_text_is_escaped_and_numbers_stay_numbers(value: Cell, cell: str) -> None:
    assert read_back(write_csv(["value", "after"], [[value, "end"]])) == [["value", "after"], [cell, "end"]]


def test_every_cell_is_quoted_and_lines_end_in_crlf() -> None:
    assert write_csv(["a", "b"], [["\r=1+1", -1], [None, 'x"y']]) == (
        b'"a","b"\r\n"\'\r=1+1","-1"\r\n"","x""y"\r\n'
    )


def test_names_of_columns_are_escaped_too() -> None:
    assert read_back(write_csv(["=cmd()"], [])) == [["'=cmd()"]]


@settings(max_examples=60)
@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
    )
)
def test_any_text_reads_back_and_is_not_a_formula(texts: list[str]) -> None:
    cells = [row[0] for row in read_back(write_csv(["text"], [[text] for text in texts]))][1:]

    assert [cell.removeprefix("'") for cell in cells] == [text.removeprefix("'") for text in texts]
    assert not [cell for cell in cells if cell.startswith(FORMULA_BEGINNINGS)]
