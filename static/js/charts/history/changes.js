// Environment-change ticks below a chart; overlapping ticks are merged.

/** Short label of a tick: "kernel", "kernel +2". */
export function nameTick(changes) {
  const labels = [...new Set(changes.flatMap(({ fields }) => fields.map(({ label }) => label)))];
  return labels.length === 1 ? labels[0] : `${labels[0]} +${labels.length - 1}`;
}

/**
 * Group changes [{at}] (ascending) whose ticks lie within `apart` pixels: [{x, at, changes}].
 * placeOf: time → pixel; changes outside [left, right] are omitted.
 */
export function groupChanges(changes, { placeOf, left, right, apart = 14 }) {
  const groups = [];
  for (const change of changes) {
    const x = placeOf(change.at);
    const last = groups.at(-1);
    if (x < left || x > right) {
      continue;
    }
    if (last !== undefined && x - last.x < apart) {
      last.changes.push(change);
    } else {
      groups.push({ x, at: change.at, changes: [change] });
    }
  }
  return groups;
}

/** Add the width available to each label: to the next tick, or to the end. */
export function measureRoom(groups, end) {
  return groups.map((group, place) => ({ ...group, room: (groups[place + 1]?.x ?? end) - group.x }));
}

/** The comparisons on all hosts of some changes: [{text, url}], each once. */
export function listComparisons(changes) {
  const byUrl = new Map();
  for (const { label, compare } of changes.flatMap(({ fields }) => fields)) {
    if (compare) {
      byUrl.set(compare, { text: `Before / after on all hosts (${label})`, url: compare });
    }
  }
  return [...byUrl.values()];
}
