"""Who may come in, for admins."""

import re

from django.test import Client
from django.urls import reverse

from benchapp.models import Role, User
from tests.factories import make_user


def test_invitation_is_shown_once_and_creates_an_account_of_its_role(admin: Client) -> None:
    admin.post(reverse("invite"), {"role": "editor"})

    first = admin.get(reverse("people")).content.decode()
    second = admin.get(reverse("people")).content.decode()

    (link,) = re.findall(r"http://testserver(/setup/[\w-]+/)", first)
    assert "/setup/" not in second
    password = {"password": "correct horse battery", "password_again": "correct horse battery"}
    Client().post(link, {"username": "bob", **password})
    assert User.objects.get(username="bob").role == Role.EDITOR


def test_secret_of_a_link_is_removed_from_the_session(admin: Client) -> None:
    admin.post(reverse("invite"), {"role": "viewer"})
    admin.get(reverse("people"))

    assert "one_time_secret" not in admin.session


def test_unknown_role_creates_no_invitation(admin: Client) -> None:
    admin.post(reverse("invite"), {"role": "god"})

    assert "Choose a valid role" in admin.get(reverse("people")).content.decode()


def test_admin_changes_a_role(admin: Client) -> None:
    bob = make_user(Role.VIEWER, username="bob")

    admin.post(reverse("set_person_role", args=[bob.pk]), {"role": "editor"})

    bob.refresh_from_db()
    assert bob.role == Role.EDITOR


def test_last_admin_cannot_be_demoted_or_deactivated(admin: Client) -> None:
    me = User.objects.get()

    admin.post(reverse("set_person_role", args=[me.pk]), {"role": "viewer"})
    admin.post(reverse("set_person_active", args=[me.pk]), {"active": "no"})

    me.refresh_from_db()
    assert (me.role, me.is_active) == (Role.ADMIN, True)
    assert "is the last admin" in admin.get(reverse("people")).content.decode()


def test_account_is_deactivated_and_activated(admin: Client) -> None:
    bob = make_user(username="bob")

    admin.post(reverse("set_person_active", args=[bob.pk]), {"active": "no"})
    bob.refresh_from_db()
    assert not bob.is_active

    admin.post(reverse("set_person_active", args=[bob.pk]), {"active": "yes"})
    bob.refresh_from_db()
    assert bob.is_active


def test_query_count_does_not_depend_on_the_number_of_people(
    admin: Client, django_assert_num_queries
) -> None:
    for number in range(5):
        make_user(username=f"person {number}")

    with django_assert_num_queries(
        6
    ):  # session, person, people, invitations, pools, new incidents of the bar
        admin.get(reverse("people"))
