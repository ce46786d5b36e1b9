"""Export the configuration, and apply a file in one transaction."""

from collections.abc import Sequence
from typing import Final

from django.db import connection, transaction

from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.models import User
from benchapp.operation.configuration.document import BadConfiguration, ConfigurationFault, write_document
from benchapp.operation.configuration.plan import SECTIONS, Step, StepAction, make_plan

_LOCK: Final = 0x636F6E66  # pg_advisory lock: "conf"; two files are applied one after the other


def export_configuration() -> str:
    """Return the file of the current configuration, without secrets."""
    return write_document(
        {
            section.name: [section.export(each.values) for each in section.list_stored() if each.is_managed]
            for section in SECTIONS
        }
    )


@retry_conflicts
def apply_configuration(text: str, *, prune: bool, dry_run: bool, author: User | None) -> list[Step]:
    """Make the database equal to a file, and return what was done; nothing of it remains after a dry run.

    prune: as in `make_plan`. author: of the changes. A dry run writes and rolls back: it fails where applying would.
    Raises BadConfiguration.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        steps = make_plan(text, prune=prune)
        # All removals first: the prices of a region have one currency, and limits count what is stored.
        for step in steps:
            if step.stored and _is_removal(step):
                step.section.remove(step.stored, author)
        faults = [fault for step in steps if (fault := _take(step, author)) is not None]
        if faults:
            raise BadConfiguration(faults)
        if dry_run:
            transaction.set_rollback(True)
    return steps


def count_steps(steps: Sequence[Step]) -> dict[StepAction, int]:
    """Return the number of steps by action."""
    return {action: sum(step.action == action for step in steps) for action in StepAction}


def _is_removal(step: Step) -> bool:
    """Return whether a stored entry is removed, also one that is created again."""
    return step.action == StepAction.REMOVED or (
        step.action == StepAction.CHANGED and step.section.change is None
    )


def _take(step: Step, author: User | None) -> ConfigurationFault | None:
    """Change or create an entry; return why it cannot be written."""
    if (
        step.given is None
        or step.after is None
        or step.action not in (StepAction.CHANGED, StepAction.CREATED)
    ):
        return None
    try:
        if step.action == StepAction.CHANGED and step.section.change and step.stored:
            step.section.change(step.stored, step.after, author)
        else:
            step.section.create(step.after, author)
    except BadValue as error:
        return step.given.make_fault(error.pointer, str(error))
    return None
