"""One-time links, roles, and the bucket against guessing."""

from datetime import datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from benchapp.accounts.write.accounts import (
    SIGN_IN_ATTEMPTS,
    SIGN_IN_ATTEMPTS_OF_ADDRESS,
    SIGN_IN_ATTEMPTS_OF_NAME,
    SIGN_IN_WINDOW,
    InvitationRefused,
    SignInSource,
    accept_invitation,
    change_role,
    count_sign_in_attempt,
    create_invitation,
    create_setup_link,
    find_invitation,
    forget_sign_in_attempt,
    set_active,
)
from benchapp.accounts.write.throttle import LONGEST_WINDOW, LimitReached, forget_old_attempts
from benchapp.accounts.write.tokens import TokenRefused, issue_token, read_token
from benchapp.models import Host, Invitation, Role, Scope, Throttle, User
from tests.factories import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


def test_setup_link_makes_the_first_admin_once() -> None:
    secret = create_setup_link()
    assert secret is not None

    user = accept_invitation(secret, "ada", password=PASSWORD)

    assert user.role == Role.ADMIN
    assert user.check_password(PASSWORD)
    assert user.password.startswith("argon2")
    assert find_invitation(secret) is None
    with pytest.raises(InvitationRefused):
        accept_invitation(secret, "eve", password=PASSWORD)


def test_setup_link_requires_that_no_admin_exists() -> None:
    User.objects.create_user("ada", role=Role.ADMIN)

    assert create_setup_link() is None


def test_only_the_last_setup_link_works() -> None:
    first, second = create_setup_link(), create_setup_link()
    assert first and second

    assert find_invitation(first) is None
    assert find_invitation(second) is not None


def test_setup_link_ends_when_an_admin_exists_and_works_again_without_one() -> None:
    secret = create_setup_link()
    assert secret
    admin = make_user(Role.ADMIN)

    assert find_invitation(secret) is None
    with pytest.raises(InvitationRefused):
        accept_invitation(secret, "ada", password=PASSWORD)
    User.objects.filter(pk=admin.pk).update(is_active=False)
    assert find_invitation(secret) is not None


def test_expired_link_is_refused() -> None:
    secret = create_invitation(role=Role.VIEWER, created_by=None)
    Invitation.objects.update(expires_at=timezone.now())

    with pytest.raises(InvitationRefused):
        accept_invitation(secret, "ada", password=PASSWORD)


@pytest.mark.parametrize(("username", "password"), [("ada", "short"), ("", PASSWORD), ("a b", PASSWORD)])
def test_bad_name_or_password_keeps_the_link(username: str, password: str) -> None:
    secret = create_invitation(role=Role.VIEWER, created_by=None)

    with pytest.raises(ValidationError):
        accept_invitation(secret, username, password=password)

    assert find_invitation(secret) is not None
    assert User.objects.count() == 0


def test_last_admin_stays_admin_and_active() -> None:
    ada = User.objects.create_user("ada", role=Role.ADMIN)

    with pytest.raises(ValidationError, match="last admin"):
        change_role(ada, Role.VIEWER)
    with pytest.raises(ValidationError, match="last admin"):
        set_active(ada, is_active=False)


def test_admin_may_go_when_another_stays() -> None:
    ada = User.objects.create_user("ada", role=Role.ADMIN)
    User.objects.create_user("bob", role=Role.ADMIN)

    change_role(ada, Role.EDITOR)

    ada.refresh_from_db()
    assert ada.role == Role.EDITOR


def try_sign_in(username: str, address: str, *, now: datetime, known_browser: str = "") -> bool:
    """Count an attempt that fails; return whether it was allowed."""
    try:
        count_sign_in_attempt(SignInSource(username, address, known_browser), now=now)
    except LimitReached:
        return False
    return True


def test_guessing_is_stopped_and_free_again_after_the_window() -> None:
    now = timezone.now()

    allowed = [try_sign_in("ada", "192.0.2.1", now=now) for _ in range(SIGN_IN_ATTEMPTS + 1)]

    assert allowed == [True] * SIGN_IN_ATTEMPTS + [False]
    assert try_sign_in("Ada", "192.0.2.1", now=now) is False
    assert try_sign_in("ada", "192.0.2.2", now=now) is True
    assert try_sign_in("ada", "192.0.2.1", now=now + SIGN_IN_WINDOW + timedelta(seconds=1)) is True


def test_reached_limit_reports_the_waiting_time() -> None:
    now = timezone.now()
    for _ in range(SIGN_IN_ATTEMPTS):
        try_sign_in("ada", "192.0.2.1", now=now)

    with pytest.raises(LimitReached, match="too many failed sign-ins; try again in 5 minutes") as problem:
        count_sign_in_attempt(SignInSource("ada", "192.0.2.1"), now=now + timedelta(minutes=10))

    assert problem.value.wait_s == 300


