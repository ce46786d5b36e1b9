// One panel of a history: one metric of all lines, as a Chart.js configuration.
import { chooseScale, nameUnit } from "../../site/format.js";
import { counts, selectMarks } from "./history.js";
import { drawMarks } from "./marks.js";
import { BASE_OPTIONS, makeValueScale, styleAxis } from "../shared/looks.js";
import { placeNames } from "../shared/line_names.js";
import { drawLabeledLines, drawMessage } from "../shared/marks.js";
import { isLogWorthwhile, lineDomain, logDomain } from "../shared/value_axis.js";
import { formatOffset, zonedTicks } from "../shared/zones.js";

/** Up to this number of lines are labeled at their ends; more get a legend. */
export const MOST_END_LABELS = 6;
// Equal axis widths align the time axes of all panels.
const AXIS_WIDTH = 68;
// Names of lines get at least so much space, and up to this share of a wide chart.
const NAMES_WIDTH = 132;
const NAMES_SHARE = 0.27;
const CHARACTER_WIDTH = 6.2;
const LABEL_WIDTH = 56;
// Without values, Chart.js would invent an axis.
const NO_VALUES = { grid: { display: false }, ticks: { display: false }, title: { display: false } };
// Also in charts/texts/history.py.
const THRESHOLD_REACH = 5;
const REFERENCE_REACH = 2;
const PIXELS_A_TICK = 100;
const NARROW_PIXELS_A_TICK = 72;

/**
 * Prepare one panel for a view {from, to}.
 * limit: {value, label} of the profile, or null. references: [{value, label}] of reference systems; distant ones are
 * omitted, as they would flatten the chart. hidden: ids of lines without marks; `all` has them, too.
 */
export function preparePanel(history, { metric, view, isLog = false, limit = null, references = [], hidden = new Set() }) {
  const { unit, label } = history.metrics.find(({ name }) => name === metric);
  const marks = selectMarks(history, view).filter(({ line }) => !hidden.has(line.id));
  const shown = marks
    .filter((mark) => mark.kind !== "failed")
    .flatMap(({ values }) => [values[metric].value, values[metric].low, values[metric].high])
    .filter((value) => value !== null && !(isLog && value <= 0));
  const scale = chooseScale(shown, unit);
  const near = references.filter(({ value }) => isNear(value, shown, REFERENCE_REACH));
  const thresholds = listThresholds(history, metric).filter(({ value }) => isNear(value, shown, THRESHOLD_REACH));
  const within = [...shown, ...(limit === null ? [] : [limit.value]), ...[...near, ...thresholds].map(({ value }) => value)];
  return {
    all: history.lines,
    lines: history.lines.filter(({ id }) => !hidden.has(id)),
    marks,
    metric,
    unit,
    label,
    view,
    scale,
    isLog,
    limit,
    references: near,
    thresholds,
    isEmpty: shown.length === 0,
    canBeLog: isLogWorthwhile(within),
    domain: isLog ? { ...logDomain(within), startsAtZero: false } : lineDomain(within, scale.divisor),
  };
}

// The thresholds of a metric, with the label of their line.
function listThresholds({ thresholds, lines }, metric) {
  return thresholds
    .filter((threshold) => threshold.metric === metric)
    .map(({ text, value, series }) => ({ value, label: `threshold ${text}${series.length < lines.length ? ` (${series.length} of ${lines.length} series)` : ""}` }));
}

// Whether a line is near enough to the values: distant ones would flatten the chart.
function isNear(value, shown, reach) {
  if (shown.length === 0) {
    return false;
  }
  const [least, most] = shown.reduce(([low, high], each) => [Math.min(low, each), Math.max(high, each)], [Infinity, -Infinity]);
  return value <= reach * most && value >= least / reach;
}

/**
 * Build the configuration of Chart.js.
 * colors: resolved CSS colors. look: {width (px), isNarrow, isMain (with times below), zone}. getState: () → {mark}, the
 * selected one or null. names: LineNames. onLayout(chart): called when the chart area changes.
 */
