"""Ids inside the events of incidents become those of the instance that imports them."""

import pytest

from benchapp.operation.archive.references import rewrite_before

IDS = {
    "authors": {1: 101},
    "incidents": {7: 107, 8: 108},
    "planned_events": {4: 104},
    "changes": {30: 130, 31: 131},
    "series": {50: 150},
}


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ({}, {}),
        ({"state": "new", "link": "https://t.example/7"}, {"state": "new", "link": "https://t.example/7"}),
        ({"assignee_id": 1}, {"assignee_id": 101}),
        ({"assignee_id": None, "planned_event_id": 4}, {"assignee_id": None, "planned_event_id": 104}),
        # Without an account here, or of an incident that was not imported.
        ({"assignee_id": 2, "merged_into_id": 9}, {"assignee_id": None, "merged_into_id": None}),
        ({"split_into": 8, "changes": [30, 32, 31]}, {"split_into": 108, "changes": [130, 131]}),
        ({"split_into": 9, "changes": [30]}, {"changes": [130]}),
        (
            {"changes_from": {"7": [30], "9": [31]}, "closed": {"7": {"state": "new", "merged_into_id": 8}}},
            {"changes_from": {"107": [130]}, "closed": {"107": {"state": "new", "merged_into_id": 108}}},
        ),
        (
            {"baselines": [[50, "iops", None], [51, "iops", None]], "bulk": "b1"},
            {"baselines": [[150, "iops", None]], "bulk": "b1"},
        ),
    ],
)
def test_ids_are_translated_and_missing_ones_left_out(before: dict, expected: dict) -> None:
    assert rewrite_before(before, IDS) == expected
