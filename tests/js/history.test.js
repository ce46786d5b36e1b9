import assert from "node:assert/strict";
import { test } from "node:test";
import { groupChanges, measureRoom, nameTick } from "../../static/js/charts/history/changes.js";
import { cutAtGaps, describeColumn, prepareFan } from "../../static/js/charts/latency/fan.js";
import { colorOf, describeCell, edgeOf, findCell, formatShare, measureColumns, moveCell, prepareHeat } from "../../static/js/charts/latency/heatmap.js";
import { describeMark, findLevels, listChanges, listSwitches, readHistory, describeChange, selectMarks, styleOfMark } from "../../static/js/charts/history/history.js";
import { listSpans } from "../../static/js/charts/history/marks.js";
import { describePlanned, selectPlanned } from "../../static/js/charts/history/planned.js";
import { buildPanel, findMark, preparePanel } from "../../static/js/charts/history/panel.js";
import { momentAt, placeIn } from "../../static/js/charts/history/overview.js";
import { COLOR_NAMES } from "../../static/js/charts/shared/palette.js";
import { formatMoment, formatOffset, makeZone, UTC, zonedTicks } from "../../static/js/charts/shared/zones.js";
import { clampView, isWhole, moveEdge, shiftView, writeMoment, zoomAround } from "../../static/js/charts/shared/zoom.js";
import { dragTo } from "../../static/js/charts/history/brush.js";
import { walk } from "../../static/js/charts/history/keys.js";

const HOUR = 3_600_000;
const START = Date.UTC(2026, 4, 12);
const IOPS = { name: "iops", unit: "operations/s", better: "higher", label: "IOPS" };
const colors = {
  ink: "rgb(0, 0, 0)",
  muted: "rgb(1, 1, 1)",
  line: "rgb(2, 2, 2)",
  fieldLine: "rgb(3, 3, 3)",
  paper: "rgb(255, 255, 255)",
  accent: "rgb(0, 0, 200)",
  series: Object.fromEntries(COLOR_NAMES.map((name) => [name, "rgb(0, 114, 178)"])),
};

function iso(hour) {
  return new Date(START + hour * HOUR).toISOString();
}

function makeLine(id, { name = `line ${id}`, levels = [], changes = [], hours = 10 } = {}) {
  const rows = levels.map(([from, to, median]) => ({ from_at: iso(from), to_at: iso(to), n: 5, median, p10: median - 10, p90: median + 10 }));
  return { id, name, rw: "randread", direction: "read", first_at: iso(0), last_at: iso(hours), levels: { iops: rows }, environment_changes: changes };
}

function makeAnswer(points, { lines = [makeLine(1)] } = {}) {
  const rows = points.map((point, index) => ({ series: 1, run: index + 1, started_at: iso(index), error: 0, is_excluded: false, badges: [], ...point }));
  return { metrics: [IOPS], lines, lines_left_out: 0, resolution: null, points: rows, buckets: [] };
}

const read = (answer) => readHistory(answer, { isDoubtful: (badges) => badges.length > 0 });
const whole = { from: START, to: START + 10 * HOUR };

test("runs are good, doubtful, excluded or failed, the gravest word first", () => {
  const history = read(
    makeAnswer([{ iops: 1 }, { iops: 2, badges: ["cached"] }, { iops: 3, is_excluded: true, badges: ["cached"] }, { iops: 4, error: 5, is_excluded: true }]),
  );

  assert.deepEqual(history.marks.map(({ kind }) => kind), ["good", "doubtful", "excluded", "failed"]);
});

test("a run is described with its differences from previous run, level and previous level", () => {
  const lines = [makeLine(1, { levels: [[0, 1, 1000], [2, 9, 1100]] })];
  const history = read(makeAnswer([{ iops: 1000 }, { iops: 1010 }, { iops: 1111 }], { lines }));

  const text = describeMark(history.marks[2], { marks: history.marks, metric: "iops", unit: "operations/s", zone: UTC, hasNames: false });

  assert.equal(
    text,
    "Run 3 of 3, 12 May 2026 02:00 UTC · 1\u202f111 IOPS · +10 % vs. previous run · " +
      "+1.0 % vs. level, median 1\u202f100 of 5 runs · p10–p90 1\u202f090 to 1\u202f110 · +11 % vs. previous level, 1\u202f000",
  );
});

