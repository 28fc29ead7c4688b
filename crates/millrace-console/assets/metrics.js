// Metrics explorer: any series that CloudWatch's API has, of one region at a time, over hours to
// weeks. The choice is in the address.

import { call, data, errorNotice, read } from "./actions.js";
import { chart } from "./chart.js";
import { QUEUE_METRICS, RANGES, formatOf, metricData, span } from "./cloudwatch.js";
import { cliBlock, command } from "./cli.js";
import { field, h, panel, replace, segments, setText } from "./dom.js";
import { count, csvCell } from "./format.js";
import { isHere, isSame, placeField, places } from "./places.js";
import { dataTable } from "./table.js";

const STATISTICS = ["Sum", "Average", "Maximum", "Minimum", "SampleCount", "p50", "p90", "p99"];
/** Series of one chart: more cannot be told apart. */
const MAX_SERIES = 5;
const RELOAD_MS = 60_000;
/** What the chart shows at least. */
const SHORTEST_MS = 15 * 60_000;
const MAX_LISTED = 300;
/** Series that are shown if none is chosen. */
const FIRST_SHOWN = 3;
/** What queues are compared by. */
const LEADING = ["NumberOfMessagesSent", "ApproximateNumberOfMessagesVisible"];
/** CloudWatch: queries of one request. */
const MAX_QUERIES = 500;

