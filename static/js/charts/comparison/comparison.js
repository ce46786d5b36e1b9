// Ratios of B over A with their intervals, a line each, as a configuration of Chart.js.
import { drawActiveMark, shorten } from "../shared/marks.js";
import { makeTooltipLook, styleAxis } from "../shared/looks.js";

const LABELS = [0.1, 0.2, 0.5, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 8, 10, 16, 20, 50, 100, 200, 500, 1000];
const FINE = [0.95, 0.98, 0.99, 1, 1.01, 1.02, 1.05];

/**
 * Prepare lines [{number, name, metric, ratio, low, high (or null), verdict, kind, a, b, url}], the first at the top.
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

/** Say one line in words; for the readout and for screen readers. */
export function describeRatio({ number, name, metric, a, b, ratio, low, high, verdict }) {
  return [`Line ${number}: ${name}`, `${metric} ${a} → ${b}`, sayRatio({ ratio, low, high }), verdict].join(" · ");
}

/** Round ticks of the ratio within a domain: the finer where all is near 1. */
export function ratioTicks({ min, max }) {
  const within = (ticks) => ticks.filter((tick) => tick >= min && tick <= max);
  const coarse = within(LABELS);
  return coarse.length >= 3 ? thinOut(coarse) : within([...new Set([...coarse, ...FINE])].sort((a, b) => a - b));
}

/** Build the configuration of Chart.js. colours: resolved CSS colours. */
export function buildComparison(comparison, { colours, isNarrow = false }) {
  const { entries, domain } = comparison;
  const nameWidth = isNarrow ? 26 : 240;
  return {
    type: "scatter",
    data: { datasets: [{ data: entries.map(({ ratio }, place) => ({ x: ratio, y: place })), pointRadius: 0 }] },
    options: {
      animation: false,
      events: [],
      maintainAspectRatio: false,
      responsive: true,
      layout: { padding: { left: nameWidth, right: isNarrow ? 12 : 132, top: 6 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(entries, colours) },
      scales: { x: makeRatioScale(domain, colours), y: { display: false, min: -0.6, max: entries.length - 0.4, reverse: true } },
    },
    plugins: [drawRatios(entries, { colours, nameWidth, isNarrow }), drawActiveMark(colours)],
  };
}

function sayRatio({ ratio, low, high }) {
  const interval = low === null ? "no interval" : `95 % ${low.toFixed(3)}–${high.toFixed(3)}`;
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

function makeRatioScale(domain, colours) {
  const ticks = ratioTicks(domain);
  return {
    ...styleAxis(colours, "median of B / median of A (log axis)"),
    type: "logarithmic",
    min: domain.min,
    max: domain.max,
    grid: { color: colours.line, tickLength: 4 },
    ticks: { ...styleAxis(colours).ticks, callback: (value) => String(value) },
    afterBuildTicks: (axis) => {
      axis.ticks = ticks.map((value) => ({ value }));
    },
  };
}

function drawRatios(entries, { colours, nameWidth, isNarrow }) {
  return {
    id: "ratios",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      ctx.save();
      ctx.font = `11px ${chart.options.font?.family ?? "sans-serif"}`;
      ctx.textBaseline = "middle";
      drawOne(ctx, { chartArea, x: scales.x.getPixelForValue(1), colours });
      entries.forEach((entry, place) => {
        const y = scales.y.getPixelForValue(place);
        const colour = colourOf(entry, colours);
        drawBar(ctx, { entry, y, colour, scale: scales.x, paper: colours.paper });
        ctx.fillStyle = colours.ink;
        ctx.textAlign = "left";
        const name = isNarrow ? `${entry.number}` : `${entry.number}  ${entry.name}, ${entry.metric}`;
        ctx.fillText(shorten(ctx, name, nameWidth - 10), 4, y);
        if (!isNarrow && entry.kind !== "none") {
          const sign = entry.kind === "worse" ? "▼" : "▲";
          ctx.fillStyle = colour;
          ctx.fillText(`${sign} ${entry.verdict}`, chartArea.right + 8, y);
        }
      });
      ctx.restore();
    },
  };
}

function drawOne(ctx, { chartArea, x, colours }) {
  ctx.strokeStyle = colours.ink;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(x, chartArea.top);
  ctx.lineTo(x, chartArea.bottom);
  ctx.stroke();
}

function drawBar(ctx, { entry, y, colour, scale, paper }) {
  ctx.strokeStyle = colour;
  ctx.fillStyle = entry.kind === "none" ? paper : colour;
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

function colourOf({ kind }, colours) {
  if (kind === "worse") {
    return colours.regression;
  }
  return kind === "better" ? colours.improvement : colours.series.grey;
}

function makeTooltip(entries, colours) {
  return {
    ...makeTooltipLook(colours),
    callbacks: {
      title: ([item]) => `${entries[item.dataIndex].number}  ${entries[item.dataIndex].name}`,
      label: (item) => {
        const entry = entries[item.dataIndex];
        return [`${entry.metric}: ${entry.a} → ${entry.b}`, sayRatio(entry), entry.verdict];
      },
    },
  };
}
