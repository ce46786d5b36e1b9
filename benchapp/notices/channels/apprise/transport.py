"""Send a notice to a chat or paging service with Apprise, which knows their URLs and formats.

Apprise makes its connections, which cannot be checked as those of webhooks are (posting.py). Therefore
only services are allowed whose host Apprise fixes or whose domain is theirs; other hosts by the operator. Parameters
that make Apprise read files or other URLs are refused, redirects are not followed, certificates are verified.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from django.conf import settings

from benchapp.models import Subscription
from benchapp.notices.channels.posting import URL_MAXIMUM
from benchapp.notices.channels.transport import (
    RESOLUTIONS,
    AddressRefused,
    Message,
    NotDelivered,
    Transport,
    join_subjects,
    render_text,
)

# Apprise's schemes of services whose host Apprise fixes.
FIXED: Final = ("discord", "opsgenie", "pagerduty", "pover", "tgram")
# An alert of these calls a person. Apprise cannot close the alert of an earlier notice.
PAGING: Final = ("opsgenie", "pagerduty")
# Schemes whose URL has the host; domains of the service, because each tenant has another host.
DOMAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "ntfy": (),
    "ntfys": (),
    "workflows": (".logic.azure.com", ".api.powerplatform.com"),
}
# Scheme → Apprise's module and class.
_CLASSES: Final = {
    "discord": ("discord", "NotifyDiscord"),
    "ntfy": ("ntfy", "NotifyNtfy"),
    "ntfys": ("ntfy", "NotifyNtfy"),
    "opsgenie": ("opsgenie", "NotifyOpsgenie"),
    "pagerduty": ("pagerduty", "NotifyPagerDuty"),
    "pover": ("pushover", "NotifyPushover"),
    "tgram": ("telegram", "NotifyTelegram"),
    "workflows": ("workflows", "NotifyWorkflows"),
}
# Others name files (templates), URLs (attachments, images) or change the checks of connections.
_PARAMETERS: Final = frozenset({"priority", "region"})
_BODY_MAXIMUM: Final = 4000


class AppriseTransport(Transport):
    """A service that Apprise knows."""

    address_help = "Apprise URL (ntfy://TOPIC)"

    def check_address(self, address: str) -> None:
        """Raise AddressRefused for an Apprise URL that is not allowed."""
        check_service_url(address)

    def send(
        self, subscription: Subscription, messages: Sequence[Message], *, message_id: str, at: datetime
    ) -> str:
        """Send the messages as one text."""
        return send_to_service(
            subscription.address,
            title=join_subjects(messages),
            text=render_text(messages),
            is_problem=any(message.kind not in RESOLUTIONS for message in messages),
        )


def check_service_url(text: str) -> None:
    """Raise AddressRefused for an Apprise URL that is not allowed; its host is the service's, or the operator's.

    Apprise is not loaded: keys that it does not accept are found with the first notice.
    """
    if len(text) > URL_MAXIMUM or not text.isascii() or not text.isprintable() or " " in text:
        raise AddressRefused(f"an Apprise URL has at most {URL_MAXIMUM} characters of ASCII, without spaces")
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").rstrip(".")
        names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    except ValueError as error:
        raise AddressRefused(f"not a valid URL: {error}") from error
    if parts.scheme not in (*FIXED, *DOMAINS):
        known = ", ".join(sorted({*FIXED, *DOMAINS}))
        raise AddressRefused(f"choose a service with a scheme of {known}; other services take a webhook")
    # Apprise divides parameters at ";" as well, which parse_qsl takes for a part of a value.
    if names - _PARAMETERS or parts.fragment or ";" in text or "%3b" in text.lower():
        raise AddressRefused(f'only the parameters {", ".join(sorted(_PARAMETERS))} are allowed after "?"')
    if not host:
        raise AddressRefused("the URL has no key or host")
    if parts.scheme in FIXED or _is_topic(parts.scheme, parts.path) or host in settings.APPRISE_HOSTS:
        return
    domains = DOMAINS[parts.scheme]
    if not (domains and host.endswith(domains)):
        raise AddressRefused(
            f"the host {host[:80]} is not allowed; an operator can allow it (BENCHAPP_APPRISE_HOSTS)"
        )


def send_to_service(address: str, *, title: str, text: str, is_problem: bool = True) -> str:
    """Send one message and return the outcome for the log. Raises NotDelivered.

    is_problem: False for messages that only report what is resolved; they page nobody.
    """
    try:
        check_service_url(address)
    except AddressRefused as error:
        raise NotDelivered(f"refused: {error}") from error
    if not is_problem and urlsplit(address).scheme in PAGING:
        return "not sent: what is resolved pages nobody"
    service = _make_service(address)
    if service is None:
        raise NotDelivered("Apprise does not accept this URL: a key is missing or has another form")
    if not _leads_to_checked_host(service, address):
        raise NotDelivered("refused: Apprise reads another host in this URL")
    try:
        is_sent = service.notify(
            body=text[:_BODY_MAXIMUM], title=title, notify_type="warning" if is_problem else "success"
        )
    except (OSError, TypeError, ValueError) as error:
        raise NotDelivered(f"{service.service_name}: {type(error).__name__}") from error
    if not is_sent:
        raise NotDelivered(f"{service.service_name} did not accept it; the log of the worker has the reason")
    return f"delivered: {service.service_name}"


def _is_topic(scheme: str, path: str) -> bool:
    """Return whether this is ntfy://TOPIC, which Apprise sends to ntfy.sh."""
    return scheme in ("ntfy", "ntfys") and not path.strip("/")


def _leads_to_checked_host(service: Any, address: str) -> bool:
    """Return whether Apprise read the URL as `check_service_url` did."""
    parts = urlsplit(address)
    if parts.scheme in FIXED:
        return True
    if _is_topic(parts.scheme, parts.path):
        return bool(service.mode == "cloud")
    return str(service.host).lower().rstrip(".") == (parts.hostname or "").rstrip(".")


def _make_service(address: str) -> Any:
    """Return Apprise's object for an allowed URL, None if it does not accept the keys.

    Raises NotDelivered if Apprise finds parameters that `check_service_url` did not.
    """
    # Here, and the one service alone: Apprise has 140, whose modules take 50 MiB and a second.
    from apprise import AppriseAsset

    module, name = _CLASSES[urlsplit(address).scheme]
    kind = getattr(import_module(f"apprise.plugins.{module}"), name)
    read = kind.parse_url(address)
    if not read:
        return None
    if set(read.get("qsd", {})) - _PARAMETERS:
        raise NotDelivered("refused: Apprise reads further parameters in this URL")
    try:
        return kind(asset=AppriseAsset(http_redirects=False), **read)
    except TypeError:
        # So Apprise reports a key of another form.
        return None


TRANSPORT: Final = AppriseTransport()