export function buildPanel(panel, { colors, look, getState, names = null, changes = [], planned = [], onLayout = () => {} }) {
  const { width = 0, isNarrow, isMain, zone } = look;
  const hasNames = panel.all.length > 1;
  const hasEnds = !isNarrow && panel.all.length <= MOST_END_LABELS;
  const padding = !hasEnds ? 10 : hasNames ? measureNames(panel.all, width) : LABEL_WIDTH;
  // Only the main panel has labels.
  const findEnds = ({ scales }) => (hasEnds && isMain ? listEnds(panel, scales, hasNames) : []);
  const isCrowded = panel.marks.length > 300;
  return {
    type: "line",
    data: { datasets: [] },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { top: 8, right: padding, bottom: isMain ? 0 : 4 } },
      plugins: { legend: { display: false }, tooltip: { enabled: false } },
      scales: {
        x: makeTimeScale(panel.view, { colors, isMain, isNarrow, zone }),
        y: {
          ...makeValueScale(thinTicks(panel, isMain), { colors, name: nameAxis(panel, { isMain, isNarrow }) }),
          ...(panel.isEmpty ? NO_VALUES : {}),
          afterFit: (axis) => {
            axis.width = AXIS_WIDTH;
          },
        },
      },
    },
    plugins: [
      { id: "layout", afterLayout: onLayout },
      drawMarks(panel, { colors, isCrowded, hasNames, changes, planned, getState }),
      ...(panel.isEmpty ? [drawMessage("no values in this time range", colors)] : []),
      drawLabeledLines(panel, colors),
      placeNames(findEnds, names),
    ],
  };
}

/** Return the mark nearest to a pixel, or null: by distance within reach, else by time. */
export function findMark(panel, { x, y, scales, reach = 24 }) {
  let best = null;
  let bestDistance = Infinity;
  for (const mark of panel.marks) {
    const value = mark.values[panel.metric].value;
    const dx = Math.abs(scales.x.getPixelForValue(mark.at) - x);
    if (dx > bestDistance || (value === null && mark.kind !== "failed")) {
      continue;
    }
    const dy = Math.abs(scales.y.getPixelForValue(value ?? panel.domain.min) - y);
    const apart = Math.hypot(dx, dy);
    const distance = apart <= reach ? apart : reach + dx + dy / 1000;
    if (distance < bestDistance) {
      best = mark;
      bestDistance = distance;
    }
  }
  return best;
}

function measureNames(lines, width) {
  const longest = Math.max(...lines.map(({ name }) => name.length)) * CHARACTER_WIDTH + 14;
  return Math.round(Math.min(longest, Math.max(NAMES_WIDTH, NAMES_SHARE * width)));
}

function listEnds({ lines, marks, metric, view }, { x, y }, hasNames) {
  return lines.flatMap((line) => {
    const level = (line.levels[metric] ?? []).findLast(({ from }) => from <= view.to);
    const last = marks.findLast((mark) => mark.line === line && counts(mark) && mark.values[metric].value !== null);
    if (level === undefined || last === undefined) {
      return [];
    }
    const end = x.getPixelForValue(Math.min(level.to, view.to));
    if (hasNames) {
      return [{ id: line.id, text: line.name, x: Math.max(end, x.getPixelForValue(last.to)), y: y.getPixelForValue(level.median) }];
    }
    return [
      ...(level.n > 2 ? [{ text: "p10–p90", x: end, y: y.getPixelForValue(level.high) }] : []),
      { text: "median", x: end, y: y.getPixelForValue(level.median) },
    ];
  });
}

function makeTimeScale({ from, to }, { colors, isMain, isNarrow, zone }) {
  const room = from === to ? 3_600_000 : (to - from) * 0.015;
  let labels = new Map();
  return {
    ...styleAxis(colors, isMain ? `start of the run, ${formatOffset(to, zone)}` : ""),
    type: "linear",
    min: from - room,
    max: to + room,
    ticks: { ...styleAxis(colors).ticks, display: isMain, callback: (value) => labels.get(value) },
    afterBuildTicks: (axis) => {
      const most = Math.max(2, Math.floor(axis.chart.width / (isNarrow ? NARROW_PIXELS_A_TICK : PIXELS_A_TICK)));
      const ticks = zonedTicks(axis.min, axis.max, { most, zone });
      labels = new Map(ticks.map((tick) => [tick.value, tick.label]));
      axis.ticks = ticks.map(({ value }) => ({ value }));
    },
  };
}

// A low panel has few ticks.
function thinTicks(panel, isMain) {
  return isMain ? panel : { ...panel, tickCount: 3 };
}

function nameAxis({ scale, unit, isLog, domain, label }, { isMain, isNarrow }) {
  const unitName = nameUnit(scale, unit);
  if (!isMain) {
    return unitName;
  }
  const name = label === unitName ? label : `${label}, ${unitName}`;
  if (isLog) {
    return `${name} (log axis)`;
  }
  return domain.startsAtZero ? name : `${name} (${isNarrow ? "not from 0" : "axis does not start at 0"})`;
}
