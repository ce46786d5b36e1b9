import assert from "node:assert/strict";
import { test } from "node:test";
import { buildHistory, describePoint, prepareHistory } from "../../static/js/chart/history.js";
import { findNearest, shorten, spreadApart } from "../../static/js/chart/marks.js";
import { assignStyles, COLOUR_NAMES, styleOf, withAlpha } from "../../static/js/chart/palette.js";
import { buildPercentiles, describeMark, preparePercentiles } from "../../static/js/chart/percentiles.js";
import { moveBy } from "../../static/js/pages/navigation.js";

const colours = {
  ink: "rgb(0, 0, 0)",
  muted: "rgb(1, 1, 1)",
  line: "rgb(2, 2, 2)",
  fieldLine: "rgb(3, 3, 3)",
  paper: "rgb(255, 255, 255)",
  series: Object.fromEntries(COLOUR_NAMES.map((name) => [name, "rgb(0, 114, 178)"])),
};
const NO_LEVEL = { median: null, low: null, high: null };
const HOUR = 3_600_000;

function makePoints(values, { failedAt = [] } = {}) {
  return values.map((value, index) => ({
    at: Date.UTC(2026, 4, 12) + index * HOUR,
    value,
    hasFailed: failedAt.includes(index),
    runId: index + 1,
    level: index < 2 ? NO_LEVEL : { median: 1000, low: 900, high: 1100 },
  }));
}

test("a good run stands among the good, a failed one among the failed", () => {
  const history = prepareHistory(makePoints([1000, 1010, null, 990], { failedAt: [2] }), { unit: "operations/s" });
  const config = buildHistory(history, { colours, style: styleOf({ rw: "randread", direction: "read" }), label: "IOPS" });
  const at = (index) => {
    const { datasetIndex, index: place } = history.entries[index].element;
    return config.data.datasets[datasetIndex].data[place];
  };

  assert.equal(at(3).y, 990);
  assert.equal(at(2).x, history.entries[2].at);
  assert.notEqual(history.entries[2].element.datasetIndex, history.entries[3].element.datasetIndex);
});

test("a failed run without a value lies on the floor of the chart", () => {
  const history = prepareHistory(makePoints([1000, null], { failedAt: [1] }), { unit: "operations/s" });
  const config = buildHistory(history, { colours, style: styleOf({ rw: "read", direction: "read" }), label: "IOPS" });

  assert.equal(config.data.datasets.at(-1).data[0].y, history.domain.min);
});

test("a value that is missing is a gap", () => {
  const history = prepareHistory(makePoints([1000, null, 1020]), { unit: "operations/s" });
  const config = buildHistory(history, { colours, style: styleOf({ rw: "read", direction: "read" }), label: "IOPS" });

  assert.ok(Number.isNaN(config.data.datasets[0].data[1].y));
});

test("the line and the band begin where there are runs enough, and leave out what failed", () => {
  const history = prepareHistory(makePoints([1000, 1010, 990, 1005], { failedAt: [3] }), { unit: "operations/s" });

  assert.deepEqual(history.levels, [{ at: history.entries[2].at, median: 1000, low: 900, high: 1100 }]);
});

test("a point is told with its difference to the run before and to the median", () => {
  const history = prepareHistory(makePoints([1000, 1010, 1111]), { unit: "operations/s" });

  assert.equal(
    describePoint(history, 2),
    "Run 3 of 3, 12 May 2026 02:00 UTC · 1\u202f111 IOPS · +10.0 % to the run before · " +
      "+11.1 % to the running median · p10–p90 900 to 1\u202f100",
  );
});

test("a failed run is no run before", () => {
  const history = prepareHistory(makePoints([1000, 10, 1100], { failedAt: [1] }), { unit: "operations/s" });

  assert.match(describePoint(history, 1), /failed; 10\.0 IOPS until then/);
  assert.match(describePoint(history, 2), /\+10\.0 % to the run before/);
});

test("an axis that does not start at zero says so", () => {
  const history = prepareHistory(makePoints([1000, 1010]), { unit: "ns" });
  const config = buildHistory(history, { colours, style: styleOf({ rw: "read", direction: "read" }), label: "p99 latency" });

  assert.equal(config.options.scales.y.title.text, "p99 latency, µs (axis does not start at 0)");
});

