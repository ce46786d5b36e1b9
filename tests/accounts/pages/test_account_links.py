"""Invitations that wait, links for lost passwords, deletion of accounts."""

import re
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from benchapp.accounts.write.accounts import (
    InvitationRefused,
    accept_invitation,
    change_role,
    create_invitation,
    delete_account,
    find_invitation,
    set_active,
)
from benchapp.accounts.write.password_reset import create_reset_link, find_reset_user, reset_password
from benchapp.incidents.actions.triage import BadTriage, assign, comment
from benchapp.incidents.actions.undo import undo
from benchapp.models import (
    ApiToken,
    AuditRecord,
    Incident,
    IncidentEvent,
    Invitation,
    PinnedChart,
    Role,
    SavedView,
    Scope,
    Study,
    Subscription,
    User,
)
from benchapp.notices.write.subscriptions import pause_subscription
from tests.factories import make_host, make_incident, make_token, make_user
from tests.received_notices import make_subscription

PASSWORD = "correct horse battery"


def read_link(client: Client, prefix: str) -> str:
    """Return the secret of the link that the page People shows once."""
    (secret,) = re.findall(rf"http://testserver/{prefix}/([\w-]+)/", client.get("/people/").content.decode())
    return str(secret)


def test_withdrawn_invitation_makes_no_account_and_is_not_listed(admin: Client) -> None:
    secret = create_invitation(role=Role.EDITOR, created_by=User.objects.get(role=Role.ADMIN))
    invitation = Invitation.objects.get()
    listed = admin.get("/people/").content.decode()

    answer = admin.post(reverse("withdraw_invitation", args=[invitation.pk]), follow=True)

    assert "Pending invitations" in listed
    assert "Pending invitations" not in answer.content.decode()
    with pytest.raises(InvitationRefused):
        accept_invitation(secret, "bob", password=PASSWORD)


def test_renewed_invitation_has_a_new_link_and_the_first_is_invalid(admin: Client) -> None:
    first = create_invitation(role=Role.EDITOR, created_by=User.objects.get(role=Role.ADMIN))

    admin.post(reverse("renew_invitation", args=[Invitation.objects.get().pk]))

    with pytest.raises(InvitationRefused):
        accept_invitation(first, "bob", password=PASSWORD)
    assert accept_invitation(read_link(admin, "setup"), "bob", password=PASSWORD).role == Role.EDITOR
    used = admin.post(reverse("renew_invitation", args=[Invitation.objects.get().pk]), follow=True)
    assert "was used or has expired" in used.content.decode()


def test_renewed_invitation_is_valid_while_who_renewed_it_is_an_admin(admin: Client) -> None:
    carl = make_user(Role.ADMIN, username="carl")
    create_invitation(role=Role.ADMIN, created_by=make_user(Role.ADMIN, username="dora"))
    own = Client()
    own.force_login(carl)
    own.post(reverse("renew_invitation", args=[Invitation.objects.get().pk]))
    secret = read_link(own, "setup")
    assert find_invitation(secret) is not None

    change_role(carl, Role.EDITOR)

    assert find_invitation(secret) is None


def test_links_that_sign_in_are_recorded_as_sign_ins(db: Any) -> None:
    anna, bob = make_user(Role.ADMIN, username="anna"), make_user(username="bob")
    form = {"password": PASSWORD, "password_again": PASSWORD}
    invitation = create_invitation(role=Role.EDITOR, created_by=anna)

    Client().post(f"/setup/{invitation}/", {"username": "carl", **form})
    Client().post(f"/reset-password/{create_reset_link(bob, created_by=anna)}/", form)

    signed_in = AuditRecord.objects.filter(action="signed_in").order_by("pk")
    assert list(signed_in.values_list("username", "object_name")) == [("carl", "carl"), ("bob", "bob")]


