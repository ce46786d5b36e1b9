"""The results of a sweep as a table: what each step adds, and how much of linear scaling that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from agent.results.result_row import METRICS, ResultRow, format_cell
from agent.results.results_table import align, list_metrics
from agent.sweeping.sweep_plan import SweepPlan
from agent.sweeping.sweep_state import SweepState


@dataclass(frozen=True)
class ScalingRow:
    """A result of one step. settings: what the step varies, by name; stripes: None for a sweep over directories.

    efficiency: IOPS / (stripes / fewest × IOPS with the fewest stripes), for the same workload and settings; None for a
    sweep over directories, or without IOPS of both.
    """

    result: ResultRow
    settings: Mapping[str, str]
    stripes: int | None
    efficiency: float | None

    def dump(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "workload": self.result.workload,
            "settings": dict(self.settings),
            "stripes": self.stripes,
            **{metric: self.result.values.get(metric) for metric in METRICS},
            "efficiency": None if self.efficiency is None else round(self.efficiency, 4),
        }


def list_scaling_rows(plan: SweepPlan, state: SweepState) -> list[ScalingRow]:
    """Return a row for each workload of each completed step, by workload, settings and stripes."""
    varied = [name for name, values in plan.request.parameters.items() if len(values) > 1]
    has_directories = len(plan.request.directories) > 1
    found: dict[tuple[str, tuple[str, ...]], list[ScalingRow]] = {}
    for each in plan.rounds:
        stripes = len(each.stripe.devices) if each.stripe else None
        for step in each.steps:
            settings = {name: step.settings[name] for name in varied}
            if has_directories:
                settings = {"directory": each.directory, **settings}
            for result in state.list_results(step.number):
                group = found.setdefault((result.workload, tuple(settings.values())), [])
                group.append(ScalingRow(result, settings, stripes, _find_efficiency(result, stripes, group)))
    order = {workload: place for place, workload in enumerate(dict.fromkeys(key[0] for key in found))}
    return [row for key in sorted(found, key=lambda key: order[key[0]]) for row in found[key]]


def _find_efficiency(result: ResultRow, stripes: int | None, group: Sequence[ScalingRow]) -> float | None:
    """Return the share of linear scaling from the first row of the group, which has the fewest stripes."""
    first = group[0] if group else None
    iops, before = result.values.get("iops"), (first.result if first else result).values.get("iops")
    if stripes is None or iops is None or not before:
        return None
    fewest = first.stripes if first and first.stripes else stripes
    return iops / (before * stripes / fewest)


def format_scaling(rows: Sequence[ScalingRow]) -> list[str]:
    """Return the lines of the table; [] without rows."""
    if not rows:
        return []
    metrics = list_metrics([row.result for row in rows])
    names = list(rows[0].settings)
    has_stripes = rows[0].stripes is not None
    stripes_heading, efficiency_heading = (["stripes"], ["efficiency"]) if has_stripes else ([], [])
    headings = [METRICS[metric][0] for metric in metrics]
    lines = [["workload", *names, *stripes_heading, *headings, *efficiency_heading]]
    for row in rows:
        efficiency = "–" if row.efficiency is None else f"{row.efficiency * 100:.0f} %"
        lines.append(
            [
                row.result.workload,
                *row.settings.values(),
                *([str(row.stripes)] if has_stripes else []),
                *(format_cell(row.result, metric) for metric in metrics),
                *([efficiency] if has_stripes else []),
            ]
        )
    return align(lines)
