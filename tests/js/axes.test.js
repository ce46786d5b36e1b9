import assert from "node:assert/strict";
import { test } from "node:test";
import { ninesOf, ninesTicks } from "../../static/js/charts/shared/nines_axis.js";
import { timeTicks } from "../../static/js/charts/shared/time_axis.js";
import {
  isLogWorthwhile,
  lineDomain,
  linearTicks,
  logDomain,
  logTicks,
} from "../../static/js/charts/shared/value_axis.js";

const labels = (ticks) => ticks.map((tick) => tick.label);

test("every nine takes the same room", () => {
  assert.ok(Math.abs(ninesOf(90) - 1) < 1e-9);
  assert.ok(Math.abs(ninesOf(99) - 2) < 1e-9);
  assert.ok(Math.abs(ninesOf(99.9) - 3) < 1e-9);
});

test("the nines end where the data do", () => {
  assert.deepEqual(labels(ninesTicks(99.9)), ["0", "50", "75", "90", "95", "99", "99.5", "99.9"]);
});

test("a narrow chart shows the whole nines only", () => {
  assert.deepEqual(labels(ninesTicks(99.99, { isNarrow: true })), ["0", "50", "90", "99", "99.9", "99.99"]);
});

test("some hours get ticks at full hours, the first with its day", () => {
  const ticks = timeTicks(Date.UTC(2026, 4, 12, 1, 30), Date.UTC(2026, 4, 12, 6, 30), 6);
  assert.deepEqual(labels(ticks), ["12 May 02:00", "03:00", "04:00", "05:00", "06:00"]);
});

test("midnight is shown as the day that begins", () => {
  const ticks = timeTicks(Date.UTC(2026, 4, 11, 20), Date.UTC(2026, 4, 12, 8), 6);
  assert.ok(labels(ticks).includes("12 May"));
});

test("some weeks get the same days in every chart, and the year once", () => {
  const ticks = timeTicks(Date.UTC(2026, 7, 23), Date.UTC(2026, 10, 21), 8);
  assert.deepEqual(labels(ticks), ["1 Sep 2026", "16 Sep", "1 Oct", "16 Oct", "1 Nov", "16 Nov"]);
});

test("years get months", () => {
  const ticks = timeTicks(Date.UTC(2025, 11, 23), Date.UTC(2026, 10, 21), 6);
  assert.deepEqual(labels(ticks), ["Jan 2026", "Mar 2026", "May 2026", "Jul 2026", "Sep 2026", "Nov 2026"]);
});

test("one moment still gets an axis", () => {
  const at = Date.UTC(2026, 4, 12, 2, 10);
  assert.ok(timeTicks(at - 3_600_000, at + 3_600_000, 5).length >= 2);
});

test("there are never more ticks than asked for", () => {
  for (const days of [0.01, 0.5, 2, 9, 40, 200, 900, 4000]) {
    const ticks = timeTicks(Date.UTC(2020, 0, 5), Date.UTC(2020, 0, 5) + days * 86_400_000, 7);
    assert.ok(ticks.length <= 7 && ticks.length >= 1, `${days} days gave ${ticks.length}`);
  }
});

test("linear ticks are round in the unit that is shown", () => {
  assert.deepEqual(linearTicks(0, 3.4e6, { divisor: 1e6 }), [0, 1e6, 2e6, 3e6]);
});

test("an axis keeps zero where that costs less than half of the height", () => {
  assert.deepEqual(lineDomain([1000, 3100]), { min: 0, max: 4000, startsAtZero: true });
});

test("an axis of values close together does not start at zero, and says so", () => {
  const { min, max, startsAtZero } = lineDomain([10_779, 15_906]);
  assert.equal(startsAtZero, false);
  assert.ok(min > 0 && min < 10_779 && max > 15_906);
});

test("equal values do not make an axis of no height", () => {
  const { min, max } = lineDomain([5000, 5000]);
  assert.ok(max > min);
});

test("zeros alone still make an axis", () => {
  const { min, max } = lineDomain([0, 0]);
  assert.ok(max > min && min === 0);
});

test("a log axis begins and ends at 1, 2 or 5", () => {
  assert.deepEqual(logDomain([87_600, 43_300_000]), { min: 50_000, max: 50_000_000 });
});

test("a log axis has ticks at 1, 2 and 5 of each decade", () => {
  assert.deepEqual(logTicks(50, 1000), [50, 100, 200, 500, 1000]);
});

test("a log axis over less than a decade gets linear ticks", () => {
  assert.ok(logTicks(2, 5).length >= 3);
});

test("a log axis is offered from thirty times on", () => {
  assert.equal(isLogWorthwhile([1, 29]), false);
  assert.equal(isLogWorthwhile([1, 31]), true);
  assert.equal(isLogWorthwhile([5]), false);
});
