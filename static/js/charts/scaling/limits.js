// Limits across a scaling chart: steps or lines, each with its name where it covers the least.
import { readFontSize } from "../shared/colors.js";
import { shorten } from "../shared/marks.js";

const LABEL_HEIGHT = 13;
const APART = 2;
const LINE_WIDTH = 1.25;
// A line between two marks is avoided as a row of boxes of this size.
const TRACE_STEP = 6;
// A name may be lifted this many lines above its limit, with a leader line; each line costs this many covered pixels.
const LIFTS = [0, 1, 2, 3, 4, 5];
const LIFT_COSTS = 60;

/**
 * Draw limits. limits: [{name, values, isGiven, isTarget}]; targets are solid lines; values by x, null where not known; data: {isBars};
 * format: value → text. A limit above the axis is an arrow with its value; one entirely above it is named there.
 */
export function drawLimits(limits, { isBars }, { colors, format }) {
  return {
    id: "limits",
    afterDatasetsDraw(chart) {
      const { ctx } = chart;
      const lines = limits.map((limit) => splitSteps(chart, limit, isBars));
      ctx.save();
      ctx.font = `${readFontSize()}px ${chart.options.font?.family ?? "sans-serif"}`;
      ctx.strokeStyle = colors.ink;
      lines.forEach((line) => strokeSteps(ctx, line));
      const taken = [...listObstacles(chart, isBars), ...lines.flatMap(({ shown }) => shown.map(boxOfStep))];
      for (const line of lines) {
        const label = placeName(chart, line, { taken, format });
        if (label !== null) {
          taken.push(label, label);
          writeName(ctx, label, colors);
        }
      }
      for (const { beyond } of lines.filter(({ shown }) => shown.length > 0)) {
        beyond.forEach((step) => writeName(ctx, placeValue(ctx, step, format), colors));
      }
      ctx.restore();
    },
  };
}

/** Return the first of the boxes {left, top, width, height, cost?} that covers least of others, in pixels; null of none. */
export function choosePlace(boxes, others) {
  let best = null;
  let least = Infinity;
  for (const box of boxes) {
    const covered = others.reduce((sum, other) => sum + measureOverlap(box, other), box.cost ?? 0);
    if (covered < least) {
      best = box;
      least = covered;
    }
  }
  return best;
}

function measureOverlap(one, other) {
  const width = Math.min(one.left + one.width, other.left + other.width) - Math.max(one.left, other.left);
  const height = Math.min(one.top + one.height, other.top + other.height) - Math.max(one.top, other.top);
  return width > 0 && height > 0 ? width * height : 0;
}

function splitSteps(chart, limit, isBars) {
  const { scales, chartArea } = chart;
  const room = chartArea.width / limit.values.length / 2.3;
  const half = isBars ? room : Math.min(24, room);
  const shown = [];
  const beyond = [];
  limit.values.forEach((value, place) => {
    const middle = findMiddle(chart, place);
    if (value === null || middle === null) {
      return;
    }
    const step = { value, from: middle - half, to: middle + half, y: scales.y.getPixelForValue(value) };
    if (step.y < chartArea.top) {
      beyond.push({ ...step, y: chartArea.top });
    } else if (step.y <= chartArea.bottom) {
      shown.push(step);
    }
  });
  return { ...limit, shown, beyond };
}

function findMiddle(chart, place) {
  const places = chart.data.datasets.map((_, index) => chart.getDatasetMeta(index).data[place]?.x);
  const known = places.filter((x) => Number.isFinite(x));
  return known.length === 0 ? null : known.reduce((a, b) => a + b, 0) / known.length;
}

function strokeSteps(ctx, { shown, beyond, isGiven, isTarget }) {
  ctx.lineWidth = LINE_WIDTH;
  ctx.setLineDash(isTarget ? [] : isGiven ? [7, 3] : [2, 2]);
  ctx.beginPath();
  shown.forEach(({ from, to, y }) => {
    ctx.moveTo(from, y);
    ctx.lineTo(to, y);
  });
  ctx.stroke();
  ctx.setLineDash([]);
  // The limit continues above the chart: an arrow.
  for (const { from, to, y } of shown.length > 0 ? beyond : []) {
    const middle = (from + to) / 2;
    ctx.beginPath();
    ctx.moveTo(middle - 4, y + 5);
    ctx.lineTo(middle, y + 1);
    ctx.lineTo(middle + 4, y + 5);
    ctx.stroke();
  }
}

