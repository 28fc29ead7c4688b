// Topics by the AWS SDK for JavaScript v3: Query and XML for SNS, JSON for the queues.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import * as sdk from "@aws-sdk/client-sns";
import { SQS } from "@aws-sdk/client-sqs";

import { startServer } from "./server.mjs";

const OWNER = "000000000000";
const TOPIC = `arn:aws:sns:us-east-1:${OWNER}`;
let server;
let sns;
let sqs;
let count = 0;

before(async () => {
  server = await startServer();
  const options = {
    endpoint: server.endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  };
  sns = new sdk.SNS(options);
  sqs = new SQS(options);
});

after(async () => {
  sns.destroy();
  sqs.destroy();
  await server.stop();
});

async function createTopic(Attributes, suffix = "") {
  return (await sns.createTopic({ Name: `js-${++count}${suffix}`, Attributes })).TopicArn;
}

/** A new queue that is subscribed: `{ QueueUrl, QueueArn, SubscriptionArn }`. */
async function subscribed(TopicArn, Attributes = {}, queue = {}) {
  const suffix = queue.FifoQueue ? ".fifo" : "";
  const { QueueUrl } = await sqs.createQueue({ QueueName: `js-${++count}${suffix}`, Attributes: queue });
  const AttributeNames = ["QueueArn"];
  const { QueueArn } = (await sqs.getQueueAttributes({ QueueUrl, AttributeNames })).Attributes;
  const request = { TopicArn, Protocol: "sqs", Endpoint: QueueArn, Attributes };
  const { SubscriptionArn } = await sns.subscribe(request);
  return { QueueUrl, QueueArn, SubscriptionArn };
}

/** All messages of a queue, which has no others: publishes are answered after they are in every queue. */
async function received(QueueUrl) {
  const all = [];
  for (;;) {
    const names = { MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] };
    const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10, ...names });
    if (Messages.length === 0) return all;
    const Entries = Messages.map(({ ReceiptHandle }, n) => ({ Id: `${n}`, ReceiptHandle }));
    await sqs.deleteMessageBatch({ QueueUrl, Entries });
    all.push(...Messages);
  }
}

async function bodies(QueueUrl) {
  return (await received(QueueUrl)).map(({ Body }) => Body).sort();
}

function text(StringValue, DataType = "String") {
  return { DataType, StringValue };
}

describe("topics", () => {
  test("are created, described, changed, listed, tagged and deleted", async () => {
    const TopicArn = await createTopic({ DisplayName: "Orders" });

    const again = await sns.createTopic({ Name: TopicArn.split(":").at(-1), Attributes: { DisplayName: "Orders" } });
    await sns.setTopicAttributes({ TopicArn, AttributeName: "DisplayName", AttributeValue: "h\u00e9" });
    const { Attributes } = await sns.getTopicAttributes({ TopicArn });
    await sns.tagResource({ ResourceArn: TopicArn, Tags: [{ Key: "team", Value: "a" }, { Key: "x", Value: "" }] });
    await sns.untagResource({ ResourceArn: TopicArn, TagKeys: ["x"] });

    assert.equal(TopicArn, `${TOPIC}:js-${count}`);
    assert.equal(again.TopicArn, TopicArn);
    assert.equal(Attributes.TopicArn, TopicArn);
    assert.equal(Attributes.Owner, OWNER);
    assert.equal(Attributes.DisplayName, "h\u00e9");
    assert.equal(Attributes.SubscriptionsConfirmed, "0");
    assert.equal(JSON.parse(Attributes.EffectiveDeliveryPolicy).http.defaultHealthyRetryPolicy.numRetries, 3);
    assert.equal(JSON.parse(Attributes.Policy).Statement[0].Resource, TopicArn);
    assert.deepEqual((await sns.listTagsForResource({ ResourceArn: TopicArn })).Tags, [{ Key: "team", Value: "a" }]);
    assert.ok((await sns.listTopics({})).Topics.some((topic) => topic.TopicArn === TopicArn));
    await sns.deleteTopic({ TopicArn });
    await sns.deleteTopic({ TopicArn });
    assert.ok(!(await sns.listTopics({})).Topics.some((topic) => topic.TopicArn === TopicArn));
    await assert.rejects(sns.getTopicAttributes({ TopicArn }), sdk.NotFoundException);
  });

  test("are listed page by page", async () => {
    const made = [];
    for (let n = 0; n < 101; n++) made.push(await createTopic());

    const listed = [];
    for await (const page of sdk.paginateListTopics({ client: sns }, {})) {
      assert.ok(page.Topics.length <= 100);
      listed.push(...page.Topics.map(({ TopicArn }) => TopicArn));
    }

    assert.equal(new Set(listed).size, listed.length);
    assert.deepEqual(made.filter((arn) => !listed.includes(arn)), []);
  });

  test("have a policy that permissions change", async () => {
    const TopicArn = await createTopic();
    const permission = { AWSAccountId: ["111111111111"], ActionName: ["Publish"] };
    const statements = async () => JSON.parse((await sns.getTopicAttributes({ TopicArn })).Attributes.Policy).Statement;

    await sns.addPermission({ TopicArn, Label: "other", ...permission });

    const { Sid, Action } = (await statements()).at(-1);
    assert.deepEqual({ Sid, Action }, { Sid: "other", Action: "SNS:Publish" });
    await sns.removePermission({ TopicArn, Label: "other" });
    assert.equal((await statements()).length, 1);
  });
});

