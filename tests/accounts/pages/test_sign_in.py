"""Come in, go out, and the links that make accounts."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.accounts.write.accounts import SIGN_IN_ATTEMPTS, create_invitation, create_setup_link
from benchapp.models import Invitation, Role, User
from tests.pages import Page

PASSWORD = "correct horse battery"
NEW = {"username": "ada", "password": PASSWORD, "password_again": PASSWORD}
pytestmark = pytest.mark.django_db


def make_ada() -> User:
    return User.objects.create_user("ada", password=PASSWORD)


def post_sign_in(client: Client, password: str = PASSWORD, **more: str):
    return client.post(reverse("sign_in"), {"username": "ada", "password": password, **more})


def test_right_password_signs_in_and_goes_where_one_was_going() -> None:
    make_ada()
    client = Client()

    response = post_sign_in(client, next="/hosts/")

    assert (response.status_code, response["Location"]) == (302, "/hosts/")
    assert client.get("/hosts/").status_code == 200


def test_wrong_password_and_unknown_name_get_the_same_answer() -> None:
    make_ada()

    wrong = post_sign_in(Client(), "nope")
    unknown = Client().post(reverse("sign_in"), {"username": "bob", "password": "nope"})

    assert wrong.status_code == unknown.status_code == 400
    for response in (wrong, unknown):
        assert "Wrong user name or password" in response.content.decode()


def test_guessing_is_stopped_even_with_the_right_password() -> None:
    make_ada()
    client = Client()
    for _ in range(SIGN_IN_ATTEMPTS):
        post_sign_in(client, "guess")

    response = post_sign_in(client)

    assert response.status_code == 429
    assert "Too many failed sign-ins; try again in 15 minutes." in response.content.decode()
    assert 800 < int(response["Retry-After"]) <= 900


def test_people_behind_one_address_sign_in_as_often_as_they_like() -> None:
    make_ada()

    statuses = [post_sign_in(Client()).status_code for _ in range(SIGN_IN_ATTEMPTS + 1)]

    assert statuses == [302] * (SIGN_IN_ATTEMPTS + 1)


def test_person_signs_in_with_a_known_browser_while_somebody_guesses_from_the_same_address() -> None:
    make_ada()
    known = Client()
    post_sign_in(known)
    known.post(reverse("sign_out"))
    for _ in range(SIGN_IN_ATTEMPTS):
        post_sign_in(Client(), "guess")

    assert post_sign_in(Client()).status_code == 429
    assert post_sign_in(known).status_code == 302
    cookie = known.cookies["known_browser"]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/sign-in/", True, "Lax")


def test_cookie_of_another_name_or_a_forged_one_makes_no_browser_known() -> None:
    make_ada()
    User.objects.create_user("eve", password=PASSWORD)
    eve = Client()
    post_sign_in(eve, username="eve")
    eve.post(reverse("sign_out"))
    forged = Client()
    forged.cookies["known_browser"] = eve.cookies["known_browser"].value[:-1] + "x"
    for _ in range(SIGN_IN_ATTEMPTS):
        post_sign_in(Client(), "guess")

    assert [post_sign_in(client).status_code for client in (eve, forged)] == [429, 429]


@pytest.mark.django_db(transaction=True)
def test_guesses_made_at_the_same_time_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr(
        "benchapp.accounts.pages.sign_in.authenticate", lambda *_, password, **__: checked.append(password)
    )
    start = threading.Barrier(SIGN_IN_ATTEMPTS * 2)

    def guess(number: int) -> None:
        start.wait(60)
        post_sign_in(Client(), f"guess {number}")
        connection.close()

    threads = [threading.Thread(target=guess, args=[number]) for number in range(SIGN_IN_ATTEMPTS * 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(checked) == SIGN_IN_ATTEMPTS


def test_password_is_never_in_the_page() -> None:
    make_ada()

    assert "my-secret-guess" not in post_sign_in(Client(), "my-secret-guess").content.decode()


def test_signing_out_ends_the_session(viewer: Client) -> None:
    viewer.post(reverse("sign_out"))

    assert viewer.get(reverse("runs")).status_code == 302


def test_sign_in_page_of_an_empty_server_names_the_setup_link() -> None:
    assert "setup link" in Client().get(reverse("sign_in")).content.decode()


def test_setup_link_creates_the_first_admin_and_signs_in() -> None:
    link = reverse("setup", args=[create_setup_link()])
    client = Client()
    assert "Create the admin account" in client.get(link).content.decode()

    response = client.post(link, NEW)

    user = User.objects.get()
    assert (response.status_code, response["Location"]) == (302, "/")
    assert (user.username, user.role) == ("ada", Role.ADMIN)
    assert user.password.startswith("argon2")
    assert client.get(reverse("people")).status_code == 200


def test_link_works_once() -> None:
    link = reverse("setup", args=[create_setup_link()])
    Client().post(link, NEW)

    again = Client().post(link, {**NEW, "username": "eve"})

    assert again.status_code == 410
    assert "has expired" in again.content.decode()
    assert User.objects.count() == 1


def test_expired_link_is_rejected() -> None:
    link = reverse("setup", args=[create_setup_link()])
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert Client().get(link).status_code == 410


def test_unknown_link_is_rejected() -> None:
    assert Client().get(reverse("setup", args=["x" * 43])).status_code == 410


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"password_again": "another one"}, "Passwords do not match"),
        ({"password": "short", "password_again": "short"}, "too short"),
        ({"password": "1234567890", "password_again": "1234567890"}, "entirely numeric"),
        ({"username": "a b"}, "Enter a valid username"),
        ({"username": ""}, "required"),
    ],
)
def test_invalid_account_is_reported_and_the_link_stays_valid(change: dict[str, str], words: str) -> None:
    link = reverse("setup", args=[create_setup_link()])

    response = Client().post(link, {**NEW, **change})

    assert response.status_code == 400
    assert words in response.content.decode()
    assert Client().get(link).status_code == 200


def test_existing_name_is_rejected() -> None:
    make_ada()
    link = reverse("setup", args=[create_invitation(role=Role.VIEWER, created_by=None)])

    response = Client().post(link, NEW)

    assert response.status_code == 400
    assert "already exists" in response.content.decode()


def test_changed_password_keeps_this_session_and_ends_the_others() -> None:
    make_ada()
    here, elsewhere = Client(), Client()
    post_sign_in(here)
    post_sign_in(elsewhere)
    words = {
        "old_password": PASSWORD,
        "new_password1": "another long one",
        "new_password2": "another long one",
    }

    response = here.post(reverse("account"), words)

    assert response.status_code == 302
    assert here.get(reverse("runs")).status_code == 200
    assert elsewhere.get(reverse("runs")).status_code == 302


def test_password_form_has_the_labels_of_the_account_form() -> None:
    make_ada()
    client = Client()
    post_sign_in(client)
    words = Page(client.get(reverse("account"))).words

    for label in ("Current password", "New password", "Repeat new password", "At least 10 characters"):
        assert label in words


def test_password_is_not_changed_without_the_old_one() -> None:
    make_ada()
    client = Client()
    post_sign_in(client)
    words = {"old_password": "no", "new_password1": "another long one", "new_password2": "another long one"}

    assert client.post(reverse("account"), words).status_code == 400
