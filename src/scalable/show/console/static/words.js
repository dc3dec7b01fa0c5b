// Figures and moments in words. A figure that is not known is a dash.

export const UNKNOWN = "–";
export const LOADING = "loading …"; // instead of what is told of a section that has not come yet
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const WHOLE = new Intl.NumberFormat("en"); // made once, for it is costly
const known = (value) => typeof value === "number" && Number.isFinite(value);

export function count(value) {
  return known(value) ? WHOLE.format(Math.round(value)).replaceAll(",", "\u202f") : UNKNOWN;
}

export function figure(value, digits = 3) {
  if (!known(value)) return UNKNOWN;
  if (value !== 0 && Math.abs(value) < 10 ** -digits) return value.toExponential(1);
  return String(Number(value.toPrecision(digits + (Math.abs(value) >= 1 ? 0 : -1) || 1)));
}

/** With as many digits as it takes to see on which side of 0.05 it is. */
export function probability(value) {
  if (!known(value)) return UNKNOWN;
  return value < 0.0001 ? "< 0.0001" : value.toFixed(4);
}

export function share(value) {
  return known(value) ? `${Math.round(value * 100)} %` : UNKNOWN;
}

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  let [size, unit] = [value, 0];
  while (size >= 1000 && unit < UNITS.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${size >= 100 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`;
}

export function length(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < 10 && seconds % 1) return `${seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${pad(Math.floor((s % 86400) / 3600))} h`;
}

export function money(value) {
  const amount = Number(value?.amount);
  if (!value || !Number.isFinite(amount)) return UNKNOWN;
  const digits = amount !== 0 && Math.abs(amount) < 0.1 ? 4 : 2;
  return `${value.currency} ${amount.toFixed(digits)}`;
}

export function clock(moment) {
  if (!known(moment)) return UNKNOWN;
  return new Date(moment * 1000).toLocaleTimeString("en-GB");
}

export function day(moment) {
  if (!known(moment)) return UNKNOWN;
  const when = new Date(moment * 1000);
  return `${when.toLocaleDateString("en-CA")} ${when.toLocaleTimeString("en-GB").slice(0, 5)}`;
}

export function plural(number, noun, several = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : several}`;
}

const pad = (number) => String(number).padStart(2, "0");
