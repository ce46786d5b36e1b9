"""Typed readers of environment variables; ImproperlyConfigured for invalid values."""

import os
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from zoneinfo import ZoneInfo

from django.core.exceptions import ImproperlyConfigured

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}

SECRET_KEY_LENGTH: Final = 50
SECRET_KEY_CHARACTERS: Final = 5

Security = Literal["none", "starttls", "tls"]
_EMAIL_SCHEMES: Final[dict[str, tuple[Security, int]]] = {
    "smtp": ("none", 25),
    "smtp+starttls": ("starttls", 587),
    "smtps": ("tls", 465),
}


@dataclass(frozen=True, slots=True)
class EmailServer:
    """An SMTP server; security: how the connection is encrypted."""

    host: str
    port: int
    user: str
    password: str
    security: Security


def read_text(name: str, default: str = "") -> str:
    """Return a variable without surrounding whitespace."""
    return os.environ.get(name, default).strip()


def read_secret(name: str) -> str:
    """Return a variable's text, or the content of the file in NAME_FILE (a mounted secret); "" without both."""
    text, file = read_text(name), read_text(f"{name}_FILE")
    if not file:
        return text
    if text:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set; set only one")
    try:
        secret = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{name}_FILE: {file} cannot be read: {error}") from None
    if not secret:
        raise ImproperlyConfigured(f"{name}_FILE: {file} is empty")
    return secret


def read_secret_key(name: str, *, default: str) -> str:
    """Return a sufficiently long and random key; the default if none is set."""
    key = read_secret(name)
    if not key:
        return default
    # Requirements of Django's security.W009, which only `check --deploy` runs.
    if len(key) < SECRET_KEY_LENGTH or len(set(key)) < SECRET_KEY_CHARACTERS:
        raise ImproperlyConfigured(
            f"{name} has {len(key)} characters, {len(set(key))} of them different: sessions signed with it could be "
            f"forged. Set at least {SECRET_KEY_LENGTH} random ones: openssl rand -hex 32"
        )
    return key


def read_flag(name: str, *, default: bool) -> bool:
    """Return a boolean: 1/0, true/false, yes/no or on/off."""
    text = os.environ.get(name, "").strip().lower()
    if name not in os.environ:
        return default
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={text!r} is not a boolean; use 1 or 0")


def read_integer(name: str, *, default: int, minimum: int, maximum: int) -> int:
    """Return a whole number within bounds (both inclusive)."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={text!r} is not a whole number") from None
    if not minimum <= value <= maximum:
        raise ImproperlyConfigured(f"{name}={value} is outside {minimum}–{maximum}")
    return value


def read_list(name: str, *, default: tuple[str, ...] = ()) -> list[str]:
    """Return comma-separated values."""
    text = os.environ.get(name, "").strip()
    return [part.strip() for part in text.split(",") if part.strip()] if text else list(default)


def read_origins(name: str) -> list[str]:
    """Return comma-separated origins: https://grafana.example, http://127.0.0.1:3000; or "*" alone for all."""
    origins = read_list(name)
    for text in origins:
        parts = urlsplit(text)
        is_origin = parts.scheme in ("http", "https") and parts.netloc and "@" not in parts.netloc
        if not (is_origin and text == f"{parts.scheme}://{parts.netloc}") and origins != ["*"]:
            raise ImproperlyConfigured(
                f"{name}: {text!r} is not a valid origin (https://grafana.example, http://127.0.0.1:3000; or * alone)"
            )
    return origins


def read_networks(name: str) -> list[IPv4Network | IPv6Network]:
    """Return comma-separated addresses and networks, not host names."""
    networks = []
    for text in read_list(name):
        try:
            networks.append(ip_network(text, strict=False))
        except ValueError:
            raise ImproperlyConfigured(
                f"{name}: {text!r} is not a valid address or network (192.0.2.1, 10.0.0.0/8)"
            ) from None
    return networks


def read_database(name: str, password_name: str, *, default: str) -> dict[str, Any]:
    """Return Django's settings for a postgresql:// URL; `?host=` may name a socket directory.

    The password is that of the URL, else the secret `password_name`.
    """
    address = urlsplit(read_text(name, default))
    if address.scheme not in ("postgresql", "postgres"):
        raise ImproperlyConfigured(
            f"{name} must begin with postgresql://, not {address.scheme!r}: benchapp runs on PostgreSQL only"
        )
    options = dict(parse_qsl(address.query))
    host = options.pop("host", None) or address.hostname or ""
    user = options.pop("user", None) or (unquote(address.username) if address.username else "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(address.path.lstrip("/")) or "benchapp",
        "USER": user,
        "PASSWORD": unquote(address.password) if address.password else read_secret(password_name),
        "HOST": host,
        "PORT": str(address.port or options.pop("port", "")),
        "OPTIONS": options,
    }