describe("subscriptions", () => {
  test("are described, changed, listed and ended", async () => {
    const TopicArn = await createTopic();
    const one = await subscribed(TopicArn);
    const two = await subscribed(TopicArn, { RawMessageDelivery: "true" });
    const { SubscriptionArn } = one;
    const FilterPolicy = '{"kind":["a"]}';

    await sns.setSubscriptionAttributes({ SubscriptionArn, AttributeName: "FilterPolicy", AttributeValue: FilterPolicy });
    const { Attributes } = await sns.getSubscriptionAttributes({ SubscriptionArn });
    const { Subscriptions } = await sns.listSubscriptionsByTopic({ TopicArn });

    assert.equal(Attributes.FilterPolicy, FilterPolicy);
    assert.equal(Attributes.FilterPolicyScope, "MessageAttributes");
    assert.equal(Attributes.RawMessageDelivery, "false");
    assert.equal(Attributes.PendingConfirmation, "false");
    assert.equal(Attributes.ConfirmationWasAuthenticated, "true");
    const shown = { SubscriptionArn, Owner: OWNER, Protocol: "sqs", Endpoint: one.QueueArn, TopicArn };
    assert.deepEqual(Subscriptions.find((listed) => listed.SubscriptionArn === SubscriptionArn), shown);
    assert.equal(Subscriptions.length, 2);
    await sns.unsubscribe({ SubscriptionArn });
    const left = (await sns.listSubscriptionsByTopic({ TopicArn })).Subscriptions;
    assert.deepEqual(left.map((listed) => listed.SubscriptionArn), [two.SubscriptionArn]);
    await sns.publish({ TopicArn, Message: "later" });
    assert.deepEqual([await bodies(one.QueueUrl), await bodies(two.QueueUrl)], [[], ["later"]]);
  });

  test("choose messages by their attributes", async () => {
    const TopicArn = await createTopic();
    const FilterPolicy = JSON.stringify({ kind: ["a", { prefix: "b" }], price: [{ numeric: [">=", 10] }] });
    const { QueueUrl } = await subscribed(TopicArn, { RawMessageDelivery: "true", FilterPolicy });
    const publish = (Message, kind, price) =>
      sns.publish({ TopicArn, Message, MessageAttributes: { kind: text(kind), price: text(price, "Number") } });

    await publish("exact", "a", "10");
    await publish("prefix", "bcd", "1e2");
    await publish("cheap", "a", "9.99");
    await publish("other kind", "c", "10");
    await sns.publish({ TopicArn, Message: "no attributes" });

    assert.deepEqual(await bodies(QueueUrl), ["exact", "prefix"]);
  });

  test("choose messages by their bodies", async () => {
    const TopicArn = await createTopic();
    const FilterPolicy = JSON.stringify({ order: { items: [{ exists: true }], state: [{ "anything-but": ["paid"] }] } });
    const scope = { FilterPolicyScope: "MessageBody", RawMessageDelivery: "true" };
    const { QueueUrl } = await subscribed(TopicArn, { ...scope, FilterPolicy });
    const messages = [
      '{"order":{"items":[1],"state":"open"}}',
      '{"order":{"items":[1],"state":"paid"}}',
      '{"order":{"state":"open"}}',
      "no JSON",
    ];

    for (const Message of messages) await sns.publish({ TopicArn, Message });

    assert.deepEqual(await bodies(QueueUrl), messages.slice(0, 1));
  });

  test("send what cannot be delivered to their dead-letter queue", async () => {
    const TopicArn = await createTopic();
    const dead = await sqs.createQueue({ QueueName: `js-${++count}` });
    const AttributeNames = ["QueueArn"];
    const { Attributes } = await sqs.getQueueAttributes({ QueueUrl: dead.QueueUrl, AttributeNames });
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: Attributes.QueueArn });
    const gone = await subscribed(TopicArn, { RawMessageDelivery: "true", RedrivePolicy });

    await sqs.deleteQueue({ QueueUrl: gone.QueueUrl });
    await sns.publish({ TopicArn, Message: "lost?" });

    assert.deepEqual(await bodies(dead.QueueUrl), ["lost?"]);
  });
});

