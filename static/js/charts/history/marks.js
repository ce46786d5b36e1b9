// Marks of a history panel: bands and steps of levels, points, min–max bars, cursor.
import { readFontSize } from "../shared/colors.js";
import { formatChangeSize } from "../../site/format.js";
import { areSameKind, listSwitches, signOf, styleOfMark } from "./history.js";
import { drawHollowCross, drawVertical } from "../shared/marks.js";
import { withAlpha } from "../shared/palette.js";
import { drawPlanned } from "./planned.js";

// Of the bar that marks an increase of the standard deviation, in px.
const SPREAD_HEIGHT = 7;

/** A plugin of Chart.js that draws all marks of a panel; see buildPanel for getState. */
export function drawMarks(panel, { colors, isCrowded, hasNames, changes, planned, getState }) {
  return {
    id: "historyMarks",
    beforeDatasetsDraw({ ctx, chartArea, scales }) {
      clipTo(ctx, chartArea);
      drawPlanned(ctx, planned, { chartArea, scales, colors });
      drawChanges(ctx, changes, { chartArea, scales, color: colors.fieldLine });
      for (const line of panel.lines) {
        // Bands of more lines would overlap.
        if (panel.lines.length <= 3) {
          drawBands(ctx, line, { panel, scales, color: colors.series[line.style.color] });
        }
      }
      ctx.restore();
    },
    afterDatasetsDraw({ ctx, chartArea, scales }) {
      clipTo(ctx, chartArea);
      const steps = () => panel.lines.forEach((line) => drawSteps(ctx, line, { panel, scales, colors, hasNames }));
      // Few points are drawn above the steps, many below them.
      if (!isCrowded) {
        steps();
      }
      for (const mark of panel.marks) {
        drawMark(ctx, mark, { panel, scales, colors, isCrowded });
      }
      if (isCrowded) {
        steps();
      }
      ctx.restore();
      clipTo(ctx, chartArea);
      panel.lines.forEach((line) => drawSmallSteps(ctx, line, { panel, scales, colors }));
      panel.lines.forEach((line) => drawSpreadIncreases(ctx, line, { panel, chartArea, scales, colors }));
      ctx.restore();
      drawFound(ctx, panel, { chartArea, scales, colors });
      drawCursor(ctx, getState().mark, { panel, chartArea, scales, colors });
    },
  };
}

// The path of a mark of a shape around (x, y), as Chart.js names shapes; open shapes are strokes alone.
function tracePoint(ctx, { shape, x, y, radius }) {
  ctx.beginPath();
  const r = radius;
  if (shape === "triangle") {
    polygon(ctx, [[x, y - r * 1.15], [x + r, y + r * 0.8], [x - r, y + r * 0.8]]);
  } else if (shape === "rect") {
    ctx.rect(x - r * 0.85, y - r * 0.85, r * 1.7, r * 1.7);
  } else if (shape === "rectRot") {
    polygon(ctx, [[x, y - r * 1.2], [x + r * 1.2, y], [x, y + r * 1.2], [x - r * 1.2, y]]);
  } else if (shape === "rectRounded") {
    polygon(ctx, [[x - r, y - r * 0.5], [x - r * 0.5, y - r], [x + r * 0.5, y - r], [x + r, y - r * 0.5], [x + r, y + r * 0.5], [x + r * 0.5, y + r], [x - r * 0.5, y + r], [x - r, y + r * 0.5]]);
  } else if (shape === "star") {
    polygon(ctx, [[x, y - r * 1.3], [x + r * 0.4, y - r * 0.4], [x + r * 1.3, y], [x + r * 0.4, y + r * 0.4], [x, y + r * 1.3], [x - r * 0.4, y + r * 0.4], [x - r * 1.3, y], [x - r * 0.4, y - r * 0.4]]);
  } else if (shape === "cross") {
    polygon(ctx, [[x - r * 0.35, y - r], [x + r * 0.35, y - r], [x + r * 0.35, y + r], [x - r * 0.35, y + r]]);
  } else if (shape === "crossRot") {
    polygon(ctx, [[x - r, y - r * 0.35], [x + r, y - r * 0.35], [x + r, y + r * 0.35], [x - r, y + r * 0.35]]);
  } else {
    ctx.arc(x, y, r, 0, 2 * Math.PI);
  }
}

