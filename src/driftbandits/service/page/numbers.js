// Numbers and times as people read them, and the interval of a mean.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export const count = (number) => whole.format(number);

/** Three digits that matter; numbers of one size line up. */
export function short(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1000) return whole.format(number);
  if (size !== 0 && size < 0.001) return number.toExponential(1).replace("-", "−");
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return number.toFixed(digits).replace("-", "−");
}

/** The same without zeros at the end. */
export const plain = (number) => short(number).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

/** The same with its sign. */
export const signed = (number) => (number > 0 ? `+${short(number)}` : short(number));

/** A probability; one that is not quite 1 is not rounded to it. */
export function percent(probability, digits = 0) {
  const highest = 100 - 10 ** -digits;
  const value = 100 * probability;
  return value > highest && value < 100
    ? `> ${highest.toFixed(digits)} %` : `${value.toFixed(digits)} %`;
}

export function duration(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, unit] of units) if (seconds >= size) return `${plain(seconds / size)} ${unit}`;
  return `${plain(seconds)} s`;
}

const clock = (options) => new Intl.DateTimeFormat("en-GB", { hour12: false, ...options });
const toMinute = clock({ hour: "2-digit", minute: "2-digit" });
const toSecond = clock({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dated = clock({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export const hourMinute = (at) => toMinute.format(at);
export const hourSecond = (at) => toSecond.format(at);
export const dayMinute = (at) => dated.format(at);

const Z = 1.959964; // of the normal law, for 95 %

/** The quantile of Student's law, by its expansion about the normal one (Fisher and Cornish). */
function student(freedom) {
  const [z3, z5] = [Z ** 3, Z ** 5];
  return Z + (z3 + Z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * Z) / (96 * freedom ** 2);
}

/** Mean of n values and its 95 % interval: Wilson's where all are 0 or 1, else Student's. */
export function interval(n, sum, squares) {
  if (n === 0) return null;
  const mean = sum / n;
  if (sum === squares && sum >= 0 && sum <= n && Number.isInteger(sum)) {
    const shrunk = (mean + (Z * Z) / (2 * n)) / (1 + (Z * Z) / n);
    const half = (Z / (1 + (Z * Z) / n)) * Math.sqrt((mean * (1 - mean)) / n + (Z / (2 * n)) ** 2);
    return { n, mean, low: Math.max(0, shrunk - half), high: Math.min(1, shrunk + half) };
  }
  if (n < 3) return { n, mean, low: null, high: null };
  const variance = Math.max(0, squares - n * mean * mean) / (n - 1);
  const half = student(n - 1) * Math.sqrt(variance / n);
  return { n, mean, low: mean - half, high: mean + half };
}
