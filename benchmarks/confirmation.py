"""Time until a regression is confirmed, and false changes, with and without automatic confirmation.

    python -m benchmarks confirmation [--series 100] [--days 20] [--seed 1]

The detector evaluates single series of IOPS after each run, four a day, without grouping into incidents. The noise is
that of the fleet benchmark. Half of the series lose 8 to 30 % at their 41st run. With confirmation, a suspected or
provisional regression that was found within two days is followed by up to three runs, half an hour apart. Such a run
correlates with the one before it (0.5, an assumption): it shares the state of caches and neighbors.
"""

import argparse
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

if TYPE_CHECKING:
    from benchapp.detection.write.rows import ChangeRecord

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_EVERY: Final = timedelta(hours=6)
_DELAY: Final = timedelta(minutes=30)
_REGRESSED_RUN: Final = 40
_CORRELATION: Final = 0.5
_CONFIRMATION_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Followed:
    """One series, run by run. confirmed_h: hours from the first bad run until the change is confirmed; None: never.

    false: regressions elsewhere that became provisional, false_h: hours until each was withdrawn; confirmed_false: of
    them that were confirmed. additional: runs that were requested.
    """

    confirmed_h: float | None
    false: int
    confirmed_false: int
    false_h: tuple[float, ...]
    additional: int


def main() -> None:
    """Print a row without and a row with confirmation."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks confirmation")
    parser.add_argument("--series", type=int, default=100, help="half of them with a regression")
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchapp.settings"
    import django

    django.setup()
    print(f"{options.series} series, {options.days} days, four runs a day, seed {options.seed}\n")
    print(
        "| confirmation | confirmed | hours until confirmed: median (p90) | false provisional changes"
        " | of these confirmed | hours until withdrawn, median | additional runs of a series and week |"
    )
    print("|---|---|---|---|---|---|---|")
    for runs in (0, _CONFIRMATION_RUNS):
        _print_row(runs, list(_follow_all(options, runs=runs)), days=options.days)


def _print_row(runs: int, followed: list[Followed], *, days: int) -> None:
    hours = sorted(each.confirmed_h for each in followed if each.confirmed_h is not None)
    withdrawn = [hour for each in followed for hour in each.false_h]
    p90 = hours[int(0.9 * (len(hours) - 1))] if hours else float("nan")
    print(
        f"| {f'up to {runs} runs' if runs else 'none'} | {len(hours)} of {len(followed) // 2}"
        f" | {statistics.median(hours) if hours else float('nan'):.1f} ({p90:.1f})"
        f" | {sum(each.false for each in followed)} | {sum(each.confirmed_false for each in followed)}"
        f" | {statistics.median(withdrawn) if withdrawn else float('nan'):.1f}"
        f" | {sum(each.additional for each in followed) / len(followed) / days * 7:.2f} |",
        flush=True,
    )


def _follow_all(options: argparse.Namespace, *, runs: int) -> Iterator[Followed]:
    from benchmarks.fleet_noise import make_values
    from benchmarks.histories import make_generator

    scheduled = options.days * 4
    values = make_values(hosts=1, cells=options.series, runs=scheduled * 2, seed=options.seed)
    generator = make_generator("confirmation", options.seed)
    sizes = generator.uniform(0.08, 0.30, options.series)
    for number, row in enumerate(values):
        size = float(sizes[number]) if number % 2 == 0 else 0.0
        yield _follow(row[:scheduled], row[scheduled:], size=size, runs=runs)


def _follow(scheduled: np.ndarray, others: np.ndarray, *, size: float, runs: int) -> Followed:
    """Evaluate a series after each run. others: the noise of additional runs, at the level of the series."""
    median, kept, spare = float(np.median(scheduled)), _Series(), iter(others.tolist())
    bad_at = _START + _REGRESSED_RUN * _EVERY
    for number, value in enumerate(scheduled.tolist()):
        now, factor = _START + number * _EVERY, 1 - size if number >= _REGRESSED_RUN else 1.0
        kept.add(now, value * factor)
        deviation = value - median
        for _ in range(runs):
            if not kept.needs_run(now, runs=runs):
                break
            fresh = next(spare, None)
            if fresh is None:
                break
            deviation = _CORRELATION * deviation + np.sqrt(1 - _CORRELATION**2) * (fresh - median)
            now = now + _DELAY
            kept.add(now, max(median + float(deviation), 0.05 * median) * factor)
            kept.additional.append(now)
    return kept.score(bad_at if size else None)


class _Series:
    """The runs of a series, its changes as the pipeline stores them, and when each reached a state."""

    def __init__(self) -> None:
        self.times: list[datetime] = []
        self.values: list[float] = []
        self.additional: list[datetime] = []
        self.records: dict[int, ChangeRecord] = {}
        self.reached: dict[int, dict[str, datetime]] = {}

    def add(self, now: datetime, value: float) -> None:
        """Add a run and evaluate the series."""
        from benchapp.catalog.metrics import SMALLEST_CHANGES
        from benchapp.detection.write.histories import to_microseconds
        from benchapp.detection.write.series import MetricHistory, judge_series_metric

        self.times.append(now)
        self.values.append(value)
        history = MetricHistory(
            series_id=1,
            metric="iops",
            times=np.array([to_microseconds(at) for at in self.times]),
            run_ids=np.arange(1, len(self.times) + 1),
            values=np.array(self.values),
            updates_from=to_microseconds(self.times[0]),
        )
        outcome = judge_series_metric(
            history, list(self.records.values()), smallest_change=SMALLEST_CHANGES["iops"], now=now
        )
        for record in outcome.updates:
            self._keep(record, now)
        for record in outcome.inserts:
            self._keep(replace(record, id=len(self.records) + 1), now)

    def needs_run(self, now: datetime, *, runs: int) -> bool:
        """Return whether a regression that was found within two days is unconfirmed, and had fewer runs."""
        found = [
            record.found_at
            for record in self.records.values()
            if record.is_regression
            and record.state in ("suspected", "provisional")
            and now - record.found_at <= timedelta(days=2)
        ]
        return bool(found) and sum(at >= max(found) for at in self.additional) < runs

    def score(self, bad_at: datetime | None) -> Followed:
        """Return what became of the regression and of false changes."""
        confirmed_h, false, confirmed_false, false_h = None, 0, 0, []
        for pk, record in self.records.items():
            reached = self.reached[pk]
            if not record.is_regression or "provisional" not in reached:
                continue
            if bad_at is not None and abs(record.started_at - bad_at) <= 5 * _EVERY:
                if "confirmed" in reached:
                    hours = (reached["confirmed"] - bad_at) / timedelta(hours=1)
                    confirmed_h = hours if confirmed_h is None else min(confirmed_h, hours)
                continue
            false += 1
            confirmed_false += "confirmed" in reached
            if "withdrawn" in reached:
                false_h.append((reached["withdrawn"] - reached["provisional"]) / timedelta(hours=1))
        return Followed(confirmed_h, false, confirmed_false, tuple(false_h), len(self.additional))

    def _keep(self, record: "ChangeRecord", now: datetime) -> None:
        if record.id is None:
            raise ValueError("a stored change has an id")
        self.records[record.id] = record
        self.reached.setdefault(record.id, {}).setdefault(str(record.state.value), now)


if __name__ == "__main__":
    main()
