// What the filter bar completes at the caret, and what it makes of a choice.
import assert from "node:assert/strict";
import test from "node:test";

import { complete, findPiece, fitNames, withoutPiece } from "../../static/js/site/completion.js";

// "|" is the caret.
function at(marked) {
  const caret = marked.indexOf("|");
  const text = marked.replace("|", "");
  return { text, piece: findPiece(text, caret) };
}

const PIECES = [
  ["|", "name", "", ""],
  ["ho|", "name", "", "ho"],
  ["-ho|", "name", "", "ho"],
  ["ho|st:db", "name", "", "ho"],
  ["host:|", "value", "host", ""],
  ["HOST:d|", "value", "host", "d"],
  ["-host:d|", "value", "host", "d"],
  ["bs:4k host:d|b x", "value", "host", "d"],
  ["type:gp3,i|", "value", "type", "i"],
  ["type:g|p3,io2", "value", "type", "g"],
  ['target:"two w|', "value", "target", "two w"],
  ['target:"a,b",c|', "value", "target", "c"],
  ['target:"a ""q|', "value", "target", 'a "q'],
  ["bs:4k |", "name", "", ""],
  ["label.rack:r|", "value", "label.rack", "r"],
  ["-LABEL.Rack-1.a:r|", "value", "label.Rack-1.a", "r"],
  ["label.ra|", "name", "", "label.ra"],
];

for (const [marked, kind, name, typed] of PIECES) {
  test(`at ${marked} a ${kind} is typed`, () => {
    const { piece } = at(marked);

    assert.deepEqual([piece.kind, piece.name, piece.typed], [kind, name, typed]);
  });
}

const CHOICES = [
  ["ho|", "host", "host:", 5],
  ["-ho|", "host", "-host:", 6],
  ["bs:4k ho| x", "host", "bs:4k host: x", 11],
  ["ho|st:db", "pool", "pool:db", 5],
  ["host:d|", "db-01", "host:db-01 ", 11],
  ["host:d| bs:4k", "db-01", "host:db-01 bs:4k", 11],
  ["type:gp3,i|", "io2", "type:gp3,io2 ", 13],
  ["type:g|p3,io2", "st1", "type:st1,io2", 8],
  ['target:"two w|', '"two words"', 'target:"two words" ', 19],
  ["host:d|b", "db-01", "host:db-01 ", 11],
];

for (const [marked, written, text, caret] of CHOICES) {
  test(`${written} taken at ${marked} makes ${text}`, () => {
    const { text: before, piece } = at(marked);

    assert.deepEqual(complete(before, piece, written), { text, caret });
  });
}

test("a filter without the term at the caret counts what else could stand there", () => {
  const { text, piece } = at("bs:4k type:g| slow");

  assert.equal(withoutPiece(text, piece), "bs:4k   slow");
});

test("names that begin with what is typed come before those that have it within", () => {
  const dimensions = [
    { name: "volume_type", aliases: ["type"], label: "Volume type" },
    { name: "instance_type", aliases: ["instance"], label: "Instance type" },
    { name: "host", aliases: [], label: "Host" },
  ];

  assert.deepEqual(fitNames(dimensions, "TYP").map(({ name }) => name), ["volume_type", "instance_type"]);
  assert.deepEqual(fitNames(dimensions, "inst").map(({ name }) => name), ["instance_type"]);
  assert.deepEqual(fitNames(dimensions, "").length, 3);
});
