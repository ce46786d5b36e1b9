import assert from "node:assert/strict";
import { test } from "node:test";
import { pixelAt, valueAt } from "../../static/js/charts/shared/together.js";
import { readRuns } from "../../static/js/charts/small_charts.js";

test("runs are read from the first minute and the steps to the next ones", () => {
  const { times, left, right } = readRuns("10 5x2 30x1");

  assert.deepEqual(times.map((at) => at / 60_000), [10, 15, 20, 50]);
  assert.deepEqual([left, right], [225, 237]);
});

test("pixels and values of an axis of runs are those of the runs beside them", () => {
  const axis = { left: 0, right: 300, from: 0, to: 100, times: [0, 10, 20, 100] };

  assert.deepEqual([0, 100, 150, 250, 400].map((x) => valueAt(axis, x)), [0, 10, 15, 60, 100]);
  assert.deepEqual([0, 10, 15, 60, 100].map((value) => pixelAt(axis, value)), [0, 100, 150, 250, 300]);
  assert.deepEqual([valueAt({ left: 0, right: 100, from: 0, to: 50 }, 50), pixelAt({ left: 0, right: 100, from: 0, to: 50 }, 25)], [25, 50]);
});
