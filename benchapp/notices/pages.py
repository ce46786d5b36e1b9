"""Subscriptions: list, form, deliveries; the confirmation of an address."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.accounts.pages.tokens import keep_for_next_page, take_from_last_page
from benchapp.accounts.write.throttle import LimitReached
from benchapp.catalog.metrics import CATALOG, JUDGED_METRICS
from benchapp.framework.pages.access import can, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.list_entries import ResourceForm
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.queue import wake_notify
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import CONFIRMED_RUNS, Channel, Role, Severity, StoredLayoutAnswer, Subscription
from benchapp.notices.channels.transport import get_transport
from benchapp.notices.read import (
    NOTICES_SHOWN,
    VIOLATIONS_SHOWN,
    list_notices,
    list_subscriptions,
    list_violations,
    read_subscription,
)
from benchapp.notices.write import email_confirmation
from benchapp.notices.write.email_confirmation import MailRefused, ask_confirmation
from benchapp.notices.write.enqueue import PAST_DAYS, count_past_notices
from benchapp.notices.write.subscriptions import (
    NotConfirmed,
    change_subscription,
    check_subscription,
    create_subscription,
    delete_subscription,
    pause_subscription,
    renew_secret,
    request_test,
    resume_subscription,
)
from benchapp.notices.write.thresholds import THRESHOLDS_MAXIMUM, preview_thresholds

_HOURS = [(str(hour), f"{hour:02}:00") for hour in range(24)]
_SEVERITIES = [
    (Severity.LOW.value, "low (all)"),
    (Severity.MEDIUM.value, "medium"),
    (Severity.HIGH.value, "high"),
]
_METRICS = [(name, CATALOG[name].label) for name in JUDGED_METRICS]
# Several channels have the same.
_ADDRESSES = dict.fromkeys(get_transport(channel).address_help for channel in Channel.values)
_TEXT_INPUT: Final = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})


class ThresholdsField(forms.CharField):
    """Texts, one a line."""

    def __init__(self) -> None:
        super().__init__(
            label="Thresholds",
            required=False,
            max_length=1000,
            help_text=f"One per line, at most {THRESHOLDS_MAXIMUM}: p99 < 5 ms, iops > 10k, bandwidth >= 200 MB/s.",
            widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
        )

    def prepare_value(self, value: object) -> object:
        """Return the lines of stored texts."""
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def clean(self, value: object) -> list[str]:
        """Return the lines that are not empty."""
        return [line.strip() for line in str(super().clean(value)).splitlines() if line.strip()]


class _QuietHourField(forms.TypedChoiceField):
    def __init__(self, **options: Any) -> None:
        super().__init__(coerce=int, required=False, empty_value=None, **options)


class SubscriptionForm(ResourceForm):
    """Channel, filter and delivery times; the channel of a stored subscription cannot be changed."""

    channel = forms.ChoiceField(label="Channel", choices=Channel.choices)
    minimum_severity = forms.ChoiceField(label="Minimum severity", choices=_SEVERITIES)
    metrics = forms.MultipleChoiceField(
        label="Metrics of incidents",
        choices=_METRICS,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None: all metrics.",
    )
    thresholds = ThresholdsField()
    layout_question = forms.CharField(
        label="Layout question",
        required=False,
        max_length=2200,
        help_text="Paste the address of Choose a layout. You are notified when its answer changes.",
        widget=_TEXT_INPUT,
    )
    digest_hour = forms.TypedChoiceField(label="Digest time (UTC)", choices=_HOURS, coerce=int)
    quiet_from_hour = _QuietHourField(label="Quiet hours from (UTC)", choices=[("", "never"), *_HOURS])
    quiet_to_hour = _QuietHourField(
        label="Quiet hours until (UTC)",
        choices=[("", "–"), *_HOURS],
        help_text="Notifications from quiet hours are sent afterwards.",
    )

    class Meta:
        model = Subscription
        fields = Subscription.given
        labels: Final = {
            "notify_incidents": "Notify about incidents",
            "notify_silent_hosts": "Notify about silent and failing hosts",
            "further_runs": "Further runs before a notice",
            "is_digest": "Daily digest",
        }
        help_texts: Final = {
            "address": f"{', '.join(_ADDRESSES)}.",
            "filter": "Filter bar syntax: host:db-* volume_type:gp3. Empty: everything.",
            "further_runs": "0: suspected regressions, at once. 3: confirmed ones. More: certain ones.",
            "notify_incidents": "",
            "notify_silent_hosts": "",
        }
        widgets: Final = {"address": _TEXT_INPUT, "filter": _TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk:
            del self.fields["channel"]


@never_cache
@require_safe
@needs_role(Role.VIEWER)
def subscriptions(request: HttpRequest) -> HttpResponse:
    """List one's own subscriptions; for admins ?all=1 lists all."""
    person = read_person(request)
    shows_all = can(person, Role.ADMIN) and request.GET.get("all") == "1"
    context = {
        "subscriptions": list_subscriptions(person, owner=None if shows_all else person),
        "shows_all": shows_all,
        "has_email": settings.EMAIL_SERVER is not None,
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/subscriptions", is_personal=True),
    }
    return render(request, "notices/subscriptions.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.VIEWER)
def add_subscription(request: HttpRequest) -> HttpResponse:
    """Create a subscription; a webhook's secret is shown once on the next page."""
    person = read_person(request)
    has_email = settings.EMAIL_SERVER is not None
    first: dict[str, Any] = {
        "channel": Channel.EMAIL if has_email else Channel.SLACK,
        "address": person.email if has_email else "",
        "filter": request.GET.get("filter", "")[:2000],
    }
    if question := request.GET.get("layout_question", "")[:2200]:
        # Its notices are those of the question, unless the user asks for more.
        first |= {"layout_question": question, "notify_incidents": False, "notify_silent_hosts": False}
    form = SubscriptionForm(
        request.POST if request.method == "POST" else None, instance=Subscription(), initial=first
    )
    made, previews = _apply(request, form, lambda values: create_subscription(person, values))
    if made is not None:
        _show_secret(request, made.secret)
        wake_notify()
        return redirect("subscription", subscription_id=made.pk)
    context = {"form": form, "has_email": has_email, "previews": previews}
    return render(request, "notices/add_subscription.html", context, status=400 if form.errors else 200)


@never_cache
@require_safe
@needs_role(Role.VIEWER)
def subscription(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Show one subscription with its delivery log."""
    row = _find(request, subscription_id)
    asked = sorted({0, CONFIRMED_RUNS, 10, row.further_runs})
    context = {
        "subscription": row,
        "past_notices": zip(asked, count_past_notices(row, further_runs=asked), strict=True),
        "past_days": PAST_DAYS,
        "is_own": row.owner_id == read_person(request).pk,
        "is_signed": get_transport(row.channel).is_signed,
        "lacks_email": row.channel == Channel.EMAIL and settings.EMAIL_SERVER is None,
        "notices": list_notices(subscription_id),
        "notices_shown": NOTICES_SHOWN,
        "violations": list_violations(subscription_id) if row.thresholds else [],
        "violations_shown": VIOLATIONS_SHOWN,
        "layout_answer": StoredLayoutAnswer.objects.filter(pk=subscription_id).first()
        if row.layout_question
        else None,
        "one_time_secret": take_from_last_page(request),
    }
    return render(request, "notices/subscription.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.VIEWER)
def edit_subscription(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Change address, filter and hours of one's own subscription."""
    stored = _find_own(request, subscription_id)
    form = SubscriptionForm(request.POST if request.method == "POST" else None, instance=stored)
    changed, previews = _apply(request, form, lambda values: change_subscription(stored, values))
    if changed is not None:
        messages.success(request, "Subscription saved.", extra_tags="good")
        wake_notify()
        return redirect("subscription", subscription_id=subscription_id)
    context = {"form": form, "subscription": stored, "previews": previews}
    return render(request, "notices/edit_subscription.html", context, status=400 if form.errors else 200)


@require_POST
@needs_role(Role.VIEWER)
def set_subscription_active(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Pause or resume a subscription."""
    row = _find(request, subscription_id)
    if request.POST.get("active") == "yes":
        resume_subscription(row.pk)
        text = "Resumed. Notices queued for less than a day are sent now."
    else:
        pause_subscription(row.pk, by=read_person(request))
        text = "Paused. No new notices are created; queued notices are kept for a day."
    messages.success(request, text, extra_tags="good")
    return redirect("subscription", subscription_id=subscription_id)


@require_POST
@needs_role(Role.VIEWER)
def send_test(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Queue a test notice; the delivery log shows its outcome."""
    row = _find(request, subscription_id)
    if not row.is_active:
        messages.error(request, "Subscription is paused: resume it first.", extra_tags="bad")
        return redirect("subscription", subscription_id=subscription_id)
    try:
        is_new = request_test(Subscription.objects.get(pk=row.pk), read_person(request))
    except (NotConfirmed, LimitReached) as problem:
        messages.error(request, f"Test not sent: {problem}.", extra_tags="bad")
    else:
        if is_new:
            wake_notify()
            messages.success(
                request, "Test queued. The outcome appears below within a minute.", extra_tags="good"
            )
        else:
            messages.error(
                request,
                "A test was already sent within the last minute. See the outcome below.",
                extra_tags="bad",
            )
    return redirect("subscription", subscription_id=subscription_id)


@require_POST
@needs_role(Role.VIEWER)
def send_confirmation(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Send the confirmation mail of one's own subscription again."""
    stored = _find_own(request, subscription_id)
    if not stored.is_active:
        messages.error(request, "Subscription is paused: resume it first.", extra_tags="bad")
        return redirect("subscription", subscription_id=subscription_id)
    try:
        is_needed = ask_confirmation(stored)
    except (MailRefused, LimitReached) as problem:
        messages.error(request, f"Mail not sent: {problem}.", extra_tags="bad")
    else:
        wake_notify()
        text = "Confirmation mail queued." if is_needed else "No confirmation needed."
        messages.success(request, text, extra_tags="good")
    return redirect("subscription", subscription_id=subscription_id)


@require_POST
@needs_role(Role.VIEWER)
def renew_subscription_secret(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Replace the secret of one's own webhook; the next page shows it once."""
    try:
        _show_secret(request, renew_secret(_find_own(request, subscription_id)))
    except BadValue as problem:
        messages.error(request, f"Not changed: {problem}.", extra_tags="bad")
    return redirect("subscription", subscription_id=subscription_id)


@require_POST
@needs_role(Role.VIEWER)
def remove_subscription(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Delete a subscription with its delivery log."""
    row = _find(request, subscription_id)
    delete_subscription(row.pk)
    messages.success(request, f"Subscription for {row.display_address} deleted.", extra_tags="good")
    return redirect("subscriptions")


def _apply(
    request: HttpRequest,
    form: SubscriptionForm,
    save: Callable[[Mapping[str, Any]], Subscription],
) -> tuple[Subscription | None, list[dict[str, Any]] | None]:
    """Save a valid form, or with `do=preview` return what its thresholds concern now; None where nothing was done."""
    if request.method != "POST" or not form.is_valid():
        return None, None
    try:
        if request.POST.get("do") == "preview":
            check_subscription(form.instance)
            return None, preview_thresholds(form.instance.filter, form.instance.thresholds)
        return save(form.cleaned_data), None
    except BadValue as problem:
        form.refuse(problem)
        return None, None


def _find(request: HttpRequest, subscription_id: int) -> Subscription:
    """Return a subscription that this person may see: their own, or for admins any. Raises Http404."""
    person = read_person(request)
    row = read_subscription(subscription_id, person)
    if row is None or not (row.owner_id == person.pk or can(person, Role.ADMIN)):
        raise Http404(f"You have no subscription {subscription_id}.")
    return row


def _find_own(request: HttpRequest, subscription_id: int) -> Subscription:
    """Return one's own subscription; no role can see the address or secret of another person's. Raises Http404."""
    stored = Subscription.objects.filter(pk=subscription_id, owner=read_person(request)).first()
    if stored is None:
        raise Http404(f"You have no subscription {subscription_id}.")
    return stored


def _show_secret(request: HttpRequest, secret: str) -> None:
    if secret:
        keep_for_next_page(request, "Webhook signing secret", secret)


_CHOICES: Final = {
    "confirm": email_confirmation.confirm_address,
    "refuse": email_confirmation.refuse_address,
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm_address(request: HttpRequest, token: str) -> HttpResponse:
    """Show the choice with GET (mail scanners follow links); apply it with POST."""
    address = email_confirmation.find_address(token)
    choice = request.POST.get("choice", "") if request.method == "POST" else ""
    if address is None or (choice in _CHOICES and not _CHOICES[choice](token)):
        return _forbid_indexing(render(request, "notices/confirm_address_refused.html", status=410))
    if choice == "confirm":
        wake_notify()
    context = {"address": address.address, "username": address.owner.username, "choice": choice}
    return _forbid_indexing(render(request, "notices/confirm_address.html", context))


def _forbid_indexing(answer: HttpResponse) -> HttpResponse:
    """Exclude the page from search engines: its URL is a secret."""
    answer["X-Robots-Tag"] = "noindex, nofollow"
    return answer