test("failed and excluded runs are not a previous run", () => {
  const history = read(makeAnswer([{ iops: 1000 }, { iops: 10, error: 5 }, { iops: 20, is_excluded: true }, { iops: 1100 }]));
  const say = (index) => describeMark(history.marks[index], { marks: history.marks, metric: "iops", unit: "operations/s", zone: UTC, hasNames: false });

  assert.match(say(1), /failed; 10\.0 IOPS until the error/);
  assert.match(say(2), /20\.0 IOPS · excluded from medians/);
  assert.match(say(3), /\+10 % vs\. previous run/);
});

test("planned events are ascending, described with their span, and in view where they overlap it", () => {
  const events = [
    { id: 2, kind: "note", reason: "new rack", from_at: iso(5), ends_at: iso(5), page: "/maintenance/2/" },
    { id: 1, kind: "maintenance", reason: "new disks", from_at: iso(1), ends_at: iso(3), page: "/maintenance/1/" },
  ];
  const { planned } = read({ ...makeAnswer([{ iops: 1 }]), planned_events: events });
  const idsIn = (from, to) => selectPlanned(planned, { from: START + from * HOUR, to: START + to * HOUR }).map(({ id }) => id);

  assert.deepEqual(
    planned.map((event) => describePlanned(event, (at) => `${(at - START) / HOUR} h`)),
    ["Maintenance: new disks, 1 h to 3 h", "Note: new rack, 5 h"],
  );
  assert.deepEqual([idsIn(0, 10), idsIn(2, 4), idsIn(3, 4), idsIn(5, 9)], [[1, 2], [1], [], [2]]);
  assert.deepEqual(read(makeAnswer([{ iops: 1 }])).planned, []);
});

test("a bucket is described with its runs, median and extremes", () => {
  const bucket = { series: 1, from_at: iso(0), to_at: iso(2), n: 40, failed: 2, excluded: 0, doubtful: 1, iops_n: 38, iops_minimum: 10, iops_p10: 80, iops_median: 100, iops_p90: 120, iops_maximum: 900, iops_minimum_run: 3, iops_maximum_run: 9 };
  const history = read({ ...makeAnswer([]), resolution: 1500, buckets: [bucket] });

  const text = describeMark(history.marks[0], { marks: history.marks, metric: "iops", unit: "operations/s", zone: UTC, hasNames: true });

  assert.equal(
    text,
    "line 1 · Bucket 1 of 1, 12 May 2026 00:00 UTC to 12 May 2026 02:00 UTC · 40 runs, 2 failed, 1 with badges: median 100 IOPS · min 10.0, max 900",
  );
});

test("the extremes of a bucket are within the axis", () => {
  const bucket = { series: 1, from_at: iso(0), to_at: iso(2), n: 40, failed: 0, excluded: 0, doubtful: 0, iops_n: 40, iops_minimum: 10, iops_median: 100, iops_maximum: 900 };
  const history = read({ ...makeAnswer([]), resolution: 1500, buckets: [bucket] });

  const panel = preparePanel(history, { metric: "iops", view: whole });

  assert.ok(panel.domain.min <= 10 && panel.domain.max >= 900);
});

test("a level is found by the moment", () => {
  const levels = [{ from: 10 }, { from: 20 }];

  assert.deepEqual(findLevels(levels, 5), { level: null, before: null });
  assert.deepEqual(findLevels(levels, 10), { level: levels[0], before: null });
  assert.deepEqual(findLevels(levels, 99), { level: levels[1], before: levels[0] });
});

test("a level goes on until the next begins, the last until its last run", () => {
  const spans = listSpans([{ from: 0, to: 4 }, { from: 9, to: 12 }]);

  assert.deepEqual(spans.map(([, end]) => end), [9, 12]);
});

test("marks are in view where they overlap it", () => {
  const history = read(makeAnswer([{ iops: 1 }, { iops: 2 }, { iops: 3 }]));

  assert.deepEqual(selectMarks(history, { from: START + HOUR, to: START + HOUR }).map(({ runId }) => runId), [2]);
});

