"""Name the text in stored common factors, suspects and notices `text`."""

from typing import Any

from django.db import migrations

_NAMES = {
    "words": "text",
    "before_words": "before_text",
    "after_words": "after_text",
    "link_words": "link_text",
}
_FIELDS = {"Incident": ("common_factors", "suspects"), "Notice": ("body",)}
_CHUNK = 500


def _rename_keys(value: Any, names: dict[str, str]) -> Any:
    match value:
        case dict():
            return {names.get(key, key): _rename_keys(item, names) for key, item in value.items()}
        case list():
            return [_rename_keys(item, names) for item in value]
        case _:
            return value


def _rewrite(apps: Any, names: dict[str, str]) -> None:
    for model_name, fields in _FIELDS.items():
        rows = apps.get_model("benchapp", model_name).objects
        for row in rows.only("pk", *fields).order_by("pk").iterator(chunk_size=_CHUNK):
            old = {field: getattr(row, field) for field in fields}
            if (new := _rename_keys(old, names)) != old:
                rows.filter(pk=row.pk).update(**new)


def rename_texts(apps: Any, schema_editor: Any) -> None:
    """Replace the earlier keys."""
    _rewrite(apps, _NAMES)


def restore_texts(apps: Any, schema_editor: Any) -> None:
    """Write the earlier keys."""
    _rewrite(apps, {new: old for old, new in _NAMES.items()})


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0027_incident_event_text")]

    operations = [migrations.RunPython(rename_texts, restore_texts)]
