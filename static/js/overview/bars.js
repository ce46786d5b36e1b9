// Counts per day or week as stacked bars, as a configuration of Chart.js.
import { formatDay } from "../site/format.js";
import { BASE_OPTIONS, makeTooltipLook, makeValueScale, styleAxis } from "../charts/shared/looks.js";

const PIXELS_A_TICK = 56;
const COUNT = { divisor: 1, suffix: "" };
// Outlined, so that color is not the only cue.
const HOLLOW = new Set(["improvement", "waiting"]);

/** Prepare {days, prefix, unit, layers: [{name, color, values}]}; unit: what is counted. */
export function prepareBars({ days, prefix, unit, layers }) {
  const times = days.map((day) => Date.parse(`${day}T00:00:00Z`));
  const totals = times.map((_, day) => layers.reduce((sum, { values }) => sum + values[day], 0));
  return { times, prefix, unit, layers, domain: { min: 0, max: Math.max(4, Math.ceil(Math.max(...totals) * 1.08)) } };
}

/** Describe one bar, for the readout and for screen readers. */
export function describeBar({ times, prefix, layers }, day) {
  const counts = layers.map(({ name, values }) => `${values[day]} ${name}`);
  return `${nameDay(prefix, times[day])}: ${counts.join(", ")}`;
}

/** Return the bar nearest to a pixel: by its middle. middles: of the bars, px. */
export function findNearestBar(middles, x) {
  const distances = middles.map((middle) => Math.abs(middle - x));
  return distances.indexOf(Math.min(...distances));
}

/** Build the configuration. colors: resolved CSS colors; width: of the chart, px. */
export function buildBars(bars, { colors, width = 0 }) {
  const { times, prefix, unit, layers, domain } = bars;
  const step = Math.max(1, Math.ceil((times.length * PIXELS_A_TICK) / Math.max(width - 60, PIXELS_A_TICK)));
  return {
    type: "bar",
    data: { labels: times.map(formatDay), datasets: layers.map((layer) => makeLayer(layer, colors)) },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { top: 8, right: 8 } },
      plugins: {
        legend: { display: false },
        tooltip: {
          ...makeTooltipLook(colors),
          callbacks: {
            title: ([item]) => nameDay(prefix, times[item.dataIndex]),
            label: (item) => layers.map(({ name, values }) => `${values[item.dataIndex]} ${name}`),
          },
        },
      },
      scales: {
        x: {
          ...styleAxis(colors, prefix),
          stacked: true,
          // The newest has a label.
          ticks: { ...styleAxis(colors).ticks, callback: (_, place) => ((times.length - 1 - place) % step === 0 ? formatDay(times[place]) : "") },
        },
        y: { ...makeValueScale({ domain, scale: COUNT, tickCount: 4 }, { colors, name: unit }), stacked: true },
      },
    },
  };
}

function makeLayer({ name, color, values }, colors) {
  const shade = { regression: colors.regression, improvement: colors.improvement, waiting: colors.muted }[color] ?? colors.series[color];
  return {
    label: name,
    data: values,
    backgroundColor: HOLLOW.has(color) ? colors.paper : shade,
    borderColor: shade,
    borderWidth: 1.5,
    borderSkipped: false,
    maxBarThickness: 28,
    categoryPercentage: 0.9,
    barPercentage: 0.9,
  };
}

function nameDay(prefix, at) {
  return `${prefix} ${formatDay(at)}`.trim();
}
