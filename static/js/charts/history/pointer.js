// Pointer on the panels of a history: hover selects, click opens; a drag zooms all charts of the page.
import { join, readAxis } from "../shared/together.js";

/** Start the pointer on all panels; returns what `join` returns. history: the figure's, with select, open, follow. */
export function startHistoryPointer(history) {
  const joined = history.boxes.map((box, panel) => {
    startPanel(history, { canvas: box.querySelector("canvas"), panel });
    return join(box, {
      kind: "time",
      owner: history,
      getAxis: () => readAxis(history.charts[panel].getChart()),
      // The panels zoom as one.
      onZoom: panel === 0 ? (range) => history.followZoom(range) : undefined,
    });
  });
  return joined[0];
}

function startPanel(history, { canvas, panel }) {
  const markAt = ({ clientX, clientY }) => {
    const bounds = canvas.getBoundingClientRect();
    return history.markAt({ x: clientX - bounds.left, y: clientY - bounds.top }, panel);
  };
  canvas.addEventListener("pointermove", (event) => {
    const mark = markAt(event);
    if (mark !== null && mark !== history.mark) {
      history.select(mark, panel);
    }
  });
  canvas.addEventListener("click", (event) => {
    const mark = markAt(event);
    if (mark !== null) {
      history.select(mark, panel);
      history.open(mark);
    }
  });
  canvas.addEventListener("pointerleave", () => {
    if (document.activeElement !== history.main) {
      history.select(null);
    }
  });
}