test("read and write have their fixed colours, the others the next free ones", () => {
  const lines = [
    { rw: "randwrite", direction: "write" },
    { rw: "read", direction: "read" },
    { rw: "randwrite", direction: "write" },
    { rw: "trim", direction: "trim" },
  ];

  assert.deepEqual(
    assignStyles(lines).map((style) => style.colour),
    ["purple", "blue", "orange", "green"],
  );
});

test("no two of eight lines look alike", () => {
  const looks = assignStyles(Array.from({ length: 8 }, () => ({ rw: "randrw", direction: "read" })));
  const cues = new Set(looks.map(({ colour, shape, dash }) => `${colour} ${shape} ${dash}`));
  const withoutColour = new Set(looks.map(({ shape, dash }) => `${shape} ${dash}`));

  assert.equal(cues.size, 8);
  assert.equal(withoutColour.size, 8);
});

test("a colour can be thinned", () => {
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

test("up to six lines are labelled at their ends, more get a legend", () => {
  const line = { name: "a", rw: "randread", direction: "read", points: [{ percent: 99, value: 1000 }] };
  const roomForLabels = (count) =>
    buildPercentiles(preparePercentiles(Array(count).fill(line)), { colours }).options.layout.padding.right;

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

const HOUSE = { colours, style: styleOf({ rw: "read", direction: "read" }), label: "IOPS" };

test("a doubtful run is a hollow mark of the same shape and counts in the median", () => {
  const points = makePoints([1000, 1010, 990, 1005]);
  points[3] = { ...points[3], isDoubtful: true, badges: ["too-short", "cached"] };
  const history = prepareHistory(points, { unit: "operations/s" });
  const [good, doubtful] = buildHistory(history, HOUSE).data.datasets;

  assert.equal(good.data.length, 3);
  assert.deepEqual(doubtful.data, [{ x: points[3].at, y: 1005 }]);
  assert.equal(doubtful.pointBackgroundColor, colours.paper);
  assert.equal(doubtful.pointStyle, good.pointStyle);
  assert.equal(history.levels.length, 2);
  assert.match(describePoint(history, 3), / · badges: too-short, cached$/);
});

test("a failed run with badges stays among the failed and tells them", () => {
  const points = makePoints([1000, null], { failedAt: [1] });
  points[1] = { ...points[1], isDoubtful: true, badges: ["failed-job"] };
  const history = prepareHistory(points, { unit: "operations/s" });

  assert.equal(buildHistory(history, HOUSE).data.datasets.at(-1).data.length, 1);
  assert.match(describePoint(history, 1), /failed, no value · badges: failed-job$/);
});

test("a limit is within the axis and drawn as a line with its words", () => {
  const history = prepareHistory(makePoints([3.1, 3.2]), { unit: "s", limit: { value: 10, words: "good: under 10 s" } });
  const plugin = buildHistory(history, { ...HOUSE, label: "Elapsed time" }).plugins.find(({ id }) => id === "limit");
  const said = [];
  const ctx = new Proxy({}, {
    get: (_, name) => {
      if (name === "measureText") {
        return () => ({ width: 60 });
      }
      return (...values) => name === "fillText" && said.push(values[0]);
    },
    set: () => true,
  });
  const y = { getPixelForValue: () => 50 };
  plugin.afterDatasetsDraw({ ctx, chartArea: { left: 0, right: 300, top: 0, width: 300 }, scales: { y }, options: {} });

  assert.ok(history.domain.min <= 3.1 && history.domain.max >= 10);
  assert.deepEqual(said, ["good: under 10 s"]);
});

test("without a limit no line is drawn", () => {
  const config = buildHistory(prepareHistory(makePoints([1000]), { unit: "operations/s" }), HOUSE);

  assert.ok(!config.plugins.some(({ id }) => id === "limit"));
});

test("a known system is drawn where it is near, and does not press the points flat where it is far", () => {
  const references = [
    { value: 33415, words: "known good: SSD" },
    { value: 2000, words: "known bad: spinning disk" },
  ];
  const history = prepareHistory(makePoints([20000, 21000]), { unit: "operations/s", references });

  const ids = buildHistory(history, HOUSE).plugins.map(({ id }) => id);

  assert.deepEqual(history.references, [references[0]]);
  assert.ok(ids.includes("reference-0") && !ids.includes("reference-1"));
  assert.ok(history.domain.max >= 33415);
});
