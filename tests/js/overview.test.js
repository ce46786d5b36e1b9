import assert from "node:assert/strict";
import { test } from "node:test";
import { moveInRows } from "../../static/js/overview/host_strip.js";
import { describeBar, findNearestBar, prepareBars } from "../../static/js/overview/bars.js";
import { describeFleetDay, moveToLine, prepareFleet } from "../../static/js/overview/fleet.js";

const GRID = { count: 8, columns: 3 };

test("arrows move along rows and columns, and stop at the edges", () => {
  assert.equal(moveInRows("ArrowRight", 2, GRID), 3);
  assert.equal(moveInRows("ArrowLeft", 0, GRID), 0);
  assert.equal(moveInRows("ArrowDown", 1, GRID), 4);
  assert.equal(moveInRows("ArrowDown", 6, GRID), 6);
  assert.equal(moveInRows("ArrowUp", 1, GRID), 1);
});

test("Home and End lead to the ends; other keys nowhere", () => {
  assert.equal(moveInRows("Home", 5, GRID), 0);
  assert.equal(moveInRows("End", 0, GRID), 7);
  assert.equal(moveInRows("a", 0, GRID), null);
});

const VALUE = { median: 0.8, p10: 0.7, p90: 0.9, n: 3 };
const FLEET = {
  days: ["2026-05-10", "2026-05-11", "2026-05-12"],
  lines: [
    { name: "random read", rw: "randread", direction: "read", values: [VALUE, null, VALUE] },
    { name: "random write", rw: "randwrite", direction: "write", values: [null, VALUE, null] },
  ],
};

test("days without a value are no points of the fleet", () => {
  const fleet = prepareFleet(FLEET);

  assert.deepEqual(fleet.entries.map(({ line, day }) => [line, day]), [[0, 0], [0, 2], [1, 1]]);
  assert.ok(fleet.domain.min <= 70 && fleet.domain.max >= 100);
});

test("a day of a pattern is described in percent of its level", () => {
  const [first] = prepareFleet(FLEET).entries;

  assert.equal(describeFleetDay(first), "random read, 10 May: median 80.0 %, p10–p90 70.0 %–90.0 %, 3 series");
});

test("up and down lead to the nearest day of the other pattern", () => {
  const fleet = prepareFleet(FLEET);

  assert.equal(moveToLine(fleet, 1, "ArrowDown"), 2);
  assert.equal(moveToLine(fleet, 2, "ArrowUp"), 0);
  assert.equal(moveToLine(fleet, 0, "ArrowUp"), 0);
  assert.equal(moveToLine(fleet, 0, "ArrowLeft"), null);
});

test("a stacked bar is described by its layers, and the axis holds their sum", () => {
  const bars = prepareBars({
    days: ["2026-05-04", "2026-05-11"],
    prefix: "week of",
    layers: [{ name: "regressions", color: "regression", values: [1, 20] }, { name: "improvements", color: "improvement", values: [0, 5] }],
  });

  assert.equal(describeBar(bars, 1), "week of 11 May: 20 regressions, 5 improvements");
  assert.ok(bars.domain.max >= 25);
  assert.equal(findNearestBar([10, 20, 30], 24), 1);
});
