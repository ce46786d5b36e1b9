import assert from "node:assert/strict";
import { test } from "node:test";
import { drawLabeledLines, findNearest, placeLabels, shorten, spreadApart } from "../../static/js/charts/shared/marks.js";
import { assignStyles, COLOR_NAMES, withAlpha } from "../../static/js/charts/shared/palette.js";
import { buildPercentiles, describeMark, preparePercentiles } from "../../static/js/charts/latency/percentiles.js";
import { moveBy } from "../../static/js/site/navigation.js";

const colors = {
  ink: "rgb(0, 0, 0)",
  muted: "rgb(1, 1, 1)",
  line: "rgb(2, 2, 2)",
  fieldLine: "rgb(3, 3, 3)",
  paper: "rgb(255, 255, 255)",
  series: Object.fromEntries(COLOR_NAMES.map((name) => [name, "rgb(0, 114, 178)"])),
};
test("read and write have their fixed colors, the others the next free ones", () => {
  const lines = [
    { rw: "randwrite", direction: "write" },
    { rw: "read", direction: "read" },
    { rw: "randwrite", direction: "write" },
    { rw: "trim", direction: "trim" },
  ];

  assert.deepEqual(
    assignStyles(lines).map((style) => style.color),
    ["purple", "blue", "orange", "green"],
  );
});

test("no two of eight lines look alike", () => {
  const looks = assignStyles(Array.from({ length: 8 }, () => ({ rw: "randrw", direction: "read" })));
  const cues = new Set(looks.map(({ color, shape, dash }) => `${color} ${shape} ${dash}`));
  const withoutColor = new Set(looks.map(({ shape, dash }) => `${shape} ${dash}`));

  assert.equal(cues.size, 8);
  assert.equal(withoutColor.size, 8);
});

test("a color can be thinned", () => {
  assert.equal(withAlpha("rgb(0, 114, 178)", 0.5), "rgba(0, 114, 178, 0.5)");
});

test("labels that would cover each other are moved apart and stay inside", () => {
  const moved = spreadApart([{ y: 100 }, { y: 98 }, { y: 99 }], { top: 0, bottom: 110 }, 13);

  assert.deepEqual(moved.map((label) => label.y), [84, 97, 110]);
});

test("words that do not fit end in an ellipsis", () => {
  const context = { measureText: (text) => ({ width: text.length * 10 }) };

  assert.equal(shorten(context, "randread-4k", 200), "randread-4k");
  assert.equal(shorten(context, "randread-4k", 50), "rand…");
});

test("percentiles of 0 ns and 100 % have no place on the axes", () => {
  const points = [
    { percent: 50, value: 0 },
    { percent: 99, value: 447_488 },
    { percent: 100, value: 900_000 },
  ];
  const prepared = preparePercentiles([{ name: "a", rw: "randread", direction: "read", points }]);

  assert.deepEqual(prepared.marks.map((mark) => mark.percent), [99]);
  assert.equal(describeMark(prepared.marks[0]), "a · 99 % of the I/Os within 447 µs");
});

test("a previous run is thin, dashed and named, and the cursor starts on this run", () => {
  const points = [{ percent: 99, value: 1000 }];
  const line = { name: "a", rw: "randread", direction: "read", points };
  const prepared = preparePercentiles([line, { ...line, isBefore: true, run: "previous run 41" }]);
  const [own, before] = buildPercentiles(prepared, { colors }).data.datasets;

  assert.deepEqual(prepared.marks.map((mark) => mark.name), ["previous run 41", "a"]);
  assert.deepEqual([own.borderWidth, own.borderDash], [1.75, [2, 2]]);
  assert.deepEqual([before.label, before.borderWidth, before.borderDash], ["previous run 41", 1, [4, 4]]);
});

test("previous runs have the colors and names of this run's lines", () => {
  const points = [{ percent: 99, value: 1000 }];
  const lines = ["read", "write"].flatMap((direction) => {
    const line = { name: direction, rw: "randrw", direction, points };
    return [line, { ...line, isBefore: true, run: "previous run 7" }];
  });
  const prepared = preparePercentiles(lines);

  assert.deepEqual(
    prepared.lines.map(({ name, style }) => `${name} ${style.color}`),
    ["read green", "write purple", "read, previous run 7 green", "write, previous run 7 purple"],
  );
});

test("up to six lines are labeled at their ends, more get a legend", () => {
  const line = { name: "a", rw: "randread", direction: "read", points: [{ percent: 99, value: 1000 }] };
  const roomForLabels = (count) =>
    buildPercentiles(preparePercentiles(Array(count).fill(line)), { colors }).options.layout.padding.right;

  assert.ok(roomForLabels(6) > 100);
  assert.ok(roomForLabels(7) < 20);
});

