"""The lists of the configuration file: what identifies their entries, how these are checked, read and written.

- Hosts: their pools alone. A file never creates, retires or deletes a host.
- Detection policies: those of one metric, filter and label are one entry, and the newest applies. A policy is never
  changed, so that its log names who set which threshold when.
- Planned events: an edited one is canceled and scheduled again, see its log.
- Studies: shared links are not in the file, as who has a link can read the study.
- Subscriptions: addresses but those of e-mail are secrets, and the file names a variable of the environment.
- Confirmation policies: a pool without an entry has none.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from django.http import QueryDict
from django.utils import timezone
from django.utils.crypto import salted_hmac

from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.layouts.read.question import read_question
from benchapp.layouts.write import BadPrices, add_prices, read_price, remove_price, write_cell
from benchapp.models import (
    CONFIRMATION_RUNS_MAXIMUM,
    DAILY_SHARE_DEFAULT,
    Channel,
    ConfirmationPolicy,
    DetectionPolicy,
    Host,
    PlannedEvent,
    Price,
    Study,
    Subscription,
    TargetMapping,
    User,
    WantedSchedule,
    follow_name,
)
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
    normalize_entry,
)
from benchapp.policies.write import POLICIES
from benchapp.reports.write import (
    change_study,
    check_questions,
    check_study,
    create_study,
    delete_study,
)
from benchapp.requests.write.run_requests import check_confirmation_policy, set_confirmation_policy
from benchapp.requests.write.wanted_schedules import (
    NAMES_IN_WORDS,
    ScheduleScope,
    UnknownWantedSchedule,
    check_wanted_schedule,
    read_words,
    remove_wanted_schedule,
    save_wanted_schedule,
    write_words,
)
from benchapp.storage.actions import set_pool
from benchapp.storage.read.hosts import list_mappings
from benchapp.storage.target_mappings import add_mapping, check_mapping, remove_mapping

POOL_MAXIMUM: Final = 100


def read_pool(text: str) -> str:
    """Return the present name of a pool, without spaces around it. Raises BadValue."""
    pool = text.strip()
    if len(pool) > POOL_MAXIMUM or "\x00" in pool:
        raise BadValue("pool", f"at most {POOL_MAXIMUM} characters, without NUL")
    return follow_name("pool", pool)


def _normalize_host(values: Values) -> Values:
    return {"name": follow_name("host", values["name"].lower()), "pool": read_pool(values["pool"])}


def _list_hosts() -> Sequence[StoredEntry]:
    """Return all hosts; those without a pool, and retired ones, are not exported."""
    return [
        StoredEntry(host, {"name": host.name, "pool": host.pool}, bool(host.pool) and host.retired_at is None)
        for host in Host.objects.order_by("name")
    ]


def _create_host(values: Values, by: User | None) -> None:
    raise BadValue("name", f"host {values['name']} does not exist: enroll it first")


def _change_host(stored: StoredEntry, values: Values, by: User | None) -> None:
    set_pool(stored.row.name, values["pool"], by=by)


def _remove_host(stored: StoredEntry, by: User | None) -> None:
    set_pool(stored.row.name, "", by=by)


HOSTS: Final = ConfigurationSection(
    name="hosts",
    noun="pool of host",
    members={"name": Member(str, is_required=True), "pool": Member(str, is_required=True)},
    identify=lambda values: values["name"],
    title=lambda values: str(values["name"]),
    normalize=_normalize_host,
    list_stored=_list_hosts,
    create=_create_host,
    change=_change_host,
    remove=_remove_host,
    is_unique=True,
)


def _list_detection_policies() -> Sequence[StoredEntry]:
    """Return the policies in effect, of equals the newest: the others have no effect."""
    newest = {
        _identify_row(row): row for row in DetectionPolicy.objects.filter(canceled_at=None).order_by("pk")
    }
    return [
        StoredEntry(row, {name: getattr(row, name) for name in DETECTION_POLICIES.members})
        for row in sorted(newest.values(), key=lambda row: row.pk)
    ]


def _identify_row(row: DetectionPolicy) -> tuple[str, str, str]:
    return row.metric, row.filter, row.label


def _remove_detection_policy(stored: StoredEntry, by: User | None) -> None:
    """Cancel the policy and those that it replaced, which would apply again."""
    row = stored.row
    replaced = DetectionPolicy.objects.filter(
        canceled_at=None, metric=row.metric, filter=row.filter, label=row.label
    )
    for policy_id in list(replaced.order_by("pk").values_list("pk", flat=True)):
        POLICIES.cancel(policy_id, by=by)


DETECTION_POLICIES: Final = ConfigurationSection(
    name="detection_policies",
    noun="detection policy",
    members=list_members(DetectionPolicy),
    identify=lambda values: (values["metric"], values["filter"], values["label"]),
    title=lambda values: ", ".join(
        part for part in (values["metric"], values["filter"] or "all series", values["label"]) if part
    ),
    normalize=partial(normalize_entry, POLICIES),
    list_stored=_list_detection_policies,
    create=lambda values, by: POLICIES.create(DetectionPolicy(**values), by=by),
    remove=_remove_detection_policy,
    is_unique=True,
)


def _list_planned_events() -> Sequence[StoredEntry]:
    """Return all events that are not canceled; those that have ended are not exported, but found again."""
    now = timezone.now()
    return [
        StoredEntry(row, {name: getattr(row, name) for name in PLANNED_EVENTS.members}, row.ends_at > now)
        for row in PlannedEvent.objects.filter(canceled_at=None).order_by("from_at", "pk")
    ]


def _change_planned_event(stored: StoredEntry, values: Values, by: User | None) -> None:
    """Cancel the event and schedule one with the new values that mutes the similar changes of the same incident."""
    canceled = EVENTS.cancel(stored.row.pk, by=by)
    if canceled.ended_at is not None:
        raise BadValue(
            "",
            f"it was ended early at {canceled.ended_at:%Y-%m-%d %H:%M} UTC; a change would start it again: resume it"
            " on its page first, or undo the change in the file",
        )
    EVENTS.create(PlannedEvent(**values, incident_id=canceled.incident_id), by=by)


PLANNED_EVENTS: Final = ConfigurationSection(
    name="planned_events",
    noun="planned event",
    members=list_members(PlannedEvent, last=("metric", "is_regression")),
    identify=lambda values: tuple(
        values[name] for name in ("kind", "filter", "from_at", "metric", "is_regression")
    ),
    title=lambda values: (
        f"{values['kind']}, {values['filter'] or 'all series'}, from {values['from_at']:%Y-%m-%d %H:%M} UTC"
    ),
    normalize=partial(normalize_entry, EVENTS),
    list_stored=_list_planned_events,
    create=lambda values, by: EVENTS.create(PlannedEvent(**values), by=by),
    change=_change_planned_event,
    remove=lambda stored, by: EVENTS.cancel(stored.row.pk, by=by),
)


def _normalize_price(values: Values) -> Values:
    try:
        price = read_price({name: write_cell(value) for name, value in values.items()})
    except BadPrices as error:
        raise _name_fault(error) from error
    return {name: getattr(price, name) for name in values}


def _name_fault(error: BadPrices) -> BadValue:
    column, message = error.faults[0].column, error.faults[0].message
    return BadValue(column, message)


def _list_prices() -> Sequence[StoredEntry]:
    rows = Price.objects.filter(removed_at=None)
    return [
        StoredEntry(row, {name: getattr(row, name) for name in Price.given})
        for row in rows.order_by("volume_type", "instance_type", "region", "valid_from")
    ]


def _create_price(values: Values, by: User | None) -> None:
    try:
        add_prices([Price(**values)], by=by)
    except BadPrices as error:
        raise _name_fault(error) from error


def _remove_price(stored: StoredEntry, by: User | None) -> None:
    remove_price(stored.row.pk, by=by)


PRICES: Final = ConfigurationSection(
    name="prices",
    noun="price",
    # A day is a text.
    members=list_members(Price) | {"valid_from": Member(str, is_required=True)},
    identify=lambda values: Price(**values).key,
    title=lambda values: ", ".join(
        filter(None, (Price(**values).name, values["region"], f"from {values['valid_from']}"))
    ),
    normalize=_normalize_price,
    list_stored=_list_prices,
    create=_create_price,
    remove=_remove_price,
    is_unique=True,
)


def _normalize_mapping(values: Values) -> Values:
    mapping = TargetMapping(**values)
    check_mapping(mapping)
    return {name: getattr(mapping, name) for name in values}


def _list_target_mappings() -> Sequence[StoredEntry]:
    return [StoredEntry(row, {name: getattr(row, name) for name in row.given}) for row in list_mappings()]


TARGET_MAPPINGS: Final = ConfigurationSection(
    name="target_mappings",
    noun="target mapping",
    members=list_members(TargetMapping),
    identify=lambda values: (values["scope"], values["pattern"]),
    title=lambda values: f"{values['scope']}, {values['pattern']}",
    normalize=_normalize_mapping,
    list_stored=_list_target_mappings,
    create=lambda values, by: add_mapping(TargetMapping(**values), by=by),
    remove=lambda stored, by: remove_mapping(stored.row.pk, by=by),
    is_unique=True,
)


def _normalize_study(values: Values) -> Values:
    owner = values["owner"]
    if owner is not None and not User.objects.filter(username=owner).exists():
        raise BadValue("owner", f"there is no account {owner}")
    study = Study(**_take_study_members(values))
    check_study(study)
    # Regions may get their prices by the same file.
    check_questions(study.charts, lambda query: read_question(QueryDict(query)))
    return {name: owner if name == "owner" else getattr(study, name) for name in values}


def _take_study_members(values: Values) -> dict[str, Any]:
    return {name: values[name] for name in Study.given}


def _list_studies() -> Sequence[StoredEntry]:
    return [
        StoredEntry(
            row,
            {"title": row.title, "owner": row.owner.username if row.owner else None}
            | {name: getattr(row, name) for name in Study.given},
        )
        for row in Study.objects.select_related("owner").order_by("pk")
    ]


def _create_study(values: Values, by: User | None) -> None:
    owner = User.objects.get(username=values["owner"]) if values["owner"] is not None else None
    create_study(Study(**_take_study_members(values), owner=owner))


def _change_study(stored: StoredEntry, values: Values, by: User | None) -> None:
    change_study(stored.row.pk, **_take_study_members(values))


def _remove_study(stored: StoredEntry, by: User | None) -> None:
    delete_study(stored.row.pk)


_STUDY_MEMBERS: Final = list_members(Study)
STUDIES: Final = ConfigurationSection(
    name="studies",
    noun="study",
    members={"title": _STUDY_MEMBERS["title"], "owner": Member(str, is_optional=True), **_STUDY_MEMBERS},
    identify=lambda values: (values["title"], values["owner"]),
    title=lambda values: f"“{values['title']}”" + (f" of {values['owner']}" if values["owner"] else ""),
    normalize=_normalize_study,
    list_stored=_list_studies,
    create=_create_study,
    change=_change_study,
    remove=_remove_study,
)


_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# Part of the references in files, so that it stays.
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


def _export_subscription(values: Values) -> Values:
    return {**values, "address": make_reference(values["channel"], values["address"])}


def _resolve_subscription(values: Values) -> Values:
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


def _normalize_subscription(values: Values) -> Values:
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
    return _read_subscription(subscription, values["owner"])


def _leave_out_owner(values: Values) -> Values:
    return {name: value for name, value in values.items() if name != "owner"}


def _read_subscription(row: Subscription, owner: str) -> Values:
    return {"owner": owner, **{name: getattr(row, name) for name in Subscription.given}}


def _list_subscriptions() -> Sequence[StoredEntry]:
    """Return all subscriptions; those of deactivated accounts are not exported: they get no notices."""
    rows = Subscription.objects.select_related("owner").order_by("owner__username", "pk")
    return [
        StoredEntry(row, _read_subscription(row, row.owner.username), is_managed=row.owner.is_active)
        for row in rows
    ]


def _change_subscription(stored: StoredEntry, values: Values, by: User | None) -> None:
    change_subscription(stored.row, _leave_out_owner(values))


def _create_subscription(values: Values, by: User | None) -> None:
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
    normalize=_normalize_subscription,
    list_stored=_list_subscriptions,
    create=_create_subscription,
    change=_change_subscription,
    remove=lambda stored, by: delete_subscription(stored.row.pk),
    export=_export_subscription,
    resolve=_resolve_subscription,
)


_IN_WORDS: Final = {
    "every": Member(str, is_required=True),
    "at": Member(str, default="00:00"),
    "splay_min": Member(int, default=0),
    "parameters": Member(str, default=""),
}


@contextmanager
def _name_members() -> Iterator[None]:
    """Name the member of the file in errors that name a column."""
    try:
        yield
    except BadValue as error:
        raise BadValue(NAMES_IN_WORDS.get(error.field, error.field), str(error)) from error


def _normalize_schedule(values: Values) -> Values:
    pool, host_name = (
        read_pool(values["pool"]),
        follow_name("host", re.sub(r"\s", "", values["host"]).lower()),
    )
    if host_name and pool:
        raise BadValue("host", "name either host or pool")
    if host_name and not Host.objects.filter(name=host_name).exists():
        raise BadValue("host", f"host {host_name[:100]!r} does not exist: enroll it first")
    with _name_members():
        wanted = read_words(values)
        check_wanted_schedule(wanted, is_of_host=bool(host_name))
    return {"pool": pool, "host": host_name, **write_words(wanted)}


def _list_schedules() -> Sequence[StoredEntry]:
    rows = WantedSchedule.objects.select_related("host").order_by("pool", "host__name", "profile")
    return [StoredEntry(row, {"pool": row.pool, "host": row.host_name, **write_words(row)}) for row in rows]


def _save_schedule(values: Values, by: User | None, replaces: int | None) -> None:
    scope = ScheduleScope(values["pool"], values["host"])
    try:
        with _name_members():
            save_wanted_schedule(scope, read_words(values), by=by, replaces=replaces)
    except UnknownWantedSchedule as error:
        raise BadValue("", str(error)) from error


def _title_schedule(values: Values) -> str:
    scope = ScheduleScope(values["pool"], values["host"])
    return f"of {values['profile']} for {scope.title}"


SCHEDULES: Final = ConfigurationSection(
    name="schedules",
    noun="schedule",
    members={
        "pool": Member(str, default=""),
        "host": Member(str, default=""),
        **{
            NAMES_IN_WORDS[column]: _IN_WORDS.get(NAMES_IN_WORDS[column], member)
            for column, member in list_members(WantedSchedule).items()
        },
    },
    identify=lambda values: (values["pool"], values["host"], values["profile"]),
    title=_title_schedule,
    normalize=_normalize_schedule,
    list_stored=_list_schedules,
    create=lambda values, by: _save_schedule(values, by, None),
    change=lambda stored, values, by: _save_schedule(values, by, stored.row.pk),
    remove=lambda stored, by: remove_wanted_schedule(stored.row.pk, by=by),
    is_unique=True,
)


def _normalize_confirmation_policy(values: Values) -> Values:
    if values["runs"] == 0:
        raise BadValue(
            "runs", f"choose 1 to {CONFIRMATION_RUNS_MAXIMUM} runs; a pool without any has no entry"
        )
    check_confirmation_policy(runs=values["runs"], daily_share=values["daily_share"])
    return {**values, "pool": read_pool(values["pool"])}


def _list_confirmation_policies() -> Sequence[StoredEntry]:
    return [
        StoredEntry(row, {"pool": row.pool, "runs": row.runs, "daily_share": row.daily_share})
        for row in ConfirmationPolicy.objects.order_by("pool")
    ]


def _create_confirmation_policy(values: Values, by: User | None) -> None:
    set_confirmation_policy(values["pool"], runs=values["runs"], daily_share=values["daily_share"], by=by)


def _change_confirmation_policy(stored: StoredEntry, values: Values, by: User | None) -> None:
    _create_confirmation_policy(values, by)


def _remove_confirmation_policy(stored: StoredEntry, by: User | None) -> None:
    set_confirmation_policy(stored.row.pool, runs=0, daily_share=stored.row.daily_share, by=by)


CONFIRMATION_POLICIES: Final = ConfigurationSection(
    name="confirmation_policies",
    noun="confirmation policy",
    members={
        "pool": Member(str, is_required=True),
        "runs": Member(int, is_required=True),
        "daily_share": Member(float, default=DAILY_SHARE_DEFAULT),
    },
    identify=lambda values: values["pool"],
    title=lambda values: f"of pool {values['pool']}" if values["pool"] else "of hosts without a pool",
    normalize=_normalize_confirmation_policy,
    list_stored=_list_confirmation_policies,
    create=_create_confirmation_policy,
    change=_change_confirmation_policy,
    remove=_remove_confirmation_policy,
    is_unique=True,
)
