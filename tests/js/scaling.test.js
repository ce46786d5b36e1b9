import assert from "node:assert/strict";
import { test } from "node:test";
import { COLOR_NAMES } from "../../static/js/charts/shared/palette.js";
import { buildScaling, describeCell, describeLines, describeRun, describeStacked, fitsEndLabels, moveWithin, prepareScaling, prepareStack } from "../../static/js/charts/scaling/scaling.js";
import { HATCHES } from "../../static/js/charts/scaling/marks.js";
import { findRun, locateRun, moveToRun } from "../../static/js/charts/scaling/runs.js";
import { compareCells } from "../../static/js/site/sortable.js";

const colors = {
  ink: "rgb(0, 0, 0)",
  muted: "rgb(1, 1, 1)",
  line: "rgb(2, 2, 2)",
  fieldLine: "rgb(3, 3, 3)",
  paper: "rgb(255, 255, 255)",
  series: Object.fromEntries(COLOR_NAMES.map((name) => [name, "rgb(0, 114, 178)"])),
};

function makeCell(value, more = {}) {
  const spread = { p10: value, p90: value, n: 1, lastAt: Date.UTC(2026, 10, 21, 12) };
  const rest = { over: null, ideal: null, efficiency: null, earlier_median: null, series: 1, badges: [], mark: null, url: "/series/1/" };
  return { state: "measured", median: value, ...spread, ...rest, ...more };
}

function makeChart(lines, more = {}) {
  return {
    metric: { label: "IOPS", unit: "operations/s", better: "higher" },
    over: null,
    x: { label: "Volumes", labels: ["1", "2", "4"], ticks: [["1"], ["2"], ["4"]], settings: ["1 volume", "2 volumes", "4 volumes"], positions: [0, 1, 2] },
    draw: "bars",
    scale: "linear",
    ideal: false,
    colors: [
      { label: "random read", rw: "randread", direction: "read" },
      { label: "random write", rw: "randwrite", direction: "write" },
    ].slice(0, lines.length),
    facets: [{ label: "", lines, limits: [], models: [], knees: [] }],
    ...more,
  };
}

const build = (data, look = { colors }) => buildScaling(prepareScaling(data), 0, look);

test("each pattern has its fixed color and its own hatch", () => {
  const { styles } = prepareScaling(makeChart([[makeCell(1)], [makeCell(2)]]));

  assert.deepEqual(styles.map(({ color }) => color), ["green", "purple"]);
  assert.equal(new Set(Object.values(HATCHES).map(String)).size, COLOR_NAMES.length);
});

test("bars begin at zero, however near each other they are", () => {
  const config = build(makeChart([[makeCell(1000), makeCell(1010)]]));

  assert.equal(config.type, "bar");
  assert.equal(config.options.scales.y.min, 0);
  assert.deepEqual(config.data.datasets[0].data, [1000, 1010]);
});

test("the parts of a combined axis are lines of its labels", () => {
  const data = makeChart([[makeCell(1000), makeCell(1010), null]]);

  const config = build({ ...data, x: { ...data.x, ticks: [["1"], ["200 GiB", "io1"], ["4"]] } });

  assert.deepEqual(config.data.labels, ["1", ["200 GiB", "io1"], "4"]);
});

test("lines may begin above zero, and then the axis says so", () => {
  const config = build(makeChart([[makeCell(1000), makeCell(1010)]], { draw: "lines" }));

  assert.equal(config.type, "line");
  assert.equal(config.options.scales.y.title.text, "IOPS (axis does not start at 0)");
  assert.deepEqual(config.data.datasets[0].data[1], { x: 1, y: 1010 });
});

test("a missing cell is a gap and no mark", () => {
  const prepared = prepareScaling(makeChart([[makeCell(1000), null, makeCell(900)]]));

  assert.deepEqual(buildScaling(prepared, 0, { colors }).data.datasets[0].data, [1000, null, 900]);
  assert.equal(prepared.panels[0].marks.length, 2);
});

test("all panels share one axis", () => {
  const facets = [10, 400].map((value) => ({ label: `${value}`, lines: [[makeCell(value)]], limits: [], models: [], knees: [] }));
  const prepared = prepareScaling(makeChart([[]], { facets, colors: [{ label: "IOPS", rw: "", direction: "" }] }));

  assert.equal(buildScaling(prepared, 0, { colors }).options.scales.y.max, buildScaling(prepared, 1, { colors }).options.scales.y.max);
});

test("the axis is that of the values, whatever limit is above them", () => {
  const withLimit = (value) => {
    const facets = [{ label: "", lines: [[makeCell(1000)]], limits: [{ name: "limit", values: [value], isGiven: true }], models: [], knees: [] }];
    return prepareScaling(makeChart([[]], { facets })).domain.max;
  };

  assert.deepEqual([withLimit(1500), withLimit(2000), withLimit(50000)], Array(3).fill(withLimit(500)));
});