def test_sign_ins_that_succeed_are_not_counted() -> None:
    now = timezone.now()
    source = SignInSource("ada", "192.0.2.1")
    for _ in range(SIGN_IN_ATTEMPTS_OF_ADDRESS + SIGN_IN_ATTEMPTS_OF_NAME):
        count_sign_in_attempt(source, now=now)
        forget_sign_in_attempt(source)

    assert [try_sign_in("ada", "192.0.2.1", now=now) for _ in range(11)] == [True] * 10 + [False]


def test_rejected_attempts_are_not_counted() -> None:
    now = timezone.now()
    for _ in range(SIGN_IN_ATTEMPTS + SIGN_IN_ATTEMPTS_OF_ADDRESS + SIGN_IN_ATTEMPTS_OF_NAME):
        try_sign_in("ada", "192.0.2.1", now=now)

    assert try_sign_in("bob", "192.0.2.1", now=now) is True  # the address: ten failures so far
    assert try_sign_in("ada", "192.0.2.2", now=now) is True  # the name: ten failures so far


def test_one_name_from_many_addresses_is_stopped_for_one_window() -> None:
    now = timezone.now()

    allowed = [
        try_sign_in("ada", f"198.51.100.{number // 5}", now=now)
        for number in range(SIGN_IN_ATTEMPTS_OF_NAME + 5)
    ]

    assert allowed == [True] * SIGN_IN_ATTEMPTS_OF_NAME + [False] * 5
    assert try_sign_in("Ada", "203.0.113.1", now=now) is False
    assert try_sign_in("bob", "198.51.100.1", now=now) is True
    assert try_sign_in("ada", "203.0.113.1", now=now + SIGN_IN_WINDOW) is True


def test_known_browser_signs_in_whatever_others_try_and_has_its_own_limit() -> None:
    now = timezone.now()
    for number in range(SIGN_IN_ATTEMPTS_OF_NAME * 2):
        try_sign_in("ada", f"198.51.100.{number // 10}", now=now)
        try_sign_in(f"name-{number}", "192.0.2.1", now=now)

    allowed = [try_sign_in("ada", "192.0.2.1", now=now, known_browser="a") for _ in range(11)]

    assert allowed == [True] * 10 + [False]
    assert try_sign_in("ada", "192.0.2.1", now=now, known_browser="b") is True


def test_window_that_starts_in_the_future_is_over() -> None:
    now = timezone.now()
    for _ in range(SIGN_IN_ATTEMPTS + 1):
        try_sign_in("ada", "192.0.2.1", now=now + timedelta(days=400))

    assert try_sign_in("ada", "192.0.2.1", now=now) is True
    assert [try_sign_in("ada", "192.0.2.1", now=now) for _ in range(10)] == [True] * 9 + [False]


def test_clocks_of_two_servers_that_differ_by_seconds_share_a_window() -> None:
    now = timezone.now()
    for _ in range(SIGN_IN_ATTEMPTS):
        try_sign_in("ada", "192.0.2.1", now=now + timedelta(seconds=20))

    assert try_sign_in("ada", "192.0.2.1", now=now) is False


def test_bucket_that_starts_in_the_future_is_forgotten() -> None:
    now = timezone.now()
    try_sign_in("ada", "192.0.2.1", now=now + timedelta(hours=1))

    assert forget_old_attempts(now=now) == 3


def test_old_buckets_are_forgotten() -> None:
    now = timezone.now()
    try_sign_in("ada", "192.0.2.1", now=now - LONGEST_WINDOW)
    try_sign_in("bob", "192.0.2.1", now=now)

    assert forget_old_attempts(now=now) == 2  # ada from the address, and ada
    assert Throttle.objects.count() == 3  # bob from the address, the address, and bob


def test_viewer_may_less_than_editor_and_editor_less_than_admin() -> None:
    viewer, editor, admin = (User(role=role) for role in (Role.VIEWER, Role.EDITOR, Role.ADMIN))

    assert [person.has_role(Role.EDITOR) for person in (viewer, editor, admin)] == [False, True, True]


def test_one_address_that_tries_many_names_is_stopped() -> None:
    now = timezone.now()

    allowed = [try_sign_in(f"name-{number}", "2001:db8::1", now=now) for number in range(51)]

    assert allowed == [True] * 50 + [False]
    assert try_sign_in("another", "2001:db8::ffff", now=now) is False  # the same /64
    assert try_sign_in("another", "2001:db8:0:1::1", now=now) is True


def test_keys_of_an_admin_who_is_switched_off_open_nothing_and_hosts_go_on() -> None:
    eve = User.objects.create_user("eve", role=Role.ADMIN)
    User.objects.create_user("ada", role=Role.ADMIN)
    secret = create_invitation(role=Role.ADMIN, created_by=eve)
    _, admin_token = issue_token(scope=Scope.ADMIN, created_by=eve)
    _, host_token = issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-1"), created_by=eve)

    set_active(eve, is_active=False)

    assert find_invitation(secret) is None
    assert read_token(host_token).scope == Scope.INGEST
    with pytest.raises(TokenRefused):
        read_token(admin_token)
