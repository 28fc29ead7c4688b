// Dead letters: where messages go, where they came from, and moving them back.

import { call, errorNotice, keyOfArn, queuePath, toast } from "./actions.js";
import { command } from "./cli.js";
import { formDialog } from "./dialog.js";
import { field, h, panel, replace, setAttribute, setText } from "./dom.js";
import { count, counted, dateTime, duration } from "./format.js";
import { queuePicker } from "./queue_picker.js";
import { dataTable } from "./table.js";

/** Another client may start one. */
const RELOAD_MS = 5000;
const STATUSES = { RUNNING: "Running", COMPLETED: "Completed", CANCELLING: "Cancelling", CANCELLED: "Cancelled", FAILED: "Failed" };
const SOURCE_FIGURES = [
  ["Available", (row) => row.available],
  ["In flight", (row) => row.in_flight],
  ["After receives", (row) => row.max_receive_count],
];

export function show(root, queue) {
  const target = h("div", { class: "body" });
  const sources = dataTable("Source queues", [["Queue", "name"], ...SOURCE_FIGURES.map(([title]) => [title, "number"])]);
  const noSources = h("p", { class: "empty" }, "No queue sends its dead letters here.");
  const start = h("button", { type: "button", class: "primary", onclick: () => redriveDialog(queue, latest, () => loadTasks()) }, "Redrive…");
  const waiting = h("p", { class: "quiet" });
  const tasks = taskList(queue, () => loadTasks());
  const errors = h("div", {});
  let latest = null;
  let isRunning = false;
  let loadedAt = 0;

  const loadTasks = async () => {
    loadedAt = Date.now();
    try {
      const { Results: results = [] } = await call("sqs", "ListMessageMoveTasks", { SourceArn: queue.arn, MaxResults: 10 }, queue.place);
      isRunning = results.some((task) => task.Status === "RUNNING");
      tasks.update(results);
      errors.replaceChildren();
    } catch (error) {
      errors.replaceChildren(errorNotice(error));
    }
  };
  const redrive = panel("Redrive", { end: start }, h("div", { class: "body" }, waiting, errors), tasks.element);
  replace(root, h("div", { class: "columns" },
    panel("Where this queue's messages go", {}, target),
    panel("Queues whose dead letters come here", {}, sources.frame, noSources)),
  redrive);
  loadTasks();

  let shownTarget;
  return (state) => {
    latest = state;
    const { head, lists } = state;
    const goal = `${head.dead_letter_queue} ${head.max_receive_count}`;
    if (goal !== shownTarget) {
      shownTarget = goal;
      replace(target, head.dead_letter_queue
        ? h("p", {}, "To ", h("a", { href: queuePath(head.dead_letter_queue, "dead-letters") }, head.dead_letter_queue.split("/").pop()), ` when they were received ${counted(head.max_receive_count, "time")} and come up again.`)
        : h("p", {}, "Nowhere: this queue has no redrive policy. It is set under ", h("a", { href: queuePath(queue.key, "configuration") }, "Configuration"), "."));
    }
    const rows = lists.sources ?? [];
    noSources.hidden = rows.length > 0;
    sources.frame.hidden = rows.length === 0;
    showSources(sources, rows);
    const isDeadLetterQueue = rows.length > 0;
    start.disabled = !isDeadLetterQueue || isRunning;
    setText(waiting, isDeadLetterQueue ? `${counted(head.available, "message")} ${head.available === 1 ? "waits" : "wait"} here.` : "Only a dead-letter queue can be redriven.");
    if (isRunning || Date.now() - loadedAt > RELOAD_MS) loadTasks();
  };
}

/** Rows stay the elements that they are while only figures change: focus and clicks need them. */
function showSources({ body, row: rowOf }, rows) {
  while (body.children.length > rows.length) body.lastChild.remove();
  rows.forEach((row, index) => {
    const line = body.children[index] ?? body.appendChild(rowOf([h("a", { class: "name" }), ...SOURCE_FIGURES.map(() => "")]));
    const link = line.querySelector("a");
    setText(link, row.name);
    setAttribute(link, "href", queuePath(row.key));
    SOURCE_FIGURES.forEach(([, value], column) => setText(line.children[column + 1], count(value(row))));
  });
}