test("a change around several lines is one, with their names, from what to what", () => {
  const change = { at: iso(3), run: 7, host: "db-01", fields: [{ name: "kernel", label: "kernel", before: "5.15", after: "6.1" }, { name: "governor", label: "CPU governor", before: null, after: "performance" }] };
  const history = read(makeAnswer([{ iops: 1 }], { lines: [makeLine(1, { changes: [change] }), makeLine(2, { changes: [change] })] }));

  const changes = listChanges(history.lines);

  assert.equal(changes.length, 1);
  assert.deepEqual(changes[0].names, ["line 1", "line 2"]);
  assert.equal(describeChange(changes[0]), "kernel 5.15 → 6.1, CPU governor unknown → performance");
  assert.equal(nameTick(changes), "kernel +1");
});

test("ticks that would cover each other are one, and each knows its room", () => {
  const groups = groupChanges([{ at: 0 }, { at: 5 }, { at: 100 }, { at: 900 }], { placeOf: (at) => at, left: 0, right: 500 });

  assert.deepEqual(groups.map(({ x, changes }) => [x, changes.length]), [[0, 2], [100, 1]]);
  assert.deepEqual(measureRoom(groups, 500).map(({ room }) => room), [100, 400]);
});

test("the pointer means the mark under it, else the nearest in time, and none without a value", () => {
  const history = read(makeAnswer([{ iops: 100 }, { iops: null }, { iops: 300 }]));
  const panel = preparePanel(history, { metric: "iops", view: whole });
  const scales = { x: { getPixelForValue: (at) => (at - START) / HOUR * 100 }, y: { getPixelForValue: (value) => value } };

  assert.equal(findMark(panel, { x: 3, y: 103, scales }).runId, 1);
  assert.equal(findMark(panel, { x: 120, y: 10, scales }).runId, 3);
  assert.equal(findMark({ ...panel, marks: [] }, { x: 0, y: 0, scales }), null);
});

test("an axis that does not start at zero says so", () => {
  const history = read(makeAnswer([{ iops: 1000 }, { iops: 1010 }]));
  const panel = preparePanel(history, { metric: "iops", view: whole });
  const config = buildPanel(panel, { colors, look: { isNarrow: false, isMain: true, zone: UTC }, getState: () => ({ mark: null }) });

  assert.equal(config.options.scales.y.title.text, "IOPS (axis does not start at 0)");
  assert.equal(config.options.scales.x.title.text, "start of the run, UTC");
});

test("a limit is within the axis, a known system only where it is near", () => {
  const history = read(makeAnswer([{ iops: 20000 }, { iops: 21000 }]));
  const references = [{ value: 33415, label: "known good: SSD" }, { value: 2000, label: "known bad: spinning disk" }];
  const panel = preparePanel(history, { metric: "iops", view: whole, references, limit: { value: 40000, label: "good" } });

  assert.deepEqual(panel.references, [references[0]]);
  assert.ok(panel.domain.max >= 40000);
});

test("thresholds of the metric are labeled lines within the axis, unless they are far away", () => {
  const texts = [["iops", 60000, [0]], ["iops", 200000, [0]], ["latency_p99_ns", 21000, [0]]];
  const thresholds = texts.map(([metric, value, series]) => ({ text: `${metric} > ${value}`, metric, value, series }));
  const answer = makeAnswer([{ iops: 20000 }, { iops: 21000 }]);
  const alone = preparePanel(read({ ...answer, thresholds }), { metric: "iops", view: whole });
  const both = preparePanel(read({ ...answer, lines: [makeLine(0), makeLine(1)], thresholds }), { metric: "iops", view: whole });

  assert.deepEqual(alone.thresholds, [{ value: 60000, label: "threshold iops > 60000" }]);
  assert.ok(alone.domain.max >= 60000);
  assert.equal(both.thresholds[0].label, "threshold iops > 60000 (1 of 2 series)");
});

test("twelve lines all look different", () => {
  const history = read(makeAnswer([], { lines: Array.from({ length: 12 }, (_, id) => makeLine(id)) }));

  const looks = new Set(history.lines.map(({ style }) => `${style.color} ${style.shape} ${style.dash}`));

  assert.equal(looks.size, 12);
});

test("an answer without lines has nothing to draw and does not fail", () => {
  const history = read(makeAnswer([], { lines: [] }));

  assert.deepEqual(history.marks, []);
  assert.deepEqual(history.whole, { from: 0, to: 0 });
});

