// Tooltip of a history; the readout has the same text for screen readers.

const WIDTH_PX = 300;

/** Return {show, hide} of the tooltip of a figure. */
export function startTip(figure) {
  const box = figure.querySelector("[data-tip]");
  return {
    show({ title, lines, foot = "", x, top }) {
      const head = document.createElement("strong");
      head.textContent = title;
      const parts = lines.map((line) => {
        const part = document.createElement("span");
        part.textContent = line;
        return part;
      });
      const last = document.createElement("small");
      last.textContent = foot;
      box.replaceChildren(head, ...parts, ...(foot ? [last] : []));
      box.hidden = false;
      // On the wider side of the cursor, within the figure.
      const wide = figure.clientWidth;
      const isLeft = x > wide / 2;
      box.style.top = `${top + 12}px`;
      box.style.left = isLeft ? "auto" : `${Math.max(0, Math.min(x + 14, wide - Math.min(WIDTH_PX, wide)))}px`;
      box.style.right = isLeft ? `${Math.max(0, wide - x + 14)}px` : "auto";
    },
    hide() {
      box.hidden = true;
    },
  };
}