def test_each_link_and_token_that_deactivation_revokes_is_recorded(db: Any) -> None:
    bob = make_user(Role.ADMIN, username="bob")
    make_user(Role.ADMIN, username="anna")
    create_invitation(role=Role.EDITOR, created_by=bob)
    own, _ = make_token(Scope.READ, created_by=bob)
    make_token(host=make_host("db-1"), created_by=bob)
    AuditRecord.objects.all().delete()

    set_active(bob, is_active=False)

    recorded = AuditRecord.objects.order_by("pk").values_list("kind", "action", "object_id")
    assert list(recorded) == [
        ("invitation", "withdrawn", str(Invitation.objects.get().pk)),
        ("token", "revoked", own.public_id),
        ("account", "deactivated", str(bob.pk)),
    ]


@pytest.mark.parametrize(
    "name", ["deleted-7", "Deleted-7", "deleted-12-", "deleted-\N{FULLWIDTH DIGIT SEVEN}"]
)
def test_names_of_deleted_accounts_are_refused(db: Any, name: str) -> None:
    secret = create_invitation(role=Role.EDITOR, created_by=None)

    with pytest.raises(ValidationError) as refusal:
        accept_invitation(secret, name, password=PASSWORD)

    assert list(refusal.value.message_dict) == ["username"]
    assert accept_invitation(secret, "deleted-disks", password=PASSWORD).username == "deleted-disks"


def test_password_link_sets_a_password_once_and_ends_other_sessions(admin: Client) -> None:
    bob = make_user(username="bob")
    elsewhere = Client()
    elsewhere.force_login(bob)
    admin.post(reverse("make_reset_link", args=[bob.pk]))
    address = f"/reset-password/{read_link(admin, 'reset-password')}/"

    form = {"password": PASSWORD, "password_again": PASSWORD}
    weak = Client().post(address, {"password": "1234567890", "password_again": "1234567890"})
    answer = Client().post(address, form)

    bob.refresh_from_db()
    assert weak.status_code == 400
    assert (answer.status_code, bob.check_password(PASSWORD)) == (302, True)
    assert Client().post(address, form).status_code == 410
    assert elsewhere.get("/account/").status_code == 302


@pytest.mark.parametrize("secret", ["", "1", "x-y", "9" * 40 + "-1-a", "1-1-no-such-token"])
def test_wrong_password_link_finds_nobody(db: Any, secret: str) -> None:
    make_user(username="bob")

    assert find_reset_user(secret) is None


def test_password_link_is_invalid_after_deactivation_or_sign_in(db: Any) -> None:
    bob, anna = make_user(username="bob"), make_user(Role.ADMIN, username="anna")
    secret = create_reset_link(bob, created_by=anna)
    User.objects.filter(pk=bob.pk).update(is_active=False)

    with pytest.raises(InvitationRefused):
        reset_password(secret, PASSWORD)
    bob.refresh_from_db()
    with pytest.raises(ValidationError):
        create_reset_link(bob, created_by=anna)
    User.objects.filter(pk=bob.pk).update(is_active=True)
    Client().force_login(bob)
    assert find_reset_user(secret) is None


def test_password_link_of_a_former_admin_is_invalid(db: Any) -> None:
    bob, anna = make_user(Role.ADMIN, username="bob"), make_user(Role.ADMIN, username="anna")
    secret = create_reset_link(bob, created_by=anna)
    assert find_reset_user(secret) == bob
    assert find_reset_user(secret.replace(f"-{anna.pk}-", f"-{bob.pk}-")) is None

    change_role(anna, Role.EDITOR)

    assert find_reset_user(secret) is None


