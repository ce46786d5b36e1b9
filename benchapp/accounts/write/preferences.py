"""Preferences of an account: time zone, units of throughput, theme, default filter."""

from dataclasses import asdict, dataclass

from django.db import transaction

from benchapp.catalog.grammar import LENGTH_MAXIMUM, BadFilter, parse_filter, write_filter
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.models import AuditKind, RateUnits, Theme, User


@dataclass(frozen=True, slots=True)
class Preferences:
    """What pages show to a user; fields as in User. default_filter: in the canonical form (`read_default_filter`)."""

    time_zone: str
    rate_units: RateUnits
    theme: Theme
    default_filter: str


def read_default_filter(text: str) -> str:
    """Return a filter in its canonical form; "" for none. Raises BadFilter, also for a time range or a metric."""
    written = write_filter(parse_filter(text))
    if len(written) > LENGTH_MAXIMUM:
        raise BadFilter(
            f"The filter has {len(written)} characters in full; at most {LENGTH_MAXIMUM} are allowed"
        )
    return written


def save_preferences(user: User, wanted: Preferences) -> None:
    """Save the preferences of a user."""
    _save(user, **asdict(wanted))


def save_theme(user: User, theme: Theme) -> None:
    """Save the theme of a user, which the switch in the header sets, too."""
    _save(user, theme=theme)


@transaction.atomic
def _save(user: User, **fields: str) -> None:
    # Two forms that are sent at the same time: the record of the second has the values of the first.
    stored = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    record_write(
        AuditKind.ACCOUNT,
        "preferences_changed",
        object_id=user.pk,
        name=user.username,
        before=snapshot(stored, *fields),
        after=fields,
    )
    User.objects.filter(pk=user.pk).update(**fields)
