// Layouts by price and throughput: one mark each, colored by latency, with the Pareto front.
import { readFontSize } from "../charts/shared/colors.js";
import { chooseScale, formatValue, nameUnit } from "../site/format.js";
import { BASE_OPTIONS, makeTooltipLook, makeValueScale } from "../charts/shared/looks.js";
import { drawActiveMark } from "../charts/shared/marks.js";
import { withAlpha } from "../charts/shared/palette.js";
import { lineDomain } from "../charts/shared/value_axis.js";

// From low to high latency; each class has its own shape, as color alone carries no meaning.
const STYLES = [
  { color: "sky", shape: "circle" },
  { color: "blue", shape: "triangle" },
  { color: "purple", shape: "rectRot" },
  { color: "orange", shape: "rect" },
];
const UNKNOWN_STYLE = { color: "gray", shape: "rectRounded" };

/**
 * Prepare the document of web/layouts/figure.py: {metric: {unit, label}, currency, required, limit, points: [{title, price, throughput,
 * latency, verdict, is_met, is_front, n, url}]}. Returns {classes, entries, front, …}: entries in the order of prices.
 */
export function prepareLayouts({ metric, currency, required, limit, points }) {
  const bounds = listBounds(points.map(({ latency }) => latency), limit);
  const classes = [
    ...STYLES.slice(0, bounds.length + 1).map((style, place) => ({ ...style, label: describeClass(bounds, place) })),
    { ...UNKNOWN_STYLE, label: "p99 latency unknown" },
  ];
  const sorted = [...points].sort((a, b) => a.price - b.price || b.throughput - a.throughput);
  const counts = classes.map(() => 0);
  const entries = sorted.map((point) => {
    const place = point.latency === null ? classes.length - 1 : bounds.filter((bound) => point.latency > bound).length;
    const element = { datasetIndex: place, index: counts[place] };
    counts[place] += 1;
    return { ...point, element };
  });
  const values = [...entries.map(({ throughput }) => throughput), required];
  return {
    classes,
    counts,
    entries,
    front: entries.filter((entry) => entry.is_front),
    metric,
    currency,
    required,
    scale: chooseScale(values, metric.unit),
    domain: lineDomain([0, ...values]),
    prices: lineDomain([0, ...entries.map(({ price }) => price)]),
  };
}

/** Describe one layout for the readout and for screen readers. */
export function describeLayout({ metric, currency }, entry) {
  const unit = metric.unit === "operations/s" ? " IOPS" : "";
  return [
    entry.title,
    `${currency} ${entry.price.toFixed(2)} per month`,
    `${formatValue(entry.throughput, metric.unit)}${unit}`,
    entry.latency === null ? "p99 latency unknown" : `p99 latency ${formatValue(entry.latency, "ns")}`,
    entry.verdict,
    entry.n === 1 ? "1 run" : `${entry.n} runs`,
  ].join(" · ");
}

/** Build the configuration of Chart.js. colors: resolved CSS colors. */
export function buildLayouts(layouts, { colors }) {
  const { classes, entries, metric, scale, domain, prices, currency } = layouts;
  const unitName = nameUnit(scale, metric.unit);
  return {
    type: "scatter",
    data: {
      datasets: classes.map(({ color, shape }, place) => {
        const own = entries.filter(({ element }) => element.datasetIndex === place);
        return {
          data: own.map(({ price, throughput }) => ({ x: price, y: throughput })),
          pointStyle: shape,
          pointRadius: 5,
          borderColor: colors.series[color],
          borderWidth: 1.5,
          backgroundColor: own.map(({ is_met: isMet }) => (isMet ? withAlpha(colors.series[color], 0.8) : colors.paper)),
        };
      }),
    },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { top: 8, right: 12 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(layouts, colors) },
      scales: {
        x: { ...makeValueScale({ domain: prices, scale: { divisor: 1, suffix: "" }, isLog: false }, { colors, name: `${currency} per month` }), position: "bottom" },
        y: makeValueScale({ domain, scale, isLog: false }, { colors, name: metric.label === unitName ? metric.label : `${metric.label}, ${unitName}` }),
      },
    },
    plugins: [drawLines(layouts, colors), drawActiveMark(colors)],
  };
}

// The limit is a boundary; without one the quartiles are.
function listBounds(latencies, limit) {
  const known = latencies.filter((value) => value !== null).sort((a, b) => a - b);
  if (known.length === 0) {
    return [];
  }
  if (limit !== null) {
    return [limit / 2, limit, limit * 2];
  }
  const bounds = [0.25, 0.5, 0.75].map((share) => known[Math.floor(share * (known.length - 1))]);
  return [...new Set(bounds)].filter((bound) => bound < known.at(-1));
}

function describeClass(bounds, place) {
  const [from, to] = [bounds[place - 1], bounds[place]].map((bound) => (bound === undefined ? null : formatValue(bound, "ns")));
  if (from === null && to === null) {
    return "p99 latency known";
  }
  return from === null ? `p99 up to ${to}` : to === null ? `p99 above ${from}` : `p99 ${from} to ${to}`;
}

// What is required, and the front: a step, as the next layout delivers more only from its price on.
function drawLines({ required, front }, colors) {
  return {
    id: "layout-lines",
    beforeDatasetsDraw({ ctx, chartArea, scales }) {
      ctx.save();
      ctx.lineWidth = 1;
      if (required !== null) {
        const y = scales.y.getPixelForValue(required);
        ctx.strokeStyle = colors.muted;
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(chartArea.left, y);
        ctx.lineTo(chartArea.right, y);
        ctx.stroke();
        ctx.fillStyle = colors.muted;
        ctx.font = `${readFontSize()}px sans-serif`;
        ctx.textAlign = "right";
        ctx.fillText("required", chartArea.right - 4, y - 4);
      }
      ctx.setLineDash([]);
      ctx.strokeStyle = colors.accent;
      ctx.beginPath();
      front.forEach(({ price, throughput }, index) => {
        const [x, y] = [scales.x.getPixelForValue(price), scales.y.getPixelForValue(throughput)];
        if (index === 0) {
          ctx.moveTo(x, y);
        } else {
          ctx.lineTo(x, scales.y.getPixelForValue(front[index - 1].throughput));
          ctx.lineTo(x, y);
        }
      });
      ctx.stroke();
      ctx.restore();
    },
  };
}

function makeTooltip(layouts, colors) {
  const find = ({ datasetIndex, dataIndex }) => layouts.entries.find(({ element }) => element.datasetIndex === datasetIndex && element.index === dataIndex);
  return {
    ...makeTooltipLook(colors),
    callbacks: {
      title: ([item]) => find(item).title,
      label: (item) => describeLayout(layouts, find(item)).split(" · ").slice(1),
      footer: ([item]) => (find(item).url ? "open history" : ""),
    },
  };
}