def test_deleted_account_leaves_what_it_did_under_another_name(admin: Client) -> None:
    bob = make_user(Role.ADMIN, username="bob")
    incident = make_incident()
    assign(incident.pk, by=bob, to=bob)
    comment(incident.pk, by=bob, text="a disk failed")
    study = Study.objects.create(title="Disks", owner=bob)
    make_subscription(bob)
    PinnedChart.objects.create(owner=bob, position=0, kind="scaling")
    SavedView.objects.create(owner=bob, name="Disks", kind="scaling", is_shared=True)
    own, _ = make_token(Scope.READ, created_by=bob)
    of_host, _ = make_token(host=make_host("db-1"), created_by=bob)

    admin.post(reverse("delete_person", args=[bob.pk]))

    bob.refresh_from_db()
    name = f"deleted-{bob.pk}"
    assert (bob.username, bob.is_active, bob.has_usable_password(), bob.role) == (
        name,
        False,
        False,
        "viewer",
    )
    assert Incident.objects.get().assignee is None
    assert IncidentEvent.objects.filter(kind="commented").get().by == bob
    study.refresh_from_db()
    assert study.owner == bob
    assert not Subscription.objects.exists()
    assert not PinnedChart.objects.exists()
    assert not SavedView.objects.exists()
    valid = {each.pk for each in ApiToken.objects.filter(revoked_at=None)}
    assert (own.pk in valid, of_host.pk in valid) == (False, True)
    assert name not in re.sub("<div class=.banner.*?</div>", "", admin.get("/people/").content.decode())
    assert admin.post(reverse("set_person_active", args=[bob.pk]), {"active": "yes"}).status_code == 404


def test_name_of_a_deleted_account_is_replaced_in_texts(db: Any) -> None:
    bob, bobby = make_user(username="bob"), make_user(username="bobby")
    incident = make_incident()
    for person in (bob, bobby):
        assign(incident.pk, by=bobby, to=person)
    comment(incident.pk, by=bobby, text="to bob")
    paused = make_subscription(bobby)
    pause_subscription(paused.pk, by=bob)

    name = delete_account(bob)

    paused.refresh_from_db()
    assert paused.paused_reason == f"paused by {name}"
    texts = IncidentEvent.objects.exclude(kind="opened").order_by("pk").values_list("kind", "text")
    # What people write themselves is theirs.
    assert list(texts) == [("assigned", f"to {name}"), ("assigned", "to bobby"), ("commented", "to bob")]


def test_incident_is_not_assigned_to_a_deactivated_account(db: Any) -> None:
    bob = make_user(Role.EDITOR, username="bob")
    incident = make_incident()
    set_active(bob, is_active=False)

    # bob is as the page had read it before.
    with pytest.raises(BadTriage, match="bob is deactivated"):
        assign(incident.pk, by=None, to=bob)


def test_invitation_that_is_created_while_its_creator_is_demoted_is_invalid(db: Any) -> None:
    anna = make_user(Role.ADMIN, username="anna")
    make_user(Role.ADMIN, username="dora")
    change_role(anna, Role.EDITOR)

    # The transaction of the demotion did not see it.
    secret = create_invitation(role=Role.ADMIN, created_by=anna)

    assert find_invitation(secret) is None
    with pytest.raises(InvitationRefused):
        accept_invitation(secret, "bob", password=PASSWORD)


def test_undo_assigns_nobody_whose_account_is_not_active(db: Any) -> None:
    bob, bobby = make_user(username="bob"), make_user(username="bobby")
    incident = make_incident()
    for person in (bob, bobby, None):
        last = assign(incident.pk, by=bobby, to=person)
    delete_account(bob)

    undo(last.pk, by=bobby)
    incident.refresh_from_db()
    assert incident.assignee == bobby
    undo(IncidentEvent.objects.get(text="to bobby").pk, by=bobby)

    incident.refresh_from_db()
    assert incident.assignee is None


def test_last_admin_cannot_be_deleted(db: Any) -> None:
    anna = make_user(Role.ADMIN, username="anna")

    with pytest.raises(ValidationError, match="last admin"):
        delete_account(anna)
    assert User.objects.get().username == "anna"


def test_own_account_is_deleted_with_the_password_alone(db: Any) -> None:
    bob = make_user(username="bob")
    bob.set_password(PASSWORD)
    bob.save()
    client = Client()
    client.force_login(bob)

    wrong = client.post(reverse("delete_own_account"), {"password": "wrong"}, follow=True)
    right = client.post(reverse("delete_own_account"), {"password": PASSWORD})

    assert "Wrong password" in wrong.content.decode()
    assert right["Location"] == "/sign-in/"
    assert client.get("/account/").status_code == 302
    assert not User.objects.filter(is_active=True).exists()
