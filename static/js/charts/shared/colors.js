// Read the colors of the present theme from the CSS variables, and hear of its change.
import { COLOR_NAMES } from "./palette.js";

/** Return the resolved colors, "rgb(r, g, b)", that charts draw with. */
export function readColors() {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const resolve = (variable) => {
    probe.style.color = `var(${variable})`;
    return getComputedStyle(probe).color;
  };
  const colors = {
    ink: resolve("--ink"),
    muted: resolve("--muted"),
    line: resolve("--line"),
    fieldLine: resolve("--field-line"),
    paper: resolve("--paper"),
    accent: resolve("--accent"),
    regression: resolve("--regression-text"),
    improvement: resolve("--improvement-text"),
    series: Object.fromEntries(COLOR_NAMES.map((name) => [name, resolve(`--series-${name}`)])),
  };
  probe.remove();
  return colors;
}

/** Call back whenever the theme changes, by the switch or by the system, or the page goes to paper. */
export function onThemeChange(callback) {
  document.addEventListener("themechange", callback);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
  matchMedia("print").addEventListener("change", callback);
}

/** Return the size of the texts of charts, px; larger while a report is presented. */
export function readFontSize() {
  // Tests of calculations have no page.
  const size = globalThis.document ? getComputedStyle(document.documentElement).getPropertyValue("--type-axis") : "";
  return Number.parseFloat(size) || 11;
}

/** Return the font of the page, so that charts speak with the same voice. */
export function readFontFamily() {
  return getComputedStyle(document.body).fontFamily;
}
