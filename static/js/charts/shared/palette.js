// Which colour, shape and dash a line gets. The colours themselves are CSS variables (tokens.css).

const STYLES = [
  { colour: "blue", shape: "circle", dash: [] },
  { colour: "orange", shape: "triangle", dash: [6, 3] },
  { colour: "green", shape: "rect", dash: [2, 2] },
  { colour: "purple", shape: "rectRot", dash: [8, 3, 2, 3] },
  { colour: "sky", shape: "circle", dash: [4, 2] },
  { colour: "brown", shape: "triangle", dash: [] },
  { colour: "grey", shape: "rect", dash: [10, 4] },
  { colour: "pink", shape: "rectRot", dash: [3, 5] },
];

/** Names of the colours, as in the variables --series-NAME. */
export const COLOUR_NAMES = STYLES.map((style) => style.colour);

// Fixed meaning: sequential read blue, sequential write orange, random read green, random write purple.
const MEANING = new Map([
  ["sequential read", 0],
  ["sequential write", 1],
  ["random read", 2],
  ["random write", 3],
]);

/** Give each line {rw, direction} a style: its fixed one where that is still free, else the next free one. */
export function assignStyles(lines) {
  const taken = new Set();
  const wanted = lines.map((line) => {
    const index = MEANING.get(nameMeaning(line));
    if (index === undefined || taken.has(index)) {
      return undefined;
    }
    taken.add(index);
    return index;
  });
  return wanted.map((index, place) => STYLES[index ?? takeNext(taken, place)]);
}

/** Return the style of one line that stands alone. */
export function styleOf(line) {
  return STYLES[MEANING.get(nameMeaning(line)) ?? 0];
}

/** Return a resolved colour, "rgb(r, g, b)", with less than full cover. */
export function withAlpha(colour, alpha) {
  return colour.replace(/^rgb\(([^)]+)\)$/, `rgba($1, ${alpha})`);
}

function nameMeaning({ rw, direction }) {
  const order = rw.startsWith("rand") ? "random" : "sequential";
  return `${order} ${direction}`;
}

function takeNext(taken, place) {
  const free = STYLES.findIndex((_, index) => !taken.has(index));
  const index = free === -1 ? place % STYLES.length : free;
  taken.add(index);
  return index;
}
