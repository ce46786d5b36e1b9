// Pointer on the panels of a history: hover selects, drag zooms, click opens.

const DRAG_FROM_PX = 5;

/** Start the pointer on all panels. history: the figure's, with select, open, zoom. */
export function startHistoryPointer(history) {
  history.boxes.forEach((box, panel) => startPanel(history, { box, panel }));
}

function startPanel(history, { box, panel }) {
  const canvas = box.querySelector("canvas");
  let pressed = null;
  const pixelOf = ({ clientX, clientY }) => {
    const bounds = canvas.getBoundingClientRect();
    return { x: clientX - bounds.left, y: clientY - bounds.top };
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0) {
      pressed = { ...pixelOf(event), pointer: event.pointerId };
    }
  });
  canvas.addEventListener("pointermove", (event) => {
    const pixel = pixelOf(event);
    if (pressed !== null && (history.drag !== null || Math.abs(pixel.x - pressed.x) >= DRAG_FROM_PX)) {
      if (history.drag === null) {
        canvas.setPointerCapture(pressed.pointer);
        history.select(null);
      }
      history.drag = [pressed.x, pixel.x];
      history.drawAgain();
      return;
    }
    const mark = history.markAt(pixel, panel);
    if (mark !== null && mark !== history.mark) {
      history.select(mark, panel);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    const drag = history.drag;
    const wasPressed = pressed !== null;
    pressed = null;
    history.drag = null;
    if (drag !== null) {
      const { x } = history.charts[panel].getChart().scales;
      const [from, to] = [Math.min(...drag), Math.max(...drag)].map((pixel) => x.getValueForPixel(pixel));
      history.zoom({ from, to });
    } else if (wasPressed) {
      const mark = history.markAt(pixelOf(event), panel);
      if (mark !== null) {
        history.select(mark, panel);
        history.open(mark);
      }
    }
  });
  canvas.addEventListener("pointercancel", () => {
    pressed = null;
    history.drag = null;
    history.drawAgain();
  });
  canvas.addEventListener("pointerleave", () => {
    if (history.drag === null && document.activeElement !== history.main) {
      history.select(null);
    }
  });
}
