// Alarms: what is wrong now, what happened, and setting new ones.

import { call, errorNotice, read, toast } from "./actions.js";
import { chart } from "./chart.js";
import { QUEUE_METRICS, RANGES, formatOf, metricData, span } from "./cloudwatch.js";
import { cliBlock, command } from "./cli.js";
import { confirmDialog, formDialog } from "./dialog.js";
import { field, h, keepText, panel, replace, setText, withValue } from "./dom.js";
import { NOTHING, count, counted, dateTime } from "./format.js";
import { showInAlarm } from "./live.js";
import { isHere, placeField, placeName, places } from "./places.js";
import { queuePicker } from "./queue_picker.js";
import { dataTable } from "./table.js";

const STATES = { ALARM: ["In alarm", "alarm"], OK: ["OK", "ok"], INSUFFICIENT_DATA: ["Insufficient data", ""] };
const COMPARISONS = {
  GreaterThanOrEqualToThreshold: "≥",
  GreaterThanThreshold: ">",
  LessThanThreshold: "<",
  LessThanOrEqualToThreshold: "≤",
};
const MISSING = ["missing", "notBreaching", "breaching", "ignore"];
const PERIODS = [[60, "1 minute"], [300, "5 minutes"], [900, "15 minutes"], [3600, "1 hour"]];
const RELOAD_MS = 5000;
/** Alarms that other pages name. */
const MAX_SUMMED_UP = 5;

export function show(root) {
  const errors = h("div", {});
  const table = dataTable("Alarms", [["State"], ["Name", "name"], ["Condition", "wide"], ["Since", "wide"], ["Actions", "actions"]]);
  const empty = h("div", { class: "empty" }, h("h2", {}, "No alarms yet"),
    h("p", {}, "An alarm watches a metric and can send a message to a queue when it changes state."),
    cliBlock(command("cloudwatch", "PutMetricAlarm", {
      AlarmName: "backlog", Namespace: "AWS/SQS", MetricName: "ApproximateNumberOfMessagesVisible", Dimensions: [{ Name: "QueueName", Value: "letters" }],
      Statistic: "Maximum", Period: 60, EvaluationPeriods: 3, Threshold: 1000, ComparisonOperator: "GreaterThanThreshold",
    }), { open: true }).element);
  const summary = h("span", { class: "quiet", role: "status" });
  const detail = h("div", {});
  const create = h("button", { type: "button", class: "primary", "data-shortcut": "c", onclick: async () => {
    create.disabled = true;
    try {
      alarmDialog(null, await places(), load);
    } catch (error) {
      errors.replaceChildren(errorNotice(error));
    }
    create.disabled = false;
  } }, "Create alarm");
  let shown = "";

  const load = async () => {
    try {
      const alarms = await describeAlarms();
      errors.replaceChildren();
      const text = JSON.stringify(alarms);
      if (text === shown) return;
      shown = text;
      const inAlarm = alarms.filter(({ StateValue }) => StateValue === "ALARM").length;
      setText(summary, alarms.length ? `${counted(alarms.length, "alarm")}, ${count(inAlarm)} in alarm` : "");
      showInAlarm(inAlarm);
      table.frame.hidden = alarms.length === 0;
      empty.hidden = alarms.length > 0;
      const focused = document.activeElement?.dataset?.alarm;
      replace(table.body, alarms.map((alarm) => alarmRow(table, alarm, load, () => showDetail(detail, alarm))));
      if (focused) table.body.querySelector(`[data-alarm="${CSS.escape(focused)}"]`)?.focus();
    } catch (error) {
      const notice = errorNotice(error);
      // Each new one is read out, and the next try is near.
      if (errors.textContent !== notice.textContent) errors.replaceChildren(notice);
    }
  };
  table.frame.hidden = empty.hidden = true;
  replace(root, h("div", { class: "toolbar" }, summary, h("div", { class: "end" }, create)), errors, h("div", { class: "panel" }, table.frame, empty), detail);
  load();
  setInterval(() => !document.hidden && load(), RELOAD_MS);
}

