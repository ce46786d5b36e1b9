"""Lists whose columns are declared once: which of them can be written, and which are shown."""

import pytest
from django.test import Client

from benchapp.corrections.api import CorrectionInput
from benchapp.corrections.pages import CorrectionForm
from benchapp.framework.api.answers import list_columns
from benchapp.incidents.api.maintenance import ListedPlannedEventAnswer, PlannedEventInput
from benchapp.incidents.pages.maintenance import PlannedEventForm
from benchapp.layouts.api.prices import PriceInput
from benchapp.models import PRICE_AMOUNTS, Correction, DetectionPolicy, PlannedEvent, Price, Study
from benchapp.policies.api import (
    DetectionPolicyInput,
    ListedDetectionPolicyAnswer,
    ThresholdInput,
)
from benchapp.policies.pages import DetectionPolicyForm
from benchapp.reports.api.studies import StudyInput
from tests.operation.configuration.tables import CONFIGURED

LISTS = {
    "corrections": (Correction, CorrectionInput, CorrectionForm, {"dry_run"}),
    "detection-policies": (DetectionPolicy, DetectionPolicyInput, DetectionPolicyForm, set()),
    "planned-events": (PlannedEvent, PlannedEventInput, PlannedEventForm, {"dry_run"}),
    "studies": (Study, StudyInput, None, set()),
    "prices": (Price, PriceInput, None, set()),
}
# Columns that a creator gives. Whoever adds one decides here that anybody who may create an entry may write it.
WRITABLE = {
    "corrections": {
        *("kind", "filter", "from_at", "to_at", "run_ids", "changes"),
        *("tier", "keep_days", "reason"),
    },
    "detection-policies": {"metric", "smallest_change", "filter", "label", "reason"},
    "planned-events": {
        *("kind", "filter", "metric", "is_regression", "incident"),
        *("from_at", "to_at", "reason"),
    },
    "studies": {"title", "text", "panels"},
    "prices": {"volume_type", "instance_type", "region", "currency", "valid_from", *PRICE_AMOUNTS},
}


@pytest.mark.parametrize("path", LISTS)
def test_only_named_columns_can_be_written(path: str) -> None:
    model, given, form, more = LISTS[path]

    assert set(model.given) == WRITABLE[path]
    assert {name for name, field in given().fields.items() if not field.read_only} == WRITABLE[path] | more
    assert form is None or set(form._meta.fields) <= WRITABLE[path]


def test_dry_run_has_the_threshold_of_a_policy_alone() -> None:
    assert set(ThresholdInput().fields) == {"metric", "smallest_change", "filter", "label"}


@pytest.mark.parametrize("path", [path for path in LISTS if path != "prices"])
@pytest.mark.django_db
def test_other_columns_are_refused_as_unknown(path: str, admin: Client) -> None:
    columns = {field.name for field in LISTS[path][0]._meta.local_fields} - WRITABLE[path]

    answers = [
        admin.post(f"/api/v1/{path}", {name: None}, content_type="application/json").json()
        for name in columns
    ]

    assert {"id", "created_at"} < columns
    assert {answer["code"] for answer in answers} == {"member-unknown"}


def test_every_column_but_the_identity_in_archives_is_shown() -> None:
    shown = {
        "detection_policies": ListedDetectionPolicyAnswer,
        "planned_events": ListedPlannedEventAnswer,
    }

    hidden = {
        name: {field.name for field in CONFIGURED[name]._meta.local_fields} - set(list_columns(kind))
        for name, kind in shown.items()
    }

    assert hidden == {"detection_policies": {"uid"}, "planned_events": {"uid"}}
