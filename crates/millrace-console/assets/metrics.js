// Metrics explorer: any series that CloudWatch's API has, of one region at a time, over hours to
// weeks. The choice is in the address.

import { call, data, errorNotice } from "./actions.js";
import { chart } from "./chart.js";
import { QUEUE_METRICS, RANGES, metricData, span } from "./cloudwatch.js";
import { cliBlock, command } from "./cli.js";
import { field, h, panel, replace, segments, setText } from "./dom.js";
import { count, csvCell } from "./format.js";
import { isHere, isSame, placeField, places } from "./places.js";

const STATISTICS = ["Sum", "Average", "Maximum", "Minimum", "SampleCount", "p50", "p90", "p99"];
/** Series of one chart: more cannot be told apart. */
const MAX_SERIES = 5;
const RELOAD_MS = 60_000;
const MAX_LISTED = 300;

export function show(root) {
  const address = new URLSearchParams(location.search);
  const chosen = new Map(seriesOf(address.get("series") ?? "").map((series) => [series.key, series]));
  let range = RANGES.find(({ id }) => id === address.get("range")) ?? RANGES[1];
  const statistic = h("select", {}, h("option", { value: "" }, "Usual"), STATISTICS.map((name) => h("option", { value: name }, name)));
  statistic.value = address.get("statistic") ?? "";
  const search = h("input", { type: "search", placeholder: "Filter by metric, queue or namespace", "aria-label": "Filter series", "data-shortcut": "/", autocomplete: "off", spellcheck: "false" });
  const figure = chart("Series", { height: 300 });
  const errors = h("div", {});
  const showError = (error) => errors.replaceChildren(errorNotice(error));
  const rows = h("tbody", {});
  const summary = h("span", { class: "quiet", role: "status" });
  const cli = cliBlock();
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
      latest = { ...time, title: title(), series: asked.map(({ Id, Label, MetricStat }) => ({ name: `${Label} (${MetricStat.Stat})`, points: found[Id]?.points ?? [] })) };
      errors.replaceChildren();
    } catch (error) {
      if (turn !== turns) return;
      showError(error);
      latest = { ...time, title: title(), series: [] };
    }
    figure.update(latest);
  };
  const title = () => chosen.size ? `Every ${range.step}` : "Choose series below";
  const changed = () => {
    const query = new URLSearchParams();
    if (chosen.size) query.set("series", [...chosen.keys()].join("~"));
    query.set("range", range.id);
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
      return h("tr", {}, h("td", { class: "check" }, box), h("th", { scope: "row" }, series.metric),
        h("td", {}, series.dimensions.map(({ Name, Value }) => `${Name} ${Value}`).join(", ")), h("td", { class: "narrow-hidden" }, series.namespace));
    }));
  };
  statistic.addEventListener("change", changed);
  search.addEventListener("input", showList);

  const ranges = segments("Time shown", RANGES.map(({ id }) => [id, id]), range.id, (id) => {
    range = RANGES.find((range) => range.id === id);
    changed();
  });
  const table = h("div", { class: "table-frame tall", tabindex: "0", role: "region", "aria-label": "Series to choose from" }, h("table", {}, h("caption", { class: "visually-hidden" }, "Series"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "check" }, h("span", { class: "visually-hidden" }, "Shown")),
      h("th", { scope: "col" }, "Metric"), h("th", { scope: "col" }, "Dimensions"), h("th", { scope: "col", class: "narrow-hidden" }, "Namespace"))), rows));
  const statisticField = field("Statistic", statistic);
  statisticField.classList.add("inline");
  replace(root,
    h("div", { class: "toolbar" }, ranges, statisticField, h("div", { class: "end" }, download)),
    errors, figure.element, cli.element,
    panel("Series", { end: summary }, h("div", { class: "body" }, search), table));
  const listSeries = async () => {
    const asked = place.value();
    const found = await listMetrics(asked);
    if (!isSame(asked, place.value())) return;
    metrics = found;
    if (!chosen.size) for (const series of defaults(found)) chosen.set(series.key, series);
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

/** What is shown first: sends of the first queues. */
function defaults(metrics) {
  return metrics.filter(({ metric }) => metric === "NumberOfMessagesSent").slice(0, 3);
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
