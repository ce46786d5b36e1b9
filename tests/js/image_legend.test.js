import assert from "node:assert/strict";
import { test } from "node:test";

import { layLegend } from "../../static/js/charts/shared/image_legend.js";

// Ten pixels a letter.
const context = { measureText: (text) => ({ width: text.length * 10 }) };
const name = (label) => ({ label });

test("a legend breaks into rows that are no wider than the picture", () => {
  const [first, second, third] = [name("read"), name("write"), name("trim")];

  const rows = layLegend(context, [first, second, third], 160);

  assert.deepEqual(rows, [
    [
      { item: first, left: 0 },
      { item: second, left: 76 },
    ],
    [{ item: third, left: 0 }],
  ]);
});

test("a name that is wider than the picture has a row of its own", () => {
  const rows = layLegend(context, [name("a".repeat(40)), name("b")], 160);

  assert.deepEqual(
    rows.map((row) => row.length),
    [1, 1],
  );
});

test("no legend takes no row", () => {
  assert.deepEqual(layLegend(context, [], 160), []);
});
