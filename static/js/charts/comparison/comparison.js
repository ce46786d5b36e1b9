// B compared with the baseline A: a line for each value with its interval, by metric.
import { readFontSize } from "../shared/colors.js";
import { drawActiveMark, drawVertical, shorten } from "../shared/marks.js";
import { formatSignedPercent } from "../../site/format.js";
import { BASE_OPTIONS, makeTooltipLook, styleAxis } from "../shared/looks.js";

const LABELS = [0.1, 0.2, 0.5, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 8, 10, 16, 20, 50, 100, 200, 500, 1000];
// Of the baseline in the title of the axis.
const NAME_MAXIMUM = 48;
// Of a narrow chart, for names.
const NARROW_NAMES_SHARE = 0.42;
// Of 11 px type, on average.
const CHARACTER_WIDTH = 6.2;
const FINE = [0.95, 0.98, 0.99, 1, 1.01, 1.02, 1.05];

/**
 * Prepare lines [{number, name, metric, better, place, at, from, to (or null), ratio, interval, result, kind, a, b, url}], the
 * first at the top, with a heading above the lines of each metric. at, from, to: B / A with its interval. The axis is a log
 * one, so that half and twice are equally far from 1.
 */
export function prepareComparison(lines) {
  const headings = [];
  const entries = lines.map((line, index) => {
    if (line.metric !== lines[index - 1]?.metric) {
      headings.push({ text: `${line.metric}, ${line.better} is better`, row: index + headings.length });
    }
    return { ...line, row: index + headings.length, element: { datasetIndex: 0, index } };
  });
  const values = entries.flatMap(({ at, from, to }) => [at, from, to].filter((value) => value !== null && value > 0));
  const least = Math.min(1, ...values);
  const most = Math.max(1, ...values);
  const room = Math.max((Math.log(most) - Math.log(least)) * 0.06, 0.005);
  return { entries, headings, domain: { min: least * Math.exp(-room), max: most * Math.exp(room) } };
}

/** Describe one line, for the readout and for screen readers. */
export function describeRatio(line) {
  const { number, name, metric, place, a, b, result } = line;
  return [`Line ${number}: ${name}`, `${metric} ${a} → ${b}`, place, formatRatio(line), result].join(" · ");
}

/** Round ticks of the ratio within a domain: the finer where all is near 1. */
export function ratioTicks({ min, max }) {
  const within = (ticks) => ticks.filter((tick) => tick >= min && tick <= max);
  const coarse = within(LABELS);
  return thinOut(coarse.length >= 3 ? coarse : within([...new Set([...coarse, ...FINE])].sort((a, b) => a - b)));
}

/** Build the configuration of Chart.js. colors: resolved CSS colors; width: of the chart, px; baseline: name of A. */
export function buildComparison(comparison, { colors, baseline = "A", width = 0, isNarrow = false }) {
  const { entries, headings, domain } = comparison;
  const nameWidth = isNarrow ? measureNames(entries, NARROW_NAMES_SHARE * width) : Math.max(240, Math.round(0.42 * width));
  return {
    type: "scatter",
    data: { datasets: [{ data: entries.map(({ at, row }) => ({ x: at, y: row })), pointRadius: 0 }] },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { left: nameWidth, right: isNarrow ? 12 : 132, top: 6 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(entries, colors) },
      scales: { x: makeFactorScale(domain, { colors, baseline, isNarrow }), y: { display: false, min: -0.6, max: entries.length + headings.length - 0.4, reverse: true } },
    },
    plugins: [drawRatios(comparison, { colors, nameWidth, isNarrow }), drawActiveMark(colors)],
  };
}

function measureNames(entries, maximum) {
  const longest = entries.reduce((most, { number, name }) => Math.max(most, `${number}  ${name}`.length), 0);
  return Math.round(Math.min(maximum, longest * CHARACTER_WIDTH + 14));
}

function formatRatio({ ratio, interval }) {
  return `B / A ${ratio}, ${interval === "–" ? "no interval" : `95 % CI ${interval}`}`;
}

// Labels too near to each other on a log axis cover each other.
function thinOut(ticks) {
  const kept = [];
  for (const tick of ticks) {
    const last = kept.at(-1);
    if (last === undefined || Math.log(tick / last) > Math.log(ticks.at(-1) / ticks[0]) / 6) {
      kept.push(tick);
    } else if (tick === 1) {
      kept[kept.length - 1] = 1;
    }
  }
  return kept;
}

function makeFactorScale(domain, { colors, baseline, isNarrow }) {
  const ticks = ratioTicks(domain);
  const name = baseline.length > NAME_MAXIMUM ? `${baseline.slice(0, NAME_MAXIMUM - 1)}…` : baseline;
  return {
    ...styleAxis(colors, isNarrow ? "B / A, log axis" : `B / A, log axis; A: ${name}`),
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

function drawRatios({ entries, headings }, { colors, nameWidth, isNarrow }) {
  return {
    id: "ratios",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      ctx.save();
      const font = `${readFontSize()}px ${chart.options.font?.family ?? "sans-serif"}`;
      ctx.font = font;
      ctx.textBaseline = "middle";
      drawOne(ctx, { chartArea, x: scales.x.getPixelForValue(1), colors });
      ctx.textAlign = "left";
      ctx.fillStyle = colors.ink;
      ctx.font = `600 ${font}`;
      headings.forEach(({ text, row }) => ctx.fillText(text, 4, scales.y.getPixelForValue(row)));
      ctx.font = font;
      entries.forEach((entry) => {
        const y = scales.y.getPixelForValue(entry.row);
        const color = colorOf(entry, colors);
        drawBar(ctx, { entry, y, color, scale: scales.x, paper: colors.paper });
        ctx.fillStyle = colors.ink;
        ctx.fillText(shorten(ctx, `${entry.number}  ${entry.name}`, nameWidth - 10), 4, y);
        if (!isNarrow && entry.kind !== "none") {
          ctx.fillStyle = color;
          ctx.fillText(`${formatSignedPercent(entry.at - 1)} ${entry.kind}`, chartArea.right + 8, y);
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
  if (entry.from !== null && entry.from > 0) {
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(scale.getPixelForValue(entry.from), y);
    ctx.lineTo(scale.getPixelForValue(entry.to), y);
    ctx.stroke();
  }
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.arc(scale.getPixelForValue(entry.at), y, 4, 0, 2 * Math.PI);
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
        return [`${entry.metric}: ${entry.a} → ${entry.b} (${entry.place})`, formatRatio(entry), entry.result];
      },
    },
  };
}
