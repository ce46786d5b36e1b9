"""The view of runs gets the class of the device, as its last column."""

from dataclasses import replace
from importlib import import_module

from django.db import migrations

from benchapp.sql_views import ViewColumn, replace_views

_BEFORE = import_module("benchapp.migrations.0037_sql_views").VIEWS
_CLASS = ViewColumn(
    "device_class",
    "environment.device_class",
    "Class of the device: nvme, ssd, hdd, network or memory; null if unknown",
)
VIEWS = tuple(
    replace(view, columns=(*view.columns, _CLASS)) if view.name == "benchapp_v_runs" else view
    for view in _BEFORE
)


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0074_receipts_of_runs_and_clocks")]

    operations = replace_views(_BEFORE, VIEWS, operations=[])