// Above or below the drawn steps; a limit entirely off the scale is named at the upper edge with its value.
function placeName({ ctx, chartArea }, { name, shown, beyond }, { taken, format }) {
  if (shown.length === 0 && beyond.length === 0) {
    return null;
  }
  const isOutside = shown.length === 0;
  const least = beyond.reduce((low, { value }) => Math.min(low, value), Infinity);
  const text = shorten(ctx, isOutside ? `↑ ${name}: ${format(least)}` : name, chartArea.width - 8);
  const size = { width: ctx.measureText(text).width, height: LABEL_HEIGHT };
  const boxes = (isOutside ? beyond : shown).flatMap((step) =>
    (isOutside ? listTopsBelow(step) : listTopsNear(step)).flatMap((height) =>
      [step.from, (step.from + step.to - size.width) / 2, step.to - size.width].map((left) => ({
        left: Math.min(Math.max(left, chartArea.left + 2), chartArea.right - size.width - 2),
        ...height,
        ...size,
        step,
      })),
    ),
  );
  const inside = boxes.filter(({ top }) => top >= chartArea.top && top + LABEL_HEIGHT <= chartArea.bottom);
  return { text, ...choosePlace(inside.length > 0 ? inside : boxes, taken) };
}

// The value of a limit below its arrow.
function placeValue(ctx, step, format) {
  const text = format(step.value);
  const width = ctx.measureText(text).width;
  return { text, width, left: (step.from + step.to - width) / 2, top: step.y + 6, lift: 0, step };
}

// Just above a limit, just below it, or lifted above the bars.
function listTopsNear({ y }) {
  const above = LIFTS.map((lift) => ({ top: y - (lift + 1) * LABEL_HEIGHT - APART, lift, cost: lift * LIFT_COSTS }));
  return [above[0], { top: y + APART, lift: 0 }, ...above.slice(1)];
}

// Below the upper edge, a line lower if another name is there.
function listTopsBelow({ y }) {
  return [0, 1, 2].map((line) => ({ top: y + APART + line * LABEL_HEIGHT, lift: 0, cost: line }));
}

function writeName(ctx, { text, left, top, width, lift, step }, colors) {
  if (lift > 0) {
    const x = Math.min(Math.max((step.from + step.to) / 2, left + 4), left + width - 4);
    ctx.strokeStyle = colors.ink;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(x, top + LABEL_HEIGHT);
    ctx.lineTo(x, step.y);
    ctx.stroke();
  }
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  // The halo separates the text from its background.
  ctx.lineJoin = "round";
  ctx.lineWidth = 3;
  ctx.strokeStyle = colors.paper;
  ctx.strokeText(text, left, top + 1);
  ctx.fillStyle = colors.ink;
  ctx.fillText(text, left, top + 1);
}

function listObstacles(chart, isBars) {
  return chart.data.datasets.flatMap((_, index) => {
    const marks = chart.getDatasetMeta(index).data.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
    return isBars ? marks.map(boxOfBar) : listTrace(marks);
  });
}

function boxOfBar(bar) {
  const { x, y, base, width } = bar.getProps(["x", "y", "base", "width"]);
  return { left: x - width / 2, top: Math.min(y, base), width, height: Math.abs(base - y) };
}

function boxOfStep({ from, to, y }) {
  return { left: from, top: y - 1, width: to - from, height: 2 };
}

function listTrace(marks) {
  return marks.flatMap((mark, place) => {
    const next = marks[place + 1] ?? mark;
    const count = Math.ceil(Math.hypot(next.x - mark.x, next.y - mark.y) / TRACE_STEP) || 1;
    return Array.from({ length: count }, (_, step) => ({
      left: mark.x + ((next.x - mark.x) * step) / count - TRACE_STEP / 2,
      top: mark.y + ((next.y - mark.y) * step) / count - TRACE_STEP / 2,
      width: TRACE_STEP,
      height: TRACE_STEP,
    }));
  });
}
