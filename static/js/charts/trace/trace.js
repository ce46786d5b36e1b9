// Trace of one quantity during a run, as a Chart.js configuration: a line per direction, a min–max band.
import { chooseScale, formatTick, formatValue, nameUnit } from "../../site/format.js";
import { BASE_OPTIONS, makeTooltipLook, makeValueScale, styleAxis } from "../shared/looks.js";
import { placeNames } from "../shared/line_names.js";
import { drawActiveMark } from "../shared/marks.js";
import { assignStyles, withAlpha } from "../shared/palette.js";
import { lineDomain, linearTicks } from "../shared/value_axis.js";

const SECONDS = { divisor: 1, suffix: "s" };

/**
 * Prepare the data of chart and readout.
 * lines: [{direction, rw, points: [{at_s, mean, minimum, maximum, count}]}], points ascending by at_s.
 * A bucket without entries (count 0) is a gap, even if its mean is 0. hidden: places of lines without marks.
 * view: {from, to} in s, null for all.
 */
export function prepareTrace(lines, { unit, label, hidden = new Set(), view = null }) {
  const styles = assignStyles(lines);
  const drawn = lines.map((line, id) => ({ ...line, id, name: line.direction, isHidden: hidden.has(id), style: styles[id], points: line.points.map(readPoint) }));
  const marks = drawn.flatMap((line, place) =>
    (line.isHidden ? [] : line.points).map((point, index) => ({
      ...point,
      direction: line.direction,
      // The band uses two datasets before the line.
      element: { datasetIndex: place * 3 + 2, index },
    })),
  );
  const span = { from: 0, to: lines.reduce((latest, { points }) => Math.max(latest, points.at(-1)?.at_s ?? 0), 1) };
  const shown = view ?? span;
  const known = marks.filter(({ at, mean }) => mean !== null && at >= shown.from && at <= shown.to);
  const values = known.flatMap(({ mean, minimum, maximum }) => [mean, minimum ?? mean, maximum ?? mean]);
  const scale = chooseScale(known.map((mark) => mark.mean), unit);
  return {
    lines: drawn,
    marks: known.sort((a, b) => a.at - b.at),
    unit,
    label,
    scale,
    isLog: false,
    domain: lineDomain(values, scale.divisor),
    span,
    view: shown,
  };
}

/** Describe one mark, for the readout and screen readers. */
export function describeMark({ direction, at, mean, minimum, maximum }, unit) {
  const parts = [`${direction}, ${formatSeconds(at)} s after the start`, withUnit(mean, unit)];
  if (minimum !== null && maximum !== minimum) {
    parts.push(`${formatValue(minimum, unit)} to ${formatValue(maximum, unit)}`);
  }
  return parts.join(" · ");
}

/** Return the view after zooming by a factor around a second, at least a second long; null for all. */
export function zoomSeconds({ from, to }, at, { factor, span }) {
  const length = Math.max(1, (to - from) * factor);
  if (length >= span.to - span.from) {
    return null;
  }
  const start = Math.min(Math.max(at - ((at - from) / (to - from)) * length, span.from), span.to - length);
  return { from: start, to: start + length };
}

/** Return the index of the mark nearest in time; null without marks. */
export function findNearestTime(marks, at) {
  const apart = (index) => Math.abs(marks[index].at - at);
  return marks.reduce((best, _, index) => (best === null || apart(index) < apart(best) ? index : best), null);
}

/** Build the configuration of Chart.js. colors: resolved CSS colors; names: LineNames. */
export function buildTrace(trace, { colors, names = null }) {
  // Direction names are short enough for a narrow chart.
  const hasEnds = trace.lines.length > 1;
  const findEnds = (chart) => (hasEnds ? listEnds(chart, trace) : []);
  return {
    type: "line",
    data: { datasets: trace.lines.flatMap((line) => makeDatasets(line, colors)) },
    options: {
      ...BASE_OPTIONS,
      normalized: true,
      parsing: false,
      spanGaps: false,
      layout: { padding: { top: 8, right: hasEnds ? 44 : 10 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(trace, colors) },
      scales: {
        x: makeSecondsScale(trace.view, colors),
        y: makeValueScale(trace, { colors, name: nameAxis(trace) }),
      },
    },
    plugins: [placeNames(findEnds, names), drawActiveMark(colors)],
  };
}

function readPoint({ at_s: at, mean, minimum, maximum, count }) {
  return count === 0 ? { at, mean: null, minimum: null, maximum: null } : { at, mean, minimum, maximum };
}

function makeDatasets({ points, style, isHidden: hidden }, colors) {
  const color = colors.series[style.color];
  const edge = (name) => ({
    data: points.map((point) => ({ x: point.at, y: point[name] ?? NaN })),
    hidden,
    borderWidth: 0,
    pointRadius: 0,
    backgroundColor: withAlpha(color, 0.2),
  });
  const alone = points.length === 1;
  return [
    { ...edge("minimum"), fill: false },
    { ...edge("maximum"), fill: "-1" },
    {
      hidden,
      data: points.map((point) => ({ x: point.at, y: point.mean ?? NaN })),
      borderColor: color,
      borderDash: style.dash,
      borderWidth: 1.75,
      pointBackgroundColor: color,
      pointBorderWidth: 0,
      pointRadius: alone || points.length <= 30 ? 2.5 : 0,
      pointStyle: style.shape,
    },
  ];
}

function listEnds(chart, { lines, view }) {
  return lines.filter(({ isHidden }) => !isHidden).flatMap(({ id, name, points }) => {
    const last = points.findLastIndex(({ at, mean }) => mean !== null && at <= view.to);
    const element = chart.getDatasetMeta(id * 3 + 2).data[last];
    return element === undefined ? [] : [{ id, text: name, x: element.x, y: element.y }];
  });
}

function makeSecondsScale({ from, to }, colors) {
  return {
    ...styleAxis(colors, "time since start, s"),
    type: "linear",
    min: from,
    max: to,
    ticks: { ...styleAxis(colors).ticks, callback: (value) => formatTick(value, SECONDS) },
    afterBuildTicks: (axis) => {
      const count = Math.max(2, Math.floor(axis.chart.width / 90));
      axis.ticks = linearTicks(from, to, { count }).map((value) => ({ value }));
    },
  };
}

function nameAxis({ scale, unit, label, domain }) {
  const unitName = nameUnit(scale, unit);
  const name = label === unitName ? label : `${label}, ${unitName}`;
  return domain.startsAtZero ? name : `${name} (axis does not start at 0)`;
}

function makeTooltip(trace, colors) {
  return {
    ...makeTooltipLook(colors),
    callbacks: {
      title: ([item]) => `${formatSeconds(item.parsed.x)} s`,
      label: ({ datasetIndex, dataIndex }) => {
        const line = trace.lines[Math.floor(datasetIndex / 3)];
        const { mean, minimum, maximum } = line.points[dataIndex];
        const band = minimum === null || minimum === maximum ? [] : [`${formatValue(minimum, trace.unit)} to ${formatValue(maximum, trace.unit)}`];
        return [`${line.direction} ${withUnit(mean, trace.unit)}`, ...band];
      },
    },
  };
}

function formatSeconds(at) {
  return String(Number(at.toFixed(at < 10 ? 1 : 0)));
}

function withUnit(value, unit) {
  return unit === "operations/s" ? `${formatValue(value, unit)} IOPS` : formatValue(value, unit);
}
