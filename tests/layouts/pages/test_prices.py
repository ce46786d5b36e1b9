"""The pages of prices."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from benchapp.models import Price
from tests.factories import make_price
from tests.pages import Page

pytestmark = pytest.mark.django_db
GIVEN = {"volume_type": "gp3", "currency": "USD", "valid_from": "2026-01-01", "per_gib_month": "0.08"}


def test_price_is_added_deleted_and_restored(editor: Client, viewer: Client) -> None:
    assert "Requires the editor role." in Page(viewer.get("/prices/")).words
    assert editor.post("/prices/add", GIVEN)["Location"] == "/prices/"
    price = Price.objects.get()

    words = Page(editor.get("/prices/")).words
    assert "gp3 volume" in words
    assert "0.08" in words
    editor.post(f"/prices/{price.pk}/change", {"do": "remove"})
    assert "No prices." in Page(viewer.get("/prices/")).words
    assert "Deleted or replaced within a day" in Page(editor.get("/prices/")).words
    editor.post(f"/prices/{price.pk}/change", {"do": "restore"})
    assert Price.objects.get(removed_at=None).per_gib_month == 0.08


def test_invalid_values_are_shown_at_their_fields(editor: Client) -> None:
    response = editor.post("/prices/add", GIVEN | {"currency": "dollar", "per_gib_month": "x"})

    words = Page(response).words
    assert response.status_code == 400
    assert "use three capital letters" in words
    assert "'x' is not a valid amount" in words


def test_csv_is_uploaded_as_a_file_or_as_text_and_errors_name_line_and_column(editor: Client) -> None:
    text = "volume_type,currency,valid_from,per_gib_month\ngp3,USD,2026-01-01,0.08\n"
    make_price(per_gib_month=1, included_iops=3000)
    listed = Page(editor.get("/prices/")).words
    assert "1 Jan 2026" in listed
    assert "3\u202f000" in listed

    file = SimpleUploadedFile("prices.csv", text.encode())
    done = Page(editor.post("/prices/add", {"do": "csv", "file": file}, follow=True)).words
    assert "1 price replaced." in done
    refused = editor.post("/prices/add", {"do": "csv", "text": text.replace("0.08", "<b>")})
    assert refused.status_code == 400
    assert "Line 2, per_gib_month: '&lt;b&gt;' is not a valid amount" in refused.content.decode().replace(
        "&#x27;", "'"
    )
    assert "Choose a file" in Page(editor.post("/prices/add", {"do": "csv"})).words
