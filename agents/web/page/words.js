// How numbers and times are said. Ages are counted from the worker's clock, never from the browser's.

export const NOTHING = "–";

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const digits = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 4, maximumFractionDigits: 4 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const LENGTHS = [[86_400, "d"], [3_600, "h"], [60, "min"]];

export const count = (n) => (n === null || n === undefined ? NOTHING : whole.format(n));

/** As it has room at an axis: large ones by their first digits. */
export const shortly = (say) => (n) => (n >= 100_000 ? short.format(n) : say(n));

/** Something a second: tenths where they say something. */
export const rate = (n) => (n > 0 && n < 10 ? tenths : whole).format(n);

export const loss = (n) => (n === null || n === undefined ? NOTHING : n === 0 ? "0" : digits.format(n));

/** A length of time as people say it: 0 s, 59 s, 10 min, 2 h, 2 d. */
export function lasting(seconds) {
  const found = LENGTHS.find(([length]) => seconds >= length);
  return found ? `${Math.floor(seconds / found[0])} ${found[1]}` : `${Math.max(0, Math.floor(seconds))} s`;
}

export const secondsBetween = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;

export const ago = (at, now) => (at ? `${lasting(secondsBetween(at, now))} ago` : NOTHING);

/** The time of day, with the day where it is another one than that of `now`. */
export function clock(at, now) {
  const iso = new Date(at).toISOString();
  const day = new Date(now).toISOString().startsWith(iso.slice(0, 10)) ? "" : `${iso.slice(0, 10)} `;
  return `${day}${iso.slice(11, 19)} UTC`;
}

export const several = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
