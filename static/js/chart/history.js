// The history of one metric of one series, as a configuration of Chart.js.
import { chooseScale, formatDifference, formatMoment, formatValue, nameUnit } from "../format.js";
import { drawActiveMark, drawEndLabels, drawHollowCrosses, drawLevels } from "./marks.js";
import { withAlpha } from "./palette.js";
import { timeTicks } from "./time_axis.js";
import { makeTooltipLook, makeValueScale, styleAxis } from "./looks.js";
import { isLogWorthwhile, lineDomain, logDomain } from "./value_axis.js";

const HOUR_MS = 3_600_000;
// The places of the datasets.
const GOOD = 0;
const FAILED = 1;

/**
 * Prepare what the chart, the readout and the words share.
 * points, ascending by time: [{at (ms), value (base unit or null), hasFailed, runId, level: {median, low, high}}].
 */
export function prepareHistory(points, { unit, isLog = false }) {
  const shown = points.map((point) => point.value).filter((value) => value !== null && !(isLog && value <= 0));
  const scale = chooseScale(shown, unit);
  const places = [0, 0];
  let before = null;
  const entries = points.map((point) => {
    const isFailed = Number(point.hasFailed);
    const element = { datasetIndex: isFailed ? FAILED : GOOD, index: places[isFailed] };
    places[isFailed] += 1;
    const entry = { ...point, before, element };
    before = point.value === null || point.hasFailed ? before : point.value;
    return entry;
  });
  return {
    entries,
    levels: entries.filter((entry) => !entry.hasFailed && entry.level.median !== null).map(({ at, level }) => ({ at, ...level })),
    unit,
    scale,
    isLog,
    canBeLog: isLogWorthwhile(shown),
    domain: isLog ? { ...logDomain(shown), startsAtZero: false } : lineDomain(shown, scale.divisor),
  };
}

/** Say in one line what a point is; for the readout below the chart and for screen readers. */
export function describePoint({ entries, unit }, index) {
  const entry = entries[index];
  return [`Run ${index + 1} of ${entries.length}, ${formatMoment(entry.at)}`, ...describeValue(entry, unit)].join(" · ");
}

/** Say the parts of a point's description that a tooltip lists under the date. */
export function describeValue({ value, hasFailed, before, level }, unit) {
  if (hasFailed) {
    return [value === null ? "failed, no value" : `failed; ${withUnit(value, unit)} until then`];
  }
  if (value === null) {
    return ["no value for this metric"];
  }
  const lines = [withUnit(value, unit)];
  const toBefore = formatDifference(value, before);
  const toMedian = formatDifference(value, level.median);
  if (toBefore !== null) {
    lines.push(`${toBefore} to the run before`);
  }
  if (toMedian !== null) {
    lines.push(`${toMedian} to the running median`);
    lines.push(`p10–p90 ${formatValue(level.low, unit)} to ${formatValue(level.high, unit)}`);
  }
  return lines;
}

/** Build the configuration of Chart.js. colours: resolved CSS colours; style: an entry of the palette. */
export function buildHistory(history, { colours, style, label, isNarrow = false }) {
  const colour = colours.series[style.colour];
  const findEnds = ({ scales }) => (isNarrow ? [] : listEnds(history.levels.at(-1), scales));
  return {
    type: "line",
    data: { datasets: makeDatasets(history, { colour, shape: style.shape }) },
    options: {
      animation: false,
      events: [],
      maintainAspectRatio: false,
      normalized: true,
      parsing: false,
      responsive: true,
      layout: { padding: { top: 8, right: isNarrow ? 10 : 56 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(history, colours) },
      scales: {
        x: makeTimeScale(history, colours),
        y: makeValueScale(history, { colours, name: nameAxis(history, label) }),
      },
    },
    plugins: [
      drawLevels(history.levels, { colour, paper: colours.paper }),
      drawHollowCrosses(FAILED, colours),
      drawEndLabels(findEnds, colours),
      drawActiveMark(colours),
    ],
  };
}

function listEnds(last, { x, y }) {
  if (last === undefined) {
    return [];
  }
  const end = x.getPixelForValue(last.at);
  return [
    { text: "p10–p90", x: end, y: y.getPixelForValue(last.high) },
    { text: "median", x: end, y: y.getPixelForValue(last.median) },
  ];
}

function makeDatasets({ entries, domain }, { colour, shape }) {
  const good = entries.filter((entry) => !entry.hasFailed);
  const failed = entries.filter((entry) => entry.hasFailed);
  return [
    {
      showLine: false,
      pointStyle: shape,
      pointRadius: good.length > 300 ? 2 : 3,
      pointBorderWidth: 0,
      pointBackgroundColor: withAlpha(colour, 0.8),
      data: good.map((entry) => ({ x: entry.at, y: entry.value ?? NaN })),
    },
    {
      showLine: false,
      pointRadius: 0,
      data: failed.map((entry) => ({ x: entry.at, y: entry.value ?? domain.min })),
    },
  ];
}

function makeTimeScale({ entries }, colours) {
  const first = entries[0].at;
  const last = entries.at(-1).at;
  const room = first === last ? HOUR_MS : (last - first) * 0.015;
  let labels = new Map();
  return {
    ...styleAxis(colours, "time of the run, UTC"),
    type: "linear",
    min: first - room,
    max: last + room,
    ticks: { ...styleAxis(colours).ticks, callback: (value) => labels.get(value) },
    afterBuildTicks: (axis) => {
      const ticks = timeTicks(axis.min, axis.max, Math.max(2, Math.floor(axis.chart.width / 100)));
      labels = new Map(ticks.map((tick) => [tick.value, tick.label]));
      axis.ticks = ticks.map(({ value }) => ({ value }));
    },
  };
}

function nameAxis({ scale, unit, isLog, domain }, label) {
  const unitName = nameUnit(scale, unit);
  const name = label === unitName ? label : `${label}, ${unitName}`;
  if (isLog) {
    return `${name} (log axis)`;
  }
  return domain.startsAtZero ? name : `${name} (axis does not start at 0)`;
}

function makeTooltip(history, colours) {
  const find = ({ datasetIndex, dataIndex }) =>
    history.entries.find(({ element }) => element.datasetIndex === datasetIndex && element.index === dataIndex);
  return {
    ...makeTooltipLook(colours),
    callbacks: {
      title: ([item]) => formatMoment(item.parsed.x),
      label: (item) => describeValue(find(item), history.unit),
      footer: () => "click or Enter opens the run",
    },
  };
}

function withUnit(value, unit) {
  return unit === "operations/s" ? `${formatValue(value, unit)} IOPS` : formatValue(value, unit);
}