test("arrows walk the runs of one line, up and down change to the nearest of another", () => {
  const lines = [makeLine(1), makeLine(2)];
  const answer = makeAnswer([{ iops: 1 }, { iops: 2, series: 2 }, { iops: 3 }, { iops: 4, series: 2 }], { lines });
  const { marks, lines: shown } = read(answer);
  const go = (key, from) => walk(marks, { key, from: marks[from], lines: shown })?.runId;

  assert.equal(go("ArrowRight", 0), 3);
  assert.equal(go("ArrowLeft", 0), 1);
  assert.equal(go("ArrowDown", 2), 2);
  assert.equal(go("Home", 3), 2);
  assert.equal(go("a", 0), undefined);
  assert.equal(walk([], { key: "Home", from: null, lines: [] }), null);
});

test("a view stays within the whole and at least a minute long", () => {
  assert.deepEqual(clampView({ from: START - HOUR, to: START + HOUR }, whole), { from: START, to: START + 2 * HOUR });
  assert.deepEqual(clampView({ from: START + 3 * HOUR, to: START + HOUR }, whole), { from: START + HOUR, to: START + 3 * HOUR });
  assert.equal(clampView({ from: START, to: START }, whole).to, START + 60_000);
  assert.ok(isWhole(clampView({ from: 0, to: Date.UTC(2040, 1, 1) }, whole), whole));
});

test("zooming keeps the moment under the cursor where it is", () => {
  const view = zoomAround(whole, START + 5 * HOUR, { factor: 0.5, whole });

  assert.deepEqual(view, { from: START + 2.5 * HOUR, to: START + 7.5 * HOUR });
  assert.deepEqual(shiftView(view, 1, whole), { from: START + 5 * HOUR, to: START + 10 * HOUR });
});

test("keys move the handles and the window of the strip, and stop at its ends", () => {
  const view = { from: START + 2 * HOUR, to: START + 4 * HOUR };
  const move = (key, edge, isLong = false) => moveEdge(view, { key, isLong, edge, whole });

  assert.equal(move("ArrowLeft", "from").from, START + 1.8 * HOUR);
  assert.equal(move("ArrowRight", "to", true).to, START + 5 * HOUR);
  assert.equal(move("Home", "from").from, START);
  assert.deepEqual(move("End", "both"), { from: START + 8 * HOUR, to: START + 10 * HOUR });
  assert.equal(move("End", "from").from, START + 4 * HOUR - 60_000);
  assert.equal(move("a", "both"), null);
});

test("a drag on the strip moves an edge, moves the window, or chooses a new part", () => {
  const start = { view: { from: START + 2 * HOUR, to: START + 4 * HOUR }, whole };
  const drag = (edge, at) => dragTo(at, { start, grabbed: START + 3 * HOUR, edge });

  assert.equal(drag("to", START + 6 * HOUR).to, START + 6 * HOUR);
  assert.deepEqual(drag("both", START + 4 * HOUR), { from: START + 3 * HOUR, to: START + 5 * HOUR });
  assert.deepEqual(drag("new", START + HOUR), { from: START + HOUR, to: START + 3 * HOUR });
});

test("the strip places moments and finds them again", () => {
  const area = { left: 50, right: 150 };

  assert.equal(placeIn(START + 5 * HOUR, whole, area), 100);
  assert.equal(momentAt(100, whole, area), START + 5 * HOUR);
  assert.equal(momentAt(9999, whole, area), whole.to);
});

test("a moment in an address has its second", () => {
  assert.equal(writeMoment(START + 1500), "2026-05-12T00:00:01Z");
});

test("time is told in a zone, with its offset of that day", () => {
  const berlin = makeZone("Europe/Berlin");

  assert.equal(formatMoment(START, berlin), "12 May 2026 02:00 UTC+2");
  assert.equal(formatOffset(Date.UTC(2026, 0, 1), berlin), "UTC+1");
  assert.equal(formatOffset(START, makeZone("America/St_Johns")), "UTC−2:30");
  assert.equal(makeZone("Nowhere/None"), UTC);
});

test("ticks are round in the zone", () => {
  const ticks = zonedTicks(START, START + 48 * HOUR, { most: 3, zone: makeZone("Europe/Berlin") });

  assert.ok(ticks.some(({ value, label }) => value === START + 22 * HOUR && label.startsWith("13 May")));
});

