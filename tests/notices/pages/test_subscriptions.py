"""People manage their own subscriptions; admins see everybody's, without the secrets in them."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.framework.env import EmailServer
from benchapp.layouts.texts import NotAnswerable, find_layout_answer
from benchapp.models import Channel, Notice, NoticeState, Role, Subscription, User
from benchapp.notices.write.layout_answers import notify_layout_answers
from benchapp.notices.write.subscriptions import SUBSCRIPTIONS_MAXIMUM
from tests.factories import NOON, add_series, make_host, make_user
from tests.planted_layouts import plant_layouts
from tests.received_notices import make_subscription

pytestmark = pytest.mark.django_db

FORM = {
    "channel": "email",
    "address": "anna@example.org",
    "filter": "host:db-*",
    "minimum_severity": "medium",
    "further_runs": "3",
    "notify_incidents": "on",
    "notify_silent_hosts": "on",
    "digest_hour": "7",
    "quiet_from_hour": "22",
    "quiet_to_hour": "7",
}


@pytest.fixture
def anna() -> User:
    return make_user(username="anna")


@pytest.fixture
def client(anna: User) -> Client:
    client = Client()
    client.force_login(anna)
    return client


@pytest.fixture(autouse=True)
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the hints instead of asking a broker."""
    calls: list[str] = []
    monkeypatch.setattr("benchapp.notices.pages.wake_notify", lambda: calls.append("notify"))
    return calls


def read(client: Client, name: str, *arguments: Any) -> str:
    return client.get(reverse(name, args=arguments)).content.decode()


def post(client: Client, name: str, *arguments: Any, **form: str) -> str:
    return client.post(reverse(name, args=arguments), form, follow=True).content.decode()


def test_empty_page_explains_what_to_do(client: Client) -> None:
    page = read(client, "subscriptions")

    assert "No subscriptions yet." in page
    assert "BENCHAPP_EMAIL_URL" in page


def test_curl_line_carries_a_token_even_where_everybody_may_read(client: Client, settings: Any) -> None:
    settings.PUBLIC_READ = True

    page = client.get(reverse("subscriptions"))

    assert page.context["api_line"].startswith('curl -fsS -H "Authorization: Bearer $BENCHAPP_TOKEN" http')


def test_viewer_subscribes_by_mail(client: Client, anna: User) -> None:
    page = post(client, "add_subscription", **FORM)

    stored = Subscription.objects.get()
    assert (stored.owner, stored.channel, stored.filter) == (anna, "email", "host:db-*")
    assert (stored.minimum_severity, stored.quiet_from_hour, stored.quiet_to_hour) == ("medium", 22, 7)
    assert stored.notify_silent_hosts
    assert not stored.is_digest
    assert "anna@example.org: waiting for confirmation" in page


def test_page_states_that_mail_is_not_configured(client: Client, anna: User, settings: Any) -> None:
    post(client, "add_subscription", **FORM)
    stored = Subscription.objects.get()
    words = "set <code>BENCHAPP_EMAIL_URL</code>. Mails are queued for one day."

    without = post(client, "send_confirmation", stored.pk)
    settings.EMAIL_SERVER = EmailServer("127.0.0.1", 25, "", "", "none")
    with_email = read(client, "subscription", stored.pk)
    settings.EMAIL_SERVER, stored.channel = None, "webhook"
    stored.save()
    webhook = read(client, "subscription", stored.pk)

    assert [words in page for page in (without, with_email, webhook)] == [True, False, False]


def test_secret_of_a_webhook_is_shown_once(client: Client) -> None:
    first = post(
        client, "add_subscription", **{**FORM, "channel": "webhook", "address": "https://hooks.example.org/x"}
    )
    stored = Subscription.objects.get()

    assert re.search(r"whsec_[A-Za-z0-9+/]{43}=", first)
    assert stored.secret in first
    assert stored.secret not in read(client, "subscription", stored.pk)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": "anna"}, "is not a valid e-mail address"),
        ({"address": "anna@example.org\r\nBcc: eve@example.org"}, "Write one address"),
        ({"channel": "slack", "address": "ftp://x/"}, "must begin with https://"),
        ({"channel": "slack", "address": "https://x.example.org:22/"}, "Port 22 is not allowed"),
        ({"channel": "slack", "address": "http://169.254.169.254/latest"}, "The address is not public"),
        ({"filter": "flavour:sweet"}, "Unknown filter"),
        ({"quiet_to_hour": ""}, "need both a start and an end"),
        ({"quiet_to_hour": "22"}, "cannot start and end at the same hour"),
        ({"minimum_severity": "extreme"}, "is not one of the available choices"),
        ({"channel": "pigeon"}, "is not one of the available choices"),
        ({"digest_hour": "24"}, "is not one of the available choices"),
    ],
)
def test_invalid_value_is_reported_at_its_field(client: Client, changes: dict[str, str], words: str) -> None:
    response = client.post(reverse("add_subscription"), {**FORM, **changes})

    assert response.status_code == 400
    assert words in response.content.decode()
    assert not Subscription.objects.exists()


