import assert from "node:assert/strict";
import { test } from "node:test";
import { findNearest, shorten, spreadApart } from "../../static/js/charts/shared/marks.js";
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
  const prepared = preparePercentiles([line, { ...line, before: "41" }]);
  const [own, before] = buildPercentiles(prepared, { colors }).data.datasets;

  assert.deepEqual(prepared.marks.map((mark) => mark.name), ["previous run 41", "a"]);
  assert.deepEqual([own.borderWidth, own.borderDash], [1.75, [2, 2]]);
  assert.deepEqual([before.label, before.borderWidth, before.borderDash], ["previous run 41", 1, [4, 4]]);
});

test("previous runs have the colors and names of this run's lines", () => {
  const points = [{ percent: 99, value: 1000 }];
  const lines = ["read", "write"].flatMap((direction) => {
    const line = { name: direction, rw: "randrw", direction, points };
    return [line, { ...line, before: "7" }];
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