test("the pointer means the mark under it, else the nearest in time", () => {
  const places = [{ x: 10, y: 10 }, { x: 12, y: 90 }, { x: 100, y: 50 }];

  assert.equal(findNearest(places, { x: 12, y: 12 }), 0);
  assert.equal(findNearest(places, { x: 12, y: 88 }), 1);
  assert.equal(findNearest(places, { x: 80, y: 5 }), 2);
  assert.equal(findNearest([], { x: 0, y: 0 }), null);
});

test("keys walk the points and stop at the ends", () => {
  assert.equal(moveBy("ArrowRight", 4, 10), 5);
  assert.equal(moveBy("ArrowLeft", 0, 10), 0);
  assert.equal(moveBy("PageDown", 4, 10), 9);
  assert.equal(moveBy("Home", 4, 10), 0);
  assert.equal(moveBy("End", 4, 10), 9);
  assert.equal(moveBy("a", 4, 10), null);
});

const tall = { left: 0, right: 300, top: 0, bottom: 200, width: 300 };

test("the label of a line is above it, and below it at the upper edge", () => {
  const [edge, inside] = placeLabels([{ y: 100 }, { y: 5 }], tall);

  assert.deepEqual(edge, { y: 5, labelY: 13.5, isApart: false });
  assert.deepEqual(inside, { y: 100, labelY: 91.5, isApart: false });
});

test("labels are where images have them", () => {
  // The same places as in tests/charts/images/test_images.py.
  const findPlaces = (heights) => placeLabels(heights.map((y) => ({ y })), tall).map(({ labelY, isApart }) => [labelY, isApart]);

  assert.deepEqual(findPlaces([100, 103, 106]), [[78.5, true], [91.5, true], [114.5, false]]);
  assert.deepEqual(findPlaces([190, 195]), [[168.5, true], [181.5, true]]);
});

test("labels of near lines cover neither each other nor any of the lines", () => {
  for (const heights of [[100, 105], [100, 100], [100, 104, 108], [5, 8, 11, 14], [190, 193, 196], [60, 90, 91, 92, 120, 121]]) {
    const placed = placeLabels(heights.map((y) => ({ y })), tall);

    const rows = placed.map(({ labelY }) => labelY);
    assert.deepEqual(rows, [...rows].sort((a, b) => a - b), `${heights}: in the order of the lines`);
    rows.slice(1).forEach((y, place) => assert.ok(y - rows[place] >= 13, `${heights}: ${rows}`));
    rows.forEach((y) => heights.forEach((line) => assert.ok(Math.abs(y - line) >= 6.5, `${heights}: ${rows}`)));
    rows.forEach((y) => assert.ok(y >= 6.5 && y <= 193.5, `${heights}: ${rows}`));
  }
});

test("two near lines have a label on each side, three have strokes from the labels of one side", () => {
  const findApart = (heights) => placeLabels(heights.map((y) => ({ y })), tall).map(({ isApart }) => isApart);

  assert.deepEqual(findApart([100, 105]), [false, false]);
  assert.deepEqual(findApart([100, 103, 106]), [true, true, false]);
});

test("labels of limit, references and thresholds are placed together", () => {
  const written = [];
  const ctx = new Proxy(
    { measureText: (text) => ({ width: 6 * text.length }), fillText: (text, x, y) => written.push([text, y]) },
    { get: (own, name) => own[name] ?? (() => {}), set: () => true },
  );
  const lines = { limit: { value: 100, label: "good" }, references: [{ value: 102, label: "SSD" }], thresholds: [{ value: 150, label: "threshold" }] };

  drawLabeledLines(lines, {}).afterDatasetsDraw({ ctx, chartArea: tall, options: {}, scales: { y: { getPixelForValue: (value) => value } } });

  assert.deepEqual(written, [["good", 91.5], ["SSD", 110.5], ["threshold", 141.5]]);
});

test("a hidden line of a run has no marks, and its place keeps its style", () => {
  const points = [{ percent: 99, value: 1000 }];
  const lines = ["read", "write"].map((direction) => ({ name: direction, rw: "randrw", direction, points }));
  const prepared = preparePercentiles(lines, new Set([0]));

  assert.deepEqual(prepared.marks.map(({ name, element }) => [name, element.datasetIndex]), [["write", 1]]);
  assert.deepEqual(buildPercentiles(prepared, { colors }).data.datasets.map(({ hidden }) => hidden), [true, false]);
});