function drawMark(ctx, mark, { panel, scales, colors, isCrowded }) {
  const { value, low, high } = mark.values[panel.metric];
  const x = scales.x.getPixelForValue(mark.at);
  const color = colors.series[styleOfMark(mark).color];
  if (mark.kind === "failed") {
    drawHollowCross(ctx, { x, y: scales.y.getPixelForValue(clampValue(value, panel.domain)), colors });
    return;
  }
  if (value === null) {
    return;
  }
  const y = scales.y.getPixelForValue(value);
  if (mark.kind === "bucket") {
    drawBar(ctx, mark, { x, y, low: scales.y.getPixelForValue(low), high: scales.y.getPixelForValue(high), color, scales });
    if (mark.failed > 0) {
      drawHollowCross(ctx, { x, y: scales.y.getPixelForValue(panel.domain.min), colors });
    }
    return;
  }
  const isHollow = mark.kind !== "good";
  tracePoint(ctx, { shape: styleOfMark(mark).shape, x, y, radius: isCrowded ? 2 : 3 });
  if (isHollow) {
    ctx.fillStyle = colors.paper;
    ctx.fill();
    ctx.strokeStyle = mark.kind === "excluded" ? colors.muted : color;
    ctx.lineWidth = 1.25;
    ctx.stroke();
    if (mark.kind === "excluded") {
      strike(ctx, x, y);
    }
  } else {
    ctx.fillStyle = withAlpha(color, isCrowded ? 0.45 : 0.75);
    ctx.fill();
  }
}

// From min to max of a bucket, with a tick at its median; as wide as its time range, at least 2 px.
function drawBar(ctx, mark, { x, y, low, high, color, scales }) {
  const wide = scales.x.getPixelForValue(mark.to) - scales.x.getPixelForValue(mark.from);
  const width = Math.min(14, Math.max(2, wide * 0.8));
  ctx.fillStyle = withAlpha(color, 0.5);
  ctx.fillRect(x - width / 2, high - 0.5, width, Math.max(1, low - high + 1));
  ctx.fillStyle = color;
  ctx.fillRect(x - width / 2, y - 0.75, width, 1.5);
}

function drawBands(ctx, { levels }, { panel, scales, color }) {
  ctx.fillStyle = withAlpha(color, 0.14);
  for (const [level, end] of listSpans(levels[panel.metric] ?? [])) {
    if (level.n > 2) {
      const [left, right] = placeSpan(level.from, end, scales.x);
      const top = scales.y.getPixelForValue(level.high);
      ctx.fillRect(left, top, Math.max(0, right - left), Math.max(1, scales.y.getPixelForValue(level.low) - top));
    }
  }
}

