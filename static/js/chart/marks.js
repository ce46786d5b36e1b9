// Small plugins of Chart.js: what it cannot draw by itself. Each is given its options through options.plugins.

const LABEL_HEIGHT = 13;

/** Words at the right end of lines, instead of a legend. texts: dataset index → words. */
export const drawEndLabels = {
  id: "endLabels",
  afterDatasetsDraw(chart, _, { texts, colours }) {
    const labels = Object.entries(texts)
      .map(([index, text]) => ({ text, end: chart.getDatasetMeta(Number(index)).data.at(-1) }))
      .filter(({ text, end }) => text && end)
      .map(({ text, end }) => ({ text, x: end.x, y: end.y }));
    const { ctx, chartArea } = chart;
    ctx.save();
    ctx.font = `11px ${getFamily(chart)}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = colours.ink;
    for (const { text, x, y } of spreadApart(labels, chartArea)) {
      ctx.fillText(shorten(ctx, text, chart.width - x - 8), x + 8, y);
    }
    ctx.restore();
  },
};

/** A failed run: an outlined cross, filled with the paper. */
export const drawHollowCrosses = {
  id: "hollowCrosses",
  afterDatasetsDraw(chart, _, { dataset, colours }) {
    const { ctx } = chart;
    ctx.save();
    ctx.lineCap = "square";
    for (const { x, y } of chart.getDatasetMeta(dataset).data) {
      for (const [width, colour] of [
        [4.5, colours.ink],
        [2, colours.paper],
      ]) {
        ctx.lineWidth = width;
        ctx.strokeStyle = colour;
        ctx.beginPath();
        ctx.moveTo(x - 4, y - 4);
        ctx.lineTo(x + 4, y + 4);
        ctx.moveTo(x + 4, y - 4);
        ctx.lineTo(x - 4, y + 4);
        ctx.stroke();
      }
    }
    ctx.restore();
  },
};

/** A hairline and a ring at the point that the pointer or the arrow keys are on. */
export const drawActiveMark = {
  id: "activeMark",
  afterDatasetsDraw(chart, _, { colours }) {
    const [active] = chart.getActiveElements();
    if (active === undefined || Number.isNaN(active.element.y)) {
      return;
    }
    const { ctx, chartArea } = chart;
    const { x, y } = active.element;
    ctx.save();
    ctx.strokeStyle = colours.fieldLine;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(x, chartArea.top);
    ctx.lineTo(x, chartArea.bottom);
    ctx.stroke();
    ctx.strokeStyle = colours.ink;
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.arc(x, y, 6, 0, 2 * Math.PI);
    ctx.stroke();
    ctx.restore();
  },
};

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

/** Cut words that do not fit, with an ellipsis. */
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

function getFamily(chart) {
  return chart.options.font?.family ?? "sans-serif";
}