/** What is wrong now, for other pages: the alarms that are in alarm. Loaded when their number changes. */
export function alarmSummary() {
  const list = h("ul", { class: "plain-list" });
  const element = h("div", { class: "notice bad alarms", role: "status", hidden: true }, list);
  let shown = 0;
  const update = async (number = 0) => {
    if (number === shown) return;
    shown = number;
    element.hidden = number === 0;
    if (number === 0) return;
    const link = h("a", { href: "/alarms" }, `${counted(number, "alarm")} in alarm`);
    replace(list, h("li", {}, link));
    try {
      const alarms = await describeAlarms("ALARM");
      const texts = alarms.slice(0, MAX_SUMMED_UP).map((alarm) => h("li", {}, h("b", {}, nameOf(alarm)), ` ${condition(alarm)}`, h("span", { class: "place" }, `${(alarm.Dimensions ?? []).map(({ Value }) => Value).join(", ")}, since ${dateTime(milliseconds(alarm.StateUpdatedTimestamp))}`)));
      if (shown === number) replace(list, h("li", {}, link), texts);
    } catch {
      // Their number is there, and the link.
    }
  };
  return { element, update };
}

/** The alarms of all regions, in one state or any, those in alarm first. */
async function describeAlarms(state) {
  const found = await read("/api/places", { having: "alarms" });
  const alarms = (await Promise.all(found.map((place) => alarmsOf(place, state)))).flat();
  const rank = { ALARM: 0, INSUFFICIENT_DATA: 1, OK: 2 };
  return alarms.sort((a, b) => rank[a.StateValue] - rank[b.StateValue] || a.AlarmName.localeCompare(b.AlarmName));
}

async function alarmsOf(place, state) {
  const alarms = [];
  let token;
  do {
    const answer = await call("cloudwatch", "DescribeAlarms", { StateValue: state, NextToken: token }, place);
    alarms.push(...(answer.MetricAlarms ?? []));
    token = answer.NextToken;
  } while (token);
  return alarms;
}

function placeOf({ AlarmArn }) {
  const [, , , region, account] = AlarmArn.split(":");
  return { region, account };
}

/** Names are taken once a region. */
function nameOf(alarm) {
  return isHere(placeOf(alarm)) ? alarm.AlarmName : `${alarm.AlarmName} in ${placeName(placeOf(alarm))}`;
}

function alarmRow(table, alarm, reload, open) {
  const [state, kind] = STATES[alarm.StateValue] ?? [alarm.StateValue, ""];
  const dimensions = (alarm.Dimensions ?? []).map(({ Value }) => Value).join(", ");
  const place = placeOf(alarm);
  return table.row([
    h("span", { class: `badge ${kind}` }, state),
    [h("button", { type: "button", class: "plain small name", "data-alarm": alarm.AlarmArn, onclick: open }, alarm.AlarmName), alarm.ActionsEnabled === false && h("span", { class: "badge" }, "actions off"),
      !isHere(place) && h("span", { class: "place" }, placeName(place))],
    [condition(alarm), h("span", { class: "place" }, dimensions)],
    dateTime(milliseconds(alarm.StateUpdatedTimestamp)),
    h("div", { class: "buttons" },
      isSimple(alarm) && h("button", { type: "button", class: "small", "aria-label": `Edit ${nameOf(alarm)}`, onclick: () => alarmDialog(alarm, [place], reload) }, "Edit"),
      h("button", { type: "button", class: "small danger", "aria-label": `Delete ${nameOf(alarm)}`, onclick: () => deleteDialog(alarm, reload) }, "Delete")),
  ]);
}

/** Whether the form can show it: one metric of one queue. */
function isSimple({ Namespace, Statistic, Dimensions = [] }) {
  return Namespace === "AWS/SQS" && Statistic !== undefined && Dimensions.length === 1 && Dimensions[0].Name === "QueueName";
}

