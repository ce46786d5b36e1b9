import assert from "node:assert/strict";
import { test } from "node:test";

import { choosePlace, drawLimits } from "../../static/js/charts/scaling/limits.js";

const colors = { ink: "ink", paper: "paper" };
const area = { left: 0, right: 400, top: 0, bottom: 200, width: 400, height: 200 };

/** A chart of one bar for each value; a thousand is 100 pixels high; four pixels a letter. */
function makeChart(values) {
  const written = [];
  const strokes = [];
  let path = [];
  const ctx = {
    measureText: (text) => ({ width: text.length * 4 }),
    fillText: (text, left, top) => written.push({ text, left, top }),
    strokeText: () => {},
    save: () => {},
    restore: () => {},
    setLineDash: () => {},
    beginPath: () => {
      path = [];
    },
    moveTo: (x, y) => path.push([x, y]),
    lineTo: (x, y) => path.push([x, y]),
    stroke: () => strokes.push(path),
  };
  const scales = { y: { getPixelForValue: (value) => 200 - value / 10 } };
  const width = area.width / values.length;
  const bars = values.map((value, place) => {
    const box = { x: (place + 0.5) * width, y: 200 - value / 10, base: 200, width: width * 0.6 };
    return { ...box, getProps: () => box };
  });
  const chart = { ctx, chartArea: area, scales, options: {}, data: { datasets: [{}] }, getDatasetMeta: () => ({ data: bars }) };
  return { chart, written, strokes };
}

function draw(values, limits) {
  const made = makeChart(values);
  drawLimits(limits, { isBars: true }, { colors, format: (value) => `${value} IOPS` }).afterDatasetsDraw(made.chart);
  return made;
}

test("the box that covers least is chosen, and the first of those that cover the same", () => {
  const box = (left, more = {}) => ({ left, top: 0, width: 10, height: 10, ...more });

  assert.deepEqual(choosePlace([box(0), box(20), box(40)], [box(5)]), box(20));
  assert.deepEqual(choosePlace([box(0), box(20, { cost: 60 })], [box(5)]), box(0));
  assert.equal(choosePlace([], []), null);
});

test("a limit is named where no bar is behind the name", () => {
  const { written } = draw([1500, 1500, 300, 1500], [{ name: "limit", values: [1000, 1000, 1000, 1000], isGiven: true }]);

  assert.equal(written.length, 1);
  assert.ok(written[0].left >= 200 && written[0].left + 20 <= 300, `${written[0].left} is at the third bar, the low one`);
  assert.ok(written[0].top < 100);
});

test("a name is lifted above the bars, with a stroke to its limit, where all of them are higher", () => {
  const { written, strokes } = draw([900, 900], [{ name: "a limit whose name is long enough", values: [600, 600], isGiven: true }]);

  const [{ top }] = written;
  assert.ok(top + 12 <= 110, "above the bars");
  assert.ok(strokes.some((path) => path.length === 2 && path[0][0] === path[1][0] && path[1][1] === 140));
});

test("two names do not cover each other", () => {
  const { written } = draw([100], [
    { name: "instance", values: [1000], isGiven: true },
    { name: "volumes", values: [1010], isGiven: true },
  ]);

  const [one, other] = written;
  assert.ok(Math.abs(one.top - other.top) >= 13 || Math.abs(one.left - other.left) >= 28);
});

test("a limit far above is named at the upper edge, with its value", () => {
  const { written, strokes } = draw([500, 600], [{ name: "far", values: [90_000, 80_000], isGiven: true }]);

  assert.deepEqual(written.map(({ text }) => text), ["↑ far: 80000 IOPS"]);
  assert.ok(written[0].top <= 4);
  assert.deepEqual(strokes, [[]]);
});

test("where a limit leaves the chart at the top, an arrow marks it", () => {
  const { written, strokes } = draw([500, 600], [{ name: "each", values: [1000, 90_000], isGiven: true }]);

  assert.deepEqual(written.map(({ text }) => text), ["each", "90000 IOPS"]);
  assert.deepEqual(strokes.at(-1), [[296, 5], [300, 1], [304, 5]]);
});

test("a limit without known values is not drawn", () => {
  assert.deepEqual(draw([500], [{ name: "volume", values: [null], isGiven: true }]).written, []);
});
