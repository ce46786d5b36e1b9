"""Manage one's own subscriptions and read their delivery logs."""

from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.accounts.pages.tokens import keep_for_next_page, take_from_last_page
from benchapp.accounts.write.throttle import LimitReached
from benchapp.framework.pages.access import can, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.queue import wake_notify
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Channel, Role, Subscription
from benchapp.notices.channels.transport import get_transport
from benchapp.notices.pages.forms import SubscriptionForm
from benchapp.notices.read.layout_answers import read_layout_answer
from benchapp.notices.read.subscriptions import (
    NOTICES_SHOWN,
    list_notices,
    list_subscriptions,
    read_subscription,
)
from benchapp.notices.read.violations import VIOLATIONS_SHOWN, list_violations
from benchapp.notices.write.email_confirmation import MailRefused, ask_confirmation
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
from benchapp.notices.write.thresholds import ThresholdPreview, preview_thresholds


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
    context = {
        "subscription": row,
        "is_own": row.owner_id == read_person(request).pk,
        "is_signed": get_transport(row.channel).is_signed,
        "lacks_email": row.channel == Channel.EMAIL and settings.EMAIL_SERVER is None,
        "notices": list_notices(subscription_id),
        "notices_shown": NOTICES_SHOWN,
        "violations": list_violations(subscription_id) if row.thresholds else [],
        "violations_shown": VIOLATIONS_SHOWN,
        "layout_answer": read_layout_answer(subscription_id) if row.layout_question else None,
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
) -> tuple[Subscription | None, list[ThresholdPreview] | None]:
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
