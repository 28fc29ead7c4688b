// CloudWatch through the AWS SDK for JavaScript v3.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import * as cloudwatch from "@aws-sdk/client-cloudwatch";
import { SQS } from "@aws-sdk/client-sqs";

import { startServer } from "./server.mjs";

let server;
let metrics;
let sqs;

before(async () => {
  server = await startServer();
  const options = {
    endpoint: server.endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  };
  metrics = new cloudwatch.CloudWatch(options);
  sqs = new SQS(options);
});

after(async () => {
  metrics.destroy();
  sqs.destroy();
  await server.stop();
});

function lastMinutes() {
  const now = Date.now();
  return { StartTime: new Date(now - 600_000), EndTime: new Date(now + 60_000) };
}

test("what was sent is counted at once", async () => {
  const { QueueUrl } = await sqs.createQueue({ QueueName: "jobs" });
  for (let n = 0; n < 3; n++) await sqs.sendMessage({ QueueUrl, MessageBody: "x".repeat(10) });
  const Dimensions = [{ Name: "QueueName", Value: "jobs" }];
  const stat = (MetricName) => ({
    Metric: { Namespace: "AWS/SQS", MetricName, Dimensions },
    Period: 60,
    Stat: "Sum",
  });

  const { MetricDataResults } = await metrics.getMetricData({
    MetricDataQueries: [
      { Id: "sent", MetricStat: stat("NumberOfMessagesSent") },
      { Id: "bytes", MetricStat: stat("SentMessageSize"), ReturnData: false },
      { Id: "mean", Expression: "bytes / sent" },
    ],
    ...lastMinutes(),
  });

  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const [sent, mean] = MetricDataResults;
  assert.equal(sum(sent.Values), 3);
  assert.ok(sent.Timestamps[0] instanceof Date);
  assert.equal(mean.Values[0], 10);
});

test("large requests are compressed and stored", async () => {
  const MetricData = Array.from({ length: 500 }, (_, n) => ({
    MetricName: "Sales",
    Dimensions: [{ Name: "Shop", Value: `shop-${n}-${"x".repeat(20)}` }],
    Value: n,
  }));
  await metrics.putMetricData({ Namespace: "Shop", MetricData });

  const { Datapoints } = await metrics.getMetricStatistics({
    Namespace: "Shop",
    MetricName: "Sales",
    Dimensions: MetricData[499].Dimensions,
    Period: 60,
    Statistics: ["Sum"],
    ...lastMinutes(),
  });
  assert.deepEqual(Datapoints.map((point) => point.Sum), [499]);
  const first = await metrics.listMetrics({ Namespace: "Shop" });
  assert.equal(first.Metrics.length, 500);
});

test("alarms are put, set and refused with their own errors", async () => {
  await metrics.putMetricAlarm({
    AlarmName: "backlog",
    Namespace: "AWS/SQS",
    MetricName: "ApproximateNumberOfMessagesVisible",
    Dimensions: [{ Name: "QueueName", Value: "jobs" }],
    Statistic: "Maximum",
    Period: 60,
    EvaluationPeriods: 1,
    Threshold: 10.5,
    ComparisonOperator: "GreaterThanThreshold",
  });
  await metrics.setAlarmState({ AlarmName: "backlog", StateValue: "ALARM", StateReason: "drill" });
  const { MetricAlarms } = await metrics.describeAlarms({});
  assert.equal(MetricAlarms[0].StateValue, "ALARM");
  assert.equal(MetricAlarms[0].Threshold, 10.5);
  assert.ok(MetricAlarms[0].StateUpdatedTimestamp instanceof Date);

  await assert.rejects(
    metrics.setAlarmState({ AlarmName: "none", StateValue: "OK", StateReason: "r" }),
    (error) => error instanceof cloudwatch.ResourceNotFound || error.name === "ResourceNotFound",
  );
  await assert.rejects(
    metrics.putMetricData({ Namespace: "AWS/SQS", MetricData: [{ MetricName: "M", Value: 1 }] }),
    (error) => error.name === "InvalidParameterValueException" || error.name === "InvalidParameterValue",
  );
});
