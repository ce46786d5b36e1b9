// The legend of a figure in its image: beside the chart on the page, below it in the file.
import { tracePoint } from "../history/marks.js";
import { fillHatched, HATCHES } from "../scaling/marks.js";

const GAP = 16;
const KEY = 20;

/** Read a figure's legend from the page: [{label, shape, name, color}]; nothing where it is not shown. */
export function readLegend(figure) {
  const list = figure.querySelector("[data-legend]");
  if (!list || list.hidden) {
    return [];
  }
  return [...list.children].map((item) => {
    const key = item.querySelector(".key, .bar-key");
    const isBar = key?.classList.contains("bar-key");
    const [, first, second] = key?.classList ?? [];
    return {
      label: item.textContent,
      shape: isBar ? "bar" : first,
      name: isBar ? first : second,
      color: key ? getComputedStyle(key).backgroundColor : "",
    };
  });
}

/** Break a legend into rows that are no wider than `width`: [[{item, left}]]. */
export function layLegend(context, legend, width) {
  const rows = [];
  let left = 0;
  for (const item of legend) {
    const length = KEY + context.measureText(item.label).width + GAP;
    if (rows.length === 0 || (left > 0 && left + length - GAP > width)) {
      rows.push([]);
      left = 0;
    }
    rows.at(-1).push({ item, left });
    left += length;
  }
  return rows;
}

/** Draw one entry with its key, whose middle is at `middle`. */
export function drawEntry(context, { item, left, middle, colors }) {
  context.save();
  context.fillStyle = item.color;
  context.strokeStyle = item.color;
  if (item.shape === "bar") {
    fillHatched(context, { left, top: middle - 6, width: 14, height: 12 }, HATCHES[item.name] ?? [], colors);
  } else if (item.shape === "before") {
    context.strokeStyle = colors.ink;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(left, middle);
    context.lineTo(left + 14, middle);
    context.stroke();
  } else if (item.shape) {
    tracePoint(context, { shape: item.shape, x: left + 7, y: middle, radius: 4.5 });
    context.fill();
    context.stroke();
  }
  context.restore();
  context.fillText(item.label, left + KEY, middle - 6);
}
