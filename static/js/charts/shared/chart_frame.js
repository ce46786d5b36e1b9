// What every chart on a page shares: skeleton, error messages with retry, redrawing on a change of theme.
import { onThemeChange, readColors, readFontFamily, readFontSize } from "./colors.js";

// Narrower boxes have a legend instead of labels at the ends of lines.
const NARROW_BELOW_PX = 560;

/** Show in place of the drawing what went wrong, with a button that tries again. */
export function showProblem(box, message, retry) {
  box.querySelector(".chart-skeleton")?.remove();
  box.querySelector(".chart-notice")?.remove();
  const notice = document.createElement("div");
  notice.className = "chart-notice";
  notice.setAttribute("role", "alert");
  const text = document.createElement("p");
  text.textContent = message;
  notice.append(text);
  if (retry) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Try again";
    button.addEventListener("click", () => {
      notice.remove();
      retry();
    });
    notice.append(button);
  }
  box.append(notice);
}

/** Return whether a box, or the chart in it, is as narrow as on a phone. */
export function isNarrowBox(box) {
  return box.clientWidth < NARROW_BELOW_PX;
}

/** Call back after each change of the width of a box, as when a phone is turned; not while it is hidden. */
export function onWidthChange(box, callback) {
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth !== width && box.clientWidth > 0) {
      width = box.clientWidth;
      callback();
    }
  }).observe(box);
}

/**
 * Draw a chart and draw it anew when the theme or the width changes. makeConfig: ({colors, width, isNarrow}) → configuration; width: of the box, px.
 * Returns {getChart, redraw, placeOf}.
 */
export function startChart(box, makeConfig) {
  const canvas = box.querySelector("canvas");
  const build = () => {
    const width = box.clientWidth;
    const config = makeConfig({ colors: readColors(), width, isNarrow: isNarrowBox(box) });
    config.options.font = { family: readFontFamily(), size: readFontSize() };
    return config;
  };
  let chart = null;
  const draw = () => {
    chart?.destroy();
    // Its panel was replaced.
    if (chart && !canvas.isConnected) {
      return;
    }
    chart = new globalThis.Chart(canvas, build());
    box.dataset.drawn = box.clientWidth;
  };
  globalThis.Chart.defaults.font.family = readFontFamily();
  draw();
  box.querySelector(".chart-skeleton")?.remove();
  performance.mark("chart-drawn");
  onThemeChange(draw);
  onWidthChange(box, draw);
  return {
    getChart: () => chart,
    redraw: draw,
    placeOf: ({ datasetIndex, index }) => chart.getDatasetMeta(datasetIndex).data[index],
  };
}