export function show(root) {
  const address = new URLSearchParams(location.search);
  const chosen = new Map(seriesOf(address.get("series") ?? "").map((series) => [series.key, series]));
  let range = RANGES.find(({ id }) => id === address.get("range")) ?? RANGES[0];
  let isRangeChosen = address.has("range");
  const statistic = h("select", {}, h("option", { value: "" }, "Usual"), STATISTICS.map((name) => h("option", { value: name }, name)));
  statistic.value = address.get("statistic") ?? "";
  const search = h("input", { type: "search", placeholder: "Filter by metric, queue or namespace", "aria-label": "Filter series", "data-shortcut": "/", autocomplete: "off", spellcheck: "false" });
  const figure = chart("Series", { height: 300 });
  const errors = h("div", {});
  const showError = (error) => errors.replaceChildren(errorNotice(error));
  const table = dataTable("Series to choose from", [["Shown", "check"], ["Metric", "name"], ["Dimensions", "wide"], ["Namespace", "wide"]], { class: "tall" });
  const rows = table.body;
  const summary = h("span", { class: "quiet", role: "status" });
  const cli = cliBlock("");
  const download = h("button", { type: "button", class: "small", onclick: () => downloadCsv(latest) }, "CSV");
  let place = null;
  let metrics = [];
  let latest = { series: [] };
  // Answers to what was asked before the last change are not shown.
  let turns = 0;

  const statisticOf = ({ metric }) => statistic.value || QUEUE_METRICS[metric] || "Average";
  const queries = () => [...chosen.values()].map((series, index) => ({
    Id: `s${index}`,
    Label: label(series),
    MetricStat: {
      Metric: { Namespace: series.namespace, MetricName: series.metric, Dimensions: series.dimensions },
      Period: range.period,
      Stat: statisticOf(series),
    },
  }));
  const load = async () => {
    const time = span(range, Date.now());
    const asked = queries();
    cli.update(asked.length ? command("cloudwatch", "GetMetricData", { MetricDataQueries: asked, StartTime: new Date(time.from).toISOString(), EndTime: new Date(time.to).toISOString() }, place?.value().region, place?.value()) : null);
    download.disabled = asked.length === 0;
    const turn = ++turns;
    try {
      const found = asked.length ? await metricData(asked, time, place?.value()) : {};
      if (turn !== turns) return;
      latest = { ...time, title: title(), ...formats(), series: asked.map(({ Id, Label, MetricStat }) => ({ name: `${Label} (${MetricStat.Stat})`, points: found[Id]?.points ?? [] })) };
      errors.replaceChildren();
    } catch (error) {
      if (turn !== turns) return;
      showError(error);
      latest = { ...time, title: title(), series: [] };
    }
    // Unless somebody chose the time, an empty beginning is left out.
    const first = Math.min(...latest.series.flatMap(({ points }) => points.map(([at]) => at)), time.to - SHORTEST_MS);
    figure.update(isRangeChosen ? latest : { ...latest, from: Math.max(time.from, first) });
  };
  const title = () => {
    if (!chosen.size) return "Choose series below";
    const names = new Set([...chosen.values()].map(({ metric }) => metric));
    return `${names.size === 1 ? [...names][0] : "Series"}, every ${range.step}`;
  };
  /** With the unit, if all series have the same. */
  const formats = () => {
    const names = [...new Set([...chosen.values()].map(({ metric }) => metric))];
    return names.length === 1 && statistic.value !== "SampleCount" ? formatOf(names[0]) : {};
  };
  const changed = () => {
    const query = new URLSearchParams();
    if (chosen.size) query.set("series", [...chosen.keys()].join("~"));
    if (isRangeChosen) query.set("range", range.id);
    if (place && !isHere(place.value())) for (const [name, value] of Object.entries(place.value())) query.set(name, value);
    if (statistic.value) query.set("statistic", statistic.value);
    history.replaceState(null, "", `/metrics?${query}`);
    showList();
    load();
  };
  const showList = () => {
    const wanted = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const fits = metrics.filter(({ key }) => wanted.every((word) => key.toLowerCase().includes(word)));
    const isFull = chosen.size >= MAX_SERIES;
    setText(summary, `${count(fits.length)} series${fits.length > MAX_LISTED ? `, ${MAX_LISTED} shown` : ""}; up to ${MAX_SERIES} in the chart`);
    const sorted = [...fits.filter(({ key }) => chosen.has(key)), ...fits.filter(({ key }) => !chosen.has(key))];
    replace(rows, sorted.slice(0, MAX_LISTED).map((series) => {
      const box = h("input", { type: "checkbox", "aria-label": `Show ${label(series)}`, disabled: isFull && !chosen.has(series.key), onchange: () => {
        box.checked ? chosen.set(series.key, series) : chosen.delete(series.key);
        changed();
        rows.querySelector(`input[aria-label="${CSS.escape(box.getAttribute("aria-label"))}"]`)?.focus();
      } });
      box.checked = chosen.has(series.key);
      return table.row([box, series.metric, series.dimensions.map(({ Name, Value }) => `${Name} ${Value}`).join(", "), series.namespace]);
    }));
  };
  statistic.addEventListener("change", changed);
  search.addEventListener("input", showList);

  const ranges = segments("Time shown", RANGES.map(({ id }) => [id, id]), range.id, (id) => {
    range = RANGES.find((range) => range.id === id);
    isRangeChosen = true;
    changed();
  });
  const statisticField = field("Statistic", statistic);
  statisticField.classList.add("inline");
  replace(root,
    h("div", { class: "toolbar" }, ranges, statisticField, h("div", { class: "end" }, download)),
    errors, figure.element, cli.element,
    panel("Series", { end: summary }, h("div", { class: "body" }, search), table.frame));
  const listSeries = async () => {
    const asked = place.value();
    const [listed, queues] = await Promise.all([listMetrics(asked), leadingQueues(asked)]);
    if (!isSame(asked, place.value())) return;
    // A queue's first minute is listed when it is over, and has values before.
    const known = new Set(listed.map(({ key }) => key));
    const found = [...listed, ...queues.flatMap((name) => LEADING.map((metric) => queueSeries(metric, name))).filter(({ key }) => !known.has(key))];
    metrics = found;
    if (!chosen.size) {
      const first = await mostActive(queues, span(range, Date.now()), asked);
      if (!isSame(asked, place.value())) return;
      for (const series of first) chosen.set(series.key, series);
    }
    showList();
    await load();
  };
  const choosePlace = async () => {
    const known = await places();
    const wanted = { region: address.get("region") ?? data.region, account: address.get("account") ?? data.account };
    place = placeField(known.some((each) => isSame(each, wanted)) ? known : [...known, wanted], wanted);
    place.element.classList.add("inline");
    place.select.addEventListener("change", () => {
      chosen.clear();
      metrics = [];
      changed();
      listSeries().catch(showError);
    });
    statisticField.after(place.element);
    await listSeries();
  };
  choosePlace().catch(showError);
  setInterval(() => !document.hidden && load(), RELOAD_MS);
}

