// What all charts have alike: axes, grid, tooltip. Sizes as in the tokens.
import { formatTick } from "../../site/format.js";
import { readFontSize } from "./colors.js";
import { linearTicks, logTicks } from "./value_axis.js";

/** The look of an x axis: a line with ticks below, no grid. */
export function styleAxis(colors, name = "") {
  return {
    border: { color: colors.fieldLine },
    grid: { drawOnChartArea: false, color: colors.fieldLine, tickLength: 4 },
    title: { display: name !== "", text: name, color: colors.muted, font: { size: readFontSize() } },
    ticks: { autoSkip: false, maxRotation: 0, color: colors.muted, font: { size: readFontSize() } },
  };
}

/** A value axis: no line, faint horizontal grid, round ticks in the unit shown. */
export function makeValueScale({ domain, scale, isLog, tickCount = 5 }, { colors, name }) {
  const options = { ...scale, count: tickCount };
  const ticks = isLog ? logTicks(domain.min, domain.max, scale) : linearTicks(domain.min, domain.max, options);
  return {
    type: isLog ? "logarithmic" : "linear",
    min: domain.min,
    max: domain.max,
    border: { display: false },
    grid: { color: colors.line, tickLength: 0 },
    title: { display: true, text: name, color: colors.muted, font: { size: readFontSize() } },
    ticks: {
      autoSkip: false,
      color: colors.muted,
      font: { size: readFontSize() },
      padding: 6,
      callback: (value) => formatTick(value, scale),
    },
    afterBuildTicks: (axis) => {
      axis.ticks = ticks.map((value) => ({ value }));
    },
  };
}

/** Options of every chart: rendered at once, in the size of its box; the page handles the events. */
export const BASE_OPTIONS = { animation: false, events: [], maintainAspectRatio: false, responsive: true };

/** A tooltip on paper with a hairline. */
export function makeTooltipLook(colors) {
  return {
    animation: false,
    backgroundColor: colors.paper,
    borderColor: colors.fieldLine,
    borderWidth: 1,
    bodyColor: colors.ink,
    caretSize: 0,
    cornerRadius: 4,
    displayColors: false,
    footerColor: colors.muted,
    footerFont: { weight: "normal", size: readFontSize() },
    padding: 8,
    titleColor: colors.ink,
  };
}
