"""The lists of a configuration file have everything that people configure, column by column."""

from benchapp.operation.configuration.plan import SECTIONS
from tests.operation.configuration.tables import CONFIGURED

# Who did what when, and what the server notes.
_TRACES = {
    *("id", "uid", "created_at", "created_by", "updated_at", "updated_by"),
    *("canceled_at", "canceled_by", "ended_at", "ended_by", "removed_at"),
}
# Columns that a file does not have: what hosts report, secrets, states, and the incident that an event mutes.
LEFT_OUT = {
    "hosts": {
        *("agent_version", "agent_installation", "dropped_at", "dropped_count", "clock_offset_s"),
        *("last_seen_at", "retired_at", "run_count", "new_series_on", "new_series_count"),
        *("schedule", "schedule_reported_by", "schedule_since_at"),
    },
    "planned_events": {"incident"},
    "subscriptions": {"failures", "is_active", "paused_reason", "secret"},
    "studies": {"share_token"},
}
# A column and its member in the unit of the file.
RENAMED = {"every_s": "every", "at_minute": "at", "splay_s": "splay_min"}


def test_every_column_that_people_configure_is_a_member_of_its_list() -> None:
    columns = {
        name: {RENAMED.get(field.name, field.name) for field in model._meta.local_fields}
        - _TRACES
        - LEFT_OUT.get(name, set())
        for name, model in CONFIGURED.items()
    }

    assert columns == {section.name: set(section.members) for section in SECTIONS}
