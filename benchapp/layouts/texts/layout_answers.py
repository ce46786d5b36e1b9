"""The answer to a layout question as it is remembered for a subscription."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.http import QueryDict

from benchapp.catalog.grammar import BadFilter
from benchapp.catalog.metrics import show_rates_in
from benchapp.framework.times import to_iso
from benchapp.layouts.read.prices import UnknownRegion, list_prices, select_prices
from benchapp.layouts.read.question_form import BadQuestion, read_question
from benchapp.layouts.read.ranking import LayoutRanking, RankedLayout, rank_layouts
from benchapp.layouts.rules.answers import LayoutFacts, RememberedAnswer
from benchapp.layouts.texts.layouts import (
    describe_lacks,
    describe_price,
    describe_requirement,
    format_layouts_title,
    format_load,
    format_throughput,
)


class NotAnswerable(Exception):
    """A question without an answer today; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """An answer of now. requirement: in words; layouts: those that were asked for, and those of the answer."""

    answer: RememberedAnswer
    requirement: str
    layouts: tuple[LayoutFacts, ...]


# The text is sent to readers with any units.
@show_rates_in("si")
def find_layout_answer(query: str, *, titles: Collection[str], now: datetime) -> FoundAnswer:
    """Return the answer to a question, as of `read_question`, and the facts of layouts. Raises NotAnswerable."""
    try:
        ranking = rank_layouts(read_question(QueryDict(query)), now=now)
    except (BadQuestion, BadFilter, UnknownRegion) as problem:
        raise NotAnswerable(str(problem)) from problem
    rows = ranking.all_rows
    best, closest = rows[0] if rows else None, ranking.closest
    answer = RememberedAnswer(
        sentence=format_layouts_title(ranking),
        best=None if best is None else _describe(best, ranking),
        closest=None if closest is None else _describe(closest, ranking),
        lacks="" if closest is None else "; ".join(describe_lacks(closest, ranking.currency)),
        prices=_identify_prices(ranking, now),
    )
    wanted = {*titles, *(each.title for each in (answer.best, answer.closest) if each is not None)}
    return FoundAnswer(
        answer,
        describe_requirement(ranking.question, ranking.currency),
        tuple(_describe(row, ranking) for row in rows if row.layout.title in wanted),
    )


def _describe(row: RankedLayout, ranking: LayoutRanking) -> LayoutFacts:
    price = "" if row.price_amount is None else f", {describe_price(row, ranking.currency)} per month"
    return LayoutFacts(
        title=row.layout.title,
        verdict=row.verdict,
        load=f"{format_throughput(row.load)}, {format_load(row.load, ranking.varying)}{price}",
        price=describe_price(row, ranking.currency) if row.price_amount is not None else "",
        runs=row.load.n,
        last_at=to_iso(row.load.last_at),
        incidents=tuple(sorted(row.incident_ids)),
    )


def _identify_prices(ranking: LayoutRanking, now: datetime) -> str:
    prices = select_prices(list_prices(), region=ranking.region, day=now.date())
    volumes, instances = (sorted(each.items()) for each in (prices.volumes, prices.instances))
    return hashlib.sha256(repr((prices.currency, volumes, instances)).encode()).hexdigest()[:16]
