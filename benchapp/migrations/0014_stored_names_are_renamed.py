"""Rename what is stored under earlier names: suspects and merges of incidents, chart parameters of studies."""

import re
from collections.abc import Callable
from typing import Any

from django.db import migrations

_SUSPECT_KEYS = {
    "came_with": "coincides_with",
    "hosts_moved": "hosts_regressed",
    "hosts_fine": "hosts_unaffected",
    "fine_hosts": "unaffected_hosts",
}
_EVENT_KEYS = {"moved": "changes_from"}
_CHART_PARAMETERS = {"colour": "color", "ceiling": "limit", "ghost": "compare_days", "hold": "fix"}
_CHUNK = 500


def _invert(names: dict[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


def _rename_keys(value: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): item for key, item in value.items()}


def _rename_parameters(query: str, names: dict[str, str]) -> str:
    pattern = rf"(^|&)({'|'.join(names)})(?==)"
    return re.sub(pattern, lambda match: match[1] + names[match[2]], query)


def _rewrite(model: Any, field: str, change: Callable[[Any], Any]) -> None:
    for row in model.objects.only("pk", field).order_by("pk").iterator(chunk_size=_CHUNK):
        old = getattr(row, field)
        if (new := change(old)) != old:
            model.objects.filter(pk=row.pk).update(**{field: new})


def _rename_all(apps: Any, suspect: dict[str, str], event: dict[str, str], parameter: dict[str, str]) -> None:
    _rewrite(
        apps.get_model("benchapp", "Incident"),
        "suspects",
        lambda suspects: [_rename_keys(one, suspect) for one in suspects],
    )
    _rewrite(
        apps.get_model("benchapp", "IncidentEvent"), "before", lambda before: _rename_keys(before, event)
    )
    _rewrite(
        apps.get_model("benchapp", "Study"),
        "panels",
        lambda panels: [
            {**panel, "query": _rename_parameters(panel.get("query", ""), parameter)} for panel in panels
        ],
    )


def rename_stored_names(apps: Any, schema_editor: Any) -> None:
    """Replace the earlier names in stored JSON."""
    _rename_all(apps, _SUSPECT_KEYS, _EVENT_KEYS, _CHART_PARAMETERS)


def restore_stored_names(apps: Any, schema_editor: Any) -> None:
    """Undo rename_stored_names."""
    _rename_all(apps, _invert(_SUSPECT_KEYS), _invert(_EVENT_KEYS), _invert(_CHART_PARAMETERS))


class Migration(migrations.Migration):
    """Rewrites rows of incidents, their events and studies that have an earlier name; no change of the schema."""

    dependencies = [("benchapp", "0013_planned_events")]

    operations = [migrations.RunPython(rename_stored_names, restore_stored_names)]
