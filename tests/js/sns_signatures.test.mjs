// Signatures of SNS messages, checked by two verifiers that others wrote. `sns-validator` is told which host it may
// trust. `sns-payload-validator` trusts Amazon's names alone, so that one's server is called by such a name.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import https from "node:https";
import { after, before, describe, test } from "node:test";

import { SNS } from "@aws-sdk/client-sns";
import { SQS } from "@aws-sdk/client-sqs";
import PayloadValidator from "sns-payload-validator";
import MessageValidator from "sns-validator";

import { startServer } from "./server.mjs";

const AMAZON = "sns.us-east-1.amazonaws.com";
const VERSIONS = ["1", "2"];
/** Members that signatures are of: a change of any one has to be found. */
const SIGNED = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn"];

/** Dials the server, whatever name is called; it has to prove that the name is its own. */
class AgentOf extends https.Agent {
  constructor({ port, certificate }) {
    super({ ca: certificate });
    this.port = port;
  }

  createConnection(options, callback) {
    return super.createConnection({ ...options, host: "127.0.0.1", port: this.port }, callback);
  }
}

const VERIFIERS = {
  "sns-validator": {
    more: [],
    verifier(agent) {
      const validator = new MessageValidator(/^127\.0\.0\.1:\d+$/);
      https.globalAgent = agent; // It takes none.
      return (message) =>
        new Promise((resolve, reject) => {
          validator.validate(message, (error, valid) => (error ? reject(error) : resolve(valid)));
        });
    },
  },
  "sns-payload-validator": {
    more: ["--public-url", `https://${AMAZON}`],
    verifier(requestAgent) {
      const validator = new PayloadValidator({ requestAgent });
      return (message) => validator.validate(message);
    },
  },
};

for (const [name, { more, verifier }] of Object.entries(VERIFIERS)) {
  describe(name, { timeout: 60_000 }, () => {
    let server;
    let sns;
    let sqs;
    let agent;
    let verify;
    let receiver;
    let count = 0;

    before(async () => {
      server = await startServer({ more, tlsFor: ["127.0.0.1", AMAZON] });
      agent = new AgentOf(server);
      const options = {
        endpoint: server.endpoint,
        region: "us-east-1",
        credentials: { accessKeyId: "test", secretAccessKey: "test" },
        requestHandler: { httpsAgent: agent },
        maxAttempts: 1,
      };
      sns = new SNS(options);
      sqs = new SQS(options);
      verify = verifier(agent);
      receiver = await startReceiver();
    });

    after(async () => {
      sns.destroy();
      sqs.destroy();
      agent.destroy();
      receiver.close();
      await server.stop();
    });

    /** What an HTTP endpoint gets that subscribes: the next message of the kind. */
    async function subscribe(TopicArn) {
      const url = `${receiver.url}/${++count}`;
      const asked = receiver.next(`/${count}`);
      await sns.subscribe({ TopicArn, Protocol: "http", Endpoint: url });
      return { message: await asked, next: () => receiver.next(new URL(url).pathname) };
    }

    async function createTopic(SignatureVersion) {
      return (await sns.createTopic({ Name: `js-${++count}`, Attributes: { SignatureVersion } })).TopicArn;
    }

    /** The message is good as it is, and no longer once something that is signed, or the signature, is changed. */
    async function check(body, version) {
      const message = JSON.parse(body);
      assert.equal(message.SignatureVersion, version);
      assert.ok(message.SigningCertURL.startsWith(`${server.endpoint}/`), message.SigningCertURL);
      assert.equal((await verify(body)).MessageId, message.MessageId);
      const signature = Buffer.from(message.Signature, "base64");
      signature[17] ^= 1;
      await assert.rejects(verify({ ...message, Signature: signature.toString("base64") }), /invalid/i);
      for (const member of SIGNED.filter((member) => member in message)) {
        await assert.rejects(verify({ ...message, [member]: `${message[member]} ` }), /invalid/i, member);
      }
      const other = version === "1" ? "2" : "1";
      await assert.rejects(verify({ ...message, SignatureVersion: other }), /invalid/i);
      return message;
    }

    for (const version of VERSIONS) {
      for (const Subject of [undefined, "h\u00e9llo"]) {
        test(`version ${version}: a notification in a queue, ${Subject ? "with" : "without"} a subject`, async () => {
          const TopicArn = await createTopic(version);
          const { QueueUrl } = await sqs.createQueue({ QueueName: `js-${++count}` });
          const Endpoint = `arn:aws:sqs:us-east-1:000000000000:js-${count}`;
          await sns.subscribe({ TopicArn, Protocol: "sqs", Endpoint });

          await sns.publish({ TopicArn, Subject, Message: "line\nline \u2603 \u{1f600} \"<&>\"\t" });

          const { Messages } = await sqs.receiveMessage({ QueueUrl });
          const message = await check(Messages[0].Body, version);
          assert.equal(message.Type, "Notification");
          assert.equal(message.Subject, Subject);
        });
      }

      test(`version ${version}: what an HTTP endpoint gets`, async () => {
        const TopicArn = await createTopic(version);

        const { message: confirmation, next } = await subscribe(TopicArn);
        const { Type, Token } = await check(confirmation, version);
        await sns.confirmSubscription({ TopicArn, Token });
        const delivered = next();
        await sns.publish({ TopicArn, Message: "m" });
        const notification = await check(await delivered, version);

        assert.equal(Type, "SubscriptionConfirmation");
        assert.equal(notification.Type, "Notification");
        assert.equal(notification.Message, "m");
      });
    }

    test("the end of a subscription is signed as its beginning is", async () => {
      const TopicArn = await createTopic("2");
      const { message, next } = await subscribe(TopicArn);
      await sns.confirmSubscription({ TopicArn, Token: JSON.parse(message).Token });
      const delivered = next();
      await sns.publish({ TopicArn, Message: "m" });
      const { UnsubscribeURL } = JSON.parse(await delivered);

      const asked = next();
      assert.equal(await statusOf(UnsubscribeURL, agent), 200);

      const body = await asked;
      assert.equal(JSON.parse(body).Type, "UnsubscribeConfirmation");
      // sns-validator leaves the token out of what it checks for this type alone, against Amazon's description.
      if (name === "sns-payload-validator") await check(body, "2");
    });
  });
}

/** The status of a GET without a signature, as of a link that is clicked. */
async function statusOf(url, agent) {
  const [answer] = await once(https.get(url, { agent }), "response");
  answer.resume();
  return answer.statusCode;
}

/** `{ url, next(path), close() }`: an endpoint that answers 200; `next` resolves to the next body for a path. */
async function startReceiver() {
  const waiting = new Map();
  const server = createServer(async (request, answer) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    answer.end();
    waiting.get(request.url)?.(Buffer.concat(parts).toString());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    next: (path) => new Promise((resolve) => waiting.set(path, resolve)),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
