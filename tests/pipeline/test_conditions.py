"""What held at one run only makes no environment of its own."""

import pytest

from benchapp.models import Environment, Run
from benchapp.pipeline.conditions import PartedEnvironment, part_environment
from benchapp.pipeline.normalize import normalize_batch
from tests.factories import make_host
from tests.pipeline.test_normalize import submit

IDLE = {"reads_per_s": 0.0, "writes_per_s": 0.5, "busy_percent": 0.1}


def test_load_and_io_of_others_are_taken_out():
    environment = {
        "kernel": "6.1.0",
        "facts": {"load_before": "0.4", "other_io_before": IDLE, "disks": ["vda"]},
    }

    assert part_environment(environment) == PartedEnvironment(
        {"kernel": "6.1.0", "facts": {"disks": ["vda"]}}, {"load_before": "0.4", "other_io_before": IDLE}
    )


@pytest.mark.parametrize("environment", [{}, {"facts": None}, {"kernel": "6.1.0", "facts": {"disks": []}}])
def test_environment_without_them_stays_as_it_is(environment):
    assert part_environment(environment) == PartedEnvironment(environment, {})


@pytest.mark.django_db
def test_runs_under_other_loads_share_their_environment():
    host = make_host()
    for load in (0.4, 7.5):
        submit(host, environment={"kernel": "6.1.0", "facts": {"load_before": load, "other_io_after": IDLE}})

    normalize_batch()

    assert Environment.objects.get().facts == {}
    conditions = sorted(run.command["conditions"]["load_before"] for run in Run.objects.all())
    assert conditions == ["0.4", "7.5"]
    assert "busy_percent" in Run.objects.first().command["conditions"]["other_io_after"]
