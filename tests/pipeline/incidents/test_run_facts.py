"""Facts that are compared between runs."""

import pytest

from benchapp.pipeline.incidents.run_facts import compare_facts, read_facts_of
from tests.factories import make_environment, make_run

pytestmark = pytest.mark.django_db


def test_mount_option_is_a_suspect_and_time_zone_is_not() -> None:
    before = make_run(environment=make_environment(facts={"time_zone": "UTC", "mount_options": "noatime"}))
    after = make_run(environment=make_environment(facts={"time_zone": "Asia/Tokyo", "mount_options": "rw"}))

    (difference,) = compare_facts(read_facts_of(before), read_facts_of(after))

    assert (difference.name, difference.before, difference.after) == ("mount_options", "noatime", "rw")
