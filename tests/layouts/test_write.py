"""Prices of a CSV."""

from datetime import date
from pathlib import Path

import pytest

from benchapp.layouts.write import BadPrices, read_price_table

HEAD = "volume_type,instance_type,region,currency,valid_from,per_gib_month,per_hour"
EXAMPLE = Path(__file__).parents[2] / "docs" / "prices" / "example.csv"


def test_example_of_the_documentation_is_valid_and_marked_as_an_example() -> None:
    text = EXAMPLE.read_text()

    rows = {row.volume_type or row.instance_type: row for row in read_price_table(text)}

    assert text.startswith("# EXAMPLE, not loaded by default")
    assert (rows["gp3"].per_iops_month, rows["gp3"].included_iops) == (0.005, 3000)
    assert (rows["m5.4xlarge"].per_hour, rows["m5.4xlarge"].valid_from) == (0.768, date(2024, 1, 1))


def test_types_are_in_lower_case_as_those_of_layouts_and_missing_columns_are_empty() -> None:
    (row,) = read_price_table(
        "\ufeffCurrency,valid_from,per_gib_month,volume_type\r\nEUR,2026-02-01,0.1,GP3\r\n"
    )

    assert (row.volume_type, row.region, row.currency, row.per_iops_month) == ("gp3", "", "EUR", 0.0)


@pytest.mark.parametrize(
    ("line", "where", "why"),
    [
        ("gp3,,,USD,2026-01-01,abc,", "line 2, per_gib_month", "'abc' is not a valid amount"),
        ("gp3,,,USD,2026-01-01,-1,", "line 2, per_gib_month", "not a valid amount"),
        ("gp3,,,USD,2026-01-01,99999999999,", "line 2, per_gib_month", "not a valid amount"),
        ("gp3,,,dollar,2026-01-01,1,", "line 2, currency", "three capital letters"),
        ("gp3,,,USD,1.1.2026,1,", "line 2, valid_from", "YYYY-MM-DD"),
        ("gp3,,,,2026-01-01,1,", "line 2, currency", "the cell is empty"),
        ("gp3,m5,,USD,2026-01-01,1,", "line 2, volume_type", "either a volume type or an instance type"),
        (",m5,,USD,2026-01-01,1,2", "line 2, per_gib_month", "not part of the price of an instance type"),
        (",m5,,USD,2026-01-01,,", "line 2, per_hour", "missing"),
        ("gp3,,,USD,2026-01-01,1,2", "line 2, per_hour", "not part of the price of a volume type"),
        ("gp3,,,USD,2026-01-01,,", "line 2, per_gib_month", "the price is missing"),
        ("gp3,,,USD", "line 2", "4 cells, but 7 columns"),
        ("gp\x003,,,USD,2026-01-01,1,", "line 2, volume_type", "cannot be shown"),
        ("gp3,,,USD,2026-01-01,1,\nGP3,,,USD,2026-01-01,2,", "line 3", "as line 2"),
    ],
)
def test_invalid_cell_is_named_by_line_and_column(line: str, where: str, why: str) -> None:
    with pytest.raises(BadPrices) as caught:
        read_price_table(f"{HEAD}\n{line}\n")

    (fault,) = caught.value.faults
    assert str(fault).startswith(f"{where}: ")
    assert why in fault.message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the header line is missing"),
        (f"# only a comment\n{HEAD}\n", "line 2: no rows"),
        ("volume_type,price\n", "line 1: unknown column 'price'"),
        ("volume_type,volume_type,currency,valid_from\n", "line 1, volume_type: duplicate"),
        ("volume_type,currency\n", "line 1, valid_from: the column is missing"),
    ],
)
def test_invalid_header_is_an_error(text: str, why: str) -> None:
    with pytest.raises(BadPrices, match=why):
        read_price_table(text)
