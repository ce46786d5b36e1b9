// Ratios of B over A with their intervals, a line each, as a configuration of Chart.js.
import { drawActiveMark, drawVertical, shorten } from "../shared/marks.js";
import { BASE_OPTIONS, makeTooltipLook, styleAxis } from "../shared/looks.js";

const LABELS = [0.1, 0.2, 0.5, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 8, 10, 16, 20, 50, 100, 200, 500, 1000];
const FINE = [0.95, 0.98, 0.99, 1, 1.01, 1.02, 1.05];

/**
 * Prepare lines [{number, name, metric, ratio, low, high (or null), result, kind, a, b, url}], the first at the top.
 * The axis is a log one, so that half and twice are equally far from 1.
 */
export function prepareComparison(lines) {
  const entries = lines.map((line, index) => ({ ...line, element: { datasetIndex: 0, index } }));
  const values = lines.flatMap(({ ratio, low, high }) => [ratio, low, high].filter((value) => value !== null && value > 0));
  const least = Math.min(1, ...values);
  const most = Math.max(1, ...values);
  const room = Math.max((Math.log(most) - Math.log(least)) * 0.06, 0.005);
  return { entries, domain: { min: least * Math.exp(-room), max: most * Math.exp(room) } };
}

/** Describe one line, for the readout and for screen readers. */
export function describeRatio({ number, name, metric, a, b, ratio, low, high, result }) {
  return [`Line ${number}: ${name}`, `${metric} ${a} → ${b}`, formatRatio({ ratio, low, high }), result].join(" · ");
}

/** Round ticks of the ratio within a domain: the finer where all is near 1. */
export function ratioTicks({ min, max }) {
  const within = (ticks) => ticks.filter((tick) => tick >= min && tick <= max);
  const coarse = within(LABELS);
  return coarse.length >= 3 ? thinOut(coarse) : within([...new Set([...coarse, ...FINE])].sort((a, b) => a - b));
}

/** Build the configuration of Chart.js. colors: resolved CSS colors; width: of the chart, px. */
export function buildComparison(comparison, { colors, width = 0, isNarrow = false }) {
  const { entries, domain } = comparison;
  const nameWidth = isNarrow ? 26 : Math.max(240, Math.round(0.42 * width));
  return {
    type: "scatter",
    data: { datasets: [{ data: entries.map(({ ratio }, place) => ({ x: ratio, y: place })), pointRadius: 0 }] },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { left: nameWidth, right: isNarrow ? 12 : 132, top: 6 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(entries, colors) },
      scales: { x: makeRatioScale(domain, colors), y: { display: false, min: -0.6, max: entries.length - 0.4, reverse: true } },
    },
    plugins: [drawRatios(entries, { colors, nameWidth, isNarrow }), drawActiveMark(colors)],
  };
}

function formatRatio({ ratio, low, high }) {
  const interval = low === null ? "no interval" : `95 % CI ${low.toFixed(3)}–${high.toFixed(3)}`;
  return `B / A ${ratio.toFixed(3)}, ${interval}`;
}

// Labels too near to each other on a log axis cover each other.
function thinOut(ticks) {
  const kept = [];
  for (const tick of ticks) {
    const last = kept.at(-1);
    if (last === undefined || Math.log(tick / last) > Math.log(ticks.at(-1) / ticks[0]) / 9) {
      kept.push(tick);
    } else if (tick === 1) {
      kept[kept.length - 1] = 1;
    }
  }
  return kept;
}

function makeRatioScale(domain, colors) {
  const ticks = ratioTicks(domain);
  return {
    ...styleAxis(colors, "median of B / median of A (log axis)"),
    type: "logarithmic",
    min: domain.min,
    max: domain.max,
    grid: { color: colors.line, tickLength: 4 },
    ticks: { ...styleAxis(colors).ticks, callback: (value) => String(value) },
    afterBuildTicks: (axis) => {
      axis.ticks = ticks.map((value) => ({ value }));
    },
  };
}

function drawRatios(entries, { colors, nameWidth, isNarrow }) {
  return {
    id: "ratios",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      ctx.save();
      ctx.font = `11px ${chart.options.font?.family ?? "sans-serif"}`;
      ctx.textBaseline = "middle";
      drawOne(ctx, { chartArea, x: scales.x.getPixelForValue(1), colors });
      entries.forEach((entry, place) => {
        const y = scales.y.getPixelForValue(place);
        const color = colorOf(entry, colors);
        drawBar(ctx, { entry, y, color, scale: scales.x, paper: colors.paper });
        ctx.fillStyle = colors.ink;
        ctx.textAlign = "left";
        const name = isNarrow ? `${entry.number}` : `${entry.number}  ${entry.name}, ${entry.metric}`;
        ctx.fillText(shorten(ctx, name, nameWidth - 10), 4, y);
        if (!isNarrow && entry.kind !== "none") {
          const sign = entry.kind === "worse" ? "▼" : "▲";
          ctx.fillStyle = color;
          ctx.fillText(`${sign} ${entry.result}`, chartArea.right + 8, y);
        }
      });
      ctx.restore();
    },
  };
}

function drawOne(ctx, { chartArea, x, colors }) {
  ctx.strokeStyle = colors.ink;
  ctx.lineWidth = 1;
  drawVertical(ctx, x, chartArea);
}

function drawBar(ctx, { entry, y, color, scale, paper }) {
  ctx.strokeStyle = color;
  ctx.fillStyle = entry.kind === "none" ? paper : color;
  if (entry.low !== null && entry.low > 0) {
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(scale.getPixelForValue(entry.low), y);
    ctx.lineTo(scale.getPixelForValue(entry.high), y);
    ctx.stroke();
  }
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.arc(scale.getPixelForValue(entry.ratio), y, 4, 0, 2 * Math.PI);
  ctx.fill();
  ctx.stroke();
}

function colorOf({ kind }, colors) {
  if (kind === "worse") {
    return colors.regression;
  }
  return kind === "better" ? colors.improvement : colors.series.gray;
}

function makeTooltip(entries, colors) {
  return {
    ...makeTooltipLook(colors),
    callbacks: {
      title: ([item]) => `${entries[item.dataIndex].number}  ${entries[item.dataIndex].name}`,
      label: (item) => {
        const entry = entries[item.dataIndex];
        return [`${entry.metric}: ${entry.a} → ${entry.b}`, formatRatio(entry), entry.result];
      },
    },
  };
}
