"""The columns of format 1. Whoever changes a model decides here whether archives of earlier versions stay readable."""

import hashlib

from django.apps import apps

from benchapp.models.limits import POLICIES
from benchapp.operation.archive.tables import FORMAT, TABLES
from tests.operation.configuration.tables import CONFIGURED

# SHA-256 of the tables and their columns, by format.
DIGESTS = {1: "9c898193004c7128a149ba78ddd7481456bd37bf5fc1da94fe57a58383863ffd"}
# Tables that are not part of archives, by reason, and columns of those that are.
LEFT_OUT = {
    "access": {
        "ApiToken",
        "AuditRecord",
        "EmailAddress",
        "ExternalIdentity",
        "Invitation",
        "RefusedAddress",
        "SignedLink",
        "Throttle",
    },
    "configuration as code": {
        "ConfirmationPolicy",
        "Price",
        "Subscription",
        "TargetMapping",
        "WantedSchedule",
    },
    "belongs to a user": {"PinnedChart", "SavedView"},
    "of this instance and its hosts": {
        "Attempt",
        "Correction",
        "CorrectionLogEntry",
        "DailyPoint",
        "DeletedRun",
        "FormerName",
        "Heartbeat",
        "Notice",
        "RelabeledRun",
        "RequestPolicy",
        "RunRequest",
        "ScheduleAdoption",
        "StudySnapshot",
        "StudySnapshotImage",
    },
    "calculated again": {"DetectionDryRun", "StoredLayoutAnswer", "ThresholdViolation"},
}
COLUMNS_LEFT_OUT = {
    "submissions": {"retry_at", "time_outs"},
    "detection_results": {"input_hash"},
    # PostgreSQL calculates it.
    "incidents": {"is_open"},
    "studies": {"share_token"},
}


def test_every_table_is_part_of_archives_or_left_out_for_a_reason() -> None:
    exported = {table.model.__name__ for table in TABLES.values()}
    left_out = [name for names in LEFT_OUT.values() for name in names]

    assert {model.__name__ for model in apps.get_app_config("benchapp").get_models()} - exported == set(
        left_out
    )
    assert len(left_out) == len(set(left_out))


def test_configuration_that_archives_leave_out_is_configuration_as_code() -> None:
    exported = {table.model.__name__ for table in TABLES.values()}

    assert {model.__name__ for model in CONFIGURED.values()} - exported == LEFT_OUT["configuration as code"]


def test_every_column_of_a_table_is_part_of_archives_or_left_out_for_a_reason() -> None:
    left_out = {
        name: {field.column for field in table.model._meta.local_fields} - set(table.columns)
        for name, table in TABLES.items()
        if name != "authors"
    }

    assert {name: columns for name, columns in left_out.items() if columns} == COLUMNS_LEFT_OUT
    # No passwords, roles or e-mail addresses.
    assert TABLES["authors"].columns == ("id", "username")


def test_columns_of_a_format_do_not_change() -> None:
    text = "\n".join(f"{name}: {', '.join(table.columns)}" for name, table in TABLES.items())

    assert hashlib.sha256(text.encode()).hexdigest() == DIGESTS[FORMAT], (
        "a new column with a default: change the digest; any other change: raise FORMAT, add its digest, and have"
        " staging.py convert earlier formats"
    )


def test_every_table_has_a_policy_for_limited_readers() -> None:
    tables = {
        model._meta.db_table.removeprefix("benchapp_")
        for model in apps.get_app_config("benchapp").get_models()
    }

    assert set(POLICIES) == tables
