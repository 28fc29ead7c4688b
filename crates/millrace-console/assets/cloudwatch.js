// Reading series from CloudWatch's API.

import { call, data } from "./actions.js";
import { bytes, seconds } from "./format.js";

const MINUTE = 60;
const DAY = 86_400;

/** What can be shown: how far back, and how long a period is, in seconds. */
export const RANGES = [
  { id: "1 h", seconds: 3600, period: MINUTE, step: "1 minute" },
  { id: "3 h", seconds: 3 * 3600, period: MINUTE, step: "1 minute" },
  { id: "12 h", seconds: 12 * 3600, period: 5 * MINUTE, step: "5 minutes" },
  { id: "1 d", seconds: DAY, period: 5 * MINUTE, step: "5 minutes" },
  { id: "3 d", seconds: 3 * DAY, period: 15 * MINUTE, step: "15 minutes" },
  { id: "1 w", seconds: 7 * DAY, period: 3600, step: "1 hour" },
  { id: "2 w", seconds: 14 * DAY, period: 3600, step: "1 hour" },
];

/** The metrics of a queue, and what each is summed up by. */
export const QUEUE_METRICS = {
  ApproximateNumberOfMessagesVisible: "Maximum",
  ApproximateNumberOfMessagesNotVisible: "Maximum",
  ApproximateNumberOfMessagesDelayed: "Maximum",
  ApproximateAgeOfOldestMessage: "Maximum",
  NumberOfMessagesSent: "Sum",
  NumberOfMessagesReceived: "Sum",
  NumberOfMessagesDeleted: "Sum",
  NumberOfEmptyReceives: "Sum",
  SentMessageSize: "Average",
};

/** How values of a metric read, in a text and on an axis: with their unit. */
export function formatOf(metric) {
  if (metric.startsWith("ApproximateAgeOfOldest")) return { format: seconds, tick: seconds };
  if (metric === "SentMessageSize") return { format: bytes, tick: bytes };
  return {};
}

/** Start and end of a range that ends now, at whole periods. */
export function span(range, nowMs = data.snapshot?.head?.now ?? Date.now()) {
  const to = (Math.floor(nowMs / 1000 / range.period) + 1) * range.period;
  return { from: (to - range.seconds) * 1000, to: to * 1000 };
}

/** GetMetricData: `{ id: [[time ms, value], …] }`. */
export async function metricData(queries, { from, to }, place) {
  const series = {};
  let token;
  do {
    const input = { MetricDataQueries: queries, StartTime: from / 1000, EndTime: to / 1000, ScanBy: "TimestampAscending", NextToken: token };
    const answer = await call("cloudwatch", "GetMetricData", input, place);
    for (const { Id: id, Label: label, Timestamps: times = [], Values: values = [] } of answer.MetricDataResults ?? []) {
      series[id] ??= { label, points: [] };
      series[id].points.push(...times.map((time, index) => [milliseconds(time), values[index]]));
    }
    token = answer.NextToken;
  } while (token);
  return series;
}

/** All metrics of one queue: `{ series: { metric: points }, from, to }`. */
export async function history(queue, range) {
  const names = Object.keys(QUEUE_METRICS);
  const queries = names.map((name, index) => ({ Id: `m${index}`, MetricStat: {
    Metric: { Namespace: "AWS/SQS", MetricName: name, Dimensions: [{ Name: "QueueName", Value: queue.name }] },
    Period: range.period,
    Stat: QUEUE_METRICS[name],
  } }));
  const time = span(range, Date.now());
  const found = await metricData(queries, time, queue.place);
  return { ...time, series: Object.fromEntries(names.map((name, index) => [name, found[`m${index}`]?.points ?? []])) };
}

function milliseconds(time) {
  return typeof time === "number" ? time * 1000 : Date.parse(time);
}
