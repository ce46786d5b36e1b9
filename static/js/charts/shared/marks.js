// Marks: plugins of Chart.js for marks that it cannot draw, or not fast; and the mark nearest to a pointer.
import { readFontSize } from "./colors.js";

const LABEL_HEIGHT = 13;
// Between a line and its label; of the stroke from one of several labels to its line.
const LABEL_APART = 2;
const LEADER_WIDTH = 12;

/**
 * Lines across the chart with their labels, which cover neither each other nor the lines near them.
 * limit: {value, label} between good and bad, or null. references: [{value, label}] of known systems, dotted. thresholds:
 * [{value, label}] of subscriptions.
 */
export function drawLabeledLines({ limit, references, thresholds }, colors) {
  const lines = [
    ...(limit === null ? [] : [{ ...limit, dash: [6, 4] }]),
    ...references.map((reference) => ({ ...reference, dash: [2, 3] })),
    ...thresholds.map((threshold) => ({ ...threshold, dash: [6, 4] })),
  ];
  return {
    id: "labeledLines",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      ctx.save();
      ctx.lineWidth = 1.25;
      ctx.strokeStyle = colors.ink;
      ctx.fillStyle = colors.ink;
      const placed = placeLabels(
        lines.map((line) => ({ ...line, y: scales.y.getPixelForValue(line.value) })),
        chartArea,
      );
      for (const { y, dash } of placed) {
        ctx.setLineDash(dash);
        trace(ctx, [
          { x: chartArea.left, y },
          { x: chartArea.right, y },
        ]);
        ctx.stroke();
      }
      ctx.setLineDash([]);
      ctx.font = `${readFontSize()}px ${getFamily(chart)}`;
      ctx.textBaseline = "middle";
      ctx.lineJoin = "round";
      for (const { label, y, labelY, isApart } of placed) {
        const indent = isApart ? LEADER_WIDTH : 0;
        const text = shorten(ctx, label, chartArea.width - 8 - indent);
        const x = chartArea.left + 4 + indent;
        // The halo separates the text from what is drawn behind it.
        ctx.lineWidth = 3;
        ctx.strokeStyle = colors.paper;
        ctx.strokeText(text, x, labelY);
        ctx.fillText(text, x, labelY);
        if (isApart) {
          drawLeader(ctx, { from: { x: x - 3, y: labelY }, to: { x: chartArea.left + 3, y } }, colors);
        }
      }
      ctx.restore();
    },
  };
}

// From a label to its line, on which it ends in a dot.
function drawLeader(ctx, { from, to }, colors) {
  ctx.lineWidth = 1;
  ctx.strokeStyle = colors.ink;
  trace(ctx, [from, to]);
  ctx.stroke();
  ctx.beginPath();
  ctx.arc(to.x, to.y, 2, 0, 2 * Math.PI);
  ctx.fill();
}

/**
 * Return lines [{y}] from top to bottom with labelY, the middle of their labels, and isApart: several labels are on the
 * same side of near lines. A label is above its line. Those of lines near each other are in the order of the lines, half
 * of them above the first and half below the last one, as far as there is room.
 */
export function placeLabels(lines, { top, bottom }) {
  const groups = [...lines].sort((a, b) => a.y - b.y).map((line) => stackLabels([line], { top, bottom }));
  for (let place = 0; place + 1 < groups.length; ) {
    const [one, next] = groups.slice(place, place + 2);
    if (one.to > next.from) {
      groups.splice(place, 2, stackLabels([...one.lines, ...next.lines], { top, bottom }));
      place = Math.max(0, place - 1);
    } else {
      place += 1;
    }
  }
  return groups.flatMap((group) => group.lines);
}

function stackLabels(lines, { top, bottom }) {
  const [first, last] = [lines[0].y, lines.at(-1).y];
  const countRows = (room) => Math.max(0, Math.floor((room - LABEL_APART) / LABEL_HEIGHT));
  const most = countRows(first - top);
  const above = Math.min(most, Math.max(Math.ceil(lines.length / 2), lines.length - countRows(bottom - last)));
  const below = lines.length - above;
  const placed = lines.map((line, place) =>
    place < above
      ? { ...line, labelY: first - LABEL_APART - (above - place - 0.5) * LABEL_HEIGHT, isApart: above > 1 }
      : { ...line, labelY: last + LABEL_APART + (place - above + 0.5) * LABEL_HEIGHT, isApart: below > 1 },
  );
  return {
    lines: placed,
    from: first - (above > 0 ? LABEL_APART + above * LABEL_HEIGHT : 0),
    to: last + (below > 0 ? LABEL_APART + below * LABEL_HEIGHT : 0),
  };
}