/** The redrives. While one makes progress its row stays the element that it is. */
function taskList(queue, reload) {
  const element = h("div", {});
  let shown;
  let rows = [];
  const update = (results) => {
    const key = JSON.stringify(results.map((task) => ({ ...task, ApproximateNumberOfMessagesToMove: 0, ApproximateNumberOfMessagesMoved: 0 })));
    if (key !== shown) {
      shown = key;
      const table = dataTable("Redrives", TASK_COLUMNS);
      rows = results.map((task) => taskRow(table, queue, task, reload));
      table.body.append(...rows.map((row) => row.element));
      replace(element, rows.length ? table.frame : h("p", { class: "empty" }, "No redrive yet."));
    }
    results.forEach((task, index) => rows[index].update(task));
  };
  return { element, update };
}

const TASK_COLUMNS = [["Status"], ["Progress", "wide"], ["To"], ["Speed"], ["Started"], ["Actions", "actions"]];

function taskRow(table, queue, task, reload) {
  const destination = task.DestinationArn ? keyOfArn(task.DestinationArn).split("/").pop() : "their sources";
  const progress = h("progress", { "aria-label": "Messages moved" });
  const moved = h("span", { class: "place" });
  const kind = task.Status === "COMPLETED" ? "ok" : task.Status === "FAILED" ? "alarm" : "in_flight";
  const element = table.row([
    [h("span", { class: `badge ${kind}` }, STATUSES[task.Status] ?? task.Status), task.FailureReason && h("span", { class: "place" }, task.FailureReason)],
    [progress, moved],
    destination,
    task.MaxNumberOfMessagesPerSecond ? `${task.MaxNumberOfMessagesPerSecond}/s` : "as fast as can be",
    dateTime(task.StartedTimestamp),
    task.TaskHandle && h("button", { type: "button", class: "small danger", onclick: () => cancelDialog(queue, task, reload) }, "Cancel"),
  ]);
  const update = ({ ApproximateNumberOfMessagesToMove: total = 0, ApproximateNumberOfMessagesMoved: done = 0 }) => {
    progress.max = Math.max(total, done, 1);
    progress.value = done;
    setText(moved, `${count(done)} of ${count(total)} moved`);
  };
  return { element, update };
}

function cancelDialog(queue, task, reload) {
  const input = { TaskHandle: task.TaskHandle };
  formDialog({
    title: "Cancel redrive",
    submit: "Cancel redrive",
    danger: true,
    content: h("p", {}, "What has been moved stays moved."),
    command: () => command("sqs", "CancelMessageMoveTask", input, queue.region, queue),
    run: async () => {
      const answer = await call("sqs", "CancelMessageMoveTask", input, queue.place);
      toast(`Cancelled after ${counted(answer.ApproximateNumberOfMessagesMoved, "message")}.`);
      await reload();
    },
  });
}

function redriveDialog(queue, { head, lists }, done) {
  const sources = (lists.sources ?? []).map((row) => row.name);
  const destination = queuePicker("Move to", { name: "DestinationArn", place: () => queue.place, none: "The queues they came from",
    fits: (name) => name !== queue.name && name.endsWith(".fifo") === queue.isFifo, hint: sources.length ? `Sources: ${sources.slice(0, 5).join(", ")}${sources.length > 5 ? ", …" : ""}` : undefined });
  const speed = h("input", { name: "MaxNumberOfMessagesPerSecond", type: "number", min: 1, max: 500, placeholder: "as fast as can be" });
  const estimate = h("p", { class: "quiet" });
  const input = () => ({ SourceArn: queue.arn, DestinationArn: destination.arn() || undefined, MaxNumberOfMessagesPerSecond: speed.value ? Number(speed.value) : undefined });
  const describe = () => {
    const time = speed.value > 0 ? `, about ${duration((head.available / Number(speed.value)) * 1000)}` : "";
    setText(estimate, `${counted(head.available, "message")} to move${time}.`);
  };
  const { dialog } = formDialog({
    title: "Redrive",
    submit: "Start",
    content: [
      h("div", { class: "fields" }, destination.element, destination.otherField, field("Messages a second", speed, { hint: "1 to 500, or empty" })),
      estimate,
    ],
    command: () => command("sqs", "StartMessageMoveTask", input(), queue.region, queue),
    run: async () => {
      await call("sqs", "StartMessageMoveTask", input(), queue.place);
      toast("The redrive has begun.");
      await done();
    },
  });
  dialog.addEventListener("input", describe);
  describe();
}
