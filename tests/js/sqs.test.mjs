// The AWS SDK for JavaScript v3 does everything that it can. It checks MD5 digests by itself on
// send, batch send and receive, and sends to the origin of the queue URLs that it was given.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import * as sdk from "@aws-sdk/client-sqs";

import { startServer } from "./server.mjs";

const CREDENTIALS = { accessKeyId: "test", secretAccessKey: "test" };
let server;
let sqs;
let count = 0;

before(async () => {
  server = await startServer();
  sqs = new sdk.SQS({
    endpoint: server.endpoint,
    region: "us-east-1",
    credentials: CREDENTIALS,
    maxAttempts: 1,
  });
});

after(async () => {
  sqs.destroy();
  await server.stop();
});

async function createQueue(Attributes = {}, suffix = "") {
  const QueueName = `js-${++count}${suffix}`;
  return (await sqs.createQueue({ QueueName, Attributes })).QueueUrl;
}

/** How many connections the server has seen the other side close. */
async function leftConnections() {
  const metrics = await (await fetch(`${server.endpoint}/metrics`)).text();
  return Number(/^millrace_connections_closed_total\{reason="by_peer"\} (\d+)$/m.exec(metrics)[1]);
}

function createFifo(Attributes = {}) {
  return createQueue(
    { FifoQueue: "true", ContentBasedDeduplication: "true", ...Attributes },
    ".fifo",
  );
}

async function receive(QueueUrl, options = {}) {
  const asked = {
    MaxNumberOfMessages: 10,
    MessageSystemAttributeNames: ["All"],
    MessageAttributeNames: ["All"],
  };
  const answer = await sqs.receiveMessage({ QueueUrl, ...asked, ...options });
  return answer.Messages ?? [];
}

async function arnOf(QueueUrl) {
  const AttributeNames = ["QueueArn"];
  return (await sqs.getQueueAttributes({ QueueUrl, AttributeNames })).Attributes.QueueArn;
}

