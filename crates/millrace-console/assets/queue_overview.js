// A queue's first tab: figures, charts of the last minutes or days, how to reach it.

import { data, queuePath } from "./actions.js";
import { chart } from "./chart.js";
import { command } from "./cli.js";
import { RANGES, formatOf, history } from "./cloudwatch.js";
import { copyButton, h, panel, replace, segments, setText } from "./dom.js";
import { count, counted, dateTime, rate } from "./format.js";
import { ironMqPanel } from "./iron_mq.js";
import { FIGURES, figureList, liveCharts } from "./overview.js";

export function show(root, queue) {
  const figures = figureList([...FIGURES, ["Empty receives/s", (head) => rate(head.empty_receives)]]);
  const live = liveCharts();
  const long = longCharts(queue);
  const charts = h("div", {}, live.element);
  const choose = (range) => {
    replace(charts, range === "live" ? live.element : long.element);
    if (range === "live") long.stop();
    else long.show(range);
  };
  const ranges = segments("Time shown", [["live", "5 min"], ...RANGES.map(({ id }) => [id, id])], "live", choose);
  const facts = factList(queue);
  const ironMq = ironMqPanel(queue);
  replace(root, figures.element,
    h("div", { class: "toolbar" }, ranges, h("span", { class: "end quiet" }, "Longer times show the minutes that CloudWatch keeps.")),
    charts, h("div", { class: "columns" }, facts.element, snippets(queue)), ironMq.element);
  return (state) => {
    figures.update(state.head);
    live.update(state);
    facts.update(state.head);
    ironMq.update(state);
  };
}

/** Charts of the AWS/SQS metrics over hours or days. */
function longCharts(queue) {
  const messages = chart("Messages");
  const rates = chart("Messages a period");
  const oldest = chart("Age of oldest message", formatOf("ApproximateAgeOfOldestMessage"));
  const sizes = chart("Sent message size", formatOf("SentMessageSize"));
  const note = h("p", { class: "notice warn", hidden: true });
  const element = h("div", {}, note, h("div", { class: "columns" }, messages.element, rates.element, oldest.element, sizes.element));
  let timer = null;
  const stop = () => clearInterval(timer);
  const show = (id) => {
    stop();
    const range = RANGES.find((range) => range.id === id);
    const load = async () => {
      try {
        const { series, from, to } = await history(queue, range);
        note.hidden = true;
        const pick = (...names) => ({ from, to, series: names.map(([metric, name]) => ({ name, points: series[metric] ?? [] })) });
        messages.update(pick(["ApproximateNumberOfMessagesVisible", "Available"], ["ApproximateNumberOfMessagesNotVisible", "In flight"], ["ApproximateNumberOfMessagesDelayed", "Delayed"]));
        rates.update({ ...pick(["NumberOfMessagesSent", "Sent"], ["NumberOfMessagesReceived", "Received"], ["NumberOfMessagesDeleted", "Deleted"], ["NumberOfEmptyReceives", "Empty receives"]), title: `Messages in ${range.step}` });
        oldest.update(pick(["ApproximateAgeOfOldestMessage", "Age"]));
        sizes.update(pick(["SentMessageSize", "Average"]));
      } catch (error) {
        note.hidden = false;
        setText(note, `The history cannot be read: ${error.message}`);
      }
    };
    load();
    timer = setInterval(load, 60_000);
  };
  return { element, show, stop };
}

function factList(queue) {
  const entries = [
    ["URL", () => h("code", {}, queue.url)],
    ["Region, account", () => `${queue.region}, ${queue.account}`],
    ["Created", (head) => dateTime(head.created)],
    ["Dead-letter queue", (head) => head.dead_letter_queue
      ? [h("a", { href: queuePath(head.dead_letter_queue) }, head.dead_letter_queue.split("/").pop()), ` after ${counted(head.max_receive_count, "receive")}`] : "none"],
    ["Dead-letter queue of", (head) => head.sources ? h("a", { href: queuePath(queue.key, "dead-letters") }, counted(head.sources, "queue")) : "no queue"],
    ["Since the start", (head) => `${count(head.total_sent)} sent, ${count(head.total_received)} received, ${count(head.total_deleted)} deleted, ${count(head.total_dead_lettered)} dead-lettered, ${count(head.total_expired)} expired`],
  ];
  const values = entries.map(() => h("dd", {}));
  const shown = entries.map(() => null);
  const element = panel("About this queue", {}, h("div", { class: "body" },
    h("dl", { class: "definition" }, entries.map(([label], index) => [h("dt", {}, label), values[index]]))));
  const update = (head) => entries.forEach(([, content], index) => {
    const wanted = content(head);
    const text = JSON.stringify([head.dead_letter_queue, head.max_receive_count, head.sources, typeof wanted === "string" && wanted]);
    if (shown[index] === text) return;
    shown[index] = text;
    replace(values[index], [wanted]);
  });
  return { element, update };
}

function snippets(queue) {
  const keys = data.is_authenticated ? "" : `, aws_access_key_id="any", aws_secret_access_key="any"`;
  const texts = {
    cli: command("sqs", "ReceiveMessage", { QueueUrl: queue.url, WaitTimeSeconds: 20 }, queue.region, queue),
    python: `import boto3

sqs = boto3.client("sqs", endpoint_url="${data.endpoint}", region_name="${queue.region}"${keys})
url = "${queue.url}"
sqs.send_message(QueueUrl=url, MessageBody="hello"${queue.isFifo ? ', MessageGroupId="group", MessageDeduplicationId="1"' : ""})
for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20).get("Messages", []):
    print(message["Body"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])`,
    rust: `let config = aws_config::defaults(aws_config::BehaviorVersion::latest())
    .endpoint_url("${data.endpoint}")
    .region(aws_config::Region::new("${queue.region}"))
    .load()
    .await;
let sqs = aws_sdk_sqs::Client::new(&config);
sqs.send_message()
    .queue_url("${queue.url}")
    .message_body("hello")${queue.isFifo ? '\n    .message_group_id("group")\n    .message_deduplication_id("1")' : ""}
    .send()
    .await?;`,
  };
  const code = h("code", {}, texts.cli);
  const choice = segments("Language", [["cli", "AWS CLI"], ["python", "Python"], ["rust", "Rust"]], "cli", (id) => setText(code, texts[id]));
  return panel("Use it", { end: [choice, copyButton(() => code.textContent)] },
    h("div", { class: "body" }, h("pre", { class: "body", tabindex: "0", "aria-label": "Code to use this queue" }, code)));
}
