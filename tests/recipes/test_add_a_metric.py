"""The recipe "Add a metric": a percentile, and another value that the reader has."""

import json
from pathlib import Path

from tests.envelopes import FIO
from tests.recipes import Tree

LAST_ROW = """\
        Metric(
            name="elapsed_s",
"""
ROWS = """\
        Metric(
            name="latency_p90_ns", unit="ns", label="p90 latency", short="p90", percentile=90.0, smallest_change=0.15,
            usual_spread=0.074, detected_instead=("latency_mean_ns",),
        ),
        Metric(
            name="latency_min_ns", unit="ns", label="Minimum latency", short="min", latency_field="minimum_ns",
            detected_instead=("latency_mean_ns",),
        ),
"""
COLUMNS = """\
    latency_p90_ns = models.FloatField(null=True, blank=True)
    latency_min_ns = models.FloatField(null=True, blank=True)
"""
# Short label, and the value that fio printed in the output.
VALUES = {"latency_p90_ns": ("p90", 118272.0), "latency_min_ns": ("min", 52670.0)}
# What is stored, derived, answered, archived, charted, shown, and understood in filters and thresholds.
SCRIPT = """
import json, sys
from pathlib import Path
from benchapp.framework.api.answers import list_columns
from benchapp.series.api.runs import MeasurementAnswer
from benchapp.operation.archive.tables import TABLES
from benchapp.fio import read_output
from benchapp.fio.workload import read_workload
from benchapp.catalog.grammar import parse_query
from benchapp.catalog.metrics import CATALOG
from benchapp.models import Measurement
from benchapp.intake.normalize.measurement import measurement_columns
from benchapp.intake.normalize.validity_inputs import read_run_context
from benchapp.intake.provenance.report import derive_document
from benchapp.charts.read.scaling_shapes import SCALING_METRICS
from benchapp.catalog.thresholds import parse_threshold
from benchapp.framework.pages.number_columns import make_columns

report = read_output(Path(sys.argv[1]).read_bytes())
(document,) = report.documents
(group,) = document.groups
(direction,) = group.directions
context = read_run_context(document, environment={}, target={})
measurement = Measurement(**measurement_columns(context, group, direction, spec=read_workload(group)))
(derived,) = derive_document(report, 0).measurements
labels = {column.metric: column.label for column in make_columns([measurement], tuple(CATALOG))}
print(json.dumps([
    {
        "stored": getattr(measurement, name),
        "derived": [value.value for value in derived.values if value.name == name],
        "is_answered": name in list_columns(MeasurementAnswer),
        "is_archived": name in TABLES["measurements"].columns,
        "is_charted": name in SCALING_METRICS,
        "label": labels[name],
        "filter": parse_query(f"random read {CATALOG[name].label}").metric,
        "threshold": parse_threshold(f"{labels[name]} < 1 ms").metric,
    }
    for name in sys.argv[2:]
]))
"""


def test_metric_is_a_row_of_the_catalog_and_a_column(tmp_path: Path) -> None:
    tree = Tree(tmp_path, recipe="Add a metric")

    tree.insert("benchapp/catalog/metrics.py", ROWS, before=LAST_ROW)
    tree.insert("benchapp/models/measurement.py", COLUMNS, before="    elapsed_s = models")
    migration = tree.make_migration("two_metrics")

    assert migration.count("migrations.AddField(") == len(VALUES)
    shown = json.loads(tree.run_script(SCRIPT, str(FIO / "07_json.out"), *VALUES))
    assert shown == [
        {
            "stored": value,
            "derived": [value],
            "is_answered": True,
            "is_archived": True,
            "is_charted": True,
            "label": label,
            "filter": name,
            "threshold": name,
        }
        for name, (label, value) in VALUES.items()
    ]
    assert len(tree.changed) == 2
