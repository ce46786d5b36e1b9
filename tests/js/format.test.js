import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  chooseScale,
  formatChangeSize,
  formatDifference,
  formatSignedPercent,
  formatTick,
  formatValue,
  nameUnit,
  showRatesIn,
} from "../../static/js/site/format.js";

const cases = JSON.parse(readFileSync(new URL("../data/format_cases.json", import.meta.url), "utf8"));

for (const { value, unit, text } of cases) {
  test(`${value} ${unit} is shown as ${text}`, () => {
    assert.equal(formatValue(value, unit), text);
  });
}

test("what is no number is shown as unknown", () => {
  for (const value of [undefined, NaN, Infinity]) {
    assert.equal(formatValue(value, "ns"), "–");
  }
});

test("one unit is chosen for values by the middle of their range", () => {
  assert.deepEqual(chooseScale([80_000, 20_000_000], "ns"), { divisor: 1e6, suffix: "ms" });
  assert.deepEqual(chooseScale([80_000, 300_000], "ns"), { divisor: 1e3, suffix: "µs" });
  assert.deepEqual(chooseScale([136e6, null, 529e6], "bytes/s"), { divisor: 1e6, suffix: "MB/s" });
});

test("a unit is chosen also where there is nothing to show", () => {
  assert.deepEqual(chooseScale([null, 0], "ns"), { divisor: 1, suffix: "ns" });
});

test("IOPS have their word for a unit", () => {
  assert.equal(nameUnit(chooseScale([33415], "operations/s"), "operations/s"), "IOPS");
  assert.equal(nameUnit(chooseScale([2.9e6], "ns"), "ns"), "ms");
});

test("a tick shows the round number without digits that say nothing", () => {
  const ms = { divisor: 1e6, suffix: "ms" };
  assert.deepEqual(
    [50_000, 200_000, 1_000_000, 20_000_000, 2_000_000_000].map((value) => formatTick(value, ms)),
    ["0.05", "0.2", "1", "20", "2\u202f000"],
  );
});

test("a tick above a thousand keeps the decimals of its step", () => {
  assert.deepEqual(
    [2_050, 2_052.5, 12_057.5].map((value) => formatTick(value, { divisor: 1, suffix: "" })),
    ["2\u202f050", "2\u202f052.5", "12\u202f057.5"],
  );
});

test("a change has its sign, one decimal below 10 % and none from there", () => {
  for (const { relative, text } of JSON.parse(readFileSync(new URL("../data/change_cases.json", import.meta.url), "utf8"))) {
    assert.equal(formatSignedPercent(relative), text);
    assert.equal(formatChangeSize(relative), text.replace(/^[±+−]/, ""));
  }
});

test("a difference has its sign, also where it is none", () => {
  assert.equal(formatDifference(103.2, 100), "+3.2 %");
  assert.equal(formatDifference(62, 100), "−38 %");
  assert.equal(formatDifference(100.01, 100), "±0.0 %");
});

test("there is no difference to nothing", () => {
  assert.equal(formatDifference(1, null), null);
  assert.equal(formatDifference(1, 0), null);
});

test("rates are shown by powers of 1000 or of 1024", () => {
  const rates = JSON.parse(readFileSync(new URL("../data/rate_cases.json", import.meta.url), "utf8"));
  for (const { value, ...texts } of rates) {
    for (const [units, text] of Object.entries(texts)) {
      showRatesIn(units);
      assert.equal(formatValue(value, "bytes/s"), text);
    }
  }
  showRatesIn(undefined);
});
