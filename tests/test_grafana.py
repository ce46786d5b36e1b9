"""The dashboards of docs/grafana: every request that they make is answered, with the columns that they show."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from benchapp.models import Scope
from tests.factories import (
    NOON,
    add_series,
    make_change,
    make_host,
    make_incident,
    make_planned_event,
    make_target,
    make_token,
)

FILES = sorted((Path(__file__).parent.parent / "docs" / "grafana").glob("*.json"))
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in FILES}
# What a reader selects, and what Grafana sends for All.
CHOSEN = {
    "one": {"host": ["db-1", "db-2"], "volume_type": ["gp3"], "volume_count": ["4"], "pattern": ["randread"]},
    "all": {"host": ["*"], "volume_type": ["gp3"], "volume_count": [">=0"], "pattern": ["randread"]},
}
FROM, TO = NOON - timedelta(days=30), NOON + timedelta(days=30)
# Of a type of column: whether a value is one.
TYPES = {
    "string": lambda value: value is None or isinstance(value, str | int | bool),
    "number": lambda value: value is None or (isinstance(value, int | float) and not isinstance(value, bool)),
    "timestamp": lambda value: value is None or datetime.fromisoformat(value).year > 2000,
}


def interpolate(text: str, chosen: dict[str, list[str]]) -> str:
    """Replace the variables of a text as Grafana does: ${name}, ${name:csv}, $name, ${__from}."""
    times = {"__from": FROM, "__to": TO}

    def replace(found: re.Match[str]) -> str:
        name, answer_format = found["name"] or found["bare"], found["format"] or ""
        if name in times:
            moment = times[name]
            return moment.isoformat() if answer_format == "date:iso" else str(int(moment.timestamp() * 1000))
        values = chosen[name]
        assert answer_format == "csv" or len(values) == 1, f"{name} has several values: write ${{{name}:csv}}"
        return ",".join(values)

    return re.sub(r"\$\{(?P<name>\w+)(?::(?P<format>[\w:]+))?\}|\$(?P<bare>\w+)", replace, text)


def list_queries(dashboard: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the queries of variables, annotations and panels, each with a name."""
    for each in dashboard["templating"]["list"]:
        if each["type"] == "query":
            yield f"variable {each['name']}", each["query"]["infinityQuery"]
    for each in dashboard["annotations"]["list"]:
        yield f"annotation {each['name']}", each["target"]
    for each in dashboard["panels"]:
        for target in each["targets"]:
            yield f"panel {each['title']} {target['refId']}", target


QUERIES = [(name, *query) for name, dashboard in DASHBOARDS.items() for query in list_queries(dashboard)]


@pytest.fixture
def reader(db: None) -> Client:
    """Plant a fleet with a regression and a planned event; give a client with a token that reads."""
    target = make_target(volume_type="gp3", volume_count=4)
    series = [
        add_series([1000.0, 1010.0, 990.0, 800.0], host=make_host(name), target=target, start_at=NOON)
        for name in ("db-1", "db-2")
    ]
    make_incident(changes=[make_change(series[0], before=1000.0, after=800.0)])
    make_planned_event()
    return Client(headers={"Authorization": f"Bearer {make_token(Scope.READ)[1]}"})


@pytest.mark.parametrize("choice", CHOSEN)
@pytest.mark.parametrize(("dashboard", "name", "query"), QUERIES, ids=lambda each: str(each)[:60])
def test_request_of_a_dashboard_is_answered_with_its_columns(
    dashboard: str,
    name: str,
    query: dict[str, Any],
    choice: str,
    reader: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON + timedelta(hours=6))
    chosen = {**CHOSEN[choice], "metric": ["iops"]}
    parameters = {each["key"]: interpolate(each["value"], chosen) for each in query["url_options"]["params"]}

    answer = reader.get(interpolate(query["url"], chosen), parameters)

    assert answer.status_code == 200, answer.content
    rows = json.loads(b"".join(answer) if answer.streaming else answer.content)[query["root_selector"]]
    assert rows, "no rows"
    for column in query["columns"]:
        values = [row[column["selector"]] for row in rows]
        assert all(map(TYPES[column["type"]], values)), (column, values[:3])
        assert any(value is not None for value in values) or column["selector"] in ("severity", "incident")


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboard_is_complete(name: str) -> None:
    dashboard = DASHBOARDS[name]
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{(\w+)", json.dumps(dashboard))) - {"__from", "__to", "__value"}

    assert used <= variables
    assert {each["name"] for each in dashboard["annotations"]["list"]} == {"Regressions", "Planned events"}
    # Nothing lies over something else.
    cells = [
        (x, y)
        for box in (each["gridPos"] for each in dashboard["panels"])
        for x in range(box["x"], box["x"] + box["w"])
        for y in range(box["y"], box["y"] + box["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({each["id"] for each in dashboard["panels"]}) == len(dashboard["panels"])


def test_times_are_interpolated_as_grafana_does() -> None:
    assert interpolate("${__from}", {}) == str(int(FROM.timestamp() * 1000))
    assert interpolate("${__to:date:iso}", {}) == TO.astimezone(UTC).isoformat()
    assert (
        interpolate("host:${host:csv} $metric", {"host": ["a", "b"], "metric": ["iops"]}) == "host:a,b iops"
    )
