// The history of one metric of one series, as a configuration of Chart.js.
import { chooseScale, formatDifference, formatMoment, formatValue, nameUnit } from "../format.js";
import { drawActiveMark, drawEndLabels, drawHollowCrosses, drawLevels, drawLimit, drawReference } from "./marks.js";
import { withAlpha } from "./palette.js";
import { timeTicks } from "./time_axis.js";
import { makeTooltipLook, makeValueScale, styleAxis } from "./looks.js";
import { isLogWorthwhile, lineDomain, logDomain } from "./value_axis.js";

const HOUR_MS = 3_600_000;
// The places of the datasets.
const GOOD = 0;
const DOUBTFUL = 1;
const FAILED = 2;

/**
 * Prepare what the chart, the readout and the words share.
 * points, ascending by time: [{at (ms), value (base unit or null), hasFailed, isDoubtful, badges (codes), runId,
 * level: {median, low, high}}]. limit: {value, words} between good and bad, or null. references: [{value, words}] of
 * known systems; those that are far off are left out, as they would press the points into a line.
 */
export function prepareHistory(points, { unit, isLog = false, limit = null, references = [] }) {
  const shown = points.map((point) => point.value).filter((value) => value !== null && !(isLog && value <= 0));
  const scale = chooseScale(shown, unit);
  const near = references.filter(({ value }) => isNear(value, shown));
  const within = [...shown, ...(limit === null ? [] : [limit.value]), ...near.map(({ value }) => value)];
  const places = [0, 0, 0];
  let before = null;
  const entries = points.map((point) => {
    const datasetIndex = findDataset(point);
    const element = { datasetIndex, index: places[datasetIndex] };
    places[datasetIndex] += 1;
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
    limit,
    references: near,
    canBeLog: isLogWorthwhile(within),
    domain: isLog ? { ...logDomain(within), startsAtZero: false } : lineDomain(within, scale.divisor),
  };
}

/** Within twice the highest and half the lowest of the values. */
function isNear(value, shown) {
  return shown.length > 0 && value <= 2 * Math.max(...shown) && value >= Math.min(...shown) / 2;
}

/** Say in one line what a point is; for the readout below the chart and for screen readers. */
export function describePoint({ entries, unit }, index) {
  const entry = entries[index];
  return [`Run ${index + 1} of ${entries.length}, ${formatMoment(entry.at)}`, ...describeValue(entry, unit)].join(" · ");
}

/** Say the parts of a point's description that a tooltip lists under the date. */
export function describeValue({ value, hasFailed, before, level, badges = [] }, unit) {
  const reasons = badges.length === 0 ? [] : [`badges: ${badges.join(", ")}`];
  if (hasFailed) {
    return [value === null ? "failed, no value" : `failed; ${withUnit(value, unit)} until then`, ...reasons];
  }
  if (value === null) {
    return ["no value for this metric", ...reasons];
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
  return [...lines, ...reasons];
}

/** Build the configuration of Chart.js. colours: resolved CSS colours; style: an entry of the palette. */
export function buildHistory(history, { colours, style, label, isNarrow = false }) {
  const colour = colours.series[style.colour];
  const findEnds = ({ scales }) => (isNarrow ? [] : listEnds(history.levels.at(-1), scales));
  return {
    type: "line",
    data: { datasets: makeDatasets(history, { colour, shape: style.shape, paper: colours.paper }) },
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
      ...(history.limit === null ? [] : [drawLimit(history.limit, colours)]),
      ...history.references.map((reference, place) => drawReference(reference, place, colours)),
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

function findDataset({ hasFailed, isDoubtful }) {
  if (hasFailed) {
    return FAILED;
  }
  return isDoubtful ? DOUBTFUL : GOOD;
}

function makeDatasets({ entries, domain }, { colour, shape, paper }) {
  const [good, doubtful, failed] = [GOOD, DOUBTFUL, FAILED].map((dataset) =>
    entries.filter(({ element }) => element.datasetIndex === dataset),
  );
  const looks = { showLine: false, pointStyle: shape, pointRadius: good.length + doubtful.length > 300 ? 2 : 3 };
  const place = (entry) => ({ x: entry.at, y: entry.value ?? NaN });
  return [
    { ...looks, pointBorderWidth: 0, pointBackgroundColor: withAlpha(colour, 0.8), data: good.map(place) },
    {
      ...looks,
      pointBorderWidth: 1.25,
      pointBorderColor: colour,
      pointBackgroundColor: paper,
      data: doubtful.map(place),
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
