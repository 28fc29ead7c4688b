// Numbers, ages, sizes and times as people read them.

const integers = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const NOTHING = "–";

export function count(value) {
  return value === null || value === undefined ? NOTHING : integers.format(value);
}

/** 1 queue, 2 queues. */
export function counted(value, noun) {
  return `${count(value)} ${value === 1 ? noun : `${noun}s`}`;
}

export function short(value) {
  if (value === null || value === undefined) return NOTHING;
  return Math.abs(value) >= 10_000 ? compact.format(value) : integers.format(Math.round(value * 100) / 100);
}

/** Messages a second. */
export function rate(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value >= 100) return integers.format(Math.round(value));
  return value === 0 ? "0" : value.toFixed(1);
}

/** A duration in milliseconds, in its two largest units: 14m 37s. */
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const units = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => seconds >= size);
  if (at < 0) return "0s";
  const [unit, size] = units[at];
  const first = `${Math.floor(seconds / size)}${unit}`;
  const next = units[at + 1];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return rest > 0 ? `${first} ${rest}${next[0]}` : first;
}

/** How long ago; null is nothing. */
export function age(since, now) {
  return since === null || since === undefined ? NOTHING : duration(now - since);
}

export function bytes(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value < 1024) return `${Math.round(value)} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KiB`;
  if (value < 1024 ** 3) return `${(value / 1024 ** 2).toFixed(2)} MiB`;
  if (value < 1024 ** 4) return `${(value / 1024 ** 3).toFixed(2)} GiB`;
  return `${(value / 1024 ** 4).toFixed(2)} TiB`;
}

/** A short time in microseconds: 640 µs, 2.4 ms, 1.3 s. */
export function microseconds(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value < 1000) return `${Math.round(value)} µs`;
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} ms`;
  return `${(value / 1_000_000).toFixed(1)} s`;
}

const pad = (value) => String(value).padStart(2, "0");

/** 2026-11-21 22:04:05 UTC+1, in the browser's time zone. */
export function dateTime(ms) {
  return `${day(ms)} ${clock(ms)} ${zone(ms)}`;
}

/** The browser's time zone at that time: UTC+1, UTC-3:30. */
export function zone(ms) {
  const ahead = -new Date(ms).getTimezoneOffset();
  if (ahead === 0) return "UTC";
  const minutes = Math.abs(ahead);
  return `UTC${ahead < 0 ? "-" : "+"}${Math.floor(minutes / 60)}${minutes % 60 ? `:${pad(minutes % 60)}` : ""}`;
}

export function day(ms) {
  const date = new Date(ms);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

export function clock(ms, withSeconds = true) {
  const date = new Date(ms);
  const minutes = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  return withSeconds ? `${minutes}:${pad(date.getSeconds())}` : minutes;
}

/**
 * A text as a cell of a CSV file. OWASP, "CSV Injection": one that a spreadsheet would take for a
 * formula gets an apostrophe before it.
 */
export function csvCell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** A duration in seconds, as a metric has it. */
export function seconds(value) {
  return value === null || value === undefined ? NOTHING : duration(value * 1000);
}
