import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { formatMoment, makeZone, PAGE_ZONE, UTC } from "../../static/js/charts/shared/zones.js";

const cases = JSON.parse(readFileSync(new URL("../data/moment_cases.json", import.meta.url), "utf8"));

for (const { at, zone, text } of cases) {
  test(`${at} in ${zone} is ${text}`, () => {
    assert.equal(formatMoment(Date.parse(at), makeZone(zone)), text);
  });
}

test("without a page the zone is UTC", () => {
  assert.equal(PAGE_ZONE, UTC);
});
