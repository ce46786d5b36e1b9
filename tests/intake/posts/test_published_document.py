"""Numbers that someone published: typed where they are right, named fault and place, and runs like all others."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize
from benchapp.intake.posts.envelope import BadEnvelope
from benchapp.intake.posts.published_document import read_reported
from benchapp.intake.posts.submissions import (
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    accept_submission,
)
from benchapp.models import Host, Kind, Measurement, Run, Series, State, Submission
from tests.reported import (
    ID,
    make_reported,
    make_reported_measurement,
    make_reported_run,
    pack_reported,
)


def refusal(document: dict[str, Any]) -> tuple[str, str | None]:
    with pytest.raises(BadEnvelope) as caught:
        read_reported(document)
    return caught.value.code, caught.value.pointer


def measured(**changes: Any) -> dict[str, Any]:
    return make_reported(runs=[make_reported_run(measurements=[make_reported_measurement(**changes)])])


def test_whole_document_is_typed() -> None:
    reported = read_reported(make_reported())

    first, second = reported.runs[0].measurements
    assert (str(reported.id), reported.source.title) == (ID, "A blog on disks")
    assert reported.runs[0].started_at == datetime(2013, 4, 1, tzinfo=UTC)
    assert reported.runs[0].target["volume_size_bytes"] == 20 * 2**30
    assert (first.workload["block_size_bytes"], first.workload["numjobs"], first.direction) == (
        4096,
        64,
        "read",
    )
    assert (first.workload["iodepth"], first.workload["is_direct"], first.workload["read_share_percent"]) == (
        None,
        None,
        100,
    )
    assert (dict(second.metrics), second.note) == ({"bandwidth_bytes_per_s": 144395000.0}, "hard to read")


@pytest.mark.parametrize(
    ("rw", "direction"), [("write", "write"), ("randwrite", "write"), ("randtrim", "trim"), ("READ", "read")]
)
def test_direction_is_that_of_the_only_one_that_rw_has(rw: str, direction: str) -> None:
    assert read_reported(measured(rw=rw)).runs[0].measurements[0].direction == direction


def test_mixed_pattern_requires_a_direction() -> None:
    mixed = read_reported(measured(rw="randrw", read_share=75, direction="write")).runs[0].measurements[0]

    assert (mixed.direction, mixed.workload["read_share_percent"]) == ("write", 75)
    assert refusal(measured(rw="randrw")) == ("reported-invalid", "/runs/0/measurements/0/direction")


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (make_reported(schema="benchapp-reported/9"), "/schema"),
        (make_reported(kind="fio"), "/kind"),
        (make_reported(id=7), "/id"),
        (make_reported(runs=[]), "/runs"),
        (make_reported(runs={}), "/runs"),
        (make_reported(runs=["x"]), "/runs/0"),
        (make_reported(runs=[make_reported_run()] * 1001), "/runs"),
        (make_reported(fio_output="{}"), "/fio_output"),
        (make_reported(source=None), "/source"),
        (make_reported(source={"title": ""}), "/source/title"),
        (make_reported(source={"title": "x", "url": "javascript:alert(1)"}), "/source/url"),
        (make_reported(source={"title": "x", "url": "https://"}), "/source/url"),
        (make_reported(source={"title": "x", "url": "https://[x"}), "/source/url"),
        (make_reported(source={"title": "x", "a/b~c": 1}), "/source/a~1b~0c"),
        (make_reported(runs=[make_reported_run(started_at=None)]), "/runs/0/started_at"),
        (make_reported(runs=[make_reported_run(started_at="2013-04-01")]), "/runs/0/started_at"),
        (make_reported(runs=[make_reported_run(started_at="9999-01-01T00:00:00Z")]), "/runs/0/started_at"),
        (make_reported(runs=[make_reported_run(started_at="1969-01-01T00:00:00Z")]), "/runs/0/started_at"),
        (make_reported(runs=[make_reported_run(target={"volumes": 4})]), "/runs/0/target/volumes"),
        (make_reported(runs=[make_reported_run(labels={"a": [1]})]), "/runs/0/labels/a"),
        (make_reported(runs=[make_reported_run(environment=[])]), "/runs/0/environment"),
        (make_reported(runs=[make_reported_run(finished_at="x")]), "/runs/0/finished_at"),
        (make_reported(runs=[make_reported_run(measurements=None)]), "/runs/0/measurements"),
        (measured(rw="song"), "/runs/0/measurements/0/rw"),
        (measured(iops="16,000"), "/runs/0/measurements/0/iops"),
        (measured(iops=-1), "/runs/0/measurements/0/iops"),
        (measured(iops=True), "/runs/0/measurements/0/iops"),
        (measured(iops=1e19), "/runs/0/measurements/0/iops"),
        (measured(iops=float("nan")), "/runs/0/measurements/0/iops"),
        (measured(iops=None), "/runs/0/measurements/0"),
        (measured(bandwidth_mb_s=3), "/runs/0/measurements/0/bandwidth_mb_s"),
        (measured(block_size="4 apples"), "/runs/0/measurements/0/block_size"),
        (measured(iodepth=-1), "/runs/0/measurements/0/iodepth"),
        (measured(numjobs=0), "/runs/0/measurements/0/numjobs"),
        (measured(read_share=101), "/runs/0/measurements/0/read_share"),
        (measured(direct="perhaps"), "/runs/0/measurements/0/direct"),
        (measured(direction="up"), "/runs/0/measurements/0/direction"),
        (measured(runtime_s="16"), "/runs/0/measurements/0/runtime_s"),
        (measured(note="x" * 501), "/runs/0/measurements/0/note"),
    ],
)
def test_wrong_member_is_named_with_its_place(document: dict[str, Any], pointer: str) -> None:
    assert refusal(document)[1] == pointer


def submit(body: bytes) -> AcceptResult:
    host = Host.objects.get_or_create(name="ebs")[0]
    return accept_submission(IncomingSubmission(host.pk, Kind.REPORTED, body, UUID(ID)))


@pytest.mark.django_db
def test_document_becomes_runs_marked_reported() -> None:
    submit(pack_reported())
    normalize_batch()

    run = Run.objects.select_related("target", "environment").get()
    row = Measurement.objects.select_related("series").order_by("position")[0]
    assert (run.format, run.badges, run.fio_version) == ("reported", ["reported"], "fio-2.0.9")
    assert run.command == {
        "source": {"title": "A blog on disks", "url": "https://blog.example/disks", "author": "A. Writer"}
    }
    assert (run.target.volume_count, run.environment.scheduler) == (4, "noop")
    assert (row.iops, row.latency_p99_ns, row.missing["latency_p99_ns"]) == (24490.0, None, "not-reported")
    assert (row.series.rw, row.series.volume_count, row.series.badges) == ("randread", 4, ["reported"])


@pytest.mark.django_db
def test_note_of_a_measurement_is_in_its_badge() -> None:
    submit(pack_reported())
    normalize_batch()

    first, second = Measurement.objects.order_by("position").values_list("badges", flat=True)
    assert first[0]["sentence"] == "Published in “A blog on disks”, not measured here."
    assert second[0]["sentence"].endswith("not measured here. Note: hard to read.")


@pytest.mark.django_db
def test_same_document_sent_twice_is_stored_once() -> None:
    assert [submit(pack_reported()).outcome, submit(pack_reported()).outcome] == [
        AcceptOutcome.NEW,
        AcceptOutcome.REPLAYED,
    ]
    normalize_batch()

    assert (Run.objects.count(), Measurement.objects.count()) == (1, 2)


@pytest.mark.django_db
def test_reading_again_changes_nothing() -> None:
    receipt = submit(pack_reported())
    normalize_batch()

    (outcome,) = renormalize([receipt.id], is_dry_run=False)

    assert (outcome.unchanged, outcome.differences, outcome.rejected) == (1, [], [])
    assert [series.measurement_count for series in Series.objects.all()] == [1, 1]


@pytest.mark.django_db
def test_document_that_a_later_reader_refuses_is_rejected_with_its_reason() -> None:
    submit(pack_reported(runs=[]))
    normalize_batch()

    row = Submission.objects.get()
    assert (row.state, row.reason_code) == (State.REJECTED, "reported-invalid")