function condition({ MetricName, Statistic, ExtendedStatistic, ComparisonOperator, Threshold, Period, EvaluationPeriods, DatapointsToAlarm }) {
  const needed = DatapointsToAlarm ?? EvaluationPeriods;
  const period = PERIODS.find(([seconds]) => seconds === Period)?.[1] ?? `${Period} s`;
  // The threshold with all its digits: rounded, 0.004 would be 0.
  return `${Statistic ?? ExtendedStatistic ?? ""} of ${MetricName ?? "an expression"} ${COMPARISONS[ComparisonOperator] ?? ComparisonOperator} ${Threshold ?? NOTHING} for ${needed} of ${EvaluationPeriods} × ${period}`;
}

async function showDetail(element, alarm) {
  const figure = chart(`${alarm.MetricName ?? alarm.AlarmName}, last 3 hours`, { height: 220, ...formatOf(alarm.MetricName ?? "") });
  const history = dataTable("History", [["Time", "name"], ["What"], ["Summary", "wide"]]);
  replace(element, figure.element, panel(`History of ${nameOf(alarm)}`, {},
    h("div", { class: "body" }, h("p", {}, alarm.AlarmDescription ?? ""), h("p", { class: "quiet" }, alarm.StateReason ?? "")),
    history.frame));
  element.scrollIntoView({ block: "nearest" });
  try {
    const { AlarmHistoryItems: items = [] } = await call("cloudwatch", "DescribeAlarmHistory", { AlarmName: alarm.AlarmName, MaxRecords: 50 }, placeOf(alarm));
    replace(history.body, items.map((item) => history.row([dateTime(milliseconds(item.Timestamp)), item.HistoryItemType, item.HistorySummary])));
    if (!alarm.MetricName) return;
    const time = span(RANGES[1], Date.now());
    const stat = alarm.Statistic ?? alarm.ExtendedStatistic;
    const found = await metricData([{ Id: "a", MetricStat: { Metric: { Namespace: alarm.Namespace, MetricName: alarm.MetricName, Dimensions: alarm.Dimensions ?? [] }, Period: alarm.Period, Stat: stat } }], time, placeOf(alarm));
    figure.update({ ...time, threshold: alarm.Threshold, series: [{ name: stat, points: found.a?.points ?? [] }] });
  } catch (error) {
    element.append(errorNotice(error));
  }
}

function deleteDialog(alarm, done) {
  const { AlarmName: name } = alarm;
  const place = placeOf(alarm);
  confirmDialog({
    title: `Delete ${nameOf(alarm)}`,
    text: "The alarm is gone for good. Its history stays for 30 days.",
    phrase: name,
    submit: "Delete",
    command: () => command("cloudwatch", "DeleteAlarms", { AlarmNames: [name] }, place.region, place),
    run: async () => {
      await call("cloudwatch", "DeleteAlarms", { AlarmNames: [name] }, place);
      toast(`${name} is deleted.`);
      await done();
    },
  });
}

