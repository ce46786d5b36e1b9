// Formatting of values; tested with the same cases as benchapp/catalog/metrics.py (tests/data/format_cases.json).
const SCALES = {
  "operations/s": [[1, ""]],
  "bytes/s": [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]],
  ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
  s: [[1, "s"]],
  bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  percent: [[1, "%"]],
  count: [[1, ""]],
};

const SI_RATES = SCALES["bytes/s"];
const BINARY_RATES = [[2 ** 30, "GiB/s"], [2 ** 20, "MiB/s"], [2 ** 10, "KiB/s"], [1, "B/s"]];

/** Format bytes/s by powers of 1024 ("binary": MiB/s), else of 1000 (MB/s). */
export function showRatesIn(units) {
  SCALES["bytes/s"] = units === "binary" ? BINARY_RATES : SI_RATES;
}

// The units of the account; tests have no document.
showRatesIn(globalThis.document?.documentElement.dataset.rateUnits);

export const UNKNOWN = "–";
const THIN_SPACE = "\u202f";

/**
 * Format a value in a base unit, with three significant digits or as a whole number, as bytes below 1 KiB; null gives
 * an en dash.
 */
export function formatValue(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) {
    return UNKNOWN;
  }
  if (unit === "count") {
    return groupThousands(Math.round(value));
  }
  if (unit === "operations/s") {
    return formatCount(value);
  }
  const scale = findScale(Math.abs(value), unit);
  const text = scale.suffix === "B" ? String(Math.round(value)) : threeDigits(value / scale.divisor);
  return `${text} ${scale.suffix}`;
}

/** Format a tick of an axis that has the unit in its title. */
export function formatTick(value, scale) {
  const scaled = Number((value / scale.divisor).toPrecision(6));
  const [whole, decimals] = String(scaled).split(".");
  const grouped = Math.abs(scaled) >= 1000 ? groupThousands(Number(whole)) : whole;
  return decimals === undefined ? grouped : `${grouped}.${decimals}`;
}

/** Choose one unit for many values, by the middle of their range on a log axis: {divisor, suffix}. */
export function chooseScale(values, unit) {
  const known = values.filter((value) => value !== null && value !== undefined && value > 0);
  if (known.length === 0) {
    const [divisor, suffix] = SCALES[unit].at(-1);
    return { divisor, suffix };
  }
  const minimum = known.reduce((a, b) => Math.min(a, b));
  const maximum = known.reduce((a, b) => Math.max(a, b));
  return findScale(Math.sqrt(minimum) * Math.sqrt(maximum), unit);
}

/** Return the name of the unit for an axis or a header. */
export function nameUnit(scale, unit) {
  return unit === "operations/s" ? "IOPS" : scale.suffix;
}

/** Format the size of a relative change: "8.3 %", "14 %"; tested with the cases of tests/data/change_cases.json. */
export function formatChangeSize(relative) {
  // 13.5 may be stored as 13.499999999999998: halves are rounded away from zero.
  const percent = Math.abs(relative) * 100 + 1e-9;
  return `${percent < 9.95 ? percent.toFixed(1) : groupThousands(percent)} %`;
}

/** Format a relative change with its sign: "+8.3 %", "−20 %", "±0.0 %". */
export function formatSignedPercent(relative) {
  const size = formatChangeSize(relative);
  return `${size === "0.0 %" ? "±" : relative > 0 ? "+" : "−"}${size}`;
}

/** Format the change from an earlier value in percent: "+3.2 %", "+6 109 %"; null without an earlier value. */
export function formatDifference(value, before) {
  if (value === null || before === null || before === undefined || before === 0) {
    return null;
  }
  return formatSignedPercent(value / before - 1);
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** Format a day of the year: "12 May". */
export function formatDay(ms) {
  const moment = new Date(ms);
  return `${moment.getUTCDate()} ${MONTHS[moment.getUTCMonth()]}`;
}

/** Format a month: "May 2026". */
export function formatMonth(ms) {
  const moment = new Date(ms);
  return `${MONTHS[moment.getUTCMonth()]} ${moment.getUTCFullYear()}`;
}

/** Format the time of day: "02:10". */
export function formatClock(ms) {
  const moment = new Date(ms);
  return `${two(moment.getUTCHours())}:${two(moment.getUTCMinutes())}`;
}

function findScale(magnitude, unit) {
  // 999.7 kB/s rounds to 1000 kB/s: use the next unit if the rounded value reaches it.
  const [divisor, suffix] = SCALES[unit].find(([step]) => magnitude >= step * 0.9995) ?? SCALES[unit].at(-1);
  return { divisor, suffix };
}

function formatCount(value) {
  return Math.abs(value) < 99.95 ? threeDigits(value) : groupThousands(value);
}

function groupThousands(value) {
  return roundEven(value, 0).replace(/\B(?=(\d{3})+$)/g, THIN_SPACE);
}

function threeDigits(value) {
  const magnitude = Math.abs(value);
  if (value === 0) {
    return "0";
  }
  if (magnitude >= 99.95) {
    return roundEven(value, 0);
  }
  if (magnitude >= 9.995) {
    return roundEven(value, 1);
  }
  if (magnitude >= 0.9995) {
    return roundEven(value, 2);
  }
  if (magnitude < 0.001) {
    return value > 0 ? "<0.001" : ">-0.001";
  }
  return String(Number(roundEven(value, 2 - Math.floor(Math.log10(magnitude)))));
}

// Python rounds an exact half to the even digit, toFixed away from zero; toFixed(30) shows whether it is one.
function roundEven(value, digits) {
  const exact = Math.abs(value).toFixed(Math.min(digits + 30, 100));
  const cut = exact.indexOf(".") + 1 + digits;
  const rest = exact.slice(cut);
  const kept = exact.slice(0, cut).replace(/\.$/, "");
  const isHalf = /^50*$/.test(rest);
  const isEven = Number(kept.at(-1)) % 2 === 0;
  const text = isHalf && isEven ? kept : Math.abs(value).toFixed(digits);
  return value < 0 ? `-${text}` : text;
}

function two(number) {
  return String(number).padStart(2, "0");
}