/** A message in the middle of a chart that has nothing to draw. */
export function drawMessage(text, colors) {
  return {
    id: "message",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea } = chart;
      ctx.save();
      ctx.font = `${readFontSize()}px ${getFamily(chart)}`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.fillStyle = colors.muted;
      ctx.fillText(text, (chartArea.left + chartArea.right) / 2, (chartArea.top + chartArea.bottom) / 2);
      ctx.restore();
    },
  };
}

/** A hairline and a ring at the point that the pointer or the arrow keys are on. */
export function drawActiveMark(colors) {
  return {
    id: "activeMark",
    afterDatasetsDraw(chart) {
      const [active] = chart.getActiveElements();
      if (active === undefined || Number.isNaN(active.element.y)) {
        return;
      }
      const { ctx, chartArea } = chart;
      const { x, y } = active.element;
      ctx.save();
      ctx.strokeStyle = colors.fieldLine;
      ctx.lineWidth = 1;
      trace(ctx, [
        { x, y: chartArea.top },
        { x, y: chartArea.bottom },
      ]);
      ctx.stroke();
      ctx.strokeStyle = colors.ink;
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.arc(x, y, 6, 0, 2 * Math.PI);
      ctx.stroke();
      ctx.restore();
    },
  };
}

/** Draw a vertical line over the whole chart in the current stroke style. x: pixels. */
export function drawVertical(ctx, x, chartArea) {
  ctx.beginPath();
  ctx.moveTo(x, chartArea.top);
  ctx.lineTo(x, chartArea.bottom);
  ctx.stroke();
}

/** A failed run: an outlined cross, filled with the paper, its middle at {x, y}. */
export function drawHollowCross(ctx, { x, y, colors }) {
  ctx.lineCap = "square";
  ctx.beginPath();
  ctx.moveTo(x - 4, y - 4);
  ctx.lineTo(x + 4, y + 4);
  ctx.moveTo(x + 4, y - 4);
  ctx.lineTo(x - 4, y + 4);
  for (const [width, style] of [
    [4.5, colors.ink],
    [2, colors.paper],
  ]) {
    ctx.lineWidth = width;
    ctx.strokeStyle = style;
    ctx.stroke();
  }
  ctx.lineCap = "butt";
}

/** Move labels [{y}] apart so that none covers another, and keep them within the area. */
export function spreadApart(labels, { top, bottom }, height = LABEL_HEIGHT) {
  const ordered = [...labels].sort((a, b) => a.y - b.y).map((label) => ({ ...label }));
  ordered.forEach((label, place) => {
    const least = place === 0 ? top : ordered[place - 1].y + height;
    label.y = Math.max(label.y, least);
  });
  for (let place = ordered.length - 1; place >= 0; place -= 1) {
    const most = place === ordered.length - 1 ? bottom : ordered[place + 1].y - height;
    ordered[place].y = Math.min(ordered[place].y, most);
  }
  return ordered;
}

/** Cut text that does not fit, with an ellipsis. */
export function shorten(ctx, text, width) {
  if (ctx.measureText(text).width <= width) {
    return text;
  }
  let kept = text;
  while (kept.length > 1 && ctx.measureText(`${kept}…`).width > width) {
    kept = kept.slice(0, -1);
  }
  return `${kept}…`;
}

/** Return the index of the place nearest to a pixel: by distance within reach, else by x alone; null of none. */
export function findNearest(places, { x, y }, reach = 24) {
  let best = null;
  let bestDistance = Infinity;
  places.forEach((place, index) => {
    const dx = Math.abs(place.x - x);
    const apart = Math.hypot(dx, place.y - y);
    const distance = apart <= reach ? apart : reach + dx;
    if (distance < bestDistance) {
      best = index;
      bestDistance = distance;
    }
  });
  return best;
}

function getFamily(chart) {
  return chart.options.font?.family ?? "sans-serif";
}

function trace(ctx, places) {
  ctx.beginPath();
  for (const { x, y } of places) {
    ctx.lineTo(x, y);
  }
}
