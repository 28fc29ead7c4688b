// Line charts in inline SVG. All geometry is in attributes: the content policy allows no styles.

import { h, replace, setText, svg } from "./dom.js";
import { NOTHING, clock, dateTime, day, short, zone } from "./format.js";
import { dataTable } from "./table.js";

const MARGIN = { left: 46, right: 10, top: 10, bottom: 22 };
const PATTERNS = ["", "dashed", "dotted", "", "dashed"];
/** Farther apart than this many usual steps, points are not joined. */
const GAP_STEPS = 2.5;
const MAX_TABLE_ROWS = 200;

/**
 * A figure with a title, a legend with the latest values, a plot and a table of the same numbers.
 * `update({ series: [{ name, points: [[time, value], …] }], from, to, threshold })`. `format` and `tick` say
 * how values read in texts and on the axis; points farther apart than `gapMs` are not joined.
 */
export function chart(title, { height = 190, end, format = short, tick = short, gapMs } = {}) {
  const legend = h("ul", { class: "legend" });
  const plot = svg("svg", { height, role: "img", "aria-label": title });
  const tableFrame = h("div", { class: "numbers", hidden: true });
  const toggle = h("button", { type: "button", class: "small plain", "aria-expanded": "false" }, "Table");
  const heading = h("h2", {}, title);
  const element = h("figure", { class: "chart panel" },
    h("figcaption", {}, heading, h("div", { class: "end buttons" }, end, toggle)), legend, h("div", { class: "plot" }, plot), tableFrame);
  let shown = { series: [], from: 0, to: 1 };
  let pointer = null;

  const draw = () => drawPlot(plot, { format, tick, ...shown, height, pointer, gapMs });
  const drawTable = () => {
    if (!tableFrame.hidden) replace(tableFrame, table(`${title}, numbers`, shown, shown.format ?? format));
  };
  toggle.addEventListener("click", () => {
    tableFrame.hidden = !tableFrame.hidden;
    toggle.setAttribute("aria-expanded", String(!tableFrame.hidden));
    drawTable();
  });
  plot.addEventListener("pointermove", (event) => {
    pointer = event.offsetX;
    draw();
  });
  plot.addEventListener("pointerleave", () => {
    pointer = null;
    draw();
  });
  new ResizeObserver(draw).observe(element);

  const update = (next) => {
    shown = next;
    setText(heading, next.title ?? title);
    drawLegend(legend, next.series, next.format ?? format);
    plot.setAttribute("aria-label", summary(next.title ?? title, next.series, next.format ?? format));
    draw();
    drawTable();
  };
  return { element, update };
}

function drawLegend(legend, series, format) {
  replace(legend, series.map(({ name, points }, index) =>
    h("li", {},
      svg("svg", { viewBox: "0 0 16 8", "aria-hidden": "true" },
        svg("line", { x1: 0, x2: 16, y1: 4, y2: 4, "stroke-width": 2, class: `series-${index % 5 + 1} ${PATTERNS[index % 5]}` })),
      `${name} `, h("b", {}, points.length ? format(points.at(-1)[1]) : NOTHING))));
}

function summary(title, series, format) {
  const parts = series.filter(({ points }) => points.length).map(({ name, points }) => {
    const values = points.map(([, value]) => value);
    return `${name}: now ${format(values.at(-1))}, lowest ${format(Math.min(...values))}, highest ${format(Math.max(...values))}`;
  });
  return `${title}. ${parts.join(". ") || "No data yet"}.`;
}

function table(title, { series }, format) {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([time]) => time)))].sort((a, b) => b - a);
  const columns = series.map(({ points }) => new Map(points));
  const numbers = dataTable(title, [["Time", "name"], ...series.map(({ name }) => [name, "number"])], { class: "tall" });
  numbers.body.append(...times.slice(0, MAX_TABLE_ROWS).map((time) =>
    numbers.row([dateTime(time), ...columns.map((column) => (column.has(time) ? format(column.get(time)) : NOTHING))])));
  return numbers.frame;
}

