// Marks: plugins of Chart.js for marks that it cannot draw, or not fast; and the mark nearest to a pointer.

const LABEL_HEIGHT = 13;

/** Labels at the right end of lines, instead of a legend. findEnds: chart → [{text, x, y}]. */
export function drawEndLabels(findEnds, colors) {
  return {
    id: "endLabels",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea } = chart;
      ctx.save();
      ctx.font = `11px ${getFamily(chart)}`;
      ctx.textBaseline = "middle";
      ctx.fillStyle = colors.ink;
      for (const { text, x, y } of spreadApart(findEnds(chart), chartArea)) {
        ctx.fillText(shorten(ctx, text, chart.width - x - 8), x + 8, y);
      }
      ctx.restore();
    },
  };
}

/** A dashed line across the chart with its label: a limit {value, label} between good and bad. */
export function drawLimit(limit, colors) {
  return drawLabeledLine(limit, { id: "limit", dash: [6, 4], color: colors.ink });
}

/** A dotted line across the chart with its label: what a known system {value, label} reached. */
export function drawReference(reference, place, colors) {
  return drawLabeledLine(reference, { id: `reference-${place}`, dash: [2, 3], color: colors.ink });
}

/** A dashed line across the chart with its label: a threshold {value, label} of a subscription. */
export function drawThreshold(threshold, place, colors) {
  return drawLabeledLine(threshold, { id: `threshold-${place}`, dash: [6, 4], color: colors.ink });
}

function drawLabeledLine({ value, label }, { id, dash, color }) {
  return {
    id,
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      const y = scales.y.getPixelForValue(value);
      ctx.save();
      ctx.setLineDash(dash);
      ctx.lineWidth = 1.25;
      ctx.strokeStyle = color;
      trace(ctx, [
        { x: chartArea.left, y },
        { x: chartArea.right, y },
      ]);
      ctx.stroke();
      ctx.font = `11px ${getFamily(chart)}`;
      ctx.fillStyle = color;
      // Above the line where there is room, else below it.
      const isAbove = y - chartArea.top >= LABEL_HEIGHT;
      ctx.textBaseline = isAbove ? "bottom" : "top";
      ctx.fillText(shorten(ctx, label, chartArea.width - 8), chartArea.left + 4, y + (isAbove ? -3 : 3));
      ctx.restore();
    },
  };
}

/** A message in the middle of a chart that has nothing to draw. */
export function drawMessage(text, colors) {
  return {
    id: "message",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea } = chart;
      ctx.save();
      ctx.font = `11px ${getFamily(chart)}`;
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