def test_subscriptions_of_a_person_are_limited(client: Client, anna: User) -> None:
    for _ in range(SUBSCRIPTIONS_MAXIMUM):
        make_subscription(anna)

    assert "subscriptions is reached" in post(client, "add_subscription", **FORM)
    assert Subscription.objects.count() == SUBSCRIPTIONS_MAXIMUM


def test_change_keeps_channel_secret_and_owner(client: Client, anna: User) -> None:
    stored = make_subscription(anna, channel=Channel.WEBHOOK)

    page = post(
        client,
        "edit_subscription",
        stored.pk,
        **{**FORM, "channel": "email", "address": "https://b.example.org/", "secret": "mine", "owner": "1"},
    )

    changed = Subscription.objects.get()
    assert (changed.channel, changed.address) == ("webhook", "https://b.example.org/")
    assert (changed.secret, changed.owner) == (stored.secret, anna)
    assert "Subscription saved." in page


def test_pause_and_resume_send_queued_notices(client: Client, anna: User) -> None:
    stored = make_subscription(anna, failures=3)
    waiting = Notice.objects.create(
        subscription=stored, key="a", created_at=NOON, not_before_at=timezone.now() + timedelta(hours=5)
    )

    assert "paused by anna" in post(client, "set_subscription_active", stored.pk, active="no")
    post(client, "set_subscription_active", stored.pk, active="yes")

    stored.refresh_from_db()
    waiting.refresh_from_db()
    assert (stored.is_active, stored.failures, stored.paused_reason) == (True, 0, "")
    assert waiting.not_before_at <= timezone.now()


def test_test_button_queues_one_notice_and_starts_the_worker(
    client: Client, anna: User, hints: list[str]
) -> None:
    stored = make_subscription(anna)

    page = post(client, "test_subscription", stored.pk)

    assert "Test queued" in page
    assert "Test notification" in page
    assert hints == ["notify"]
    assert Notice.objects.get().state == NoticeState.WAITING


def test_paused_subscription_sends_no_test(client: Client, anna: User) -> None:
    stored = make_subscription(anna, is_active=False)

    assert "resume it first" in post(client, "test_subscription", stored.pk)
    assert not Notice.objects.exists()


def test_log_shows_every_attempt_and_escapes_answers(client: Client, anna: User) -> None:
    stored = make_subscription(anna)
    log = [
        {"at": "2026-11-21T12:00:00+00:00", "outcome": "answered <b>503</b>"},
        {"at": "2026-11-21T12:01:00+00:00", "outcome": ""},
    ]
    Notice.objects.create(
        subscription=stored,
        key="incident 12: opened",
        body={"subject": "Regression <script>"},
        created_at=NOON,
        not_before_at=NOON,
        attempts=12,
        log=log,
    )
    Notice.objects.create(
        subscription=stored,
        key="host 1 silent",
        body={"reported_in": "x"},
        created_at=NOON,
        not_before_at=NOON,
        state="sent",
    )

    page = read(client, "subscription", stored.pk)

    assert "answered &lt;b&gt;503&lt;/b&gt;" in page
    assert "Regression &lt;script&gt;" in page
    assert "no outcome yet" in page
    assert "last 2 of 12" in page
    assert "host 1 silent" not in page


def test_new_secret_replaces_the_old_one(client: Client, anna: User) -> None:
    stored = make_subscription(anna, channel=Channel.WEBHOOK)

    page = post(client, "renew_subscription_secret", stored.pk)

    renewed = Subscription.objects.get().secret
    assert renewed != stored.secret
    assert renewed in page
    assert "only webhooks have a secret" in post(
        client, "renew_subscription_secret", make_subscription(anna).pk
    )


def test_deletion_includes_the_log(client: Client, anna: User) -> None:
    stored = make_subscription(anna)
    Notice.objects.create(subscription=stored, key="a", created_at=NOON, not_before_at=NOON)

    post(client, "remove_subscription", stored.pk)

    assert not Subscription.objects.exists()
    assert not Notice.objects.exists()


def test_subscriptions_of_others_are_hidden_from_viewers_and_without_secrets_for_admins(
    client: Client, admin: Client
) -> None:
    other = make_subscription(channel=Channel.SLACK, address="https://hooks.example.org/T0/SECRET")

    assert client.get(reverse("subscription", args=[other.pk])).status_code == 404
    assert "hooks.example.org" not in read(client, "subscriptions")
    everybody = admin.get(reverse("subscriptions"), {"all": "1"}).content.decode()
    assert "https://hooks.example.org/…" in everybody
    for page in (everybody, read(admin, "subscription", other.pk)):
        assert "SECRET" not in page
    assert admin.get(reverse("edit_subscription", args=[other.pk])).status_code == 404


def test_viewer_cannot_list_all(client: Client) -> None:
    make_subscription(address="ben@example.org")

    assert "ben@example.org" not in client.get(reverse("subscriptions"), {"all": "1"}).content.decode()


