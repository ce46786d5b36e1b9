"""The scaling models of a chart as a page shows them: sentences, table, curves and bands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Final

from benchapp.catalog.metrics import format_percent, format_value
from benchapp.charts.read.scaling_findings import CurveModel, list_replaced_in
from benchapp.charts.read.scaling_shapes import ScalingChart
from benchapp.charts.rules.findings import CurvePlace
from benchapp.charts.rules.scaling_models import Interval, ModelName, ScalingModel
from benchapp.charts.texts.scaling import Sentence, SentenceWriter

MODEL_LABELS: Final[dict[ModelName, str]] = {
    "linear": "Linear",
    "amdahl": "Amdahl",
    "usl": "Universal Scalability Law",
    "saturation": "Linear up to a limit",
}


@dataclass(frozen=True, slots=True)
class ModelRow:
    """The model of one curve in the table, values with their intervals as text, "" where the model has none.

    criteria: of all models, the selected one first. predictions: width and value of each width that was asked for.
    """

    curve: str
    model: str
    reason: str
    one: str
    contention: str
    coherency: str
    limit: str
    peak: str
    misfit: str
    criteria: str
    predictions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The models of one metric."""

    metric_label: str
    unit_name: str
    rows: tuple[ModelRow, ...]


def describe_models(chart: ScalingChart, models: Sequence[CurveModel]) -> Iterator[Sentence]:
    """Yield a sentence for each curve: how far it scales, or why no model says so.

    Predictions are sentences if the chart has one curve; those of several are in the table.
    """
    writer = SentenceWriter(chart)
    for found in models:
        curve = writer.capitalize(_name(writer, found))
        if found.model is None:
            yield Sentence(f"{curve}: no scaling model; {found.reason}.")
            continue
        replaced = list_replaced_in(chart.panels[found.facet].lines[found.line])
        aside = f", without {writer.name_regressions(replaced)}" if replaced else ""
        yield Sentence(f"{curve}: {_describe_reach(chart, found, found.model)}{aside}.")
        if len(models) > 1:
            continue
        for prediction in found.predictions:
            low, high = (
                writer.format(each) for each in (prediction.throughput.low, prediction.throughput.high)
            )
            kind = "model" if prediction.is_measured else "prediction"
            yield Sentence(
                f"{curve}: {kind} for {_count(chart, prediction.width)}"
                f" {writer.format(prediction.throughput.value)} (80 % interval {low} to {high})."
            )
        if found.outside:
            yield Sentence(
                f"{curve}: no prediction for {', '.join(map(str, found.outside))}; the model covers"
                f" {found.model.counts[0]} to {found.model.count_maximum}."
            )


def make_model_table(chart: ScalingChart, models: Sequence[CurveModel]) -> ModelTable:
    """Return the table of the models of one metric."""
    return ModelTable(
        metric_label=chart.metric.label,
        unit_name=_name_width(chart),
        rows=tuple(_make_row(chart, found) for found in models),
    )


def make_model_curves(models: Sequence[CurveModel], facet: int) -> list[dict[str, Any]]:
    """Return the curves of a panel for the drawing: positions on x, values and bands in base units, and predictions."""
    return [
        _make_curve(found, found.model)
        for found in models
        if found.model is not None and found.facet == facet
    ]


def _make_curve(found: CurveModel, model: ScalingModel) -> dict[str, Any]:
    widths = found.list_widths()
    band = [model.predict(width).throughput for width in widths]
    return {
        "line": found.line,
        "label": MODEL_LABELS[model.name],
        "positions": [log2(width) for width in widths],
        "values": [each.value for each in band],
        "lows": [each.low for each in band],
        "highs": [each.high for each in band],
        "predictions": [
            {"position": log2(each.width), "value": each.throughput.value, "label": str(each.width)}
            for each in found.predictions
            if not each.is_measured
        ],
    }


def _describe_reach(chart: ScalingChart, found: CurveModel, model: ScalingModel) -> str:
    """Say what the model means for the widths: the peak and what they reach of it, or what doubling gains."""
    name = MODEL_LABELS[model.name]
    peak, shares = model.find_peak(), {each.width: each.share for each in found.shares}
    last = model.counts[-1]
    if peak is not None and last in shares:
        knee = model.find_knee()
        parts = [f"maximum at {_count(chart, peak)}"]
        if peak != last:
            parts.append(f"{_count(chart, last)} reach {format_percent(shares[last])} of it")
        if knee is not None and knee < peak:
            parts.append(f"90 % of it at {_count(chart, knee)}")
        return f"{', '.join(parts)} ({name})"
    half = max((width for width in model.counts if 2 * width <= last), default=None)
    if half is None:
        return f"no maximum up to {_count(chart, model.count_maximum)} ({name})"
    gain = model.predict(2 * half).throughput.value / model.predict(half).throughput.value
    return (
        f"no maximum up to {_count(chart, model.count_maximum)}; from {half} to {_count(chart, 2 * half)}"
        f" {gain:.2f}x ({name})"
    )


def _make_row(chart: ScalingChart, found: CurveModel) -> ModelRow:
    writer = SentenceWriter(chart)
    model = found.model
    curve = writer.capitalize(_name(writer, found))
    if model is None:
        return ModelRow(curve, "none", found.reason, "", "", "", "", "", "", "", ())
    peak = model.find_peak()
    return ModelRow(
        curve=curve,
        model=MODEL_LABELS[model.name],
        reason="",
        one=_format_throughput(chart, model.one),
        contention=_format_factor(model.contention),
        coherency=_format_factor(model.coherency),
        limit=_format_throughput(chart, model.limit),
        peak="" if peak is None else str(peak),
        misfit=f"{format_percent(model.misfit)} at {model.misfit_width}",
        criteria=", ".join(f"{MODEL_LABELS[each.model]} {each.value:.1f}" for each in model.criteria),
        predictions=tuple(
            (str(each.width), _format_throughput(chart, each.throughput)) for each in found.predictions
        ),
    )


def _name(writer: SentenceWriter, found: CurveModel) -> str:
    return writer.name_curve(CurvePlace(found.facet, found.line, 0)).removesuffix(":")


def _name_width(chart: ScalingChart) -> str:
    return "volume" if chart.x.name == "volume_count" else "stripe"


def _count(chart: ScalingChart, width: int) -> str:
    return f"{width} {_name_width(chart)}{'' if width == 1 else 's'}"


def _format_throughput(chart: ScalingChart, interval: Interval | None) -> str:
    if interval is None:
        return ""
    low, value, high = (
        format_value(each, chart.metric.unit) for each in (interval.low, interval.value, interval.high)
    )
    return f"{value} ({low} to {high})"


def _format_factor(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{interval.value:.3g} ({interval.low:.3g} to {interval.high:.3g})"