test("the linear-scaling line does not flatten the values", () => {
  const { domain } = prepareScaling(makeChart([[makeCell(1000, { ideal: 1000 }), makeCell(1100, { ideal: 16000 })]], { ideal: true }));

  assert.ok(domain.max < 2000);
});

test("a log axis is offered where the values spread far, and keeps zero out", () => {
  const prepared = prepareScaling(makeChart([[makeCell(100), makeCell(9000), makeCell(0)]], { scale: "log" }));

  assert.ok(prepared.canBeLog);
  assert.deepEqual(buildScaling(prepared, 0, { colors }).data.datasets[0].data, [100, 9000, null]);
  assert.match(buildScaling(prepared, 0, { colors }).options.scales.y.title.text, /log axis/);
});

test("latency is plotted at its throughput", () => {
  const data = makeChart([[makeCell(2e5, { over: 10000 }), makeCell(9e5, { over: 40000 })]], {
    metric: { label: "Mean latency", unit: "ns", better: "lower" },
    over: { label: "IOPS", unit: "operations/s" },
  });
  const config = build(data);

  assert.deepEqual(config.data.datasets[0].data.map(({ x }) => x), [10000, 40000]);
  assert.equal(config.options.scales.x.title.text, "IOPS");
  assert.equal(config.options.scales.y.title.text, "Mean latency, µs");
});

test("a mark is described with its line, x, spread and share of ideal", () => {
  const cell = makeCell(30180, { p10: 29900, p90: 31000, n: 12, efficiency: 0.26 });
  const prepared = prepareScaling(makeChart([[null, null, cell], [makeCell(1)]]));

  assert.equal(
    describeCell(prepared, prepared.panels[0], prepared.panels[0].marks[0]),
    "random read · 4 volumes · 30\u202f180 IOPS · p10–p90 29\u202f900 to 31\u202f000, n 12 · 26 % of ideal · last 21 Nov 2026 12:00 UTC",
  );
});

test("one run has no spread, a failed one no value", () => {
  const prepared = prepareScaling(makeChart([[makeCell(10)]]));

  assert.ok(describeLines(prepared, { cell: makeCell(10) }).includes("one run, no spread"));
  assert.deepEqual(describeLines(prepared, { cell: makeCell(null, { state: "failed" }) }), ["failed, no IOPS"]);
});

test("arrows up and down go to another line at the same place, over gaps", () => {
  const panel = prepareScaling(makeChart([[makeCell(1), makeCell(2)], [makeCell(3), null]])).panels[0];

  assert.equal(moveWithin(panel, 0, "ArrowUp"), 2);
  assert.equal(moveWithin(panel, 2, "ArrowDown"), 0);
  assert.equal(moveWithin(panel, 1, "ArrowUp"), 1);
  assert.equal(moveWithin(panel, 1, "ArrowLeft"), null);
  assert.equal(moveWithin(panel, null, "ArrowUp"), null);
});

test("up to six lines are labeled at their ends, bars and narrow screens have the legend", () => {
  const data = makeChart([[makeCell(1)], [makeCell(2)]], { draw: "lines" });

  assert.ok(build(data).options.layout.padding.right > 100);
  assert.ok(build(data, { colors, isNarrow: true }).options.layout.padding.right < 20);
  assert.ok(build({ ...data, draw: "bars" }).options.layout.padding.right < 20);
});

test("rows are sorted by value, by text where there is none, the unknown last", () => {
  const cell = (value, text = "") => ({ value, text });

  assert.ok(compareCells(cell(2), cell(10), false) < 0);
  assert.ok(compareCells(cell(2), cell(10), true) > 0);
  assert.ok(compareCells(cell(null), cell(10), true) > 0);
  assert.ok(compareCells(cell(null, "5 GiB"), cell(null, "15 GiB"), false) < 0);
});

test("charts of several metrics describe one place with the value of each", () => {
  const data = makeChart([[makeCell(1000), makeCell(1010)]]);
  const latency = {
    metric: { label: "p99 latency", unit: "ns", better: "lower" },
    facets: [{ label: "", lines: [[makeCell(1.2e6), null]], limits: [], models: [], knees: [] }],
  };

  const stack = prepareStack({ ...data, layers: [data, latency] });

  assert.deepEqual(stack.map(({ metric }) => metric.label), ["IOPS", "p99 latency"]);
  const [first, second] = [0, 1].map((index) => describeStacked(stack, { layer: 0, place: 0, element: { datasetIndex: 0, index } }));
  assert.match(first, /^1 volume · p99 latency: 1\.20.ms · IOPS: 1.000 IOPS · one run, no spread/u);
  assert.match(second, /^2 volumes · p99 latency: no value · IOPS: 1.010 IOPS/u);
});

