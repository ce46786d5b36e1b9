"""Who may look and who may change."""

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Role

PAGES = ["runs", "series_list", "hosts", "uploads"]
ADMIN_PAGES = ["tokens", "people"]


@pytest.mark.django_db
@pytest.mark.parametrize("name", PAGES)
def test_stranger_is_sent_to_sign_in_and_back(name: str) -> None:
    response = Client().get(reverse(name), {"host": "db-01"})

    assert response.status_code == 302
    assert response["Location"] == f"/sign-in/?next={reverse(name).replace('/', '%2F')}%3Fhost%3Ddb-01"


@pytest.mark.parametrize("name", ADMIN_PAGES)
def test_editor_is_told_which_role_it_takes(name: str, editor: Client) -> None:
    response = editor.get(reverse(name))

    assert response.status_code == 403
    assert "This requires the role admin; your role is editor." in response.content.decode()


def test_deactivated_person_is_signed_out_at_once(visitor) -> None:
    from benchapp.models import User

    client = visitor(Role.VIEWER)
    User.objects.update(is_active=False)

    assert client.get(reverse("runs")).status_code == 302


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "javascript:alert(1)",
        "http:evil",
        "%2F%2Fevil.example",
        "\x00",
    ],
)
def test_signing_in_leads_nowhere_else(wanted: str, viewer: Client) -> None:
    response = viewer.get(reverse("sign_in"), {"next": wanted})

    assert response["Location"] == "/"


def test_signing_in_leads_back_to_our_page(viewer: Client) -> None:
    response = viewer.get(reverse("sign_in"), {"next": "/series/3/?metric=iops"})

    assert response["Location"] == "/series/3/?metric=iops"


def test_button_does_not_work_from_another_site(db: None) -> None:
    from tests.factories import make_user

    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user(Role.ADMIN))

    response = client.post(reverse("make_enrollment_token"))

    assert response.status_code == 403
    assert "Form expired" in response.content.decode()