def test_list_asks_as_much_for_many_as_for_one(
    client: Client, anna: User, django_assert_num_queries: Any
) -> None:
    for _ in range(6):
        make_subscription(anna)

    with django_assert_num_queries(4):  # session, person, subscriptions with counts, new incidents of the bar
        read(client, "subscriptions")


def test_editor_manages_only_their_own(editor: Client) -> None:
    other = make_subscription(make_user(Role.ADMIN))

    assert editor.post(reverse("remove_subscription", args=[other.pk])).status_code == 404
    assert Subscription.objects.exists()


def test_metrics_and_thresholds_are_saved_and_shown(client: Client) -> None:
    page = post(
        client,
        "add_subscription",
        **{**FORM, "metrics": "latency_p99_ns", "thresholds": "p99 5ms\n\niops > 10k\n"},
    )

    stored = Subscription.objects.get()
    assert (stored.metrics, stored.thresholds) == (["latency_p99_ns"], ["p99 latency < 5 ms", "IOPS > 10k"])
    assert "incidents in p99 latency only" in page
    assert "p99 latency &lt; 5 ms" in page
    form = read(client, "edit_subscription", stored.pk)
    assert "p99 latency &lt; 5 ms\nIOPS &gt; 10k</textarea>" in form


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [
        ("p99 < 5", "a unit is required for p99 latency"),
        ("flavor > 3", "unknown metric"),
        ("\n".join(f"iops > {number}" for number in range(1, 12)), "At most 10 thresholds; these are 11"),
    ],
)
def test_bad_threshold_is_reported_at_its_field(client: Client, thresholds: str, words: str) -> None:
    response = client.post(reverse("add_subscription"), {**FORM, "thresholds": thresholds})

    assert response.status_code == 400
    assert words in response.context["form"].errors["thresholds"][0]
    assert not Subscription.objects.exists()


def test_preview_states_present_violations_and_saves_nothing(client: Client) -> None:
    violating = add_series([9e6] * 3, metric="latency_p99_ns", host=make_host("db-1"))
    add_series([1e6] * 3, metric="latency_p99_ns", host=make_host("db-2"))

    page = client.post(
        reverse("add_subscription"), {**FORM, "thresholds": "p99 5ms", "do": "preview"}
    ).content.decode()

    assert "<strong>p99 latency &lt; 5 ms</strong>: violated in 1 of 2 series" in page
    assert f'href="/series/{violating.pk}/?metric=latency_p99_ns">series {violating.pk}</a>' in page
    assert not Subscription.objects.exists()


def test_page_lists_present_violations(client: Client, anna: User) -> None:
    violating = add_series([9e6] * 3, metric="latency_p99_ns", host=make_host("db-1"))
    post(client, "add_subscription", **{**FORM, "thresholds": "p99 5ms"})
    stored = Subscription.objects.get()

    page = read(client, "subscription", stored.pk)

    assert "violated in 1 series" in page
    assert f'href="/series/{violating.pk}/?metric=latency_p99_ns"' in page
    assert "9.00 ms" in page
    assert "violated in 1 series" in read(client, "subscriptions")


def test_layout_question_of_a_ranking_is_watched(client: Client) -> None:
    plant_layouts()
    ranking = client.get("/layouts/?iops=20000&p99_ms=3.0&pattern=randread").content.decode()
    (link,) = re.findall(r'href="(/subscriptions/add\?layout_question=[^"]+)"', ranking)
    form = client.get(link).context["form"]
    question = form.initial["layout_question"]
    assert (form.initial["notify_incidents"], form.initial["notify_silent_hosts"]) == (False, False)

    page = post(
        client,
        "add_subscription",
        **{
            **FORM,
            "notify_incidents": "",
            "layout_question": f"https://bench.example.org/layouts/?{question}",
        },
    )

    stored = Subscription.objects.get()
    assert (stored.layout_question, stored.notify_incidents) == ("iops=20000&p99_ms=3", False)
    assert "no incidents" in page
    assert "Not evaluated yet" in page
    notify_layout_answers(find_layout_answer, refusal=NotAnswerable)
    page = read(client, "subscription", stored.pk)
    assert "meets the requirement for USD 581 per month" in page
    assert "Closest miss:" in page


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("pattern=randread", "state iops or mb_per_s"),
        ("https://bench.example.org/scaling/?iops=1", "Not an address of Choose a layout"),
        ("iops=many", "iops: Enter a number"),
        ("iops=1&q=flavor:sweet", "q: "),
        ("iops=1&q=" + "host:a%20" * 240, "More than 2000 characters"),
    ],
)
def test_bad_layout_question_is_reported_at_its_field(client: Client, question: str, words: str) -> None:
    response = client.post(reverse("add_subscription"), {**FORM, "layout_question": question})

    assert response.status_code == 400
    assert words in response.context["form"].errors["layout_question"][0]


def test_button_of_a_ranking_is_for_users_only(client: Client, settings: Any) -> None:
    settings.PUBLIC_READ = True

    assert "Notify on change" in client.get("/layouts/?iops=1").content.decode()
    assert "Notify on change" not in Client().get("/layouts/?iops=1").content.decode()