function makeRuns(values, more = {}) {
  const own = { values, overs: [], times: values.map((_, place) => Date.UTC(2026, 10, 21, 12, place)), ids: values.map((_, place) => 7 + place) };
  return { ...own, names: ["db-01", "db-02"], hosts: values.map((_, place) => place % 2), ...more };
}

const fakeChart = {
  scales: { x: { getPixelForValue: (value) => value }, y: { getPixelForValue: (value) => 100 - value } },
  getDatasetMeta: () => ({ data: [{ getProps: () => ({ x: 50, width: 20 }) }] }),
};

test("runs of a value are inside its bar, at different places that do not depend on chance", () => {
  const data = makeChart([[makeCell(10, { runs: makeRuns([9, 10, 11]) })]]);
  const prepared = prepareScaling(data);
  const { runs } = prepared.panels[0];

  const places = runs.map((run) => locateRun(fakeChart, run, prepared));

  assert.deepEqual(places.map(({ y }) => y), [91, 90, 89]);
  assert.ok(places.every(({ x }) => x >= 42 && x <= 58));
  assert.equal(new Set(places.map(({ x }) => x)).size, 3);
  assert.deepEqual(runs.map((run) => locateRun(fakeChart, run, prepared)), places);
});

test("the value axis has room for runs beyond p90", () => {
  const data = makeChart([[makeCell(10, { runs: makeRuns([9, 40]) })]]);

  assert.ok(prepareScaling(data).domain.max >= 40);
});

test("a run is described by value, host and time, in a shared study without its host", () => {
  const prepared = prepareScaling(makeChart([[makeCell(10, { runs: makeRuns([9, 10]) }), makeCell(5, { runs: makeRuns([5], { ids: [], names: [], hosts: [] }) })]]));

  assert.equal(describeRun(prepared, prepared.panels[0], 1), "1 volume · one run: 10.0 IOPS · db-02 · 21 Nov 2026 12:01 UTC");
  assert.equal(describeRun(prepared, prepared.panels[0], 2), "2 volumes · one run: 5.00 IOPS · 21 Nov 2026 12:00 UTC");
});

test("the pointer selects a run near it, else none", () => {
  const prepared = prepareScaling(makeChart([[makeCell(10, { runs: makeRuns([9, 60]) })]]));
  const { runs } = prepared.panels[0];
  const at = locateRun(fakeChart, runs[1], prepared);

  assert.equal(findRun(fakeChart, runs, prepared, { x: at.x + 2, y: at.y }), 1);
  assert.equal(findRun(fakeChart, runs, prepared, { x: at.x, y: at.y + 20 }), null);
});

test("keys walk the runs of one value", () => {
  const { runs } = prepareScaling(makeChart([[makeCell(10, { runs: makeRuns([9, 10]) }), makeCell(5, { runs: makeRuns([5]) })]])).panels[0];

  assert.equal(moveToRun(runs, ".", { mark: 0, run: null }), 0);
  assert.equal(moveToRun(runs, ".", { mark: 0, run: 1 }), 1);
  assert.equal(moveToRun(runs, ",", { mark: 0, run: 1 }), 0);
  assert.equal(moveToRun(runs, ".", { mark: 1, run: null }), 2);
  assert.equal(moveToRun(runs, "ArrowLeft", { mark: 0, run: null }), null);
});

test("runs of a latency over throughput are at their own throughput", () => {
  const over = { label: "IOPS", unit: "operations/s" };
  const cell = makeCell(10, { over: 30, runs: makeRuns([9, 10], { overs: [28, null] }) });
  const prepared = prepareScaling(makeChart([[cell]], { over }));

  assert.deepEqual(prepared.panels[0].runs.map((run) => locateRun(fakeChart, run, prepared)), [{ x: 28, y: 91 }, null]);
});

test("names at the ends of lines give way to a legend where models go beyond the last value", () => {
  const prepared = { isBars: false, panels: [{ models: [] }], colors: [{}, {}] };

  assert.equal(fitsEndLabels(prepared, false), true);
  assert.equal(fitsEndLabels(prepared, true), false);
  assert.equal(fitsEndLabels({ ...prepared, panels: [{ models: [{}] }] }, false), false);
});

test("a hidden line has no marks and leaves the axis to the others, which keep their styles", () => {
  const data = makeChart([[makeCell(9000)], [makeCell(10)]]);
  const shown = prepareScaling(data);
  const hidden = prepareScaling(data, new Set([0]));

  assert.deepEqual(hidden.panels[0].marks.map(({ element }) => element.datasetIndex), [1]);
  assert.ok(hidden.domain.max < 100 && shown.domain.max > 9000);
  assert.deepEqual(hidden.styles, shown.styles);
  assert.deepEqual(build(data).data.datasets.map(({ hidden: isHidden }) => isHidden), [false, false]);
});
