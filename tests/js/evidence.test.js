import assert from "node:assert/strict";
import { test } from "node:test";
import { buildEvidence, describeEntry, prepareEvidence } from "../../static/js/charts/evidence/evidence.js";
import { describeValue, readHistory, describeDetectedChange } from "../../static/js/charts/history/history.js";
import { COLOR_NAMES } from "../../static/js/charts/shared/palette.js";

const colors = {
  ink: "rgb(0, 0, 0)",
  muted: "rgb(1, 1, 1)",
  line: "rgb(2, 2, 2)",
  fieldLine: "rgb(3, 3, 3)",
  paper: "rgb(255, 255, 255)",
  regression: "rgb(200, 0, 0)",
  improvement: "rgb(0, 200, 0)",
  series: Object.fromEntries(COLOR_NAMES.map((name) => [name, "rgb(0, 114, 178)"])),
};
const CHANGE = { id: 1, metric: "iops", at: "2026-05-12T02:10:00Z", run: 3, state: "confirmed", is_regression: true, relative: -0.152, relative_low: -0.181, relative_high: -0.124 };

function makeSide(median, values) {
  return { median, p10: median - 10, p90: median + 10, points: values.map((value, index) => ({ run: index + 1, at: "2026-05-12T02:10:00Z", value })) };
}

const evidence = prepareEvidence({
  metric: { name: "iops", unit: "operations/s", label: "IOPS" },
  is_regression: true,
  before: makeSide(1000, [990, 1000, 1010]),
  after: makeSide(850, [850]),
});

test("each run is a mark on its side, at a deterministic position", () => {
  const sides = evidence.entries.map(({ side }) => side);

  assert.deepEqual(sides, ["before", "before", "before", "after"]);
  assert.ok(evidence.entries.every(({ side, x }) => Math.abs(x - (side === "before" ? 0 : 1)) <= 0.24));
});

test("the description of a run after the change has the difference vs. median before", () => {
  assert.equal(describeEntry(evidence, evidence.entries[0]), "Before, 12 May 2026 02:10 UTC · 990 IOPS");
  assert.equal(describeEntry(evidence, evidence.entries[3]), "After, 12 May 2026 02:10 UTC · 850 IOPS · −15 % vs. median before");
});

test("sides differ in shape and not only in color", () => {
  const { data } = buildEvidence(evidence, { colors });

  assert.deepEqual(data.datasets.map(({ pointStyle }) => pointStyle), ["circle", "triangle"]);
});

test("a side without runs has no level", () => {
  const empty = prepareEvidence({ metric: { name: "iops", unit: "operations/s", label: "IOPS" }, is_regression: true, before: { median: null, p10: null, p90: null, points: [] }, after: makeSide(850, [850]) });

  assert.equal(describeEntry(empty, empty.entries[0]), "After, 12 May 2026 02:10 UTC · 850 IOPS");
});

test("the description of a change has sign, word, size, interval and state", () => {
  assert.equal(describeDetectedChange(CHANGE), "▼ regression −15 % (−18 to −12 %), confirmed");
  assert.equal(
    describeDetectedChange({ ...CHANGE, is_regression: false, relative: 0.2, relative_low: null, relative_high: null, state: "suspected" }),
    "▲ improvement +20 %, suspected",
  );
  assert.equal(describeDetectedChange({ ...CHANGE, is_regression: false, relative: 0.33, recovers_from: -0.25 }), "recovered from −25 %, confirmed");
});

test("the first run of a new level is described as such in its metric only", () => {
  const line = { id: 1, name: "a", rw: "randread", direction: "read", first_at: CHANGE.at, last_at: CHANGE.at, levels: {}, environment_changes: [], changes: [CHANGE] };
  const metrics = [{ name: "iops", unit: "operations/s", label: "IOPS" }, { name: "latency_p99_ns", unit: "ns", label: "p99" }];
  const points = [{ series: 1, run: 3, started_at: CHANGE.at, error: 0, is_excluded: false, badges: [], iops: 850, latency_p99_ns: 10 }];
  const { marks } = readHistory({ metrics, lines: [line], lines_left_out: 0, resolution: null, points, buckets: [] }, { isDoubtful: () => false });

  assert.ok(describeValue(marks[0], { metric: "iops", unit: "operations/s" }).includes("▼ regression −15 % (−18 to −12 %), confirmed: start of a new level"));
  assert.equal(describeValue(marks[0], { metric: "latency_p99_ns", unit: "ns" }).some((part) => part.includes("level begins")), false);
});

test("a drift is not described as a new level", () => {
  const line = { id: 1, name: "a", rw: "randread", direction: "read", first_at: CHANGE.at, last_at: CHANGE.at, levels: {}, environment_changes: [], changes: [{ ...CHANGE, is_drift: true }] };
  const points = [{ series: 1, run: 3, started_at: CHANGE.at, error: 0, is_excluded: false, badges: [], iops: 850 }];
  const { marks } = readHistory({ metrics: [{ name: "iops", unit: "operations/s", label: "IOPS" }], lines: [line], lines_left_out: 0, resolution: null, points, buckets: [] }, { isDoubtful: () => false });

  assert.ok(describeValue(marks[0], { metric: "iops", unit: "operations/s" }).includes("▼ regression −15 % (−18 to −12 %), confirmed: gradual change"));
});
