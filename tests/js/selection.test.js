import assert from "node:assert/strict";
import { test } from "node:test";
import { judgeSelection, listRange } from "../../static/js/site/selection.js";

const RUNS = { noun: "run", plural: "runs", compareLeast: 2, compareMost: 2, historyMost: 12 };
const CHANGES = { noun: "change", plural: "changes", compareLeast: 1, compareMost: 200, historyMost: 12 };

test("compare takes two runs, and names its limit", () => {
  assert.deepEqual(judgeSelection(0, RUNS), { canCompare: false, canShow: false, reason: "Select two runs to compare." });
  assert.deepEqual(judgeSelection(1, RUNS), { canCompare: false, canShow: true, reason: "Select two runs to compare." });
  assert.deepEqual(judgeSelection(2, RUNS), { canCompare: true, canShow: true, reason: "" });
  assert.deepEqual(judgeSelection(3, RUNS), { canCompare: false, canShow: true, reason: "Select two runs to compare; 3 are selected." });
});

test("history names its limit", () => {
  assert.deepEqual(judgeSelection(13, CHANGES), { canCompare: true, canShow: false, reason: "History shows at most 12 changes." });
  assert.equal(judgeSelection(0, CHANGES).reason, "Select 1 to 200 changes to compare.");
});

test("a range reaches in both directions", () => {
  const boxes = ["a", "b", "c", "d"];

  assert.deepEqual(listRange(boxes, "b", "d"), ["b", "c", "d"]);
  assert.deepEqual(listRange(boxes, "d", "b"), ["b", "c", "d"]);
  assert.deepEqual(listRange(boxes, "gone", "b"), ["b"]);
});
