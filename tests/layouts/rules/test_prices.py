"""The price of a layout per month."""

import pytest

from benchapp.layouts.rules.ranking import PriceAmounts, PricedVolumes, add_instance, price_volumes

GIB, MIB = 2**30, 2**20
GP3 = PriceAmounts(0.08, 0.005, 3000, 0.04, 125)


def test_price_counts_size_and_what_is_provisioned_beyond_what_is_included() -> None:
    volumes = PricedVolumes(2, 500 * GIB, 10_000, 18_000.0, 400.0 * MIB)

    price = price_volumes(GP3, volumes)

    # Each: 500 × 0.08 + 7 000 × 0.005 + 75 × 0.04.
    assert price.amount == pytest.approx(2 * (40 + 35 + 3))
    # MiB/s are never recorded.
    assert price.is_minimum
    with_instance = add_instance(price, PriceAmounts(per_hour=0.768))
    assert with_instance.amount == pytest.approx(156 + 560.64)


@pytest.mark.parametrize(
    ("provisioned", "measured", "amount", "is_minimum"),
    [(3000, 2900.0, 40.0, False), (None, 2900.0, 40.0, False), (None, 5000.0, 50.0, True)],
)
def test_what_is_not_recorded_is_at_least_what_was_measured(
    provisioned: int | None, measured: float, amount: float, is_minimum: bool
) -> None:
    price = price_volumes(GP3, PricedVolumes(1, 500 * GIB, provisioned, measured, 100.0 * MIB))

    assert (price.amount, price.is_minimum) == (pytest.approx(amount), is_minimum)


@pytest.mark.parametrize(
    ("volumes", "missing"),
    [
        (PricedVolumes(None, GIB, 1, 1.0, 1.0), "number of volumes"),
        (PricedVolumes(0, GIB, 1, 1.0, 1.0), "number of volumes"),
        (PricedVolumes(1, None, 1, 1.0, 1.0), "size"),
        (PricedVolumes(1, GIB, None, None, 1.0), "provisioned IOPS"),
        (PricedVolumes(1, GIB, 1, 1.0, None), "provisioned bandwidth"),
    ],
)
def test_price_is_unknown_with_a_reason(volumes: PricedVolumes, missing: str) -> None:
    price = price_volumes(GP3, volumes)

    assert price.amount is None
    assert missing in price.missing
    assert add_instance(price, PriceAmounts(per_hour=1)).amount is None
