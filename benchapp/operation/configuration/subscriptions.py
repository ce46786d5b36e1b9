"""Subscriptions. Addresses but those of e-mail are secrets: the file names a variable of the environment."""

import os
import re
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from django.utils.crypto import salted_hmac

from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.read.question_form import BadQuestion, canonicalize_question
from benchapp.models import Channel, Subscription, User
from benchapp.models.subscription import hide_secret
from benchapp.notices.write.subscriptions import (
    BadSubscription,
    SubscriptionSettings,
    change_subscription,
    create_subscription,
    delete_subscription,
    read_settings,
)
from benchapp.operation.configuration.section import ConfigurationSection, Member, StoredEntry, Values

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SALT: Final = "benchapp.operation.configuration.subscriptions"
_IDENTITY: Final = ("owner", "channel", "address")


def make_reference(channel: str, address: str) -> str:
    """Return an address as it is exported: of every channel but e-mail as ${CHANNEL_PLACE_DIGITS}.

    The place is what pages show of it. The digits distinguish addresses of one place; without the secret key of the
    installation, no address can be guessed from them.
    """
    if channel == Channel.EMAIL:
        return address
    shown = hide_secret(channel, address).removeprefix("https://").removeprefix("http://")
    place = re.sub(r"[^A-Z0-9]+", "_", shown.upper()).strip("_")
    return f"${{{channel.upper()}_{place}_{salted_hmac(_SALT, address).hexdigest()[:8].upper()}}}"


def _export(values: Values) -> Values:
    return {**values, "address": make_reference(values["channel"], values["address"])}


def _resolve(values: Values) -> Values:
    """Replace ${NAME} by the variable, or by the stored address that is exported under this name."""
    channel, address = values["channel"], values["address"]
    named = _REFERENCE.fullmatch(address)
    if channel == Channel.EMAIL:
        if named is not None:
            # Plans and errors show the addresses of e-mail: any secret of the environment could be read in them.
            raise BadValue("address", "a variable is not accepted for e-mail: write the address")
        return values
    if named is None:
        raise BadValue("address", "the address is a secret: write ${NAME}, and set NAME")
    if value := os.environ.get(named[1], "").strip():
        return {**values, "address": value}
    for row in Subscription.objects.filter(owner__username=values["owner"], channel=channel):
        if make_reference(channel, row.address) == address:
            return {**values, "address": row.address}
    raise BadValue("address", f"the variable {named[1]} is not set")


def _normalize(values: Values) -> Values:
    try:
        settings = asdict(read_settings(values))
        if settings["layout_question"]:
            settings["layout_question"] = canonicalize_question(settings["layout_question"])
        return {"owner": values["owner"], **settings}
    except BadQuestion as error:
        raise BadValue("layout_question", str(error)) from error
    except BadSubscription as error:
        if error.field == "address" and values["channel"] != Channel.EMAIL:
            # Reasons can quote the host, the port or more of the value.
            raise BadValue(
                "address",
                f"not an allowed address of the channel {values['channel']}. It is a secret and not shown here: the"
                " page New subscription gives the reason",
            ) from None
        raise


def _list_stored() -> Sequence[StoredEntry]:
    """Return all subscriptions; those of deactivated accounts are not exported: they get no notices."""
    rows = Subscription.objects.select_related("owner").order_by("owner__username", "pk")
    names = [each.name for each in fields(SubscriptionSettings)]
    return [
        StoredEntry(
            row,
            {"owner": row.owner.username, **{name: getattr(row, name) for name in names}},
            is_managed=row.owner.is_active,
        )
        for row in rows
    ]


def _create(values: Values, by: User | None) -> None:
    owner = User.objects.filter(username=values["owner"], is_active=True).first()
    if owner is None:
        raise BadValue("owner", f"there is no active account {values['owner']}")
    create_subscription(owner, values)


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    change_subscription(stored.row, values)


def _remove(stored: StoredEntry, by: User | None) -> None:
    delete_subscription(stored.row.pk)


def _make_members() -> dict[str, Member]:
    """Return the owner and the settings of a subscription, with their defaults."""
    hints = get_type_hints(SubscriptionSettings)
    members = {"owner": Member(str, is_required=True)}
    for each in fields(SubscriptionSettings):
        kinds = [kind for kind in get_args(hints[each.name]) if kind is not type(None)]
        is_optional = isinstance(hints[each.name], UnionType)
        # A list has texts; `_normalize` reports those that are none.
        kind = kinds[0] if is_optional else get_origin(hints[each.name]) or hints[each.name]
        default: Any = None if each.default is MISSING else each.default
        if kind is list:
            default = []
        is_required = kind is not list and each.default is MISSING
        members[each.name] = Member(kind, default, is_required, is_optional)
    return members


SUBSCRIPTIONS: Final = ConfigurationSection(
    name="subscriptions",
    noun="subscription",
    members=_make_members(),
    identify=lambda values: tuple(values[name] for name in _IDENTITY),
    title=lambda values: (
        f"{values['owner']}, {values['channel']} to {hide_secret(values['channel'], values['address'])}"
    ),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    change=_change,
    remove=_remove,
    export=_export,
    resolve=_resolve,
)
