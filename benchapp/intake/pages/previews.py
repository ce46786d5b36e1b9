"""What an uploaded file would become, in words: the series that it joins, and what makes a new one."""

from typing import Any, Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.intake.normalize.preview import FieldDifference, NearestSeries, Preview, PreviewMeasurement
from benchapp.series.read.titles import describe_target, describe_value, describe_workload, join_titles
from benchapp.series.validity.badges import SEVERAL_TARGETS

# Of one file.
_SERIES_MAXIMUM: Final = 20
# More differences are another workload or layout altogether.
_DIFFERENCES_MAXIMUM: Final = 3
_OPTION: Final = "options."


def describe_preview(preview: Preview) -> tuple[tuple[dict[str, Any], ...], int]:
    """Return the series of a preview, at most 20, and the number of further ones."""
    measurements = [each for run in preview.runs for each in run.measurements]
    unique = {(each.series.pk, _make_title(each)): each for each in measurements}
    shown = [_describe(each, title) for (_, title), each in list(unique.items())[:_SERIES_MAXIMUM]]
    return tuple(shown), len(unique) - len(shown)


def _describe(measurement: PreviewMeasurement, title: str) -> dict[str, Any]:
    badges = measurement.values["badges"]
    mixing = next((badge["sentence"] for badge in badges if badge["code"] == SEVERAL_TARGETS), "")
    nearest = measurement.nearest if measurement.series.pk is None else None
    return {
        "title": title,
        "series": measurement.series.pk,
        "nearest": nearest.series.pk if nearest else None,
        "differences": _describe_differences(nearest) if nearest else "",
        "mixing": mixing,
    }


def _make_title(measurement: PreviewMeasurement) -> str:
    series = measurement.series
    return join_titles(describe_workload(series, direction=series.direction), describe_target(series))


def _describe_differences(nearest: NearestSeries) -> str:
    shown = [_describe_difference(each) for each in nearest.differences[:_DIFFERENCES_MAXIMUM]]
    left = len(nearest.differences) - len(shown)
    noun = "difference" if left == 1 else "differences"
    return ", ".join([*shown, *([f"and {left} more {noun}"] if left else [])])


def _describe_difference(difference: FieldDifference) -> str:
    return (
        f"{_name_field(difference.field)} {_format(difference.field, difference.value)}"
        f" instead of {_format(difference.field, difference.nearest)}"
    )


def _name_field(field: str) -> str:
    if field in DIMENSIONS:
        return DIMENSIONS[field].label
    return field.removeprefix(_OPTION)


def _format(field: str, value: Any) -> str:
    if value is None:
        return "not stated"
    return describe_value(field, value) if field in DIMENSIONS else str(value)
