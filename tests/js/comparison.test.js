import assert from "node:assert/strict";
import { test } from "node:test";
import { buildComparison, describeRatio, prepareComparison, ratioTicks } from "../../static/js/charts/comparison/comparison.js";

const CLEAR = { number: 1, name: "4k random read", metric: "IOPS", better: "higher", place: "fast → slow", at: 0.8, from: 0.78, to: 0.83, ratio: "0.800", interval: "0.780–0.830", result: "worse", kind: "worse", a: "100", b: "80", url: "#line-1" };
const LONE = { ...CLEAR, number: 2, at: 1.02, from: null, to: null, ratio: "1.020", interval: "–", result: "too few runs to say", kind: "none" };

test("the axis holds every interval, and 1", () => {
  const { domain } = prepareComparison([CLEAR, { ...CLEAR, at: 0.7, from: 0.6, to: 0.75 }]);

  assert.ok(domain.min < 0.6 && domain.max > 1);
});

test("a line is described with its interval, or without one", () => {
  assert.equal(describeRatio(CLEAR), "Line 1: 4k random read · IOPS 100 → 80 · fast → slow · B / A 0.800, 95 % CI 0.780–0.830 · worse");
  assert.match(describeRatio(LONE), /no interval · too few runs to say$/);
});

test("ticks are finer where all is near 1, and never crowd", () => {
  assert.deepEqual(ratioTicks({ min: 0.97, max: 1.03 }), [0.98, 0.99, 1, 1.01, 1.02]);
  assert.deepEqual(ratioTicks({ min: 0.82, max: 1.02 }), [0.9, 0.95, 1]);
  assert.ok(ratioTicks({ min: 0.1, max: 1000 }).length <= 11);
  assert.ok(ratioTicks({ min: 0.1, max: 1000 }).includes(1));
});

test("the first line is at the top", () => {
  const colors = { line: "", muted: "", ink: "", fieldLine: "", paper: "", series: {} };
  const { data, options } = buildComparison(prepareComparison([CLEAR, LONE]), { colors });

  assert.deepEqual(data.datasets[0].data, [{ x: 0.8, y: 1 }, { x: 1.02, y: 2 }]);
  assert.equal(options.scales.y.reverse, true);
});

test("each metric has a heading above its lines", () => {
  const { entries, headings } = prepareComparison([CLEAR, CLEAR, { ...CLEAR, metric: "p99 latency", better: "lower" }]);

  assert.deepEqual(headings, [{ text: "IOPS, higher is better", row: 0 }, { text: "p99 latency, lower is better", row: 3 }]);
  assert.deepEqual(entries.map(({ row }) => row), [1, 2, 4]);
});

test("the axis names the baseline, and shortens it", () => {
  const colors = { line: "", muted: "", ink: "", fieldLine: "", paper: "", series: {} };
  const titleOf = (baseline) => buildComparison(prepareComparison([CLEAR]), { colors, baseline }).options.scales.x.title.text;

  assert.equal(titleOf("host:fast"), "B / A, log axis; A: host:fast");
  assert.ok(titleOf("x".repeat(200)).endsWith(`${"x".repeat(47)}…`));
});

test("a narrow chart has the beginning of each name beside its line", () => {
  const texts = [];
  const ctx = new Proxy({ measureText: (text) => ({ width: text.length * 6 }), fillText: (text) => texts.push(text) }, { get: (target, name) => target[name] ?? (() => {}), set: () => true });
  const comparison = prepareComparison([{ ...CLEAR, name: "4k random read · 4 volumes · db-01" }]);
  const config = buildComparison(comparison, { colors: { series: {} }, width: 340, isNarrow: true });
  const chart = { ctx, options: {}, chartArea: { left: 150, right: 330, top: 0, bottom: 100 }, scales: { x: { getPixelForValue: () => 200 }, y: { getPixelForValue: () => 20 } } };

  config.plugins[0].afterDatasetsDraw(chart);

  assert.ok(texts.some((text) => text.startsWith("1  4k random read") && text.endsWith("…")));
  assert.ok(config.options.layout.padding.left > 100 && config.options.layout.padding.left < 170);
});