describe("messages", () => {
  const BODIES = ["Test", "h\u00e9\u2603\u{1f600}", "tab\treturn\r\nquote\"<&>", "x".repeat(1_048_576)];

  for (const [n, MessageBody] of BODIES.entries()) {
    test(`main job with body ${n}`, async () => {
      const QueueUrl = await createQueue();

      const sent = await sqs.sendMessage({ QueueUrl, MessageBody });
      const [message] = await receive(QueueUrl);
      await sqs.deleteMessage({ QueueUrl, ReceiptHandle: message.ReceiptHandle });

      assert.equal(message.Body, MessageBody);
      assert.equal(message.MessageId, sent.MessageId);
      assert.equal(message.MD5OfBody, sent.MD5OfMessageBody);
      assert.deepEqual(await receive(QueueUrl), []);
    });
  }

  test("attributes come back, binary ones as bytes", async () => {
    const QueueUrl = await createQueue();
    const bytes = Uint8Array.from({ length: 256 }, (_, n) => n);
    const MessageAttributes = {
      text: { DataType: "String", StringValue: "h\u00e9" },
      number: { DataType: "Number.float", StringValue: "99.12" },
      bytes: { DataType: "Binary.png", BinaryValue: bytes },
    };

    const sent = await sqs.sendMessage({ QueueUrl, MessageBody: "x", MessageAttributes });
    const [message] = await receive(QueueUrl);

    assert.equal(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
    assert.equal(message.MessageAttributes.text.StringValue, "h\u00e9");
    assert.equal(message.MessageAttributes.number.StringValue, "99.12");
    assert.equal(message.MessageAttributes.number.DataType, "Number.float");
    assert.deepEqual(Buffer.from(message.MessageAttributes.bytes.BinaryValue), Buffer.from(bytes));
  });

  test("batches", async () => {
    const QueueUrl = await createQueue();
    const bodies = Array.from({ length: 9 }, (_, n) => `m${n}`);
    const Entries = bodies.map((MessageBody, n) => ({ Id: `id${n}`, MessageBody }));
    Entries.push({ Id: "bad", MessageBody: "\u0001" });

    const sent = await sqs.sendMessageBatch({ QueueUrl, Entries });
    const messages = await receive(QueueUrl);
    const handles = messages.map(({ ReceiptHandle }, n) => ({ Id: `${n}`, ReceiptHandle }));
    const changed = await sqs.changeMessageVisibilityBatch({
      QueueUrl,
      Entries: handles.map((entry) => ({ ...entry, VisibilityTimeout: 60 })),
    });
    const deleted = await sqs.deleteMessageBatch({
      QueueUrl,
      Entries: [...handles, { Id: "bad", ReceiptHandle: "garbage" }],
    });

    assert.deepEqual(messages.map((message) => message.Body).sort(), bodies);
    assert.deepEqual(sent.Failed.map((entry) => [entry.Id, entry.Code]), [["bad", "InvalidMessageContents"]]);
    assert.equal(changed.Successful.length, 9);
    assert.equal(deleted.Successful.length, 9);
    assert.deepEqual(deleted.Failed.map((entry) => [entry.Code, entry.SenderFault]), [["ReceiptHandleIsInvalid", true]]);
  });

  test("a long poll wakes on a send", async () => {
    const QueueUrl = await createQueue();
    const started = Date.now();

    const poll = receive(QueueUrl, { WaitTimeSeconds: 20 });
    await sqs.sendMessage({ QueueUrl, MessageBody: "x" });

    assert.deepEqual((await poll).map((message) => message.Body), ["x"]);
    assert.ok(Date.now() - started < 15_000);
  });

  test("an aborted long poll takes no message along", async () => {
    const QueueUrl = await createQueue();
    const abort = new AbortController();
    const poll = sqs.send(new sdk.ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20 }), {
      abortSignal: abort.signal,
    });
    await sqs.getQueueUrl({ QueueName: QueueUrl.split("/").pop() });
    const before = await leftConnections();
    abort.abort();
    await assert.rejects(poll, { name: "AbortError" });
    // The server learns of it on its own; a message that comes first is on its way to nobody.
    const deadline = Date.now() + 5_000;
    while ((await leftConnections()) === before && Date.now() < deadline);

    await sqs.sendMessage({ QueueUrl, MessageBody: "x" });

    assert.deepEqual((await receive(QueueUrl, { WaitTimeSeconds: 5 })).map((m) => m.Body), ["x"]);
  });

  test("visibility", async () => {
    const QueueUrl = await createQueue();
    await sqs.sendMessage({ QueueUrl, MessageBody: "x" });
    const [{ ReceiptHandle }] = await receive(QueueUrl);
    assert.deepEqual(await receive(QueueUrl), []);

    await sqs.changeMessageVisibility({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 });

    const [again] = await receive(QueueUrl);
    assert.equal(again.Attributes.ApproximateReceiveCount, "2");
  });
});

describe("FIFO", () => {
  test("order, deduplication and sequence numbers", async () => {
    const QueueUrl = await createFifo();
    const sent = [];
    for (const MessageBody of ["1", "2", "1", "3"]) {
      sent.push(await sqs.sendMessage({ QueueUrl, MessageBody, MessageGroupId: "g" }));
    }

    const messages = await receive(QueueUrl);

    assert.deepEqual(messages.map((message) => message.Body), ["1", "2", "3"]);
    assert.equal(sent[2].MessageId, sent[0].MessageId);
    assert.equal(messages[0].Attributes.SequenceNumber, sent[0].SequenceNumber);
    assert.ok(BigInt(sent[3].SequenceNumber) > BigInt(sent[1].SequenceNumber));
  });

  test("a group is locked until its message is deleted", async () => {
    const QueueUrl = await createFifo();
    for (const MessageBody of ["1", "2"]) {
      await sqs.sendMessage({ QueueUrl, MessageBody, MessageGroupId: "g" });
    }
    const [{ ReceiptHandle }] = await receive(QueueUrl, { MaxNumberOfMessages: 1 });
    assert.deepEqual(await receive(QueueUrl), []);

    await sqs.deleteMessage({ QueueUrl, ReceiptHandle });

    assert.deepEqual((await receive(QueueUrl)).map((message) => message.Body), ["2"]);
  });
});

