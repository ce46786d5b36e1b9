// Percentiles of a series over time: a line each, filled between them, on a log axis.
import { chooseScale, formatValue } from "../../site/format.js";
import { BASE_OPTIONS, makeValueScale, styleAxis } from "../shared/looks.js";
import { placeNames } from "../shared/line_names.js";
import { drawVertical } from "../shared/marks.js";
import { withAlpha } from "../shared/palette.js";
import { logDomain } from "../shared/value_axis.js";
import { formatMoment, formatOffset, zonedTicks } from "../shared/zones.js";

/** The percentiles, from the inside out: name in the answer, label. */
export const FAN = [
  ["p50", "p50"],
  ["p90", "p90"],
  ["p95", "p95"],
  ["p99", "p99"],
  ["p99_9", "p99.9"],
  ["p99_99", "p99.99"],
];
const LABELS_WIDTH = 56;
const AXIS_WIDTH = 68;
// Dashes distinguish lines of one color.
const DASHES = [[], [6, 3], [2, 2], [], [6, 3], [2, 2]];

/** Prepare columns [{from_at, to_at, runs, last_run, p50, …}] of /api/v1/series/{id}/percentiles. hidden: places in FAN. */
export function prepareFan(columns, { view, hidden = new Set() }) {
  const marks = columns.map((column) => {
    const [from, to] = [Date.parse(column.from_at), Date.parse(column.to_at)];
    return { at: (from + to) / 2, from, to, runs: column.runs, runId: column.last_run, values: FAN.map(([name], place) => (hidden.has(place) ? null : column[name])) };
  });
  const known = marks.flatMap(({ values }) => values.filter((value) => value > 0));
  const lines = FAN.map(([, label], place) => ({ label, place, has: marks.some(({ values }) => values[place] > 0) })).filter(({ has }) => has);
  return { marks, lines, scale: chooseScale(known, "ns"), isLog: true, domain: logDomain(known), view: view ?? findSpan(marks) };
}

/** Describe a column in one line. */
export function describeColumn({ from, to, runs, values }, { index, count, zone }) {
  const when = from === to ? formatMoment(from, zone) : `${formatMoment(from, zone)} to ${formatMoment(to, zone)}, ${runs} runs, medians`;
  const known = FAN.flatMap(([, label], place) => (values[place] > 0 ? [`${label} ${formatValue(values[place], "ns")}`] : []));
  return [`${index + 1} of ${count}, ${when}`, ...(known.length === 0 ? ["no percentiles"] : known)].join(" · ");
}

/** Build the configuration of Chart.js. look: {isNarrow, zone}. getState: () → index of the selected column, or null. names: LineNames. */
export function buildFan(fan, { colors, style, look, getState, names = null }) {
  return {
    type: "line",
    data: { datasets: [] },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { top: 8, right: LABELS_WIDTH } },
      plugins: { legend: { display: false }, tooltip: { enabled: false } },
      scales: {
        x: makeTimes(fan.view, { colors, ...look }),
        y: {
          ...makeValueScale(fan, { colors, name: `latency, ${fan.scale.suffix} (log axis)` }),
          afterFit: (axis) => {
            axis.width = AXIS_WIDTH;
          },
        },
      },
    },
    plugins: [drawFan(fan, { colors, color: colors.series[style.color], getState }), placeNames((chart) => listEnds(chart, fan), names)],
  };
}

/** A time axis with padding, in a time zone. */
export function makeTimes({ from, to }, { colors, zone, isNarrow = false }) {
  const room = from === to ? 3_600_000 : (to - from) * 0.015;
  let labels = new Map();
  return {
    ...styleAxis(colors, `start of the run, ${formatOffset(to, zone)}`),
    type: "linear",
    min: from - room,
    max: to + room,
    ticks: { ...styleAxis(colors).ticks, callback: (value) => labels.get(value) },
    afterBuildTicks: (axis) => {
      const ticks = zonedTicks(axis.min, axis.max, { most: Math.max(2, Math.floor(axis.chart.width / (isNarrow ? 72 : 100))), zone });
      labels = new Map(ticks.map((tick) => [tick.value, tick.label]));
      axis.ticks = ticks.map(({ value }) => ({ value }));
    },
  };
}

/** Return the time range of columns. */
export function findSpan(marks) {
  return marks.length === 0 ? { from: 0, to: 1 } : { from: marks[0].from, to: marks.at(-1).to };
}

function drawFan(fan, { colors, color, getState }) {
  return {
    id: "fan",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      ctx.save();
      ctx.beginPath();
      ctx.rect(chartArea.left - 3, chartArea.top, chartArea.width + 6, chartArea.height);
      ctx.clip();
      fan.lines.slice(1).forEach(({ place }, index) => fillBetween(ctx, fan, { low: fan.lines[index].place, high: place, scales, color: withAlpha(color, 0.3 - 0.045 * index) }));
      for (const { place } of fan.lines) {
        strokeLine(ctx, fan, { place, scales, color });
      }
      drawColumn(ctx, fan.marks[getState()], { chartArea, scales, colors });
      ctx.restore();
    },
  };
}

function fillBetween(ctx, { marks }, { low, high, scales, color }) {
  ctx.fillStyle = color;
  for (const stretch of cutAtGaps(marks, [low, high])) {
    ctx.beginPath();
    for (const { at, values } of stretch) {
      ctx.lineTo(scales.x.getPixelForValue(at), scales.y.getPixelForValue(values[high]));
    }
    for (const { at, values } of [...stretch].reverse()) {
      ctx.lineTo(scales.x.getPixelForValue(at), scales.y.getPixelForValue(values[low]));
    }
    ctx.fill();
  }
}

function strokeLine(ctx, { marks }, { place, scales, color }) {
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.lineWidth = place === 0 ? 2 : 1.25;
  ctx.setLineDash(DASHES[place]);
  for (const stretch of cutAtGaps(marks, [place])) {
    const places = stretch.map(({ at, values }) => [scales.x.getPixelForValue(at), scales.y.getPixelForValue(values[place])]);
    if (places.length === 1) {
      ctx.fillRect(places[0][0] - 2, places[0][1] - 2, 4, 4);
    }
    ctx.beginPath();
    places.forEach(([x, y]) => ctx.lineTo(x, y));
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

/** Split marks at gaps of any of these values. */
export function cutAtGaps(marks, places) {
  const stretches = [[]];
  for (const mark of marks) {
    if (places.every((place) => mark.values[place] > 0)) {
      stretches.at(-1).push(mark);
    } else if (stretches.at(-1).length > 0) {
      stretches.push([]);
    }
  }
  return stretches.filter((stretch) => stretch.length > 0);
}

function drawColumn(ctx, mark, { chartArea, scales, colors }) {
  if (mark === undefined) {
    return;
  }
  const x = scales.x.getPixelForValue(mark.at);
  ctx.strokeStyle = colors.fieldLine;
  ctx.lineWidth = 1;
  drawVertical(ctx, x, chartArea);
  ctx.strokeStyle = colors.ink;
  for (const value of mark.values) {
    if (value > 0) {
      ctx.beginPath();
      ctx.arc(x, scales.y.getPixelForValue(value), 3.5, 0, 2 * Math.PI);
      ctx.stroke();
    }
  }
}

function listEnds({ chartArea, scales }, { marks, lines }) {
  return lines.flatMap(({ label, place }) => {
    const last = marks.findLast(({ values }) => values[place] > 0);
    return last === undefined ? [] : [{ id: place, text: label, x: chartArea.right, y: scales.y.getPixelForValue(last.values[place]) }];
  });
}
