import assert from "node:assert/strict";
import { test } from "node:test";
import { moveInRows } from "../../static/js/overview/host_strip.js";

const GRID = { count: 8, columns: 3 };

test("arrows move along rows and columns, and stop at the edges", () => {
  assert.equal(moveInRows("ArrowRight", 2, GRID), 3);
  assert.equal(moveInRows("ArrowLeft", 0, GRID), 0);
  assert.equal(moveInRows("ArrowDown", 1, GRID), 4);
  assert.equal(moveInRows("ArrowDown", 6, GRID), 6);
  assert.equal(moveInRows("ArrowUp", 1, GRID), 1);
});

test("Home and End lead to the ends; other keys nowhere", () => {
  assert.equal(moveInRows("Home", 5, GRID), 0);
  assert.equal(moveInRows("End", 0, GRID), 7);
  assert.equal(moveInRows("a", 0, GRID), null);
});
