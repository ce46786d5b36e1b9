import assert from "node:assert/strict";
import { test } from "node:test";

import { drawMatrix, layMatrix } from "../../static/js/charts/matrix/matrix_image.js";

const colors = { ink: "ink", muted: "muted", line: "line", paper: "paper", accent: "accent", regression: "red", improvement: "green" };
const cell = { level: "24 000", shift: { text: "▼ −25 % worse", kind: "worse" }, points: [[2, 4], [70, 16]], notes: ["1 d · n 12"] };
const panel = (label, cells) => ({ label, corner: "Pattern by volumes", columns: cells.map((_, place) => `${place + 1}`), rows: [{ label: "4k random read", cells }] });

/** A context that notes what is written, where, and in which color; and what is filled. */
function makeContext() {
  const noted = { texts: [], fills: [] };
  const nothing = () => {};
  const target = {
    noted,
    fillText: (text, x, y) => noted.texts.push({ text, x, y, color: target.fillStyle, font: target.font }),
    fillRect: (...box) => noted.fills.push({ box, color: target.fillStyle }),
    strokeText: nothing, beginPath: nothing, moveTo: nothing, lineTo: nothing, stroke: nothing, save: nothing, restore: nothing, rect: nothing, clip: nothing,
  };
  return target;
}

test("panels stand below each other, each with its heading, columns and rows", () => {
  const laid = layMatrix([panel("5 GiB files", [cell, cell, cell]), panel("", [cell, cell, cell])]);

  assert.equal(laid.width, 176 + 3 * 124);
  assert.deepEqual(laid.panels.map(({ top, bodyTop }) => [top, bodyTop]), [[0, 50], [140, 164]]);
  assert.equal(laid.height, 164 + 74);
});

test("a picture of one column has room for its title", () => {
  assert.equal(layMatrix([panel("", [cell])]).width, 480);
});

test("the picture has every word of the page, in the colors of its theme", () => {
  const context = makeContext();

  drawMatrix(context, layMatrix([panel("5 GiB files", [cell, { reason: "not measured" }])]), { colors, family: "sans-serif" });

  const { texts, fills } = context.noted;
  assert.deepEqual(
    texts.map(({ text }) => text),
    ["5 GiB files", "Pattern by volumes", "1", "2", "4k random read", "24 000", "▼ −25 % worse", "1 d · n 12", "not measured"],
  );
  assert.deepEqual(fills[0], { box: [0, 0, 480, 124], color: "paper" });
  assert.equal(texts.find(({ text }) => text.endsWith("worse")).color, "red");
  assert.match(texts.find(({ text }) => text === "24 000").font, /^600 13px/);
});

test("a change within the spread is no color", () => {
  const context = makeContext();
  const quiet = { ...cell, shift: { text: "+1.0 %", kind: "within" }, points: [], notes: [] };

  drawMatrix(context, layMatrix([panel("", [quiet])]), { colors, family: "sans-serif" });

  assert.equal(context.noted.texts.find(({ text }) => text === "+1.0 %").color, "muted");
});
