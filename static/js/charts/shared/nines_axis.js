// The axis of a percentile chart: every nine takes the same room, so that the tail can be read.

/** Where a percentile (0 to under 100) lies: 0 at 0 %, 1 at 90 %, 2 at 99 %, 3 at 99.9 %. */
export function ninesOf(percent) {
  return -Math.log10(1 - percent / 100);
}

const TICKS = [0, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999, 99.9999];
const FEW = [0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999];

/** Return [{value, label}] from 0 % to the highest percentile, fewer where there is little room. */
export function ninesTicks(highest, { isNarrow = false } = {}) {
  const wanted = isNarrow ? FEW : TICKS;
  return wanted
    .filter((percent) => percent <= highest + 1e-9)
    .map((percent) => ({ value: ninesOf(percent), label: `${percent}` }));
}
