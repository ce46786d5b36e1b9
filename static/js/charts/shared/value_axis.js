// Domain and ticks of a value axis; values are in base units, steps are round in the unit shown.

/** A log axis is offered where the range exceeds this. */
export const LOG_OFFERED_FROM = 30;

/** Return round ticks within [from, to], about `count` of them, in steps of 1, 2, 2.5 or 5. */
export function linearTicks(from, to, { count = 5, divisor = 1 } = {}) {
  const step = roundStep((to - from) / divisor / count) * divisor;
  const ticks = [];
  const last = Math.floor(to / step + 1e-9);
  for (let place = Math.ceil(from / step - 1e-9) || 0; place <= last; place += 1) {
    ticks.push(place * step);
  }
  return ticks;
}

/** Return ticks at 1, 2 and 5 of each decade within [from, to]; at the decades alone where those are many. */
export function logTicks(from, to, { divisor = 1 } = {}) {
  const low = Math.floor(Math.log10(from / divisor));
  const high = Math.ceil(Math.log10(to / divisor));
  const leads = high - low > 4 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let power = low; power <= high; power += 1) {
    for (const lead of leads) {
      ticks.push(lead * 10 ** power * divisor);
    }
  }
  const within = ticks.filter((tick) => tick >= from * 0.9999 && tick <= to * 1.0001);
  return within.length >= 3 ? within : linearTicks(from, to, { divisor });
}

/**
 * Return {min, max, startsAtZero} for a line: zero is kept where it costs less than half of the height,
 * else the axis begins below the least value and must say so.
 */
export function lineDomain(values, divisor = 1) {
  if (values.length === 0) {
    return { min: 0, max: divisor, startsAtZero: true };
  }
  const least = values.reduce((a, b) => Math.min(a, b));
  const most = values.reduce((a, b) => Math.max(a, b));
  const startsAtZero = least < most / 2 || most === 0;
  const low = startsAtZero ? 0 : least - Math.max(most - least, most * 0.02) * 0.15;
  const high = most + Math.max(most - low, most * 0.02) * 0.08;
  const step = roundStep((high - low) / divisor / 5) * divisor || divisor;
  return {
    min: startsAtZero ? 0 : Math.max(0, Math.floor(low / step) * step),
    max: Math.ceil(high / step - 1e-9) * step || divisor,
    startsAtZero,
  };
}

/** Return {min, max} for a log axis: the nearest 1, 2 or 5 of a decade outside of the values. */
export function logDomain(values) {
  const known = values.filter((value) => value > 0);
  if (known.length === 0) {
    return { min: 1, max: 10 };
  }
  const least = known.reduce((a, b) => Math.min(a, b));
  const most = known.reduce((a, b) => Math.max(a, b));
  const steps = [1, 2, 5, 10];
  const below = 10 ** Math.floor(Math.log10(least));
  const above = 10 ** Math.floor(Math.log10(most));
  return {
    min: below * steps.findLast((step) => step * below <= least * 0.98 || step === 1),
    max: above * steps.find((step) => step * above >= most * 1.02 || step === 10),
  };
}

/** Say whether the values spread far enough for a log axis to help. */
export function isLogWorthwhile(values) {
  const known = values.filter((value) => value > 0);
  if (known.length < 2) {
    return false;
  }
  const least = known.reduce((a, b) => Math.min(a, b));
  const most = known.reduce((a, b) => Math.max(a, b));
  return most / least > LOG_OFFERED_FROM;
}

function roundStep(step) {
  if (!(step > 0)) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(step));
  const lead = [1, 2, 2.5, 5, 10].find((candidate) => candidate * power >= step * 0.9999);
  return lead * power;
}
