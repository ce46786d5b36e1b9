"""System checks: a dangerous mix of settings is said before it hurts."""

from typing import Any

import structlog
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register, run_checks

log = structlog.get_logger(__name__)


@register(Tags.security, deploy=True)
def check_secret_key(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse to deploy with the key that every checkout knows."""
    if settings.SECRET_KEY.startswith("insecure-"):
        return [
            Error(
                "BENCHAPP_SECRET_KEY is not set.",
                hint="Set 50 random characters or more (openssl rand -hex 32); `manage.py up` generates them.",
                id="benchapp.E001",
            )
        ]
    return []


@register(Tags.security)
def check_public_debug(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse tracebacks for strangers."""
    if settings.DEBUG and settings.PUBLIC_URL:
        return [
            Error(
                f"BENCHAPP_DEBUG is on while BENCHAPP_PUBLIC_URL is {settings.PUBLIC_URL}.",
                hint="Turn BENCHAPP_DEBUG off: it shows settings and source to whoever meets an error.",
                id="benchapp.E002",
            )
        ]
    return []


@register(Tags.security)
def check_public_url(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn of sign-ins over a network without TLS."""
    if settings.PUBLIC_URL.startswith("http://") and not any(
        name in settings.PUBLIC_URL for name in ("//127.0.0.1", "//localhost", "//[::1]")
    ):
        return [
            Warning(
                f"BENCHAPP_PUBLIC_URL is {settings.PUBLIC_URL}: passwords and tokens cross the network in clear.",
                hint="Put a TLS proxy in front and write https:// here.",
                id="benchapp.W001",
            )
        ]
    return []


@register(Tags.security)
def check_proxies(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn of a TLS proxy that is not trusted: all people then seem to come from its address."""
    if settings.PUBLIC_URL.startswith("https://") and not settings.TRUSTED_PROXIES:
        return [
            Warning(
                f"BENCHAPP_PUBLIC_URL is {settings.PUBLIC_URL} and BENCHAPP_TRUSTED_PROXIES is empty: limits by "
                "address, such as that of failed sign-ins, count all people as one.",
                hint="Write the addresses of the TLS proxy, as this server sees them, into BENCHAPP_TRUSTED_PROXIES.",
                id="benchapp.W004",
            )
        ]
    return []


def log_warnings() -> None:
    """Write what the checks find into the log: a server process runs none of them otherwise."""
    for message in run_checks(tags=[Tags.security]):
        log.warning("settings.check", id=message.id, problem=message.msg, hint=message.hint)


@register(Tags.security)
def check_email(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn of a mail password that crosses the network in clear, and of notices whose links lead nowhere."""
    server = settings.EMAIL_SERVER
    found: list[CheckMessage] = []
    if server is not None and server.password and server.security == "none" and not _is_here(server.host):
        found.append(
            Error(
                f"BENCHAPP_EMAIL_URL sends a password to {server.host} without encryption.",
                hint="Write smtp+starttls:// or smtps:// instead of smtp://.",
                id="benchapp.E003",
            )
        )
    if server is not None and not settings.PUBLIC_URL:
        found.append(
            Warning(
                "BENCHAPP_EMAIL_URL is set and BENCHAPP_PUBLIC_URL is not: mails will have no links.",
                hint="Write the address in people's browsers into BENCHAPP_PUBLIC_URL.",
                id="benchapp.W002",
            )
        )
    return found


@register(Tags.security)
def check_webhooks(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn of webhooks that may go everywhere inside: whoever signs in could ask this network's own services."""
    wide = [str(network) for network in settings.WEBHOOK_ALLOW_PRIVATE if network.prefixlen == 0]
    loops = [str(network) for network in settings.WEBHOOK_ALLOW_PRIVATE if network.is_loopback]
    linked = [str(network) for network in settings.WEBHOOK_ALLOW_PRIVATE if network.is_link_local]
    if not (wide or loops or linked):
        return []
    return [
        Warning(
            f"BENCHAPP_WEBHOOK_ALLOW_PRIVATE allows {', '.join(wide + loops + linked)}.",
            hint="Name the receiver's own address or network only: these reach this machine or a cloud's metadata.",
            id="benchapp.W003",
        )
    ]


def _is_here(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")
