// Parses API histories for panels, readout and overview.
import { formatDifference, formatSignedPercent, formatValue } from "../../site/format.js";
import { assignStyles, styleOfValue } from "../shared/palette.js";
import { formatMoment } from "../shared/zones.js";
import { readPlanned } from "./planned.js";

const GRAY_LINE = { color: "gray", shape: "circle", dash: [] };
// Colors repeat after eight lines: other shapes distinguish them.
const LATE_SHAPES = ["star", "crossRot", "cross", "rectRounded"];

const KIND_NAMES = { lat: "total latency", clat: "completion latency" };

/**
 * Read an answer of /api/v1/history.
 * isDoubtful: badges → whether the mark is hollow. Returns {lines, marks, metrics, isThinned, leftOut, whole, color, planned, thresholds}: thresholds: [{text, metric, value, series}] of the reader; color: null, or {label,
 * items: [{text, style}]} of a fact of the environment that marks are colored by; lines are gray then. marks ascending by
 * time, each {at, from, to, place, line, n, kind, runId, badges, failed, doubtful, excluded, values: {metric:
 * {value, low, high, p10, p90, n, minimumRun, maximumRun}}}; kind: good, doubtful, excluded, failed, or bucket.
 */
export function readHistory(answer, { isDoubtful }) {
  const metrics = answer.metrics;
  const color = readColor(answer);
  const styles = color === null ? assignStyles(answer.lines) : answer.lines.map(() => GRAY_LINE);
  const lines = answer.lines.map((line, place) => ({
    ...line,
    style: place < 8 || color !== null ? styles[place] : { ...styles[place], shape: LATE_SHAPES[place - 8] },
    levels: Object.fromEntries(Object.entries(line.levels).map(([metric, levels]) => [metric, levels.map(readLevel)])),
    changes: line.environment_changes.map((change) => ({ ...change, at: Date.parse(change.at) })),
    found: (line.changes ?? []).map((change) => ({ ...change, at: Date.parse(change.at) })),
    spreadIncreases: (line.spread_increases ?? []).map(({ from_at: from, ...found }) => ({ ...found, from: Date.parse(from) })),
    smallSteps: (line.small_steps ?? []).map((step) => readSmallStep(step, metrics[0].name)),
  }));
  const byId = new Map(lines.map((line) => [line.id, line]));
  const rows = [...answer.buckets.map((row) => readBucket(row, metrics)), ...answer.points.map((row) => readPoint(row, { metrics, isDoubtful }))];
  const marks = rows.map((mark) => ({ ...mark, line: byId.get(mark.line), ...findColor(color, mark.color) })).sort((a, b) => a.at - b.at);
  const before = new Map();
  marks.forEach((mark, place) => {
    mark.place = place;
    mark.before = before.get(mark.line) ?? null;
    if (counts(mark)) {
      before.set(mark.line, mark);
    }
  });
  return { lines, marks, metrics, isThinned: answer.resolution !== null, leftOut: answer.lines_left_out, whole: findWhole(lines), color, planned: readPlanned(answer), dailyTo: answer.daily_to_at ? Date.parse(answer.daily_to_at) : null, thresholds: answer.thresholds ?? [] };
}

function readColor({ color, points, buckets }) {
  if (!color) {
    return null;
  }
  const items = color.values.map((value, place) => ({ value, text: value, style: styleOfValue(place) }));
  if ([...points, ...buckets].some((row) => row.color === null)) {
    items.push({ value: null, text: color.others > 0 ? `unknown and ${color.others} more` : "unknown", style: styleOfValue(null) });
  }
  return { label: color.label, items };
}

// The text of a mark, and its style in place of that of its line.
function findColor(color, value) {
  if (color === null) {
    return { style: null, colorText: null };
  }
  const { text, style } = color.items.find((item) => item.value === value);
  return { style, colorText: `${color.label}: ${text}` };
}

/** Return the style of a mark: of its color, else of its line. */
export function styleOfMark({ style, line }) {
  return style ?? line.style;
}

/** Return the marks in view. */
export function selectMarks(history, view) {
  return history.marks.filter((mark) => mark.to >= view.from && mark.from <= view.to);
}

/** Return whether a mark counts in medians. */
export function counts({ kind }) {
  return kind !== "failed" && kind !== "excluded";
}

/** Return where the levels of a metric change to another kind of latency: [{at, text}]. */
export function listSwitches(lines, metric) {
  return lines.flatMap((line) =>
    (line.levels[metric] ?? []).flatMap((level, place, levels) =>
      place > 0 && !areSameKind(level, levels[place - 1]) ? [{ at: level.from, text: KIND_NAMES[level.kind] }] : [],
    ),
  );
}

