"""Export the configuration, and apply a file in one transaction."""

from collections.abc import Sequence
from typing import Final

from django.db import connection, transaction

from benchapp.configuration.document import BadConfiguration, ConfigurationFault, write_document
from benchapp.configuration.plan import SECTIONS, Step, StepAction, make_plan
from benchapp.configuration.section import BadEntry
from benchapp.models import User
from benchapp.pipeline.conflicts import retry_conflicts

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
        faults = [fault for step in steps if (fault := _take(step, author)) is not None]
        if faults:
            raise BadConfiguration(faults)
        if dry_run:
            transaction.set_rollback(True)
    return steps


def count_steps(steps: Sequence[Step]) -> dict[StepAction, int]:
    """Return the number of steps by action."""
    return {action: sum(step.action == action for step in steps) for action in StepAction}


def _take(step: Step, author: User | None) -> ConfigurationFault | None:
    """Write one step; return why it cannot be written."""
    try:
        if step.action == StepAction.REMOVED and step.stored:
            step.section.remove(step.stored, author)
        elif step.action == StepAction.CHANGED and step.stored and step.after:
            step.section.change(step.stored, step.after, author)
        elif step.action == StepAction.CREATED and step.after:
            step.section.create(step.after, author)
    except BadEntry as error:
        if step.given is None:
            return ConfigurationFault(0, step.section.name, str(error))
        return step.given.make_fault(error.pointer, str(error))
    return None
