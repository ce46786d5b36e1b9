// Counts per day as stacked bars, with lettered days, as a configuration of Chart.js.
import { formatDay } from "../site/format.js";
import { BASE_OPTIONS, makeTooltipLook, makeValueScale, styleAxis } from "../charts/shared/looks.js";

const PIXELS_A_TICK = 56;
const COUNT = { divisor: 1, suffix: "" };

/** Prepare {days, unit, layers: [{name, color, values}], marks: [{day, text}]}; unit: what is counted. */
export function prepareBars({ days, unit, layers, marks }) {
  const times = days.map((day) => Date.parse(`${day}T00:00:00Z`));
  const totals = times.map((_, day) => layers.reduce((sum, { values }) => sum + values[day], 0));
  const lettered = marks.map(({ day, text }) => ({ index: days.indexOf(day), text })).filter(({ index }) => index !== -1);
  return { times, unit, layers, marks: lettered, domain: { min: 0, max: Math.max(4, Math.ceil(Math.max(...totals) * 1.08)) } };
}

/** Describe one bar, for the readout and for screen readers. */
export function describeBar({ times, layers }, day) {
  const counts = layers.map(({ name, values }) => `${values[day]} ${name}`);
  return `${formatDay(times[day])}: ${counts.join(", ")}`;
}

/** Return the bar nearest to a pixel: by its middle. middles: of the bars, px. */
export function findNearestBar(middles, x) {
  const distances = middles.map((middle) => Math.abs(middle - x));
  return distances.indexOf(Math.min(...distances));
}

/** Build the configuration. colors: resolved CSS colors; width: of the chart, px. */
export function buildBars(bars, { colors, width = 0 }) {
  const { times, unit, layers, domain } = bars;
  const step = Math.max(1, Math.ceil((times.length * PIXELS_A_TICK) / Math.max(width - 60, PIXELS_A_TICK)));
  return {
    type: "bar",
    data: { labels: times.map(formatDay), datasets: layers.map((layer) => makeLayer(layer, colors)) },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { top: 16, right: 8 } },
      plugins: {
        legend: { display: false },
        tooltip: {
          ...makeTooltipLook(colors),
          callbacks: {
            title: ([item]) => formatDay(times[item.dataIndex]),
            label: (item) => layers.map(({ name, values }) => `${values[item.dataIndex]} ${name}`),
          },
        },
      },
      scales: {
        x: {
          ...styleAxis(colors, ""),
          stacked: true,
          // The newest has a label.
          ticks: { ...styleAxis(colors).ticks, callback: (_, place) => ((times.length - 1 - place) % step === 0 ? formatDay(times[place]) : null) },
        },
        y: { ...makeValueScale({ domain, scale: COUNT, tickCount: 4 }, { colors, name: unit }), stacked: true },
      },
    },
    plugins: [drawMarks(bars.marks, colors)],
  };
}

function drawMarks(marks, colors) {
  return {
    id: "marks",
    afterDatasetsDraw({ ctx, chartArea, scales }) {
      ctx.save();
      ctx.strokeStyle = colors.fieldLine;
      ctx.fillStyle = colors.ink;
      ctx.textAlign = "center";
      for (const { index, text } of marks) {
        const x = scales.x.getPixelForValue(index);
        ctx.beginPath();
        ctx.moveTo(x, chartArea.top);
        ctx.lineTo(x, chartArea.bottom);
        ctx.stroke();
        ctx.fillText(text, x, chartArea.top - 5);
      }
      ctx.restore();
    },
  };
}

function makeLayer({ name, color, values }, colors) {
  return {
    label: name,
    data: values,
    backgroundColor: colors[color] ?? colors.series[color],
    maxBarThickness: 28,
    categoryPercentage: 1,
    barPercentage: 1,
  };
}