describe("queues", () => {
  test("attributes, tags, permissions, listing", async () => {
    const QueueUrl = await createQueue({ VisibilityTimeout: "77" });
    const QueueName = QueueUrl.split("/").pop();

    assert.equal((await sqs.getQueueUrl({ QueueName })).QueueUrl, QueueUrl);
    assert.ok((await sqs.listQueues({ QueueNamePrefix: QueueName })).QueueUrls.includes(QueueUrl));
    const all = await sqs.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
    assert.equal(all.Attributes.VisibilityTimeout, "77");
    await sqs.setQueueAttributes({ QueueUrl, Attributes: { DelaySeconds: "1" } });
    await sqs.tagQueue({ QueueUrl, Tags: { a: "1", b: "" } });
    await sqs.untagQueue({ QueueUrl, TagKeys: ["a"] });
    assert.deepEqual((await sqs.listQueueTags({ QueueUrl })).Tags, { b: "" });
    const Actions = ["SendMessage"];
    await sqs.addPermission({ QueueUrl, Label: "l", AWSAccountIds: ["111111111111"], Actions });
    await sqs.removePermission({ QueueUrl, Label: "l" });
    await sqs.purgeQueue({ QueueUrl });
    await sqs.deleteQueue({ QueueUrl });
  });

  test("pages of a list", async () => {
    const urls = [];
    for (let n = 0; n < 5; n++) urls.push(await createQueue({}, "-paged"));

    const listed = [];
    const pages = sdk.paginateListQueues({ client: sqs, pageSize: 2 }, { QueueNamePrefix: "js-" });
    for await (const page of pages) listed.push(...(page.QueueUrls ?? []));

    for (const url of urls) assert.ok(listed.includes(url));
    assert.equal(new Set(listed).size, listed.length);
  });

  test("dead letters and a move task", async () => {
    const dead = await createQueue();
    const deadLetterTargetArn = await arnOf(dead);
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 1 });
    const source = await createQueue({ RedrivePolicy });
    await sqs.sendMessage({ QueueUrl: source, MessageBody: "poison" });
    assert.equal((await receive(source, { VisibilityTimeout: 0 })).length, 1);
    assert.deepEqual(await receive(source), []);
    const sources = await sqs.listDeadLetterSourceQueues({ QueueUrl: dead });
    assert.deepEqual(sources.queueUrls, [source]);

    await sqs.startMessageMoveTask({ SourceArn: deadLetterTargetArn });

    const [message] = await receive(source, { WaitTimeSeconds: 10 });
    assert.equal(message.Body, "poison");
    const tasks = await sqs.listMessageMoveTasks({ SourceArn: deadLetterTargetArn });
    assert.equal(tasks.Results[0].SourceArn, deadLetterTargetArn);
    await assert.rejects(sqs.cancelMessageMoveTask({ TaskHandle: "garbage" }), {
      name: "InvalidParameterValue",
    });
  });
});

describe("errors are typed", () => {
  test("QueueDoesNotExist", async () => {
    await assert.rejects(sqs.getQueueUrl({ QueueName: "none" }), (error) => {
      assert.ok(error instanceof sdk.QueueDoesNotExist);
      assert.equal(error.$metadata.httpStatusCode, 400);
      assert.equal(error.$fault, "client");
      assert.equal(error.Error.Code, "AWS.SimpleQueueService.NonExistentQueue");
      return true;
    });
  });

  test("others", async () => {
    const QueueUrl = await createQueue();
    const QueueName = QueueUrl.split("/").pop();
    const Attributes = { DelaySeconds: "7" };

    await assert.rejects(sqs.deleteMessage({ QueueUrl, ReceiptHandle: "x" }), sdk.ReceiptHandleIsInvalid);
    await assert.rejects(sqs.sendMessage({ QueueUrl, MessageBody: "\u0001" }), sdk.InvalidMessageContents);
    await assert.rejects(sqs.deleteMessageBatch({ QueueUrl, Entries: [] }), sdk.EmptyBatchRequest);
    await assert.rejects(sqs.createQueue({ QueueName, Attributes }), sdk.QueueNameExists);
    await sqs.purgeQueue({ QueueUrl });
    await assert.rejects(sqs.purgeQueue({ QueueUrl }), sdk.PurgeQueueInProgress);
  });
});