function drawSteps(ctx, { levels, style }, { panel, scales, colors, hasNames }) {
  const color = colors.series[style.color];
  const { min, max } = scales.x;
  const spans = listSpans(levels[panel.metric] ?? []).filter(([level, end]) => end >= min && level.from <= max);
  if (spans.length === 0) {
    return;
  }
  ctx.beginPath();
  spans.forEach(([level, end], place) => {
    const [left, right] = placeSpan(level.from, end, scales.x);
    const y = scales.y.getPixelForValue(level.median);
    // The riser is at the start of the new level; none leads from one kind of latency to the other.
    ctx[place === 0 || !areSameKind(level, spans[place - 1][0]) ? "moveTo" : "lineTo"](left, y);
    ctx.lineTo(Math.max(left + 2, right), y);
  });
  ctx.lineJoin = "miter";
  // The halo separates the line from points of the same color.
  for (const [width, colorOfPass, dash] of [
    [4, withAlpha(colors.paper, 0.7), []],
    [2, color, hasNames ? style.dash : []],
  ]) {
    ctx.setLineDash(dash);
    ctx.lineWidth = width;
    ctx.strokeStyle = colorOfPass;
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

// Thin and dotted, in the color of text: no level begins where a step is below the threshold.
function drawSmallSteps(ctx, { smallSteps }, { panel, scales, colors }) {
  const { min, max } = scales.x;
  ctx.strokeStyle = colors.ink;
  ctx.lineWidth = 1;
  ctx.setLineDash([2, 2]);
  for (const { from, at, to, before, after } of smallSteps.filter(({ metric, from, to }) => metric === panel.metric && to >= min && from <= max)) {
    const [left, middle] = placeSpan(from, at, scales.x);
    const [, right] = placeSpan(at, to, scales.x);
    const [high, low] = [before, after].map((value) => scales.y.getPixelForValue(value));
    ctx.beginPath();
    ctx.moveTo(left, high);
    ctx.lineTo(middle, high);
    ctx.lineTo(middle, low);
    ctx.lineTo(right, low);
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

// A bar of diagonals at the bottom, from the first run with the larger standard deviation to the newest one.
function drawSpreadIncreases(ctx, { spreadIncreases, style, last_at: lastAt }, { panel, chartArea, scales, colors }) {
  const end = Date.parse(lastAt);
  for (const { from } of spreadIncreases.filter(({ metric, from }) => metric === panel.metric && end >= scales.x.min && from <= scales.x.max)) {
    const [left, right] = placeSpan(from, end, scales.x);
    const bottom = chartArea.bottom;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, bottom - SPREAD_HEIGHT, Math.max(2, right - left), SPREAD_HEIGHT);
    ctx.fillStyle = colors.paper;
    ctx.fill();
    ctx.clip();
    ctx.strokeStyle = colors.series[style.color];
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    for (let x = left - SPREAD_HEIGHT; x < right; x += 6) {
      ctx.moveTo(x, bottom);
      ctx.lineTo(x + SPREAD_HEIGHT, bottom - SPREAD_HEIGHT);
    }
    ctx.moveTo(left, bottom - SPREAD_HEIGHT + 0.5);
    ctx.lineTo(right, bottom - SPREAD_HEIGHT + 0.5);
    ctx.stroke();
    ctx.restore();
  }
}

// Clip a level to the view.
function placeSpan(from, to, axis) {
  return [from, to].map((at) => axis.getPixelForValue(Math.min(Math.max(at, axis.min), axis.max)));
}

/** Pair each level with its end on the chart: the start of the next one, unless that is of another kind of latency. */
export function listSpans(levels) {
  return levels.map((level, place) => {
    const next = levels[place + 1];
    return [level, next !== undefined && areSameKind(level, next) ? next.from : level.to];
  });
}

// A vertical line at each detected change, labeled with direction and size; dashed if suspected. One at each switch of
// the kind of latency, labeled with the kind that begins.
function drawFound(ctx, { lines, metric }, { chartArea, scales, colors }) {
  const { min, max } = scales.x;
  const changes = lines.flatMap((line) => line.found).filter((change) => change.metric === metric);
  const found = [...changes, ...listSwitches(lines, metric)].filter(({ at }) => at >= min && at <= max);
  ctx.save();
  ctx.font = `600 ${readFontSize()}px ${ctx.font.split("px ")[1] ?? "sans-serif"}`;
  ctx.textBaseline = "top";
  ctx.lineJoin = "round";
  let free = -Infinity;
  for (const { at, text: kind = null, relative, is_regression: isRegression, state, recovers_from: ended = null } of found.sort((a, b) => a.at - b.at)) {
    const x = Math.round(scales.x.getPixelForValue(at)) + 0.5;
    ctx.strokeStyle = kind !== null ? colors.muted : isRegression ? colors.regression : colors.improvement;
    ctx.lineWidth = 1.5;
    ctx.setLineDash(state === "suspected" ? [3, 3] : []);
    drawVertical(ctx, x, chartArea);
    const text = kind ?? (ended === null ? `${signOf(relative)} ${formatChangeSize(relative)}` : "recovered");
    const { width } = ctx.measureText(text);
    const left = x + width + 6 > chartArea.right ? x - width - 4 : x + 4;
    // Overlapping labels are only in the tooltip.
    if (left > free) {
      ctx.setLineDash([]);
      ctx.lineWidth = 4;
      ctx.fillStyle = ctx.strokeStyle;
      ctx.strokeStyle = colors.paper;
      ctx.strokeText(text, left, chartArea.top + 1);
      ctx.fillText(text, left, chartArea.top + 1);
      free = left + width;
    }
  }
  ctx.restore();
}

function drawChanges(ctx, changes, { chartArea, scales, color }) {
  ctx.strokeStyle = color;
  ctx.lineWidth = 1;
  ctx.setLineDash([2, 3]);
  for (const { at } of changes) {
    const x = Math.round(scales.x.getPixelForValue(at)) + 0.5;
    drawVertical(ctx, x, chartArea);
  }
  ctx.setLineDash([]);
}

function drawCursor(ctx, mark, { panel, chartArea, scales, colors }) {
  if (mark === null) {
    return;
  }
  const x = scales.x.getPixelForValue(mark.at);
  const { value } = mark.values[panel.metric];
  ctx.save();
  ctx.strokeStyle = colors.fieldLine;
  ctx.lineWidth = 1;
  drawVertical(ctx, x, chartArea);
  if (value !== null) {
    ctx.strokeStyle = colors.ink;
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.arc(x, scales.y.getPixelForValue(clampValue(value, panel.domain)), 6, 0, 2 * Math.PI);
    ctx.stroke();
  }
  ctx.restore();
}

// Excluded: struck through.
function strike(ctx, x, y) {
  ctx.beginPath();
  ctx.moveTo(x - 5, y + 5);
  ctx.lineTo(x + 5, y - 5);
  ctx.stroke();
}

function clampValue(value, { min, max }) {
  return value === null ? min : Math.min(Math.max(value, min), max);
}

function polygon(ctx, places) {
  places.forEach(([x, y], index) => ctx[index === 0 ? "moveTo" : "lineTo"](x, y));
  ctx.closePath();
}

function clipTo(ctx, { left, top, width, height }) {
  ctx.save();
  ctx.beginPath();
  // Do not cut off marks at the edges.
  ctx.rect(left - 5, top - 5, width + 10, height + 10);
  ctx.clip();
}