function drawPlot(plot, { series, from, to, height, pointer, threshold, format, tick: tickText, gapMs }) {
  const width = plot.clientWidth || 600;
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const values = series.flatMap(({ points }) => points.map(([, value]) => value));
  if (threshold !== undefined) values.push(threshold);
  const lowest = Math.min(0, ...values);
  const ticks = scale(lowest, Math.max(...values, lowest + 1));
  const [low, high] = [ticks[0], ticks.at(-1)];
  const x = (time) => MARGIN.left + ((time - from) / Math.max(1, to - from)) * (right - MARGIN.left);
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - MARGIN.top);
  const parts = ticks.map((tick) => [
    svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: round(y(tick)), y2: round(y(tick)) }),
    svg("text", { class: "axis", x: MARGIN.left - 7, y: round(y(tick)) + 4, "text-anchor": "end" }, tickText(tick)),
  ]);
  const count = Math.max(2, Math.floor((right - MARGIN.left) / 110));
  for (let index = 0; index <= count; index++) {
    const time = from + ((to - from) * index) / count;
    const anchor = index === 0 ? "start" : index === count ? "end" : "middle";
    parts.push(svg("text", { class: "axis", x: round(x(time)), y: height - 6, "text-anchor": anchor }, timeLabel(time, to - from)));
  }
  if (threshold !== undefined) {
    parts.push(svg("line", { class: "threshold", x1: MARGIN.left, x2: right, y1: round(y(threshold)), y2: round(y(threshold)) }));
  }
  series.forEach(({ points }, index) => {
    const paths = lines(points, x, y, gapMs);
    const name = `series-${index % 5 + 1}`;
    if (series.length === 1 && points.length > 1) {
      for (const path of paths) {
        parts.push(svg("path", { class: `area ${name}`, d: `${path.d}L${path.to},${round(y(low))}L${path.from},${round(y(low))}Z` }));
      }
    }
    for (const path of paths) parts.push(svg("path", { class: `line ${name} ${PATTERNS[index % 5]}`, d: path.d }));
  });
  if (!values.length) {
    parts.push(svg("text", { class: "empty-text", x: width / 2, y: height / 2, "text-anchor": "middle" }, "No data in this time"));
  } else if (pointer !== null) {
    parts.push(...cursor(series, from + ((pointer - MARGIN.left) / (right - MARGIN.left)) * (to - from), { x, y, right, bottom, format }));
  }
  replace(plot, parts);
}

/** The points nearest to a time, with their values. */
function cursor(series, time, { x, y, right, bottom, format }) {
  const times = series.flatMap(({ points }) => points.map(([at]) => at));
  const nearest = times.reduce((best, at) => (Math.abs(at - time) < Math.abs(best - time) ? at : best), times[0]);
  const at = round(x(nearest));
  const texts = series.flatMap(({ points }) => points.filter(([when]) => when === nearest).map(([, value]) => format(value)));
  const anchor = at > right - 160 ? "end" : "start";
  const label = `${clock(nearest)} ${zone(nearest)}  ${texts.join(" · ")}`;
  const dots = series.flatMap(({ points }, index) => points.filter(([when]) => when === nearest).map(([, value]) =>
    svg("circle", { cx: at, cy: round(y(value)), r: 3, class: `series-${index % 5 + 1}` })));
  return [
    svg("line", { class: "cursor", x1: at, x2: at, y1: MARGIN.top, y2: bottom }),
    ...dots,
    svg("text", { class: "tag", x: anchor === "end" ? at - 7 : at + 7, y: MARGIN.top + 9, "text-anchor": anchor }, label),
  ];
}

/** Path data of the runs of points without a gap between them. */
function lines(points, x, y, gapMs) {
  const steps = points.slice(1).map(([time], index) => time - points[index][0]).sort((a, b) => a - b);
  const gap = gapMs ?? (steps[Math.floor(steps.length / 2)] ?? Infinity) * GAP_STEPS;
  const runs = [];
  points.forEach(([time, value], index) => {
    const isNew = index === 0 || time - points[index - 1][0] > gap;
    const place = `${round(x(time))},${round(y(value))}`;
    if (isNew) runs.push({ d: `M${place}`, from: round(x(time)), to: round(x(time)), length: 1 });
    else {
      const run = runs.at(-1);
      run.d += `L${place}`;
      run.to = round(x(time));
      run.length++;
    }
  });
  // A point alone is drawn as a dot: a line of no length with round ends.
  return runs.map((run) => (run.length === 1 ? { ...run, d: `${run.d}h0.01` } : run));
}

/** Three to six round numbers that cover a range. */
function scale(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
  const ticks = [];
  for (let tick = Math.floor(low / step) * step; tick < high + step; tick += step) ticks.push(Number(tick.toPrecision(12)));
  return ticks;
}

function timeLabel(time, range) {
  if (range > 3 * 86_400_000) return day(time).slice(5);
  return clock(time, range <= 15 * 60_000);
}

function round(value) {
  return Math.round(value * 10) / 10;
}
