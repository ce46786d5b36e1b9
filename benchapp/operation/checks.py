"""System checks for unsafe combinations of settings."""

from typing import Any

import structlog
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register, run_checks
from django.core.checks import Warning as CheckWarning

log = structlog.get_logger(__name__)


@register(Tags.security, deploy=True)
def check_secret_key(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report the default secret key on deployment."""
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
    """Report debug mode with a public URL."""
    if settings.DEBUG and settings.PUBLIC_URL:
        return [
            Error(
                f"BENCHAPP_DEBUG is on while BENCHAPP_PUBLIC_URL is {settings.PUBLIC_URL}.",
                hint="Disable BENCHAPP_DEBUG: error pages show settings and source code.",
                id="benchapp.E002",
            )
        ]
    return []


@register(Tags.security, deploy=True)
def check_exposure(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report what is dangerous unless only this machine can reach the server."""
    names = [name for name in settings.ALLOWED_HOSTS if not _is_local(name.strip("[]"))]
    found: list[CheckMessage] = []
    if settings.DEBUG and not settings.PUBLIC_URL:
        found.append(
            Error(
                "BENCHAPP_DEBUG is on.",
                hint="Disable BENCHAPP_DEBUG: error pages show settings and source code.",
                id="benchapp.E005",
            )
        )
    if any(name.startswith((".", "*")) for name in names):
        found.append(
            CheckWarning(
                f"BENCHAPP_ALLOWED_HOSTS is {','.join(settings.ALLOWED_HOSTS)}: links in mails could lead to "
                "another server.",
                hint="Set BENCHAPP_ALLOWED_HOSTS to the host names of this server.",
                id="benchapp.W005",
            )
        )
    if settings.PUBLIC_READ and names:
        found.append(
            CheckWarning(
                f"BENCHAPP_PUBLIC_READ is on, and BENCHAPP_ALLOWED_HOSTS has {names[0]}: everybody who reaches the "
                "server reads all results.",
                hint="Set BENCHAPP_PUBLIC_READ=0.",
                id="benchapp.W006",
            )
        )
    if names and not settings.PUBLIC_URL:
        found.append(
            CheckWarning(
                f"BENCHAPP_ALLOWED_HOSTS has {names[0]}, and BENCHAPP_PUBLIC_URL is empty: without HTTPS passwords and "
                "tokens are sent unencrypted.",
                hint="Use a TLS proxy, and set BENCHAPP_PUBLIC_URL to its https:// address.",
                id="benchapp.W007",
            )
        )
    return found


@register(Tags.security)
def check_public_url(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn about sign-ins without TLS."""
    if settings.PUBLIC_URL.startswith("http://") and not any(
        name in settings.PUBLIC_URL for name in ("//127.0.0.1", "//localhost", "//[::1]")
    ):
        return [
            CheckWarning(
                f"BENCHAPP_PUBLIC_URL is {settings.PUBLIC_URL}: passwords and tokens are sent unencrypted.",
                hint="Use a TLS proxy and an https:// URL.",
                id="benchapp.W001",
            )
        ]
    return []


@register(Tags.security)
def check_proxies(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn about an untrusted TLS proxy: all requests then have its address."""
    if settings.PUBLIC_URL.startswith("https://") and not settings.TRUSTED_PROXIES:
        return [
            CheckWarning(
                f"BENCHAPP_PUBLIC_URL is {settings.PUBLIC_URL} and BENCHAPP_TRUSTED_PROXIES is empty: limits per "
                "address, such as failed sign-ins, apply to all users together.",
                hint="Set BENCHAPP_TRUSTED_PROXIES to the addresses of the TLS proxy as seen by this server.",
                id="benchapp.W004",
            )
        ]
    return []


def log_warnings() -> None:
    """Log the results of the checks, which server processes do not run otherwise."""
    for message in run_checks(tags=[Tags.security]):
        log.warning("settings.check", id=message.id, problem=message.msg, hint=message.hint)


@register(Tags.security)
def check_limits_file(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report a file of published limits that is not valid."""
    if not settings.LIMITS_FILE:
        return []
    # Numpy and the queries are loaded only with such a file.
    from benchapp.framework.read.limits import BadLimitsFile, read_known_limits

    try:
        read_known_limits()
    except BadLimitsFile as error:
        return [
            Error(
                f"BENCHAPP_LIMITS_FILE is not valid: {error}.",
                hint="benchapp/framework/read/limits.csv is an example; docs/scaling.md describes it.",
                id="benchapp.E004",
            )
        ]
    return []


@register(Tags.security)
def check_email(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report unencrypted e-mail passwords, and warn about e-mails without links."""
    server = settings.EMAIL_SERVER
    found: list[CheckMessage] = []
    if server is not None and server.password and server.security == "none" and not _is_local(server.host):
        found.append(
            Error(
                f"BENCHAPP_EMAIL_URL sends a password to {server.host} without encryption.",
                hint="Use smtp+starttls:// or smtps:// instead of smtp://.",
                id="benchapp.E003",
            )
        )
    if server is not None and not settings.PUBLIC_URL:
        found.append(
            CheckWarning(
                "BENCHAPP_EMAIL_URL is set but BENCHAPP_PUBLIC_URL is not: e-mails will have no links.",
                hint="Set BENCHAPP_PUBLIC_URL to the URL that users open.",
                id="benchapp.W002",
            )
        )
    return found


@register(Tags.security)
def check_webhooks(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn about webhooks to any internal address: users could send requests to internal services."""
    wide = [str(network) for network in settings.WEBHOOK_ALLOW_PRIVATE if network.prefixlen == 0]
    loops = [str(network) for network in settings.WEBHOOK_ALLOW_PRIVATE if network.is_loopback]
    linked = [str(network) for network in settings.WEBHOOK_ALLOW_PRIVATE if network.is_link_local]
    if not (wide or loops or linked):
        return []
    return [
        CheckWarning(
            f"BENCHAPP_WEBHOOK_ALLOW_PRIVATE allows {', '.join(wide + loops + linked)}.",
            hint="Use only the receiver's address or network: these include this machine or cloud metadata services.",
            id="benchapp.W003",
        )
    ]


def _is_local(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")
