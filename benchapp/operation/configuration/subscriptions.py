"""Subscriptions. Addresses but those of e-mail are secrets: the file names a variable of the environment."""

import os
import re
from collections.abc import Sequence
from typing import Final

from django.utils.crypto import salted_hmac

from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Channel, Subscription, User
from benchapp.models.subscription import hide_secret
from benchapp.notices.write.subscriptions import (
    change_subscription,
    check_subscription,
    create_subscription,
    delete_subscription,
)
from benchapp.operation.configuration.section import (
    ConfigurationSection,
    Member,
    StoredEntry,
    Values,
    list_members,
)

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
    subscription = Subscription(**_leave_out_owner(values))
    try:
        check_subscription(subscription)
    except BadValue as error:
        if error.field == "address" and values["channel"] != Channel.EMAIL:
            # Reasons can quote the host, the port or more of the value.
            raise BadValue(
                "address",
                f"not an allowed address of the channel {values['channel']}. It is a secret and not shown here: the"
                " page New subscription gives the reason",
            ) from None
        raise
    return _read_row(subscription, values["owner"])


def _leave_out_owner(values: Values) -> Values:
    return {name: value for name, value in values.items() if name != "owner"}


def _read_row(row: Subscription, owner: str) -> Values:
    return {"owner": owner, **{name: getattr(row, name) for name in Subscription.given}}


def _list_stored() -> Sequence[StoredEntry]:
    """Return all subscriptions; those of deactivated accounts are not exported: they get no notices."""
    rows = Subscription.objects.select_related("owner").order_by("owner__username", "pk")
    return [
        StoredEntry(row, _read_row(row, row.owner.username), is_managed=row.owner.is_active) for row in rows
    ]


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    change_subscription(stored.row, _leave_out_owner(values))


def _create(values: Values, by: User | None) -> None:
    owner = User.objects.filter(username=values["owner"], is_active=True).first()
    if owner is None:
        raise BadValue("owner", f"there is no active account {values['owner']}")
    create_subscription(owner, _leave_out_owner(values))


SUBSCRIPTIONS: Final = ConfigurationSection(
    name="subscriptions",
    noun="subscription",
    members={"owner": Member(str, is_required=True), **list_members(Subscription)},
    identify=lambda values: tuple(values[name] for name in _IDENTITY),
    title=lambda values: (
        f"{values['owner']}, {values['channel']} to {hide_secret(values['channel'], values['address'])}"
    ),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    change=_change,
    remove=lambda stored, by: delete_subscription(stored.row.pk),
    export=_export,
    resolve=_resolve,
)