/** A form for an alarm, or for a new one in one of `options`. */
function alarmDialog(alarm, options, done) {
  const place = placeField(options);
  const dimension = alarm?.Dimensions?.find(({ Name }) => Name === "QueueName");
  const text = (value, attributes = {}) => h("input", { value: value ?? "", autocomplete: "off", spellcheck: "false", ...attributes });
  const choice = (options, value) => h("select", {}, withValue(options, value).map(([id, title]) => h("option", { value: id, selected: String(id) === String(value) }, title)));
  const name = text(alarm?.AlarmName, { name: "AlarmName", required: true, maxlength: 255, readonly: Boolean(alarm), "data-missing": "An alarm needs a name." });
  const queue = queuePicker("Queue", { place: place.value, value: dimension?.Value, missing: "Choose the queue to watch." });
  const metric = choice(Object.keys(QUEUE_METRICS).map((metric) => [metric, metric]), alarm?.MetricName ?? "ApproximateNumberOfMessagesVisible");
  const statistic = choice(["Maximum", "Minimum", "Average", "Sum", "SampleCount"].map((id) => [id, id]), alarm?.Statistic ?? "Maximum");
  const comparison = choice(Object.entries(COMPARISONS), alarm?.ComparisonOperator ?? "GreaterThanThreshold");
  const threshold = text(alarm?.Threshold ?? 1000, { type: "number", step: "any", required: true });
  const period = choice(PERIODS, alarm?.Period ?? 60);
  const periods = text(alarm?.EvaluationPeriods ?? 3, { name: "EvaluationPeriods", type: "number", min: 1, max: 1440, required: true });
  const needed = text(alarm?.DatapointsToAlarm ?? "", { name: "DatapointsToAlarm", type: "number", min: 1, max: 1440, placeholder: "all" });
  const missing = choice(MISSING.map((id) => [id, id]), alarm?.TreatMissingData ?? "missing");
  const action = queuePicker("Send a message to", { place: place.value, none: "No queue", value: alarm?.AlarmActions?.[0] });
  const note = h("textarea", { rows: 2, maxlength: 1024 });
  const description = keepText(note, alarm?.AlarmDescription ?? "");
  const unit = h("span", { class: "unit" });
  const describe = () => setText(unit, metric.value.startsWith("ApproximateAge") ? "seconds" : metric.value === "SentMessageSize" ? "bytes" : "messages");
  const input = () => ({
    // Another client's name may begin or end with a space.
    AlarmName: alarm?.AlarmName ?? name.value.trim(),
    AlarmDescription: description() || undefined,
    Namespace: "AWS/SQS",
    MetricName: metric.value,
    Dimensions: [{ Name: "QueueName", Value: queue.name() }],
    Statistic: statistic.value,
    Period: Number(period.value),
    EvaluationPeriods: Number(periods.value),
    DatapointsToAlarm: needed.value ? Number(needed.value) : undefined,
    Threshold: Number(threshold.value),
    ComparisonOperator: comparison.value,
    TreatMissingData: missing.value,
    AlarmActions: [action.arn(), ...(alarm?.AlarmActions ?? []).slice(1)].filter(Boolean),
    // What this form does not show stays as it is.
    OKActions: alarm?.OKActions,
    InsufficientDataActions: alarm?.InsufficientDataActions,
    ActionsEnabled: alarm?.ActionsEnabled,
    Unit: alarm?.Unit,
  });
  const { dialog } = formDialog({
    title: alarm ? `Edit ${nameOf(alarm)}` : "Create alarm",
    submit: alarm ? "Save" : "Create alarm",
    large: true,
    content: [
      h("div", { class: "fields" }, field("Name", name), place.element, queue.element, queue.otherField),
      h("div", { class: "fields" }, field("Metric", metric), field("Statistic", statistic), field("Period", period)),
      h("div", { class: "fields" }, field("Alarm when it is", comparison), field("Threshold", threshold, { beside: unit }),
        field("Periods looked at", periods), field("Of which beyond", needed, { hint: "Empty: all of them" })),
      h("div", { class: "fields" }, field("Periods without data count as", missing), action.element, action.otherField),
      field("Description", note, { wide: true }),
    ],
    command: () => command("cloudwatch", "PutMetricAlarm", input(), place.value().region, place.value()),
    run: async () => {
      await call("cloudwatch", "PutMetricAlarm", input(), place.value());
      toast(`${name.value} is set.`);
      await done();
    },
  });
  metric.addEventListener("change", describe);
  place.select.addEventListener("change", () => [queue, action].forEach((picker) => picker.load()));
  describe();
}

function milliseconds(time) {
  return typeof time === "number" ? time * 1000 : Date.parse(time);
}