/** Return the level at a time and the previous one of the same kind of latency, or null. */
export function findLevels(levels, at) {
  const index = levels.findLastIndex((level) => level.from <= at);
  const [level, before] = [levels[index] ?? null, levels[index - 1] ?? null];
  return { level, before: before !== null && areSameKind(level, before) ? before : null };
}

/** Return the environment changes of all lines, ascending, one per run, with the names of the lines concerned. */
export function listChanges(lines) {
  const byRun = new Map();
  for (const line of lines) {
    for (const change of line.changes) {
      const known = byRun.get(change.run);
      if (known === undefined) {
        byRun.set(change.run, { ...change, names: [line.name] });
      } else {
        known.names.push(line.name);
      }
    }
  }
  return [...byRun.values()].sort((a, b) => a.at - b.at);
}

/** Describe an environment change: "kernel 5.15 → 6.1, scheduler none → mq-deadline". */
export function describeChange({ host, fields }) {
  return fields
    .map(({ name, label, before, after }) =>
      name === "host" ? `first run on ${host}` : `${label} ${before ?? "unknown"} → ${after ?? "unknown"}`,
    )
    .join(", ");
}

/** Return the lines of a tooltip, the value first. */
export function describeValue(mark, { metric, unit }) {
  const { kind, badges, line, colorText } = mark;
  const own = mark.values[metric];
  const reasons = [...(colorText ? [colorText] : []), ...(badges.length === 0 ? [] : [`badges: ${badges.join(", ")}`])];
  if (kind === "failed") {
    return [own.value === null ? "failed, no value" : `failed; ${withUnit(own.value, unit)} until the error`, ...reasons];
  }
  if (own.value === null) {
    return ["no value for this metric", ...reasons];
  }
  if (kind === "excluded") {
    return [withUnit(own.value, unit), "excluded from medians", ...reasons];
  }
  return [
    ...(kind === "bucket" ? describeBucket(mark, own, unit) : [withUnit(own.value, unit)]),
    ...describeDifferences(mark, { metric, unit, levels: line.levels[metric] ?? [] }),
    ...describeDetected(mark, metric),
    ...describeSmallSteps(mark, metric),
    ...describeSpreadIncreases(mark, metric),
    ...reasons,
  ];
}

/** Describe a mark in one line, for readout and screen readers. marks: of its line, in view. */
export function describeMark(mark, { marks, metric, unit, zone, hasNames }) {
  const place = marks.indexOf(mark) + 1;
  const noun = mark.kind === "bucket" && mark.n > 1 ? "Bucket" : "Run";
  const name = hasNames ? [mark.line.name] : [];
  return [...name, `${noun} ${place} of ${marks.length}, ${formatSpan(mark, zone)}`, ...describeValue(mark, { metric, unit })].join(" · ");
}

/** Format the time or time range of a mark. */
export function formatSpan({ from, to }, zone) {
  return from === to ? formatMoment(from, zone) : `${formatMoment(from, zone)} to ${formatMoment(to, zone)}`;
}

/** Format a value with its unit, including IOPS. */
export function withUnit(value, unit) {
  return unit === "operations/s" ? `${formatValue(value, unit)} IOPS` : formatValue(value, unit);
}

/** Describe a detected change: "▼ regression −15.2 % (−18.1 to −12.4), confirmed"; "recovered from −25 %, confirmed". */
export function describeDetectedChange({ is_regression: isRegression, relative, relative_low: low, relative_high: high, state, recovers_from: ended = null }) {
  if (ended !== null) {
    return `recovered from ${formatSignedPercent(ended)}, ${state}`;
  }
  const word = isRegression ? "regression" : "improvement";
  const interval = low === null || high === null ? "" : ` (${formatSignedPercent(low).replace(" %", "")} to ${formatSignedPercent(high)})`;
  return `${signOf(relative)} ${word} ${formatSignedPercent(relative)}${interval}, ${state}`;
}

/** Direction of a change. */
export function signOf(relative) {
  return relative < 0 ? "▼" : "▲";
}

function describeDetected({ from, to, line }, metric) {
  return line.found
    .filter((change) => change.metric === metric && change.at >= from && change.at <= to)
    .map((change) => `${describeDetectedChange(change)}: ${change.is_drift ? "gradual change" : "start of a new level"}`);
}

function describeSmallSteps({ from, to, line }, metric) {
  return line.smallSteps
    .filter((step) => step.metric === metric && step.at >= from && step.at <= to)
    .map(({ relative }) => `step of ${formatSignedPercent(relative)}, below the threshold: not reported`);
}

function describeSpreadIncreases({ to, line }, metric) {
  return line.spreadIncreases
    .filter((found) => found.metric === metric && to >= found.from)
    .map(({ before, after }) => `standard deviation ${percent(after)}, before ${percent(before)}`);
}

