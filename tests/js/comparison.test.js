import assert from "node:assert/strict";
import { test } from "node:test";
import { buildComparison, describeRatio, prepareComparison, ratioTicks } from "../../static/js/charts/comparison/comparison.js";

const CLEAR = { number: 1, name: "4k random read", metric: "IOPS", ratio: 0.8, low: 0.78, high: 0.83, result: "worse", kind: "worse", a: "100", b: "80", url: "#line-1" };
const LONE = { ...CLEAR, number: 2, ratio: 1.02, low: null, high: null, result: "too few runs to say", kind: "none" };

test("the axis holds every interval, and 1", () => {
  const { domain } = prepareComparison([CLEAR, { ...CLEAR, ratio: 0.7, low: 0.6, high: 0.75 }]);

  assert.ok(domain.min < 0.6 && domain.max > 1);
});

test("a line is described with its interval, or without one", () => {
  assert.equal(describeRatio(CLEAR), "Line 1: 4k random read · IOPS 100 → 80 · B / A 0.800, 95 % CI 0.780–0.830 · worse");
  assert.match(describeRatio(LONE), /no interval · too few runs to say$/);
});

test("ticks are finer where all is near 1, and never crowd", () => {
  assert.deepEqual(ratioTicks({ min: 0.97, max: 1.03 }), [0.98, 0.99, 1, 1.01, 1.02]);
  assert.ok(ratioTicks({ min: 0.1, max: 1000 }).length <= 11);
  assert.ok(ratioTicks({ min: 0.1, max: 1000 }).includes(1));
});

test("the first line is at the top", () => {
  const colors = { line: "", muted: "", ink: "", fieldLine: "", paper: "", series: {} };
  const { data, options } = buildComparison(prepareComparison([CLEAR, LONE]), { colors });

  assert.deepEqual(data.datasets[0].data, [{ x: 0.8, y: 0 }, { x: 1.02, y: 1 }]);
  assert.equal(options.scales.y.reverse, true);
});
