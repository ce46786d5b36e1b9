// The overview strip of a history, with a window on the visible range that is dragged or moved by keys.
import { momentAt, placeIn } from "./overview.js";
import { clampEdge, clampView, isWhole, moveEdge, shiftView } from "../shared/zoom.js";

/**
 * Start a strip. getState: () → current {view, whole, area: {left, right}}. onMove(view): called on each move.
 * format: formats a time. Returns {place}: moves the window to the view.
 */
export function startBrush(strip, { getState, onMove, format }) {
  const window = strip.querySelector("[data-window]");
  const handles = [...strip.querySelectorAll("[data-edge]")];

  function place() {
    const { view, whole, area } = getState();
    // A time range may begin before the first run.
    const [left, right] = [view.from, view.to].map((at) => placeIn(Math.min(whole.to, Math.max(whole.from, at)), whole, area));
    window.style.left = `${left}px`;
    window.style.width = `${Math.max(2, right - left)}px`;
    strip.classList.toggle("whole", isWhole(view, whole));
    for (const handle of handles) {
      // Shown only now: a place before the first one would be seen to move.
      handle.hidden = false;
      const { edge } = handle.dataset;
      if (edge !== "both") {
        handle.style.left = `${edge === "from" ? left : right}px`;
      }
      const at = edge === "to" ? view.to : view.from;
      handle.setAttribute("aria-valuenow", String(Math.round(momentShare(at, whole) * 100)));
      handle.setAttribute("aria-valuetext", edge === "both" ? `${format(view.from)} to ${format(view.to)}` : format(at));
    }
  }

  function drag(event, edge) {
    const start = getState();
    const bounds = strip.getBoundingClientRect();
    const grabbed = momentAt(event.clientX - bounds.left, start.whole, start.area);
    strip.setPointerCapture(event.pointerId);
    const move = ({ clientX }) => {
      const at = momentAt(clientX - bounds.left, start.whole, start.area);
      onMove(dragTo(at, { start, grabbed, edge }));
    };
    const stop = () => {
      strip.removeEventListener("pointermove", move);
      strip.removeEventListener("pointerup", stop);
      strip.removeEventListener("pointercancel", stop);
    };
    strip.addEventListener("pointermove", move);
    strip.addEventListener("pointerup", stop);
    strip.addEventListener("pointercancel", stop);
  }

  strip.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) {
      return;
    }
    event.preventDefault();
    const handle = event.target.closest("[data-edge]");
    const { view, whole } = getState();
    // A window on everything cannot be moved: a drag selects a range.
    const edge = handle === null || (handle.dataset.edge === "both" && isWhole(view, whole)) ? "new" : handle.dataset.edge;
    handle?.focus({ preventScroll: true });
    drag(event, edge);
  });
  for (const handle of handles) {
    handle.addEventListener("keydown", (event) => {
      const { view, whole } = getState();
      const changed = moveEdge(view, { key: event.key, isLong: event.shiftKey, edge: handle.dataset.edge, whole });
      if (changed !== null) {
        event.preventDefault();
        onMove(changed);
      }
    });
  }
  return { place };
}

/** Return the view after a drag from `grabbed` to a time. */
export function dragTo(at, { start: { view, whole }, grabbed, edge }) {
  if (edge === "new") {
    return clampView({ from: grabbed, to: at }, whole);
  }
  if (edge === "both") {
    return shiftView(view, (at - grabbed) / (view.to - view.from), whole);
  }
  return clampEdge({ ...view, [edge]: at }, edge, whole);
}

function momentShare(at, whole) {
  return whole.to === whole.from ? 0 : Math.min(1, Math.max(0, (at - whole.from) / (whole.to - whole.from)));
}
