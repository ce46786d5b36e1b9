"""Coarser latency histograms are stored with measurements."""

import pytest

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize
from benchapp.models import Measurement
from tests.envelopes import read_fio
from tests.intake.normalize.test_batch import submit

pytestmark = pytest.mark.django_db


def test_histogram_of_json_plus_is_stored_with_every_sample() -> None:
    submit(fio_output=read_fio("08_jsonplus.out"))

    normalize_batch()

    measurement = Measurement.objects.get()
    assert measurement.latency_bins is not None
    first, *counts = measurement.latency_bins
    assert sum(counts) == measurement.total_ios
    # The longest I/O lies in the last bucket.
    assert 2 ** ((first + len(counts) - 1) / 4) <= 1.01 * (measurement.latency_max_ns or 0)


def test_output_without_histograms_has_none() -> None:
    submit(fio_output=read_fio("07_json.out"))

    normalize_batch()

    assert Measurement.objects.get().latency_bins is None


def test_reparse_reports_a_new_histogram() -> None:
    submission_id = submit(fio_output=read_fio("08_jsonplus.out"))
    normalize_batch()
    samples = Measurement.objects.get().total_ios
    Measurement.objects.update(latency_bins=None)

    (outcome,) = renormalize([submission_id], is_dry_run=False)

    (difference,) = outcome.differences
    assert (difference.name, difference.before) == ("latency_bins", None)
    assert str(difference.after).startswith(f"{samples} samples in ")
