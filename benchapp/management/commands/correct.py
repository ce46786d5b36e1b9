"""Correct the history: `manage.py correct`."""

from collections.abc import Callable
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rest_framework.serializers import Serializer, ValidationError

from benchapp.corrections.api import (
    CorrectionInput,
    MergeInput,
    RenameInput,
    SplitInput,
    act_merge,
    act_rename,
    act_split,
    preview,
)
from benchapp.corrections.write import CORRECTIONS
from benchapp.framework.api.answers import dump_json
from benchapp.framework.queue import wake_up
from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import NotInThisState, UnknownEntry
from benchapp.intake.normalize.batch import ImportRunning
from benchapp.models import Correction, CorrectionKind

_VIA: Final = "manage.py correct"
_HOSTS: Final[dict[str, tuple[type[Serializer[Any]], Callable[..., Any]]]] = {
    "rename": (RenameInput, act_rename),
    "merge": (MergeInput, act_merge),
    "split": (SplitInput, act_split),
}
_ENTRIES: Final = {"undo": CORRECTIONS.cancel, "restore": CORRECTIONS.restore}


class Command(BaseCommand):
    """Do what the API does, with the same members."""

    help = "Delete, relabel, rename, merge or split, set a retention, or undo one of them; members as in the API."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("action", choices=[*CorrectionKind.values, *_HOSTS, *_ENTRIES])
        parser.add_argument(
            "members",
            nargs="*",
            metavar="NAME=VALUE",
            help="filter=host:db-1 reason=trial; changes.volume_type=gp3, empty for unknown; id=7 of undo and restore",
        )
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument("--preview", action="store_true", help="print the effect only (default)")
        mode.add_argument("--apply", action="store_true", help="do it; workers continue")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the effect, or what was made."""
        action, members = options["action"], _read_members(options["members"])
        try:
            if action in _ENTRIES:
                self._change(action, members, is_applied=options["apply"])
                return
            kind, act = _HOSTS.get(action, (CorrectionInput, _correct))
            if action not in _HOSTS:
                members["kind"] = action
            answer = act(_validate(kind, {**members, "dry_run": not options["apply"]}), by=None, via=_VIA)
        except BadValue as error:
            raise CommandError(f"{error.field}: {error}" if error.field else str(error)) from error
        except (ImportRunning, NotInThisState, UnknownEntry) as error:
            raise CommandError(str(error)) from error
        wake_up()
        self.stdout.write(answer if isinstance(answer, str) else dump_json(answer).decode())

    def _change(self, action: str, members: dict[str, Any], *, is_applied: bool) -> None:
        if set(members) != {"id"} or not str(members["id"]).isdigit():
            raise CommandError(f"{action} takes id=NUMBER only")
        if not is_applied:
            raise CommandError(
                f"{action} has no preview: the page of the correction has its state; use --apply"
            )
        self.stdout.write(str(_ENTRIES[action](int(members["id"]), by=None, via=_VIA)))


def _read_members(given: list[str]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise CommandError(f"{text[:80]!r} is not NAME=VALUE")
        if name.startswith("changes."):
            members.setdefault("changes", {})[name.removeprefix("changes.")] = value or None
        else:
            members[name] = value.split(",") if name == "run_ids" else value
    return members


def _validate(kind: type[Serializer[Any]], members: dict[str, Any]) -> dict[str, Any]:
    fields = kind().fields
    if unknown := sorted(set(members) - set(fields)):
        raise CommandError(f"unknown member {unknown[0][:80]!r}. Valid members: {', '.join(fields)}")
    serializer = kind(data=members)
    try:
        serializer.is_valid(raise_exception=True)
    except ValidationError as error:
        name, texts = next(iter(serializer.errors.items()))
        raise CommandError(f"{name}: {texts[0]}") from error
    return dict(serializer.validated_data)


def _correct(given: dict[str, Any], **actor: Any) -> Any:
    """Return the effect, or the correction that was made."""
    effect = preview(given)
    return effect if effect is not None else str(CORRECTIONS.create(Correction(**given), **actor))