def read_broker(name: str, password_name: str) -> str:
    """Return the broker URL; without a password, the secret `password_name` is inserted."""
    url = read_text(name)
    password = read_secret(password_name)
    address = urlsplit(url)
    if not password or address.password or address.scheme not in ("redis", "rediss"):
        return url
    return address._replace(
        netloc=f"{address.username or ''}:{quote(password, safe='')}@{address.netloc.rpartition('@')[2]}"
    ).geturl()


def read_time_zone(name: str, *, default: str) -> ZoneInfo:
    """Return a time zone of the IANA database."""
    text = read_text(name) or default
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ImproperlyConfigured(
            f"{name}={text!r} is not a time zone of this system; use a name of the IANA database: Europe/Berlin"
        ) from None


def read_ports(name: str, *, default: tuple[int, ...]) -> tuple[int, ...]:
    """Return comma-separated port numbers."""
    ports = []
    for text in read_list(name, default=tuple(str(port) for port in default)):
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
            raise ImproperlyConfigured(f"{name}: {text!r} is not a valid port (1–65535)")
        ports.append(int(text))
    return tuple(ports)


def read_email_server(name: str) -> EmailServer | None:
    """Return the server of smtps://user:password@host:port, smtp+starttls:// or smtp://; None if not set."""
    text = read_secret(name)
    if not text:
        return None
    try:
        address = urlsplit(text)
        port = address.port
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is not a valid URL: {error}") from None
    if address.scheme not in _EMAIL_SCHEMES or not address.hostname:
        known = ", ".join(f"{scheme}://" for scheme in _EMAIL_SCHEMES)
        raise ImproperlyConfigured(f"{name} must be {known} with a host, as smtps://user:password@host")
    if address.path.strip("/") or address.query or address.fragment:
        raise ImproperlyConfigured(
            f"{name} has more than user, password, host and port; percent-encode / ? #"
        )
    security, default_port = _EMAIL_SCHEMES[address.scheme]
    return EmailServer(
        host=address.hostname,
        port=port or default_port,
        user=unquote(address.username or ""),
        password=unquote(address.password or ""),
        security=security,
    )


def read_oidc_provider(*, roles: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the fields of an OidcProvider (accounts.write.accounts); None without issuer. roles: valid ones."""
    issuer = read_text("BENCHAPP_OIDC_ISSUER")
    if not issuer:
        return None
    address = urlsplit(issuer)
    is_local = address.hostname in ("127.0.0.1", "localhost", "::1")
    if not address.hostname or address.query or (address.scheme != "https" and not is_local):
        raise ImproperlyConfigured(f"BENCHAPP_OIDC_ISSUER must be https:// with a host: {issuer!r}")
    client_id = read_text("BENCHAPP_OIDC_CLIENT_ID")
    if not client_id:
        raise ImproperlyConfigured("BENCHAPP_OIDC_CLIENT_ID is not set; BENCHAPP_OIDC_ISSUER is")
    scopes = read_text("BENCHAPP_OIDC_SCOPES") or "openid profile email"
    if "openid" not in scopes.split():
        raise ImproperlyConfigured(f"BENCHAPP_OIDC_SCOPES must contain openid: {scopes!r}")
    return {
        "issuer": issuer,
        "client_id": client_id,
        "client_secret": read_secret("BENCHAPP_OIDC_CLIENT_SECRET"),
        "name": read_text("BENCHAPP_OIDC_NAME") or "single sign-on",
        "scopes": scopes,
        "username_claim": read_text("BENCHAPP_OIDC_USERNAME_CLAIM") or "preferred_username",
        "groups_claim": read_text("BENCHAPP_OIDC_GROUPS_CLAIM") or "groups",
        **_read_roles("BENCHAPP_OIDC_ROLES", roles),
        "links_by_email": read_flag("BENCHAPP_OIDC_LINK_BY_EMAIL", default=False),
    }


def _read_roles(name: str, known: tuple[str, ...]) -> dict[str, Any]:
    """Return roles and pools of groups, from GROUP=ROLE and GROUP=viewer:POOL+POOL."""
    roles, pools = {}, {}
    for pair in read_list(name):
        group, _, given = pair.rpartition("=")
        role, limit, names = given.partition(":")
        if not group or role not in known:
            raise ImproperlyConfigured(f"{name}: {pair!r} is not GROUP=ROLE with one of {', '.join(known)}")
        roles[group.strip()] = role
        if limit:
            pools[group.strip()] = tuple(filter(None, names.split("+")))
            if role != "viewer" or not pools[group.strip()]:
                raise ImproperlyConfigured(
                    f"{name}: {pair!r} is not GROUP=viewer:POOL or GROUP=viewer:POOL+POOL"
                )
    return {"roles": roles, "pools": pools}