const COLUMN = { from_at: iso(0), to_at: iso(0), runs: 1, last_run: 7, p50: 200_000, p90: 300_000, p95: null, p99: 447_488, p99_9: 583_000, p99_99: null };

test("the fan leaves out a percentile that no run has, and cuts its lines at gaps", () => {
  const fan = prepareFan([COLUMN, { ...COLUMN, from_at: iso(1), to_at: iso(1), p99: null }, { ...COLUMN, from_at: iso(2), to_at: iso(2) }], {});

  assert.deepEqual(fan.lines.map(({ label }) => label), ["p50", "p90", "p99", "p99.9"]);
  assert.deepEqual(cutAtGaps(fan.marks, [3]).map((stretch) => stretch.length), [1, 1]);
  assert.deepEqual(cutAtGaps(fan.marks, [0]).map((stretch) => stretch.length), [3]);
});

test("a column of the fan is told with all that is known", () => {
  const fan = prepareFan([COLUMN], {});

  assert.equal(
    describeColumn(fan.marks[0], { index: 0, count: 1, zone: UTC }),
    "1 of 1, 12 May 2026 00:00 UTC · p50 200 µs · p90 300 µs · p99 447 µs · p99.9 583 µs",
  );
});

const HEAT = { first_bucket: 68, columns: [{ from_at: iso(0), to_at: iso(0), runs: 1, last_run: 7, counts: [10, 80, 10] }, { from_at: iso(1), to_at: iso(1), runs: 1, last_run: 8, counts: [0, 50, 50] }] };

test("a heat map cell is described with its bounds and shares", () => {
  const heat = prepareHeat(HEAT, {});

  assert.equal(edgeOf(68), 131_072);
  assert.equal(
    describeCell(heat, { column: 0, row: 1 }, UTC),
    "12 May 2026 00:00 UTC · 156 µs to 185 µs · 80.0 I/Os, 80 % · 90 % at or below",
  );
});

test("the heat map is walked by keys and stops at its edges", () => {
  const heat = prepareHeat(HEAT, {});

  assert.deepEqual(moveCell(heat, { column: 0, row: 0 }, "ArrowRight"), { column: 1, row: 0 });
  assert.deepEqual(moveCell(heat, { column: 0, row: 2 }, "PageUp"), { column: 0, row: 2 });
  assert.deepEqual(moveCell(heat, { column: 1, row: 0 }, "Home"), { column: 0, row: 0 });
  assert.equal(moveCell(heat, { column: 1, row: 0 }, "a"), null);
});

test("a pixel means the column nearest in time and the bucket of its latency", () => {
  const heat = prepareHeat(HEAT, {});
  const scales = { x: { getPixelForValue: (at) => (at - START) / HOUR * 100 }, y: { getValueForPixel: (y) => y } };

  assert.deepEqual(findCell(heat, { x: 90, y: 160_000, scales }), { column: 1, row: 1 });
});

test("columns reach half way to their neighbors but not over a gap", () => {
  const at = [0, 10, 20, 200];
  const spans = measureColumns(at.map((each) => ({ at: each })), { scales: { x: { getPixelForValue: (value) => value } }, chartArea: { width: 300 } });

  assert.deepEqual(spans[1], [5, 15]);
  assert.deepEqual(spans[3], [195, 205]);
});

test("the more operations the further from the paper, in both themes", () => {
  const light = [1e-5, 1e-3, 0.1, 1].map((share) => Number(colorOf(share, false).match(/\d+/)[0]));
  const dark = [1e-5, 1e-3, 0.1, 1].map((share) => Number(colorOf(share, true).match(/\d+/)[0]));

  assert.deepEqual(light, [...light].sort((a, b) => b - a));
  assert.deepEqual(dark.at(-1), 250);
  assert.equal(colorOf(0, false), null);
});

test("shares have three significant digits", () => {
  assert.equal(formatShare(0.206), "20.6 %");
  assert.equal(formatShare(0.0000123), "0.00123 %");
  assert.equal(formatShare(0.99999), "> 99.99 %");
  assert.equal(formatShare(1), "100 %");
});

test("a panel whose metric no run has says so, and makes no values up", () => {
  const history = read(makeAnswer([{ iops: null }, { iops: null }]));
  const panel = preparePanel(history, { metric: "iops", view: whole });
  const config = buildPanel(panel, { colors, look: { isNarrow: false, isMain: false, zone: UTC }, getState: () => ({ mark: null }) });

  assert.ok(panel.isEmpty);
  assert.equal(config.options.scales.y.ticks.display, false);
  assert.ok(config.plugins.some(({ id }) => id === "message"));
});

