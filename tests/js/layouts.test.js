import assert from "node:assert/strict";
import { test } from "node:test";
import { buildLayouts, describeLayout, prepareLayouts } from "../../static/js/layouts/layouts.js";
import { COLOR_NAMES } from "../../static/js/charts/shared/palette.js";

const colors = {
  ink: "rgb(0, 0, 0)",
  muted: "rgb(1, 1, 1)",
  line: "rgb(2, 2, 2)",
  fieldLine: "rgb(3, 3, 3)",
  paper: "rgb(255, 255, 255)",
  accent: "rgb(4, 4, 4)",
  series: Object.fromEntries(COLOR_NAMES.map((name) => [name, "rgb(0, 114, 178)"])),
};

function makePoint(price, throughput, latency, more = {}) {
  return { title: "8 × gp3", price, throughput, latency, verdict: "meets", is_met: true, is_front: false, n: 3, url: "/series/1/", ...more };
}

const document = {
  metric: { unit: "operations/s", label: "IOPS" },
  currency: "USD",
  required: 20000,
  limit: 3e6,
  points: [makePoint(900, 31000, 1e6, { is_front: true }), makePoint(643, 23500, 2e6, { is_front: true }), makePoint(700, 19500, null, { is_met: false })],
};

test("layouts are in the order of prices, each in the class of its latency", () => {
  const { entries, classes, front } = prepareLayouts(document);

  assert.deepEqual(entries.map(({ price }) => price), [643, 700, 900]);
  assert.deepEqual(
    entries.map(({ element }) => classes[element.datasetIndex].label),
    ["p99 1.50 ms to 3.00 ms", "p99 latency unknown", "p99 up to 1.50 ms"],
  );
  assert.deepEqual(front.map(({ price }) => price), [643, 900]);
});

test("without a limit the classes are the quartiles, and every class has its own shape", () => {
  const points = [1e6, 2e6, 3e6, 4e6].map((latency) => makePoint(1, 1, latency));
  const { classes, entries } = prepareLayouts({ ...document, limit: null, points });

  assert.equal(new Set(classes.map(({ shape }) => shape)).size, classes.length);
  assert.ok(new Set(entries.map(({ element }) => element.datasetIndex)).size > 2);
});

test("marks of layouts that do not meet the requirement are hollow", () => {
  const layouts = prepareLayouts(document);
  const { data, options } = buildLayouts(layouts, { colors });

  const unknown = data.datasets.at(-1);
  assert.deepEqual(unknown.backgroundColor, [colors.paper]);
  assert.equal(options.scales.x.title.text, "USD per month");
  assert.equal(options.scales.y.title.text, "IOPS");
  assert.equal(options.scales.y.min, 0);
});

test("a layout is described with its units", () => {
  const layouts = prepareLayouts(document);

  assert.equal(describeLayout(layouts, layouts.entries[0]), "8 × gp3 · USD 643.00 per month · 23\u202f500 IOPS · p99 latency 2.00 ms · meets · 3 runs");
});
