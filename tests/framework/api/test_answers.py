"""Types of answers: how they are made of rows, encoded and described."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated
from uuid import UUID

import pytest
from msgspec import Meta

from benchapp.framework.api.answers import (
    ApiAnswer,
    ChosenColumns,
    Time,
    build,
    dump_json,
    list_columns,
    with_columns,
)
from benchapp.framework.api.openapi import describe_answers
from benchapp.models import DirectionName


@dataclass(frozen=True, slots=True)
class Disk:
    name: str
    size_bytes: int | None = None

    @property
    def is_known(self) -> bool:
        return self.size_bytes is not None


@dataclass(frozen=True)
class Place:
    name: str
    rack: str


@with_columns(Disk)
class DiskAnswer(ApiAnswer, kw_only=True, frozen=True):
    is_known: bool
    rack: str
    url: Annotated[str, Meta(description="where it is")]


@with_columns(DiskAnswer)
class DiskRowAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A disk in a list."""


@with_columns(DiskAnswer, optional={"iops": float | None, "runs": int})
class MeasuredAnswer(ApiAnswer, kw_only=True, frozen=True):
    at: Time | None
    direction: DirectionName | None
    other: Disk | None


def test_fields_are_values_and_attributes_of_the_first_source_that_has_them():
    answer = build(DiskAnswer, Disk("sda", 5), Place("elsewhere", "r1"), url="/disks/sda")

    assert answer == DiskAnswer(name="sda", size_bytes=5, is_known=True, rack="r1", url="/disks/sda")


def test_value_goes_before_the_attribute_of_a_source():
    assert build(DiskAnswer, Disk("sda"), rack="r1", url="", name="sdb").name == "sdb"


def test_field_that_is_nowhere_is_an_error():
    with pytest.raises(TypeError, match="rack"):
        build(DiskAnswer, Disk("sda"), url="")


def test_answer_can_be_the_source_of_another():
    answer = DiskAnswer(name="sda", size_bytes=None, is_known=False, rack="r1", url="/")

    assert dump_json(build(DiskRowAnswer, answer)) == dump_json(answer)


def test_columns_are_in_the_order_of_the_classes():
    assert list_columns(DiskAnswer) == ("name", "size_bytes", "is_known", "rack", "url")


def test_column_without_a_value_is_left_out():
    place = {"name": "sda", "size_bytes": None, "is_known": False, "rack": "r1", "url": "/"}
    answer = MeasuredAnswer(**place, at=None, direction=None, other=None, iops=None)

    body = json.loads(dump_json(answer))

    assert "runs" not in body
    assert body["iops"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 11, 21, 10, tzinfo=UTC), '"2026-11-21T10:00:00Z"'),
        (float("nan"), "null"),
        (float("-inf"), "null"),
        (Decimal("1.5"), "1.5"),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (DirectionName.READ, '"read"'),
        (MappingProxyType({"a": (1, 2.5)}), '{"a":[1,2.5]}'),
        (Disk("sda"), '{"name":"sda","size_bytes":null}'),
    ],
)
def test_json_of_a_value(value, text):
    assert dump_json(value).decode() == text


def describe(kind) -> Mapping[str, dict]:
    return describe_answers([kind])[kind.__name__]


def test_schema_has_null_in_the_type_and_no_titles():
    schema = describe(MeasuredAnswer)

    assert schema["properties"]["size_bytes"] == {"type": ["integer", "null"]}
    assert schema["properties"]["at"] == {"type": ["string", "null"], "format": "date-time"}
    assert schema["properties"]["url"] == {"type": "string", "description": "where it is"}
    assert schema["properties"]["direction"]["type"] == ["string", "null"]
    assert schema["properties"]["direction"]["enum"] == [*DirectionName.values, None]
    assert schema["properties"]["other"] == {
        "anyOf": [{"$ref": "#/components/schemas/Disk"}, {"type": "null"}]
    }
    assert "title" not in schema


def test_schema_requires_what_is_always_there():
    required = ["name", "size_bytes", "is_known", "rack", "url", "at", "direction", "other"]

    assert sorted(describe(MeasuredAnswer)["required"]) == sorted(required)
    assert "required" not in describe(DiskRowAnswer)
