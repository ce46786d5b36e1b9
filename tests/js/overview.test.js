import assert from "node:assert/strict";
import { test } from "node:test";
import { describeBar, findNearestBar, prepareBars } from "../../static/js/overview/bars.js";

test("a stacked bar is described by its layers, and the axis holds their sum", () => {
  const bars = prepareBars({
    days: ["2026-05-10", "2026-05-11"],
    layers: [{ name: "still open", color: "regression", values: [1, 20] }, { name: "ended since", color: "gray", values: [0, 5] }],
    marks: [{ day: "2026-05-11", text: "a" }, { day: "2026-05-12", text: "b" }],
  });

  assert.equal(describeBar(bars, 1), "11 May: 20 still open, 5 ended since");
  assert.ok(bars.domain.max >= 25);
  assert.deepEqual(bars.marks, [{ index: 1, text: "a" }]);
  assert.equal(findNearestBar([10, 20, 30], 24), 1);
});
