// Throughput of the fleet by pattern and day, relative to the level of each series, as a configuration of Chart.js.
import { formatDay } from "../site/format.js";
import { BASE_OPTIONS, makeTooltipLook, makeValueScale, styleAxis } from "../charts/shared/looks.js";
import { drawActiveMark, drawEndLabels } from "../charts/shared/marks.js";
import { styleOf, withAlpha } from "../charts/shared/palette.js";
import { timeTicks } from "../charts/shared/time_axis.js";
import { lineDomain } from "../charts/shared/value_axis.js";

const DAY_MS = 86_400_000;
const PIXELS_A_TICK = 80;
const NAMES_WIDTH = 110;
const PERCENT = { divisor: 1, suffix: "%" };

/**
 * Prepare {days, lines: [{name, rw, direction, values: [{median, p10, p90, n} or null]}]}; 1 is the level.
 * entries: the known values of all lines, line by line, with their element in the chart.
 */
export function prepareFleet({ days, lines }) {
  const times = days.map((day) => Date.parse(`${day}T00:00:00Z`));
  const entries = lines.flatMap(({ name, values }, line) =>
    values.flatMap((value, day) => (value === null ? [] : [{ line, day, at: times[day], name, value, element: { datasetIndex: line, index: day } }])),
  );
  const shown = entries.flatMap(({ value }) => [value.p10 * 100, value.p90 * 100]);
  return { times, lines, entries, domain: lineDomain([...shown, 100]) };
}

/** Describe a day of a pattern, for the readout and for screen readers. */
export function describeFleetDay({ name, at, value }) {
  const { median, p10, p90, n } = value;
  return `${name}, ${formatDay(at)}: median ${percent(median)}, p10–p90 ${percent(p10)}–${percent(p90)}, ${n} series`;
}

/** Return the entry after a key that changes the line: the nearest day of the next line; null for other keys. */
export function moveToLine({ entries }, from, key) {
  const step = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (step === undefined || from === null) {
    return null;
  }
  const { line, day } = entries[from];
  const others = entries.map((entry, index) => ({ entry, index })).filter(({ entry }) => entry.line === line + step);
  if (others.length === 0) {
    return from;
  }
  const distance = ({ entry }) => Math.abs(entry.day - day);
  return others.reduce((best, each) => (distance(each) < distance(best) ? each : best)).index;
}

/** Build the configuration. colors: resolved CSS colors; width: of the chart, px. */
export function buildFleet(fleet, { colors, width = 0, isNarrow = false }) {
  const { times, lines, domain } = fleet;
  const name = domain.startsAtZero ? "% of level" : "% of level (axis starts above 0)";
  return {
    type: "line",
    data: { datasets: [...lines.map((line) => makeLine(line, times, colors)), ...lines.flatMap((line, place) => makeBand(line, { times, colors, first: lines.length + 2 * place }))] },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { top: 8, right: isNarrow ? 8 : NAMES_WIDTH } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(fleet, colors), filler: { propagate: false } },
      scales: { x: makeTimeScale(times, { colors, width }), y: makeValueScale({ domain, scale: PERCENT }, { colors, name }) },
    },
    plugins: [drawLevel(colors), drawActiveMark(colors), ...(isNarrow ? [] : [drawEndLabels((chart) => listEnds(fleet, chart), colors)])],
  };
}

function makeLine(line, times, colors) {
  const { color, dash } = styleOf(line);
  return {
    data: line.values.map((value, day) => ({ x: times[day], y: value === null ? Number.NaN : value.median * 100 })),
    borderColor: colors.series[color],
    borderDash: dash,
    borderWidth: 2,
    pointRadius: 0,
    spanGaps: 3 * DAY_MS,
  };
}

function makeBand(line, { times, colors, first }) {
  const { color } = styleOf(line);
  const edge = (name, more) => ({
    data: line.values.map((value, day) => ({ x: times[day], y: value === null ? Number.NaN : value[name] * 100 })),
    borderWidth: 0,
    pointRadius: 0,
    spanGaps: 3 * DAY_MS,
    backgroundColor: withAlpha(colors.series[color], 0.14),
    ...more,
  });
  return [edge("p10", {}), edge("p90", { fill: first })];
}

function makeTimeScale(times, { colors, width }) {
  let labels = new Map();
  return {
    ...styleAxis(colors, ""),
    type: "linear",
    min: times[0] - DAY_MS / 2,
    max: times.at(-1) + DAY_MS / 2,
    ticks: { ...styleAxis(colors).ticks, callback: (value) => labels.get(value) },
    afterBuildTicks: (axis) => {
      const ticks = timeTicks(axis.min, axis.max, Math.max(2, Math.floor((axis.chart.width || width) / PIXELS_A_TICK)));
      labels = new Map(ticks.map((tick) => [tick.value, tick.label]));
      axis.ticks = ticks.map(({ value }) => ({ value }));
    },
  };
}

// The level itself: a thin line across the chart.
function drawLevel(colors) {
  return {
    id: "level",
    beforeDatasetsDraw({ ctx, chartArea, scales }) {
      const y = scales.y.getPixelForValue(100);
      ctx.save();
      ctx.strokeStyle = colors.fieldLine;
      ctx.beginPath();
      ctx.moveTo(chartArea.left, y);
      ctx.lineTo(chartArea.right, y);
      ctx.stroke();
      ctx.restore();
    },
  };
}

function listEnds({ lines, entries }, { scales }) {
  return lines.flatMap(({ name }, line) => {
    const last = entries.findLast((entry) => entry.line === line);
    return last === undefined ? [] : [{ text: name, x: scales.x.getPixelForValue(last.at), y: scales.y.getPixelForValue(last.value.median * 100) }];
  });
}

function makeTooltip({ lines, times }, colors) {
  return {
    ...makeTooltipLook(colors),
    filter: ({ datasetIndex }) => datasetIndex < lines.length,
    callbacks: {
      title: ([item]) => `${lines[item.datasetIndex].name}, ${formatDay(times[item.dataIndex])}`,
      label: (item) => {
        const { median, p10, p90, n } = lines[item.datasetIndex].values[item.dataIndex];
        return [`median ${percent(median)} of level`, `p10–p90 ${percent(p10)}–${percent(p90)}`, `${n} series`];
      },
    },
  };
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
