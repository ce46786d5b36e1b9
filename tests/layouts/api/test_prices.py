"""Prices over the API."""

from datetime import date, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.layouts.read.prices import find_region, list_prices, select_prices
from benchapp.layouts.write import PRICE_RESTORABLE, UnknownPrice, remove_price, restore_price
from benchapp.models import AuditRecord, Price
from tests.factories import make_price

pytestmark = pytest.mark.django_db
PATH = "/api/v1/prices"
CSV = "volume_type,region,currency,valid_from,per_gib_month\ngp3,eu,USD,2026-01-01,0.08\ngp3,eu,USD,2026-07-01,0.07\n"


def put(client: Client, text: str) -> tuple[int, dict[str, object]]:
    response = client.put(PATH, text, content_type="text/csv")
    return response.status_code, response.json()


def test_csv_is_stored_and_a_changed_price_replaces_the_stored_one(admin: Client, reader: Client) -> None:
    assert put(admin, CSV) == (200, {"added": 2, "replaced": 0, "unchanged": 0})
    assert put(admin, CSV.replace("0.08", "0.09")) == (200, {"added": 0, "replaced": 1, "unchanged": 1})

    rows = reader.get(PATH).json()["prices"]
    assert [(row["valid_from"], row["valid_until"], row["per_gib_month"]) for row in rows] == [
        ("2026-01-01", "2026-07-01", 0.09),
        ("2026-07-01", None, 0.07),
    ]
    assert [
        (record.action, record.via[:6]) for record in AuditRecord.objects.filter(kind="price").order_by("id")
    ] == [
        ("added", "bench_"),
        ("added", "bench_"),
        ("replaced", "bench_"),
    ]


def test_export_can_be_sent_back_without_a_change(admin: Client) -> None:
    make_price(per_iops_month=0.00005)
    make_price(instance_type="m5.4xlarge", per_hour=0.768, region="us-east-1")

    exported = admin.get(f"{PATH}?format=csv").content.decode()

    assert put(admin, exported) == (200, {"added": 0, "replaced": 0, "unchanged": 2})


def test_price_of_a_day_is_that_of_the_last_first_day_before_it(admin: Client) -> None:
    put(admin, CSV)
    prices = list_prices()

    def find(day: date) -> float | None:
        amounts = select_prices(prices, region="eu", day=day).volumes.get("gp3")
        return None if amounts is None else amounts.per_gib_month

    days = [date(2025, 12, 31), date(2026, 1, 1), date(2026, 6, 30), date(2026, 7, 1)]
    assert [find(day) for day in days] == [None, 0.08, 0.08, 0.07]
    assert select_prices(prices, region="us", day=date(2026, 7, 1)).volumes == {}


def test_price_without_a_region_holds_in_each_region_of_its_currency(admin: Client) -> None:
    make_price(per_gib_month=0.01)
    make_price(volume_type="io2", per_gib_month=0.02)
    make_price(region="eu", per_gib_month=0.03)
    make_price(region="ch", currency="CHF", per_gib_month=0.04)
    make_price(region="as", valid_from=date(2030, 1, 1))
    prices, day = list_prices(), date(2026, 7, 1)

    found = {region: select_prices(prices, region=region, day=day) for region in ("eu", "ch", "as", "")}

    amounts = {
        region: (prices.currency, {name: each.per_gib_month for name, each in prices.volumes.items()})
        for region, prices in found.items()
    }
    assert amounts == {
        "eu": ("USD", {"gp3": 0.03, "io2": 0.02}),
        "ch": ("CHF", {"gp3": 0.04}),
        "as": ("USD", {"gp3": 0.01, "io2": 0.02}),
        "": ("USD", {"gp3": 0.01, "io2": 0.02}),
    }
    # The prices of "as" are not valid yet.
    assert find_region(prices, None, day=day) == "ch"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (CSV.replace("0.07", "x"), "line 3, per_gib_month: 'x' is not a valid amount"),
        (CSV.replace("USD,2026-07", "EUR,2026-07"), "currency: region 'eu' would have prices in EUR and USD"),
        ("\n", "the header line is missing"),
    ],
)
def test_invalid_csv_stores_nothing(admin: Client, text: str, detail: str) -> None:
    status, body = put(admin, text)

    assert (status, body["code"]) == (400, "value-invalid")
    assert detail in str(body["detail"])
    assert not Price.objects.exists()


def test_invalid_json_names_the_row(admin: Client) -> None:
    row = {"volume_type": "gp3", "currency": "USD", "valid_from": "2026-01-01", "per_gib_month": 1e-9}

    first = admin.put(PATH, {"prices": [row, row]}, content_type="application/json")
    second = admin.put(PATH, {"prices": [row]}, content_type="application/json")

    assert "line 2" in first.json()["detail"]
    assert (second.json()["added"], Price.objects.get().per_gib_month) == (1, 1e-9)


def test_deleted_price_can_be_restored_for_a_day(admin: Client) -> None:
    price = make_price()

    assert admin.delete(f"{PATH}/{price.pk}").status_code == 204
    assert admin.delete(f"{PATH}/{price.pk}").status_code == 404
    assert list_prices() == []
    restore_price(price.pk, by=None)
    assert [row.per_gib_month for row in list_prices()] == [0.08]

    (row,) = list_prices()
    remove_price(row.id, by=None)
    Price.objects.update(removed_at=timezone.now() - PRICE_RESTORABLE - timedelta(minutes=1))
    with pytest.raises(UnknownPrice):
        restore_price(row.id, by=None)
