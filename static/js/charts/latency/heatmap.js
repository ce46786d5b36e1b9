// Latency histogram over time: darker cells have more I/Os (lighter cells in the dark theme).
import { chooseScale, formatTick, formatValue } from "../../site/format.js";
import { findSpan, makeTimes } from "./fan.js";
import { BASE_OPTIONS, styleAxis } from "../shared/looks.js";
import { logTicks } from "../shared/value_axis.js";
import { formatMoment } from "../shared/zones.js";

const AXIS_WIDTH = 68;
// One hue with monotonic lightness: safe for color-blind readers and in grayscale.
const ON_LIGHT = [[226, 236, 246], [178, 208, 232], [107, 164, 210], [40, 112, 177], [8, 69, 135], [8, 29, 88]];
const ON_DARK = [[30, 44, 60], [22, 74, 116], [26, 112, 166], [86, 170, 224], [176, 218, 244], [250, 250, 246]];
/** Shares below this have the same color. */
export const MINIMUM_SHARE = 1e-5;
// Buckets per factor of two.
const PER_DOUBLING = 4;
const LEAST_WIDTH_PX = 3;

/** Prepare an answer of /api/v1/series/{id}/histogram. */
export function prepareHeat({ first_bucket: first, columns }, { view }) {
  const cells = columns.map((column) => {
    const [from, to] = [Date.parse(column.from_at), Date.parse(column.to_at)];
    const total = column.counts.reduce((sum, count) => sum + count, 0);
    return { at: (from + to) / 2, from, to, runs: column.runs, runId: column.last_run, counts: column.counts, total };
  });
  const height = cells[0]?.counts.length ?? 0;
  const domain = { min: edgeOf(first), max: edgeOf(first + height) };
  return { first, height, columns: cells, domain, scale: chooseScale([domain.min, domain.max], "ns"), view: view ?? findSpan(cells) };
}

/** Return the start of a bucket, ns. */
export function edgeOf(bucket) {
  return 2 ** (bucket / PER_DOUBLING);
}

/** Return the color of a share of I/Os, null for 0. isDark: lighter is more. */
export function colorOf(share, isDark) {
  if (!(share > 0)) {
    return null;
  }
  const stops = isDark ? ON_DARK : ON_LIGHT;
  const place = (1 - Math.log10(Math.max(share, MINIMUM_SHARE)) / Math.log10(MINIMUM_SHARE)) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  const mixed = stops[below].map((part, index) => Math.round(part + (place - below) * (stops[below + 1][index] - part)));
  return `rgb(${mixed.join(", ")})`;
}

/** Return whether a background color is dark. */
export function isDarkPaper(paper) {
  const parts = paper.match(/\d+/g)?.map(Number) ?? [255];
  return parts.slice(0, 3).reduce((sum, part) => sum + part, 0) < 384;
}

/** Describe a cell {column, row} in one line. */
export function describeCell(heat, { column, row }, zone) {
  const { from, to, runs, counts, total } = heat.columns[column];
  const when = from === to ? formatMoment(from, zone) : `${formatMoment(from, zone)} to ${formatMoment(to, zone)}, ${runs} runs`;
  const [low, high] = [edgeOf(heat.first + row), edgeOf(heat.first + row + 1)];
  const share = formatShare(counts[row] / total);
  const within = formatShare(counts.slice(0, row + 1).reduce((sum, count) => sum + count, 0) / total);
  return `${when} · ${formatValue(low, "ns")} to ${formatValue(high, "ns")} · ${formatValue(counts[row], "operations/s")} I/Os, ${share} · ${within} at or below`;
}

/** Format a share in per cent with three significant digits: "20.6 %", "0.0012 %". */
export function formatShare(share) {
  const percent = share * 100;
  return percent === 0 ? "0 %" : `${percent >= 99.995 && percent < 100 ? "> 99.99" : Number(percent.toPrecision(percent >= 99 ? 4 : 3))} %`;
}

/** Return the cell at a pixel; the column nearest in time. */
export function findCell(heat, { x, y, scales }) {
  if (heat.columns.length === 0) {
    return null;
  }
  let column = 0;
  heat.columns.forEach(({ at }, place) => {
    if (Math.abs(scales.x.getPixelForValue(at) - x) < Math.abs(scales.x.getPixelForValue(heat.columns[column].at) - x)) {
      column = place;
    }
  });
  const bucket = Math.floor(Math.log2(scales.y.getValueForPixel(y)) * PER_DOUBLING);
  return { column, row: Math.min(heat.height - 1, Math.max(0, bucket - heat.first)) };
}

