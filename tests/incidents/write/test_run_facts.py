"""Facts that are compared between runs."""

import pytest

from benchapp.incidents.write.suspects import compare_facts, read_facts_of, with_facts
from benchapp.models import Run
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


def test_suspend_throttling_and_governor_of_a_run_are_suspects() -> None:
    quiet = {"suspended_s": 0, "cpu_throttle_events": 0, "governor_change": "none"}
    # The position in a sweep differs always.
    before = make_run(command={"conditions": {**quiet, "sweep_step": 1}})
    after = make_run(
        command={
            "conditions": {
                "suspended_s": 60.0,
                "cpu_throttle_events": 4,
                "governor_change": "performance → powersave",
                "sweep_step": 2,
            }
        }
    )

    found = compare_facts(*(read_facts_of(run) for run in (_reload(before), _reload(after))))

    assert [
        (each.name, each.before, each.after) for each in found if each.name in (*quiet, "sweep_step")
    ] == [
        ("cpu_throttle_events", "0", "4"),
        ("governor_change", "none", "performance → powersave"),
        ("suspended_s", "0", "60.0"),
    ]


def _reload(run: Run) -> Run:
    return with_facts(Run.objects.filter(pk=run.pk)).get()
