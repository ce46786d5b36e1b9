import assert from "node:assert/strict";
import { test } from "node:test";
import { COLOR_NAMES } from "../../static/js/charts/shared/palette.js";
import { buildTrace, describeMark, prepareTrace } from "../../static/js/charts/trace/trace.js";

const colors = {
  ink: "rgb(0, 0, 0)",
  muted: "rgb(1, 1, 1)",
  line: "rgb(2, 2, 2)",
  fieldLine: "rgb(3, 3, 3)",
  paper: "rgb(255, 255, 255)",
  series: Object.fromEntries(COLOR_NAMES.map((name) => [name, "rgb(0, 114, 178)"])),
};
const RATE = { unit: "operations/s", label: "IOPS" };
const LATENCY = { unit: "ns", label: "Total latency (lat)" };

function makeRates(values) {
  return values.map((mean, index) => ({
    at_s: index + 1,
    mean: mean ?? 0,
    minimum: null,
    maximum: null,
    count: mean === null ? 0 : 1,
  }));
}

function makeLine(direction, points, rw = "randrw") {
  return { direction, rw, points };
}

test("a second without entries is a gap, not a zero", () => {
  const trace = prepareTrace([makeLine("read", makeRates([100, null, 120]))], RATE);
  const config = buildTrace(trace, { colors });

  const line = config.data.datasets[2].data;
  assert.deepEqual(line.map((point) => point.x), [1, 2, 3]);
  assert.equal(line[0].y, 100);
  assert.ok(Number.isNaN(line[1].y));
  assert.equal(config.options.spanGaps, false);
});

test("each mark finds its place in the chart, in the order of time", () => {
  const lines = [makeLine("read", makeRates([100, 110])), makeLine("write", makeRates([50, null]))];
  const trace = prepareTrace(lines, RATE);
  const config = buildTrace(trace, { colors });

  assert.deepEqual(
    trace.marks.map(({ direction, at }) => `${direction} ${at}`),
    ["read 1", "write 1", "read 2"],
  );
  for (const { element, mean } of trace.marks) {
    assert.equal(config.data.datasets[element.datasetIndex].data[element.index].y, mean);
  }
});

test("a latency has a band from the least to the greatest", () => {
  const points = [{ at_s: 1, mean: 300_000, minimum: 250_000, maximum: 400_000, count: 2 }];
  const trace = prepareTrace([makeLine("read", points)], LATENCY);
  const [low, high] = buildTrace(trace, { colors }).data.datasets;

  assert.equal(low.data[0].y, 250_000);
  assert.equal(high.data[0].y, 400_000);
  assert.equal(high.fill, "-1");
  assert.equal(high.backgroundColor, "rgba(0, 114, 178, 0.2)");
});

test("a mark is told with its moment, value and band", () => {
  const points = [
    { at_s: 1.02, mean: 300_000, minimum: 250_000, maximum: 400_000, count: 2 },
    { at_s: 12.4, mean: 300_000, minimum: 300_000, maximum: 300_000, count: 1 },
  ];
  const { marks } = prepareTrace([makeLine("read", points)], LATENCY);
  const [rate] = prepareTrace([makeLine("write", makeRates([33_415]))], RATE).marks;

  assert.equal(describeMark(marks[0], "ns"), "read, 1 s after the start · 300 µs · 250 µs to 400 µs");
  assert.equal(describeMark(marks[1], "ns"), "read, 12 s after the start · 300 µs");
  assert.equal(describeMark(rate, "operations/s"), "write, 1 s after the start · 33\u202f415 IOPS");
});

test("the axis names its unit once, and says where it does not start at zero", () => {
  const nameOf = (trace) => buildTrace(trace, { colors }).options.scales.y.title.text;

  assert.equal(nameOf(prepareTrace([makeLine("read", makeRates([10, 100]))], RATE)), "IOPS");
  assert.equal(
    nameOf(prepareTrace([makeLine("read", makeRates([100, 101]))], RATE)),
    "IOPS (axis does not start at 0)",
  );
});

test("two directions are labeled at their ends, one alone needs no name", () => {
  const lines = [makeLine("read", makeRates([100])), makeLine("write", makeRates([50]))];
  const roomOf = (count) => buildTrace(prepareTrace(lines.slice(0, count), RATE), { colors }).options.layout.padding.right;

  assert.equal(roomOf(2), 44);
  assert.equal(roomOf(1), 10);
});

test("a trace without any entry draws nothing and breaks nothing", () => {
  const trace = prepareTrace([makeLine("read", makeRates([null, null]))], RATE);

  assert.deepEqual(trace.marks, []);
  assert.equal(buildTrace(trace, { colors }).options.scales.x.max, 2);
});