function percent(relative) {
  return `${(relative * 100).toFixed(1)} %`;
}

function describeBucket({ n, failed, excluded, doubtful }, own, unit) {
  const counted = [[failed, "failed"], [excluded, "excluded"], [doubtful, "with badges"]].filter(([count]) => count > 0);
  const others = counted.map(([count, word]) => `, ${count} ${word}`).join("");
  if (n === 1) {
    return [`${withUnit(own.value, unit)}${others}`];
  }
  return [
    `${n} runs${others}: median ${withUnit(own.value, unit)}`,
    `min ${formatValue(own.low, unit)}, max ${formatValue(own.high, unit)}`,
  ];
}

function describeDifferences({ at, before, values }, { metric, unit, levels }) {
  const { value } = values[metric];
  const { level, before: baseline } = findLevels(levels, at);
  const levelBefore = before === null ? null : findLevels(levels, before.at).level;
  const isComparable = level === null || levelBefore === null || areSameKind(level, levelBefore);
  const toBefore = isComparable ? formatDifference(value, before?.values[metric].value ?? null) : null;
  const toLevel = level === null ? null : formatDifference(value, level.median);
  const toBaseline = baseline === null ? null : formatDifference(value, baseline.median);
  const lines = [];
  if (toBefore !== null) {
    lines.push(`${toBefore} vs. previous ${before.kind === "bucket" ? "bucket" : "run"}`);
  }
  if (toLevel !== null && level.n > 1) {
    lines.push(`${toLevel} vs. level, median ${formatValue(level.median, unit)} of ${level.n} runs`);
    lines.push(`p10–p90 ${formatValue(level.low, unit)} to ${formatValue(level.high, unit)}`);
  }
  if (toBaseline !== null) {
    lines.push(`${toBaseline} vs. previous level, ${formatValue(baseline.median, unit)}`);
  }
  return lines;
}

function readLevel({ from_at, to_at, n, median, p10, p90, latency_kind }) {
  return { from: Date.parse(from_at), to: Date.parse(to_at), n, median, low: p10, high: p90, kind: latency_kind ?? "" };
}

/** Return whether levels may be compared: unless one is of completion latency and the other of total latency. */
export function areSameKind(level, other) {
  return !level.kind || !other.kind || level.kind === other.kind;
}

function readSmallStep({ at, relative, before, after, from_at, to_at }, metric) {
  return { metric, at: Date.parse(at), relative, before, after, from: Date.parse(from_at), to: Date.parse(to_at) };
}

function readPoint(row, { metrics, isDoubtful }) {
  const at = Date.parse(row.started_at);
  return {
    at,
    from: at,
    to: at,
    line: row.series,
    n: 1,
    kind: findKind(row, isDoubtful),
    runId: row.run,
    badges: row.badges,
    color: row.color,
    failed: 0,
    doubtful: 0,
    excluded: 0,
    values: Object.fromEntries(metrics.map(({ name }) => [name, { value: row[name], low: row[name], high: row[name] }])),
  };
}

function findKind({ error, is_excluded: isExcluded, badges }, isDoubtful) {
  if (error !== 0) {
    return "failed";
  }
  if (isExcluded) {
    return "excluded";
  }
  return isDoubtful(badges) ? "doubtful" : "good";
}

function readBucket(row, metrics) {
  const from = Date.parse(row.from_at);
  const to = Date.parse(row.to_at);
  const values = metrics.map(({ name }) => [
    name,
    {
      value: row[`${name}_median`],
      low: row[`${name}_minimum`],
      high: row[`${name}_maximum`],
      p10: row[`${name}_p10`],
      p90: row[`${name}_p90`],
      n: row[`${name}_n`],
      minimumRun: row[`${name}_minimum_run`],
      maximumRun: row[`${name}_maximum_run`],
    },
  ]);
  const { failed, doubtful, excluded } = row;
  const single = row.n === 1 ? (values.find(([, own]) => own.minimumRun !== null)?.[1].minimumRun ?? null) : null;
  return {
    at: (from + to) / 2,
    from,
    to,
    line: row.series,
    n: row.n,
    kind: row.n === failed ? "failed" : row.n === excluded ? "excluded" : "bucket",
    runId: single,
    badges: [],
    color: row.color,
    failed,
    doubtful,
    excluded,
    values: Object.fromEntries(values),
  };
}

function findWhole(lines) {
  const from = Math.min(...lines.map((line) => Date.parse(line.first_at)));
  const to = Math.max(...lines.map((line) => Date.parse(line.last_at)));
  return lines.length === 0 ? { from: 0, to: 0 } : { from, to };
}