describe("messages", () => {
  test("come to every queue, in an envelope", async () => {
    const TopicArn = await createTopic();
    const queues = [await subscribed(TopicArn), await subscribed(TopicArn)];
    const bytes = Uint8Array.from({ length: 256 }, (_, n) => n);
    const MessageAttributes = {
      text: text("h\u00e9"),
      number: text("99.12", "Number.float"),
      array: text('["a",1,true,null]', "String.Array"),
      bytes: { DataType: "Binary.png", BinaryValue: bytes },
    };
    const Message = "h\u00e9\u2603\u{1f600}\ttab \"quote\" <&>\r\n";

    const { MessageId } = await sns.publish({ TopicArn, Message, Subject: "s", MessageAttributes });

    for (const { QueueUrl, SubscriptionArn } of queues) {
      const [message, ...others] = await received(QueueUrl);
      assert.deepEqual(others, []);
      assert.equal(message.MessageAttributes, undefined);
      const { Timestamp, Signature, SigningCertURL, UnsubscribeURL, ...told } = JSON.parse(message.Body);
      assert.deepEqual(told, {
        Type: "Notification",
        MessageId,
        TopicArn,
        Subject: "s",
        Message,
        SignatureVersion: "1",
        MessageAttributes: {
          text: { Type: "String", Value: "h\u00e9" },
          number: { Type: "Number.float", Value: "99.12" },
          array: { Type: "String.Array", Value: '["a",1,true,null]' },
          bytes: { Type: "Binary.png", Value: Buffer.from(bytes).toString("base64") },
        },
      });
      assert.ok(Math.abs(Date.now() - Date.parse(Timestamp)) < 60_000);
      assert.equal(Buffer.from(Signature, "base64").length, 256);
      assert.match(await (await fetch(SigningCertURL)).text(), /^-----BEGIN CERTIFICATE-----/);
      assert.equal(UnsubscribeURL, `${server.endpoint}/?Action=Unsubscribe&SubscriptionArn=${SubscriptionArn}`);
    }
  });

  test("come raw, with their attributes", async () => {
    const TopicArn = await createTopic();
    const { QueueUrl } = await subscribed(TopicArn, { RawMessageDelivery: "true" });
    const bytes = Uint8Array.from([0, 1, 255]);
    const MessageAttributes = { text: text("\u{1f600}"), bytes: { DataType: "Binary", BinaryValue: bytes } };
    const Message = "x".repeat(200_000);

    await sns.publish({ TopicArn, Message, Subject: "not in raw messages", MessageAttributes });

    const [message] = await received(QueueUrl);
    assert.equal(message.Body, Message);
    assert.deepEqual(message.MessageAttributes.text, text("\u{1f600}"));
    assert.deepEqual([...message.MessageAttributes.bytes.BinaryValue], [...bytes]);
    assert.deepEqual(Object.keys(message.MessageAttributes).sort(), ["bytes", "text"]);
  });

  test("have a text for each protocol", async () => {
    const TopicArn = await createTopic();
    const { QueueUrl } = await subscribed(TopicArn, { RawMessageDelivery: "true" });
    const structure = { TopicArn, MessageStructure: "json" };

    await sns.publish({ ...structure, Message: JSON.stringify({ default: "d", sqs: "for queues" }) });
    await sns.publish({ ...structure, Message: JSON.stringify({ default: "d", http: "for URLs" }) });

    assert.deepEqual(await bodies(QueueUrl), ["d", "for queues"]);
  });

  test("come in batches", async () => {
    const TopicArn = await createTopic();
    const queues = [await subscribed(TopicArn, { RawMessageDelivery: "true" }), await subscribed(TopicArn)];
    const PublishBatchRequestEntries = Array.from({ length: 10 }, (_, n) => ({
      Id: `id-${n}`,
      Message: `message ${n}`,
      MessageAttributes: { n: text(`${n}`, "Number") },
    }));

    const { Successful, Failed } = await sns.publishBatch({ TopicArn, PublishBatchRequestEntries });

    const texts = PublishBatchRequestEntries.map(({ Message }) => Message);
    assert.deepEqual(Failed ?? [], []);
    assert.deepEqual(Successful.map(({ Id }) => Id), PublishBatchRequestEntries.map(({ Id }) => Id));
    assert.deepEqual(await bodies(queues[0].QueueUrl), texts);
    const notifications = (await bodies(queues[1].QueueUrl)).map((body) => JSON.parse(body));
    assert.deepEqual(notifications.map(({ Message }) => Message).sort(), texts);
    const ids = Successful.map(({ MessageId }) => MessageId).sort();
    assert.deepEqual(notifications.map(({ MessageId }) => MessageId).sort(), ids);
  });
});

