// The hosts as cells: one of them is in the order of Tab, arrows move between them, a line below names the current one.

/** Return the index after a key among `count` cells in rows of `columns`; null for other keys. */
export function moveInRows(key, from, { count, columns }) {
  if (key === "Home" || key === "End") {
    return key === "Home" ? 0 : count - 1;
  }
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  if (step === undefined) {
    return null;
  }
  const to = from + step;
  return to >= 0 && to < count ? to : from;
}

/** Start the cells of one strip. */
export function startHostStrip(strip) {
  const cells = [...strip.children];
  const readout = strip.parentElement.querySelector("[data-strip-readout]");
  const hint = readout.textContent;
  let current = 0;

  cells.forEach((cell, index) => {
    cell.tabIndex = index === current ? 0 : -1;
  });
  const indexOf = (event) => cells.indexOf(event.target.closest("a"));
  strip.addEventListener("pointerover", (event) => {
    const index = indexOf(event);
    readout.textContent = index === -1 ? hint : cells[index].title;
  });
  strip.addEventListener("pointerleave", () => {
    readout.textContent = strip.contains(document.activeElement) ? cells[current].title : hint;
  });
  strip.addEventListener("focusin", (event) => {
    const index = indexOf(event);
    if (index !== -1) {
      cells[current].tabIndex = -1;
      current = index;
      cells[current].tabIndex = 0;
      readout.textContent = cells[current].title;
    }
  });
  strip.addEventListener("focusout", () => {
    readout.textContent = hint;
  });
  strip.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.ctrlKey || event.shiftKey) {
      return;
    }
    const index = moveInRows(event.key, current, { count: cells.length, columns: countColumns(cells) });
    if (index !== null) {
      event.preventDefault();
      cells[index].focus();
    }
  });
}

function countColumns(cells) {
  const second = cells.findIndex((cell) => cell.offsetTop > cells[0].offsetTop);
  return second === -1 ? cells.length : second;
}

globalThis.document?.querySelectorAll("[data-host-strip]").forEach(startHostStrip);