/** Return the cell selected by a key, null for other keys. */
export function moveCell(heat, { column, row }, key) {
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], PageUp: [0, 8], PageDown: [0, -8] }[key] ?? [0, 0];
  const to = { Home: 0, End: heat.columns.length - 1 }[key] ?? column + dx;
  if (dx === 0 && dy === 0 && to === column) {
    return ["Home", "End"].includes(key) ? { column, row } : null;
  }
  return { column: Math.min(heat.columns.length - 1, Math.max(0, to)), row: Math.min(heat.height - 1, Math.max(0, row + dy)) };
}

/** Build the configuration of Chart.js. look: {isNarrow, zone}. getState: () → the selected cell, or null. */
export function buildHeat(heat, { colors, look, getState }) {
  const ticks = logTicks(heat.domain.min, heat.domain.max, heat.scale);
  return {
    type: "line",
    data: { datasets: [] },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { top: 8, right: 56 } },
      plugins: { legend: { display: false }, tooltip: { enabled: false } },
      scales: {
        x: makeTimes(heat.view, { colors, ...look }),
        y: {
          ...styleAxis(colors, `latency, ${heat.scale.suffix} (log axis)`),
          type: "logarithmic",
          min: heat.domain.min,
          max: heat.domain.max,
          ticks: { ...styleAxis(colors).ticks, callback: (value) => formatTick(value, heat.scale) },
          afterBuildTicks: (axis) => {
            axis.ticks = ticks.map((value) => ({ value }));
          },
          afterFit: (axis) => {
            axis.width = AXIS_WIDTH;
          },
        },
      },
    },
    plugins: [drawHeat(heat, { colors, getState })],
  };
}

function drawHeat(heat, { colors, getState }) {
  const isDark = isDarkPaper(colors.paper);
  return {
    id: "heat",
    afterDatasetsDraw({ ctx, chartArea, scales }) {
      const edges = Array.from({ length: heat.height + 1 }, (_, row) => scales.y.getPixelForValue(edgeOf(heat.first + row)));
      const spans = measureColumns(heat.columns, { scales, chartArea });
      ctx.save();
      ctx.beginPath();
      ctx.rect(chartArea.left, chartArea.top, chartArea.width, chartArea.height);
      ctx.clip();
      heat.columns.forEach(({ counts, total }, place) => {
        const [left, right] = spans[place];
        counts.forEach((count, row) => {
          if (count > 0) {
            ctx.fillStyle = colorOf(count / total, isDark);
            ctx.fillRect(left, edges[row + 1], right - left, edges[row] - edges[row + 1] + 0.5);
          }
        });
      });
      const cell = getState();
      if (cell !== null) {
        const [left, right] = spans[cell.column];
        const box = [left, edges[cell.row + 1], Math.max(4, right - left), edges[cell.row] - edges[cell.row + 1]];
        for (const [width, style] of [[4, colors.paper], [2, colors.ink]]) {
          ctx.lineWidth = width;
          ctx.strokeStyle = style;
          ctx.strokeRect(...box);
        }
      }
      ctx.restore();
    },
  };
}

/** Return [left, right] in pixels of each column: half way to its neighbors, but no wider than twice the usual. */
export function measureColumns(columns, { scales, chartArea }) {
  const centers = columns.map(({ at }) => scales.x.getPixelForValue(at));
  const gaps = centers.slice(1).map((center, place) => center - centers[place]).sort((a, b) => a - b);
  const usual = gaps[Math.floor(gaps.length / 2)] ?? chartArea.width / 20;
  const most = Math.max(LEAST_WIDTH_PX, usual);
  return centers.map((center, place) => {
    const before = Math.min(most, center - (centers[place - 1] ?? -Infinity)) / 2;
    const after = Math.min(most, (centers[place + 1] ?? Infinity) - center) / 2;
    const wide = Math.max(before, LEAST_WIDTH_PX / 2);
    // Whole pixels: else a hairline of paper would stand between neighbors.
    return [Math.round(center - wide), Math.round(center + Math.max(after, LEAST_WIDTH_PX / 2))];
  });
}
