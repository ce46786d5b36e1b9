// The names of the lines of a figure: buttons that hide a line and show it again, at the ends of the lines or in the legend.
import { spreadApart } from "./marks.js";

const HEIGHT_PX = 15;
// From the end of a line to its name.
const APART_PX = 8;

/** The lines of one figure that can be hidden. */
export class LineNames {
  /** names: [{id, name, key}], key: classes of the mark before it in the legend. onChange: called after a click. */
  constructor(figure, names, onChange) {
    this.figure = figure;
    this.names = names;
    this.onChange = onChange;
    this.hidden = new Set();
  }

  /** Show the legend: entries of other things, and the names unless they are at the ends of the lines. */
  list(isListed, others = []) {
    const legend = this.figure.querySelector("[data-legend]");
    legend.replaceChildren(...others, ...(isListed ? this.names.map((line) => makeItem(line.name, { line, names: this })) : []));
    legend.hidden = legend.children.length === 0;
  }

  toggle(id) {
    if (!this.hidden.delete(id)) {
      this.hidden.add(id);
    }
    // A chart without lines shows nothing: whoever hides the last one sees all again.
    if (this.names.every((line) => this.hidden.has(line.id))) {
      this.hidden.clear();
    }
    for (const button of this.figure.querySelectorAll("[data-legend] [aria-pressed]")) {
      showState(button, this.hidden.has(button.line));
    }
    this.onChange();
  }
}

/**
 * A plugin of Chart.js that puts names at the ends of lines. findEnds: chart → [{text, x, y, id}], id: of the line among
 * `names`, undefined of other texts. Hidden lines have their names at the bottom.
 */
export function placeNames(findEnds, names = null) {
  return {
    id: "lineNames",
    afterDatasetsDraw(chart) {
      // Without a page there is nothing to put names into.
      const box = chart.canvas?.parentNode;
      if (box) {
        place(box, listEnds(chart, findEnds(chart), names), { names, width: chart.width });
      }
    },
  };
}

function listEnds({ chartArea }, ends, names) {
  if (ends.length === 0 || names === null) {
    return spreadApart(ends, chartArea, HEIGHT_PX);
  }
  const { right: x, bottom: y } = chartArea;
  const hidden = names.names.filter(({ id }) => names.hidden.has(id)).map(({ id, name }) => ({ id, text: name, x, y }));
  const placed = spreadApart([...ends, ...hidden], chartArea, HEIGHT_PX);
  return names.names.flatMap(({ id }) => placed.filter((end) => end.id === id));
}

// A chart is drawn with each move of the pointer: elements are kept, and with them the focus.
function place(box, ends, { names, width }) {
  let list = box.querySelector(".line-names");
  if (list === null) {
    list = document.createElement("ul");
    list.className = "line-names";
    box.append(list);
  }
  const shown = JSON.stringify(ends.map(({ id, text }) => [id, text]));
  if (list.dataset.shown !== shown) {
    list.dataset.shown = shown;
    list.replaceChildren(...ends.map(({ id, text }) => makeItem(text, { line: id === undefined ? null : { id }, names })));
  }
  ends.forEach(({ id, x, y }, index) => {
    const item = list.children[index];
    item.style.left = `${x + APART_PX}px`;
    item.style.top = `${y}px`;
    item.style.maxWidth = `${Math.max(0, width - x - APART_PX)}px`;
    if (id !== undefined) {
      showState(item.firstChild, names.hidden.has(id));
    }
  });
}

// line: {id, key}; null of a text that is no line.
function makeItem(text, { line, names }) {
  const item = document.createElement("li");
  if (line === null) {
    item.textContent = text;
    return item;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "line-name";
  button.line = line.id;
  if (line.key) {
    const key = document.createElement("span");
    key.className = line.key;
    button.append(key);
  }
  button.append(text);
  button.addEventListener("click", () => names.toggle(line.id));
  showState(button, names.hidden.has(line.id));
  item.append(button);
  return item;
}

function showState(button, isHidden) {
  button.setAttribute("aria-pressed", String(!isHidden));
  button.title = `${isHidden ? "Show" : "Hide"} ${button.textContent}`;
}