async function listMetrics(place) {
  const found = [];
  let token;
  do {
    const answer = await call("cloudwatch", "ListMetrics", { NextToken: token }, place);
    found.push(...(answer.Metrics ?? []));
    token = answer.NextToken;
  } while (token && found.length < 50_000);
  return found.map(({ Namespace: namespace, MetricName: metric, Dimensions: dimensions = [] }) => {
    const series = { namespace, metric, dimensions };
    return { ...series, key: keyOf(series) };
  }).sort((a, b) => a.key.localeCompare(b.key));
}

/**
 * What is shown first: sends of the queues that were sent most in that time, of those that lead; where nothing was sent,
 * what waits in the deepest.
 */
async function mostActive(queues, time, place) {
  for (const metric of LEADING) {
    const series = queues.slice(0, MAX_QUERIES).map((name) => queueSeries(metric, name));
    const queries = series.map(({ namespace, metric, dimensions }, index) => ({
      Id: `s${index}`,
      MetricStat: { Metric: { Namespace: namespace, MetricName: metric, Dimensions: dimensions }, Period: (time.to - time.from) / 1000, Stat: QUEUE_METRICS[metric] },
    }));
    const found = queries.length ? await metricData(queries, time, place) : {};
    const total = (index) => (found[`s${index}`]?.points ?? []).reduce((sum, [, value]) => sum + value, 0);
    const ranked = series.map((series, index) => ({ series, total: total(index) })).filter(({ total }) => total > 0).sort((a, b) => b.total - a.total);
    if (ranked.length) return ranked.slice(0, FIRST_SHOWN).map(({ series }) => series);
  }
  return [];
}

function queueSeries(metric, name) {
  const series = { namespace: "AWS/SQS", metric, dimensions: [{ Name: "QueueName", Value: name }] };
  return { ...series, key: keyOf(series) };
}

/** Names of the queues that lead now, in whatever way. */
async function leadingQueues({ region, account }) {
  const pages = await Promise.all(["sent", "deleted", "available", "oldest"].map((sort) => read("/api/snapshot", { view: "queues", sort, region })));
  const rows = pages.flatMap(({ lists }) => lists.queues).filter((row) => row.account === account);
  return [...new Set(rows.map((row) => row.name))];
}

/** The series of an address; what is none is left out: people shorten and join addresses. */
function seriesOf(text) {
  const found = text.split("~").flatMap((key) => {
    try {
      return parse(key);
    } catch {
      return [];
    }
  });
  return found.filter(({ metric }) => metric).slice(0, MAX_SERIES);
}

/** A series as text for the address: namespace|metric|name=value|… */
function keyOf({ namespace, metric, dimensions }) {
  const parts = [namespace, metric, ...dimensions.map(({ Name, Value }) => `${Name}=${Value}`)];
  // A tilde stands between series.
  return parts.map((part) => encodeURIComponent(part).replaceAll("~", "%7E")).join("|");
}

function parse(key) {
  const [namespace, metric, ...pairs] = key.split("|").map(decodeURIComponent);
  const dimensions = pairs.map((pair) => {
    const at = pair.indexOf("=");
    return { Name: pair.slice(0, at), Value: pair.slice(at + 1) };
  });
  return { key, namespace, metric, dimensions };
}

function label({ metric, dimensions }) {
  return [metric, ...dimensions.map(({ Value }) => Value)].join(" ");
}

function downloadCsv({ series }) {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([time]) => time)))].sort((a, b) => a - b);
  const columns = series.map(({ points }) => new Map(points));
  const lines = [["time", ...series.map(({ name }) => csvCell(name))], ...times.map((time) => [new Date(time).toISOString(), ...columns.map((column) => column.get(time) ?? "")])];
  const url = URL.createObjectURL(new Blob([lines.map((line) => line.join(",")).join("\n") + "\n"], { type: "text/csv" }));
  const link = h("a", { href: url, download: "series.csv" });
  link.click();
  URL.revokeObjectURL(url);
}
