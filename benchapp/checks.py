"""System checks: a dangerous mix of settings is said before it hurts."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register


@register(Tags.security, deploy=True)
def check_secret_key(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse to deploy with the key that every checkout knows."""
    if settings.SECRET_KEY.startswith("insecure-"):
        return [
            Error(
                "BENCHAPP_SECRET_KEY is not set.",
                hint="Set it to 50 random characters; `manage.py up` does it by itself.",
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