describe("FIFO topics", () => {
  const FIFO_QUEUE = { FifoQueue: "true" };

  test("keep the order of groups and drop what was published before", async () => {
    const TopicArn = await createTopic({ FifoTopic: "true" }, ".fifo");
    const { QueueUrl } = await subscribed(TopicArn, { RawMessageDelivery: "true" }, FIFO_QUEUE);
    const enveloped = await subscribed(TopicArn, {}, FIFO_QUEUE);
    const publish = (Message, MessageGroupId, MessageDeduplicationId = Message) =>
      sns.publish({ TopicArn, Message, MessageGroupId, MessageDeduplicationId });

    const first = await publish("1", "g");
    for (const n of ["2", "3", "4"]) await publish(n, "g");
    const again = await publish("another text", "g", "1");

    assert.match(first.SequenceNumber, /^\d{20}$/);
    assert.equal(again.MessageId, first.MessageId);
    const messages = await received(QueueUrl);
    assert.deepEqual(messages.map(({ Body }) => Body), ["1", "2", "3", "4"]);
    assert.equal(messages[0].Attributes.MessageGroupId, "g");
    assert.equal(messages[0].Attributes.MessageDeduplicationId, "1");
    const notifications = (await received(enveloped.QueueUrl)).map(({ Body }) => JSON.parse(Body));
    assert.deepEqual(notifications.map(({ Message }) => Message), ["1", "2", "3", "4"]);
    assert.equal(notifications[0].SequenceNumber, first.SequenceNumber);
    assert.equal(notifications[0].Signature, undefined);
  });

  test("tell messages apart by their content", async () => {
    const attributes = { FifoTopic: "true", ContentBasedDeduplication: "true" };
    const TopicArn = await createTopic(attributes, ".fifo");
    const { QueueUrl } = await subscribed(TopicArn, { RawMessageDelivery: "true" }, FIFO_QUEUE);
    const entries = ["a", "b", "a"].map((Message, n) => ({ Id: `${n}`, Message, MessageGroupId: "g" }));

    const { Successful } = await sns.publishBatch({ TopicArn, PublishBatchRequestEntries: entries });
    await sns.publish({ TopicArn, Message: "b", MessageGroupId: "g" });

    assert.equal(Successful.length, 3);
    assert.deepEqual((await received(QueueUrl)).map(({ Body }) => Body), ["a", "b"]);
  });

  test("deliver to standard queues", async () => {
    const attributes = { FifoTopic: "true", ContentBasedDeduplication: "true" };
    const TopicArn = await createTopic(attributes, ".fifo");
    const { QueueUrl } = await subscribed(TopicArn, { RawMessageDelivery: "true" });

    await sns.publish({ TopicArn, Message: "a", MessageGroupId: "g" });

    const [{ Body, Attributes }] = await received(QueueUrl);
    assert.equal(Body, "a");
    assert.equal(Attributes.MessageDeduplicationId, undefined);
  });
});

