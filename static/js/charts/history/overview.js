// The overview strip of the whole history, below the brush.
import { counts, styleOfMark } from "./history.js";
import { withAlpha } from "../shared/palette.js";

const PADDING = 4;
const DOT_PX = 2;

/** Return the x position of a time on a strip. */
export function placeIn(at, whole, { left, right }) {
  return whole.to === whole.from ? (left + right) / 2 : left + ((at - whole.from) / (whole.to - whole.from)) * (right - left);
}

/** Return the time at an x position of a strip. */
export function momentAt(x, whole, { left, right }) {
  const share = Math.min(1, Math.max(0, (x - left) / Math.max(1, right - left)));
  return whole.from + share * (whole.to - whole.from);
}

/** Draw the marks of one metric, each from min to max, at least a dot. */
export function drawOverview(ctx, history, { metric, area, colors, isLog = false }) {
  const { left, right, height } = area;
  const known = history.marks.filter((mark) => counts(mark) && mark.values[metric].value !== null && !(isLog && mark.values[metric].low <= 0));
  const bend = isLog ? Math.log : (value) => value;
  const [least, most] = known.reduce(
    ([low, high], { values }) => [Math.min(low, bend(values[metric].low)), Math.max(high, bend(values[metric].high))],
    [Infinity, -Infinity],
  );
  const span = most - least || 1;
  const heightOf = (value) => height - PADDING - ((bend(value) - least) / span) * (height - 2 * PADDING);
  ctx.strokeStyle = colors.line;
  ctx.strokeRect(left + 0.5, 0.5, right - left - 1, height - 1);
  for (const mark of known) {
    const { low, high } = mark.values[metric];
    const x = placeIn(mark.at, history.whole, area);
    const top = heightOf(high);
    ctx.fillStyle = withAlpha(colors.series[styleOfMark(mark).color], 0.75);
    ctx.fillRect(x - DOT_PX / 2, top - DOT_PX / 2, DOT_PX, heightOf(low) - top + DOT_PX);
  }
}
