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


@pytest.mark.parametrize(("old", "differs"), [(None, False), ("0.1.0", True)])
def test_agent_that_reports_its_version_first_is_no_suspect(old: str | None, differs: bool) -> None:
    before = make_run(environment=make_environment(kernel="6.1", agent_version=old, device_driver=None))
    after = make_run(environment=make_environment(kernel="6.1", agent_version="0.2.0", device_driver="nvme"))

    found = compare_facts(read_facts_of(before), read_facts_of(after))

    assert [each.name for each in found] == (["agent_version"] if differs else [])