describe("errors are the SDK's own classes", () => {
  const nowhere = { TopicArn: `${TOPIC}:nowhere` };
  const entry = { Id: "1", Message: "m" };
  const cases = {
    "a topic that does not exist": ["publish", { ...nowhere, Message: "m" }, "NotFoundException", /^Topic does not exist$/],
    "its attributes": ["getTopicAttributes", nowhere, "NotFoundException", /^Topic does not exist$/],
    "its tags": ["listTagsForResource", { ResourceArn: nowhere.TopicArn }, "ResourceNotFoundException", /./],
    "a subscription that does not exist": [
      "getSubscriptionAttributes",
      { SubscriptionArn: `${TOPIC}:nowhere:7a09ad81-3a8c-4c5b-9a55-0a2f4d4e5b11` },
      "NotFoundException",
      /^Subscription does not exist$/,
    ],
    "no message": ["publish", { Message: "" }, "InvalidParameterException", /^Invalid parameter: Empty message$/],
    "a message that is too long": [
      "publish",
      { Message: "x".repeat(262_145) },
      "InvalidParameterException",
      /^Invalid parameter: Message too long$/,
    ],
    "an attribute without a value": [
      "publish",
      { Message: "m", MessageAttributes: { a: { DataType: "String" } } },
      "InvalidParameterValueException",
      /^The message attribute 'a' must contain non-empty message attribute value/,
    ],
    "a structure without a default": [
      "publish",
      { Message: '{"sqs":"x"}', MessageStructure: "json" },
      "InvalidParameterException",
      /No default entry in JSON message body$/,
    ],
    "a protocol that is not known": [
      "subscribe",
      { Protocol: "pigeon", Endpoint: "roof" },
      "InvalidParameterException",
      /^Invalid parameter: Amazon SNS does not support this protocol string: pigeon$/,
    ],
    "a filter policy that is wrong": [
      "subscribe",
      { Protocol: "sqs", Endpoint: `arn:aws:sqs:us-east-1:${OWNER}:q`, Attributes: { FilterPolicy: '{"k":[]}' } },
      "InvalidParameterException",
      /^Invalid parameter: Attributes Reason: FilterPolicy: Empty arrays are not allowed/,
    ],
    "a token that is wrong": ["confirmSubscription", { Token: "x" }, "InvalidParameterException", /Token/],
    "an attribute that is not known": [
      "setTopicAttributes",
      { AttributeName: "Colour", AttributeValue: "red" },
      "InvalidParameterException",
      /^Invalid parameter: AttributeName$/,
    ],
    "a batch of eleven": [
      "publishBatch",
      { PublishBatchRequestEntries: Array.from({ length: 11 }, (_, n) => ({ ...entry, Id: `${n}` })) },
      "TooManyEntriesInBatchRequestException",
      /^The batch request contains more entries than permissible\.$/,
    ],
    "a batch of nothing": ["publishBatch", { PublishBatchRequestEntries: [] }, "EmptyBatchRequestException", /./],
    "an id twice": [
      "publishBatch",
      { PublishBatchRequestEntries: [entry, entry] },
      "BatchEntryIdsNotDistinctException",
      /^Two or more batch entries in the request have the same Id\.$/,
    ],
    "an id with a blank": [
      "publishBatch",
      { PublishBatchRequestEntries: [{ ...entry, Id: "a b" }] },
      "InvalidBatchEntryIdException",
      /./,
    ],
    "a batch that is too long": [
      "publishBatch",
      { PublishBatchRequestEntries: ["1", "2"].map((Id) => ({ Id, Message: "x".repeat(140_000) })) },
      "BatchRequestTooLongException",
      /^The length of all the messages put together is more than the limit\.$/,
    ],
    "51 tags": [
      "tagResource",
      (ResourceArn) => ({ ResourceArn, Tags: Array.from({ length: 51 }, (_, n) => ({ Key: `k${n}`, Value: "v" })) }),
      "TagLimitExceededException",
      /./,
    ],
  };

  for (const [what, [action, request, kind, message]] of Object.entries(cases)) {
    test(`${what}: ${kind}`, async () => {
      const TopicArn = await createTopic();
      const made = typeof request === "function" ? request(TopicArn) : { TopicArn, ...request };

      const error = await sns[action](made).then(() => assert.fail("it was taken"), (error) => error);

      assert.ok(error instanceof sdk[kind], `${error.name}: ${error.message}`);
      assert.match(error.message, message);
      assert.equal(error.$metadata.httpStatusCode, kind.includes("NotFound") ? 404 : 400);
      assert.match(error.$metadata.requestId, /^[0-9a-f-]{36}$/);
    });
  }

  test("FIFO topics insist on a group", async () => {
    const TopicArn = await createTopic({ FifoTopic: "true" }, ".fifo");
    const refused = sns.publish({ TopicArn, Message: "m", MessageDeduplicationId: "1" });
    await assert.rejects(refused, (error) => {
      assert.ok(error instanceof sdk.InvalidParameterException);
      assert.equal(error.message, "Invalid parameter: The MessageGroupId parameter is required for FIFO topics");
      return true;
    });
  });

  test("one wrong entry refuses the whole batch", async () => {
    const TopicArn = await createTopic({ FifoTopic: "true" }, ".fifo");
    const PublishBatchRequestEntries = [{ ...entry, MessageGroupId: "g", MessageDeduplicationId: "d" }, { ...entry, Id: "2" }];
    await assert.rejects(sns.publishBatch({ TopicArn, PublishBatchRequestEntries }), sdk.InvalidParameterException);
  });
});
