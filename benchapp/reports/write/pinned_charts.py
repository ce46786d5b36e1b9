"""Pin charts to the overview of a user; move, rename and remove them. Each change locks the user's row."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.db import transaction

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.models import AuditKind, PinnedChart, StudyPanel, User

PINS_MAXIMUM: Final = 12


class BadPin(Exception):
    """A chart that cannot be pinned, with the reason."""


class UnknownPin(Exception):
    """The user has no pinned chart with this id."""


def pin_chart(owner: User, panel: StudyPanel) -> PinnedChart:
    """Append a chart to the overview of a user. Raises BadPin if it is pinned already, or too many are."""
    with _lock_pins(owner) as pins:
        if any((pin.kind, pin.query) == (panel.kind, panel.query) for pin in pins):
            raise BadPin("this chart is already pinned to your overview")
        if len(pins) >= PINS_MAXIMUM:
            raise BadPin(f"{PINS_MAXIMUM} charts are pinned, the maximum; remove one on the overview")
        position = pins[-1].position + 1 if pins else 0
        pin = PinnedChart.objects.create(
            owner=owner, position=position, kind=panel.kind, query=panel.query, title=panel.title
        )
        _record(pin, "created", owner, after=snapshot(pin, "kind", "query", "title"))
        return pin


def move_pin(owner: User, pin_id: int, *, by: int) -> None:
    """Move a pinned chart by so many places, up if negative; it stops at the ends. Raises UnknownPin."""
    with _lock_pins(owner) as pins:
        pin = _find(pins, pin_id)
        place = pins.index(pin)
        pins.remove(pin)
        pins.insert(max(0, place + by), pin)
        for position, each in enumerate(pins):
            each.position = position
        PinnedChart.objects.bulk_update(pins, ["position"])
        _record(pin, "moved", owner, before={"place": place}, after={"place": pins.index(pin)})


def rename_pin(owner: User, pin_id: int, title: str) -> None:
    """Set the title of a pinned chart; "" for the automatic title. Raises UnknownPin."""
    with _lock_pins(owner) as pins:
        pin = _find(pins, pin_id)
        _record(pin, "renamed", owner, before={"title": pin.title}, after={"title": title})
        pin.title = title
        pin.save(update_fields=["title"])


def remove_pin(owner: User, pin_id: int) -> None:
    """Remove a pinned chart. Raises UnknownPin."""
    with _lock_pins(owner) as pins:
        pin = _find(pins, pin_id)
        _record(pin, "removed", owner, before=snapshot(pin, "kind", "query", "title"))
        pin.delete()


def _record(
    pin: PinnedChart,
    action: str,
    owner: User,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    record_write(
        AuditKind.PINNED_CHART,
        action,
        object_id=pin.pk,
        name=pin.title,
        before=before,
        after=after,
        by=owner,
    )


@contextmanager
def _lock_pins(owner: User) -> Iterator[list[PinnedChart]]:
    """Give the pinned charts of a user in their order; concurrent changes wait."""
    with transaction.atomic():
        User.objects.select_for_update().only("pk").get(pk=owner.pk)
        yield list(PinnedChart.objects.filter(owner=owner).order_by("position", "id"))


def _find(pins: list[PinnedChart], pin_id: int) -> PinnedChart:
    for pin in pins:
        if pin.pk == pin_id:
            return pin
    raise UnknownPin(f"pinned chart {pin_id} not found: it may have been removed")
