// Which part of a history is in view: {from, to} in milliseconds, both within the whole.

const LEAST_MS = 60_000;
// A key moves an edge by a fiftieth of the whole, with Shift by a tenth.
const STEP = 0.02;
const LONG_STEP = 0.1;

/** Return a view within the whole, at least a minute long, its edges in order. */
export function clampView({ from, to }, whole) {
  const [low, high] = from <= to ? [from, to] : [to, from];
  const length = Math.min(Math.max(high - low, LEAST_MS), Math.max(whole.to - whole.from, LEAST_MS));
  const start = Math.min(Math.max(low, whole.from), Math.max(whole.from, whole.to - length));
  return { from: start, to: Math.min(start + length, Math.max(whole.to, start + LEAST_MS)) };
}

/** Say whether a view shows all there is. */
export function isWhole(view, whole) {
  return view.from <= whole.from && view.to >= whole.to;
}

/** Return the view after zooming by a factor (below 1: in) around a moment. */
export function zoomAround(view, at, { factor, whole }) {
  return clampView({ from: at - (at - view.from) * factor, to: at + (view.to - at) * factor }, whole);
}

/** Return the view shifted by a share of its length. */
export function shiftView(view, share, whole) {
  const length = view.to - view.from;
  const from = Math.min(Math.max(view.from + share * length, whole.from), whole.to - length);
  return { from, to: from + length };
}

/**
 * Return the view after a key on a handle of the overview, null for other keys.
 * edge: "from", "to", or "both" for the window between them.
 */
export function moveEdge(view, { key, isLong, edge, whole }) {
  const step = (whole.to - whole.from) * (isLong ? LONG_STEP : STEP);
  const by = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step, PageDown: -5 * step, PageUp: 5 * step }[key];
  const to = { Home: whole.from, End: whole.to }[key];
  if (by === undefined && to === undefined) {
    return null;
  }
  if (edge === "both") {
    const wanted = to === undefined ? by : (key === "Home" ? whole.from - view.from : whole.to - view.to);
    return shiftView(view, wanted / (view.to - view.from), whole);
  }
  return clampEdge({ ...view, [edge]: to ?? view[edge] + by }, edge, whole);
}

/** Return a view with one edge dragged: it stops at the other edge and at the end of the whole. */
export function clampEdge(view, edge, whole) {
  return edge === "from"
    ? { from: Math.min(Math.max(view.from, whole.from), view.to - LEAST_MS), to: view.to }
    : { from: view.from, to: Math.max(Math.min(view.to, whole.to), view.from + LEAST_MS) };
}

/** Write a moment as an address does, to the second: "2026-05-12T02:10:00Z". */
export function writeMoment(ms) {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}
