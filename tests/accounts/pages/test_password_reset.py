"""Lost passwords by e-mail: the address is confirmed first, and no answer depends on whether an account exists."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp import tasks
from benchapp.accounts.write.accounts import SIGN_IN_ATTEMPTS, set_active
from benchapp.accounts.write.password_reset import REQUESTS_OF_LOGIN_PER_HOUR, sign_address
from benchapp.framework.env import EmailServer
from benchapp.models import AuditRecord, Role, User
from benchapp.notices.channels.email.transport import NotificationEmail
from tests.factories import make_user

PASSWORD = "correct horse battery"
REQUEST = "/reset-password/"


@pytest.fixture
def sent(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[NotificationEmail]:
    """Configure e-mail, run tasks at once, and collect the mails."""
    mails: list[NotificationEmail] = []
    settings.PUBLIC_URL = "https://bench.example"
    settings.EMAIL_SERVER = EmailServer("127.0.0.1", 25, "", "", "none")
    for module, name, task in (
        ("sign_in", "queue_reset_links", tasks.mail_reset_links),
        ("own_account", "queue_address_link", tasks.mail_address_link),
    ):
        monkeypatch.setattr(
            f"benchapp.accounts.pages.{module}.{name}", lambda *given, task=task: task(*given) or True
        )
    place = "benchapp.notices.channels.email.transport"
    monkeypatch.setattr(f"{place}.send_email", lambda mail, mailbox: mails.append(mail))
    return mails


def make_person(username: str = "anna", *, email: str = "anna@example.org", **fields: Any) -> User:
    user = make_user(username=username, **fields)
    user.email = email
    user.set_password(PASSWORD)
    user.save()
    return user


def ask(login: str) -> Any:
    return Client().post(REQUEST, {"login": login})


def read_links(mails: list[NotificationEmail], path: str) -> list[str]:
    return [re.findall(rf"https://bench.example({path}\S+/)", mail.text)[0] for mail in mails]


@pytest.mark.parametrize("login", ["anna", "ANNA@example.org"])
def test_link_by_e_mail_sets_a_password_once(sent: list[NotificationEmail], login: str) -> None:
    user = make_person()
    page = ask(login).content.decode()
    (link,) = read_links(sent, "/reset-password/")
    form = {"password": PASSWORD[::-1], "password_again": PASSWORD[::-1]}

    answer = Client().post(link, form)

    user.refresh_from_db()
    assert ([mail.to for mail in sent], answer.status_code) == (["anna@example.org"], 302)
    assert user.check_password(PASSWORD[::-1])
    assert Client().post(link, form).status_code == 410
    assert "anna" not in page


def test_answer_is_the_same_for_accounts_that_get_no_mail(sent: list[NotificationEmail]) -> None:
    make_person("without", email="")
    set_active(make_person("inactive"), is_active=False)
    elsewhere = make_person("elsewhere", email="elsewhere@example.org")
    elsewhere.set_unusable_password()
    elsewhere.save()
    make_person("known", email="known@example.org")

    def strip(page: bytes) -> str:
        return re.sub(r'nonce-?[^"]*"[^"]*"|csrf\S*', "", page.decode())

    answers = {
        (answer.status_code, strip(answer.content))
        for answer in map(
            ask, ("without", "inactive", "elsewhere", "elsewhere@example.org", "nobody", "known")
        )
    }

    assert [mail.to for mail in sent] == ["known@example.org"]
    assert len(answers) == 1


def test_requests_for_one_name_are_limited_whether_or_not_it_exists(sent: list[NotificationEmail]) -> None:
    make_person()

    for login in ("anna", "nobody"):
        statuses = [ask(login).status_code for _ in range(REQUESTS_OF_LOGIN_PER_HOUR + 1)]
        assert statuses == [200] * REQUESTS_OF_LOGIN_PER_HOUR + [429]
    assert len(sent) == REQUESTS_OF_LOGIN_PER_HOUR


def test_without_e_mail_there_is_no_form(db: None) -> None:
    make_person()

    assert Client().get(REQUEST).status_code == 404
    assert "Lost password" not in Client().get("/sign-in/").content.decode()


def test_address_is_used_after_it_was_confirmed_by_its_user(sent: list[NotificationEmail]) -> None:
    anna, own = make_person(email=""), Client()
    own.force_login(anna)
    anna.refresh_from_db()
    address = reverse("change_own_email")

    wrong = own.post(address, {"email": "a@example.org", "password": "x"}, follow=True)
    bad = own.post(address, {"email": "a@example.org, b@example.org", "password": PASSWORD}, follow=True)
    own.post(address, {"email": "a@example.org", "password": PASSWORD})
    (link,) = read_links(sent, "/account/email/")
    other = Client()
    other.force_login(make_user(username="bob"))
    statuses = [other.post(link).status_code, own.get(link).status_code]
    before = User.objects.get(pk=anna.pk).email
    own.post(link)

    assert "Wrong password" in wrong.content.decode()
    assert "one address" in bad.content.decode()
    assert statuses == [410, 200]
    assert (before, User.objects.get(pk=anna.pk).email) == ("", "a@example.org")
    # Its state was another: the link works once.
    assert own.post(link).status_code == 410
    own.post(address, {"email": "", "password": PASSWORD})
    assert User.objects.get(pk=anna.pk).email == ""
    assert AuditRecord.objects.filter(action="email_changed").count() == 2


def test_secret_of_another_purpose_confirms_no_address(sent: list[NotificationEmail]) -> None:
    anna, own = make_person(), Client()
    own.force_login(anna)
    anna.refresh_from_db()

    for secret in ("x", f"{sign_address(anna, 'a@example.org')}x"):
        assert own.post(reverse("confirm_own_email", args=[secret])).status_code == 410


@pytest.mark.parametrize("route", ["delete_own_account", "account"])
def test_wrong_passwords_of_the_own_account_are_limited(db: None, route: str) -> None:
    make_user(Role.ADMIN, username="other")
    anna, own = make_person(), Client()
    own.force_login(anna)
    wrong = {"password": "x", "old_password": "x"}

    for _ in range(SIGN_IN_ATTEMPTS):
        own.post(reverse(route), wrong)
    new = {"new_password1": PASSWORD[::-1], "new_password2": PASSWORD[::-1]}
    answer = own.post(reverse(route), {"password": PASSWORD, "old_password": PASSWORD, **new}, follow=True)

    assert "oo many wrong passwords" in answer.content.decode()
    anna.refresh_from_db()
    assert (anna.deleted_at, anna.check_password(PASSWORD)) == (None, True)