test("a step below the threshold is named at its first run, in its metric only", () => {
  const lines = [{ ...makeLine(1), small_steps: [{ at: iso(1), relative: -0.031, before: 1000, after: 969, from_at: iso(0), to_at: iso(2) }] }];
  const history = read(makeAnswer([{ iops: 1000 }, { iops: 969 }, { iops: 969 }], { lines }));
  const describe = (place, metric = "iops") => describeMark(history.marks[place], { marks: history.marks, metric, unit: "operations/s", zone: UTC, hasNames: false });

  assert.match(describe(1), /step of −3\.1 %, below the threshold: not reported/);
  assert.doesNotMatch(describe(2), /step/);
  assert.deepEqual(history.lines[0].smallSteps[0].from, START);
});

test("an increase of the standard deviation is named from its first run on, in its metric only", () => {
  const lines = [{ ...makeLine(1), spread_increases: [{ metric: "iops", from_at: iso(1), before: 0.02, after: 0.081 }] }];
  const history = read(makeAnswer([{ iops: 1000 }, { iops: 960 }, { iops: 1050 }], { lines }));
  const describe = (place, metric = "iops") => describeMark(history.marks[place], { marks: history.marks, metric, unit: "operations/s", zone: UTC, hasNames: false });

  assert.doesNotMatch(describe(0), /standard deviation/);
  assert.match(describe(1), /standard deviation 8\.1 %, before 2\.0 %/);
  assert.match(describe(2), /standard deviation 8\.1 %/);
});

test("marks are colored by a fact of the environment, and lines are gray", () => {
  const answer = makeAnswer([{ iops: 1, color: "5.15" }, { iops: 2, color: "6.1" }, { iops: 3, color: null }]);
  const history = read({ ...answer, color: { name: "kernel", label: "Kernel", values: ["5.15", "6.1"], others: 3 } });

  const styles = history.marks.map(styleOfMark);

  assert.equal(new Set(styles.map(({ color }) => color)).size, 3);
  assert.equal(new Set(styles.map(({ shape }) => shape)).size, 3);
  assert.equal(styles[2].color, "gray");
  assert.equal(history.lines[0].style.color, "gray");
  assert.deepEqual(history.color.items.map(({ text }) => text), ["5.15", "6.1", "unknown and 3 more"]);
  assert.match(describeMark(history.marks[1], { marks: history.marks, metric: "iops", unit: "operations/s", zone: UTC, hasNames: false }), /Kernel: 6\.1$/);
});

test("unknown values have an entry only where there are any", () => {
  const answer = makeAnswer([{ iops: 1, color: "5.15" }]);

  const { color } = read({ ...answer, color: { name: "kernel", label: "Kernel", values: ["5.15"], others: 0 } });

  assert.deepEqual(color.items.map(({ text }) => text), ["5.15"]);
});

test("levels of two kinds of latency are not connected, and the switch is named", () => {
  const levels = [{ from: 0, to: 4, kind: "clat" }, { from: 9, to: 12, kind: "lat" }, { from: 15, to: 20, kind: "lat" }];

  assert.deepEqual(listSpans(levels).map(([, end]) => end), [4, 15, 20]);
  assert.equal(findLevels(levels, 10).before, null);
  assert.equal(findLevels(levels, 16).before, levels[1]);
  assert.deepEqual(listSwitches([{ levels: { latency_p99_ns: levels } }], "latency_p99_ns"), [{ at: 9, text: "total latency" }]);
  assert.deepEqual(listSwitches([{ levels: {} }], "iops"), []);
});

test("a hidden line of a history has no marks and leaves the axis to the others", () => {
  const history = read(makeAnswer([{ iops: 9000 }, { iops: 10, series: 2 }], { lines: [makeLine(1), makeLine(2)] }));

  const panel = preparePanel(history, { metric: "iops", view: whole, hidden: new Set([1]) });

  assert.deepEqual([panel.all.length, panel.lines.map(({ id }) => id), panel.marks.map(({ line }) => line.id)], [2, [2], [2]]);
  assert.ok(panel.domain.max < 100);
});
