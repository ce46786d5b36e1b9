"""The page of signed links."""

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Role, SignedLink, User
from tests.factories import make_signed_link, make_user
from tests.visitors import sign_in_person

pytestmark = pytest.mark.django_db
PAGE = "/links/"


@pytest.fixture
def ada() -> User:
    return make_user(Role.VIEWER, username="ada")


def test_person_lists_and_revokes_own_links(ada):
    own = make_signed_link(created_by=ada, url="/api/v1/status-badge?q=host%3Adb-1")
    make_signed_link(created_by=make_user(), url="/api/v1/status-badge?q=host%3Adb-2")
    client = sign_in_person(ada)

    listed = client.get(PAGE).content.decode()
    revoked = client.post(reverse("revoke_signed_link", args=[own.pk]), follow=True).content.decode()

    assert "/api/v1/status-badge?q=host:db-1" in listed
    assert "db-2" not in listed
    assert f"Signed link {own.pk} is revoked." in revoked
    assert ">revoked</span>" in revoked
    assert "Revoke</button>" not in revoked


def test_link_of_somebody_else_is_not_revoked(ada):
    other = make_signed_link(created_by=make_user())

    answer = sign_in_person(ada).post(reverse("revoke_signed_link", args=[other.pk]))

    assert answer.status_code == 404
    assert SignedLink.objects.get().revoked_at is None


def test_admin_lists_links_of_all_with_their_makers(ada, admin: Client):
    make_signed_link(created_by=ada)

    page = admin.get(PAGE).content.decode()

    assert "<td>ada</td>" in page
    assert "Revoke</button>" in page


def test_page_without_links_names_the_way_to_one(ada):
    assert "Copy image link" in sign_in_person(ada).get(PAGE).content.decode()


def test_number_of_queries_is_that_of_one_link(ada, django_assert_num_queries):
    client = sign_in_person(ada)
    for _ in range(3):
        make_signed_link(created_by=ada)

    with django_assert_num_queries(4):
        client.get(PAGE)
