"""The latencies of a series over time as its page shows them: a fan of percentiles and a heat map."""

from dataclasses import dataclass

from benchapp.queries.latency_history import Latencies
from benchapp.queries.series import SeriesRow
from benchapp.web.history_request import HistoryRequest, write_query
from benchapp.web.latency_table import LatencyTable, read_fan_table, read_heat_table
from benchapp.web.lines import say_request


@dataclass(frozen=True, slots=True)
class LatencyFigure:
    """One drawing: where its numbers are, the ways to get the same, and those of the newest runs."""

    url: str
    csv_url: str
    api_line: str
    file_name: str
    table: LatencyTable | None


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """The fan, and the heat map where fio printed bins; None where there is nothing to draw."""

    fan: LatencyFigure | None
    heat: LatencyFigure | None

    def __bool__(self) -> bool:
        """Say whether there is any."""
        return self.fan is not None or self.heat is not None


def make_latency_figures(
    row: SeriesRow, asked: HistoryRequest, *, has: Latencies, base_url: str
) -> LatencyFigures:
    """Return the figures for what the series has; a query for each."""
    query = write_query(**asked.bounds)

    def make(name: str, table: LatencyTable | None) -> LatencyFigure:
        address = f"/api/v1/series/{row.id}/{name}{'?' if query else ''}{query}"
        return LatencyFigure(
            url=address,
            csv_url=f"{address}{'&' if query else '?'}format=csv",
            api_line=say_request(f"{base_url}{address}"),
            file_name=f"series-{row.id}-{name}",
            table=table,
        )

    return LatencyFigures(
        make("percentiles", read_fan_table(row.id, asked.span)) if has.percentiles else None,
        make("histogram", read_heat_table(row.id, asked.span)) if has.bins else None,
    )
