// Ticks of a time axis in UTC; moments are milliseconds since 1970.
import { formatClock, formatDay, formatMonth } from "../../site/format.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const CLOCK_STEPS = [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE).concat([1, 2, 3, 6, 12].map((n) => n * HOUR));
const DAY_STEPS = [1, 2, 5, 10, 15];
const MONTH_STEPS = [1, 2, 3, 6, 12, 24, 60];

/** Return [{value, label}] of at most `most` ticks within [from, to]. */
export function timeTicks(from, to, most) {
  const span = Math.max(to - from, MINUTE);
  const clock = CLOCK_STEPS.find((step) => span / step <= most);
  if (clock !== undefined) {
    return clockTicks(from, to, clock);
  }
  const days = DAY_STEPS.find((step) => span / (step * DAY) <= most - 1);
  if (days !== undefined) {
    return dayTicks(from, to, days);
  }
  const months = MONTH_STEPS.find((step) => span / (step * 30 * DAY) <= most) ?? MONTH_STEPS.at(-1);
  return monthTicks(from, to, months);
}

function clockTicks(from, to, step) {
  const ticks = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) {
    const isMidnight = value % DAY === 0;
    const label = isMidnight || ticks.length === 0 ? `${formatDay(value)} ${formatClock(value)}` : formatClock(value);
    ticks.push({ value, label: isMidnight ? formatDay(value) : label });
  }
  return ticks;
}

// Counted from the first of each month, so that the ticks of all charts fall on the same days.
function dayTicks(from, to, step) {
  const ticks = [];
  const lastOfMonth = step === 1 ? 31 : 31 - step / 2;
  for (let value = Math.ceil(from / DAY) * DAY; value <= to; value += DAY) {
    const day = new Date(value).getUTCDate();
    if ((day - 1) % step === 0 && day <= lastOfMonth) {
      ticks.push({ value, label: formatDay(value) });
    }
  }
  return withYear(ticks);
}

function monthTicks(from, to, step) {
  const ticks = [];
  const first = new Date(from);
  let month = first.getUTCFullYear() * 12 + first.getUTCMonth();
  month = Math.ceil(month / step) * step;
  for (;;) {
    const value = Date.UTC(Math.floor(month / 12), month % 12, 1);
    if (value > to) {
      return ticks;
    }
    if (value >= from) {
      ticks.push({ value, label: step >= 12 ? String(Math.floor(month / 12)) : formatMonth(value) });
    }
    month += step;
  }
}

// The year is written once, at its first tick.
function withYear(ticks) {
  let year = null;
  return ticks.map(({ value, label }) => {
    const its = new Date(value).getUTCFullYear();
    const text = its === year ? label : `${label} ${its}`;
    year = its;
    return { value, label: text };
  });
}
