"""Topics that deliver to HTTP endpoints: confirmation, headers, signatures, retries, dead letters."""

import base64
import http.server
import json
import queue as queues
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError

from support.prometheus import of, scrape
from support.sdk import sdk_client
from support.waiting import eventually


class Receiver:
    """An HTTP server that keeps what it is sent and answers with the statuses in `answers`, then 200."""

    def __init__(self):
        received, answers = self.received, self.answers = queues.Queue(), queues.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                received.put((self.path, dict(self.headers), body))
                status = answers.get_nowait() if not answers.empty() else 200
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        return self.received.get(timeout=30)


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture(scope="session")
def sns(server):
    return sdk_client(server, service="sns")


@pytest.fixture
def topic(sns, new_name):
    return sns.create_topic(Name=new_name())["TopicArn"]


@pytest.fixture
def subscribed(sns, receiver, topic):
    """Subscribes the receiver and confirms that by the link, as a browser would."""

    def subscribe(path="/", **attributes):
        request = {"TopicArn": topic, "Protocol": "http", "Endpoint": receiver.url + path}
        answer = sns.subscribe(**request, Attributes=attributes)
        assert answer["SubscriptionArn"] == "pending confirmation"
        confirmation = json.loads(receiver.next()[2])
        with urllib.request.urlopen(confirmation["SubscribeURL"]) as confirmed:
            text = confirmed.read().decode()
        arn = text.split("<SubscriptionArn>")[1].split("<")[0]
        assert arn.startswith(topic + ":")
        return arn

    return subscribe


@pytest.fixture
def verified(tmp_path):
    """Checks the signature of a notification with OpenSSL, by the certificate at its URL."""

    def openssl(*arguments):
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def verify(notification):
        names = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
        text = "".join(f"{name}\n{notification[name]}\n" for name in names if name in notification)
        with urllib.request.urlopen(notification["SigningCertURL"]) as answer:
            (tmp_path / "certificate").write_bytes(answer.read())
        (tmp_path / "text").write_text(text)
        (tmp_path / "signature").write_bytes(base64.b64decode(notification["Signature"]))
        certificate, key = tmp_path / "certificate", tmp_path / "key"
        openssl("verify", "-CAfile", certificate, "-check_ss_sig", certificate)
        key.write_text(openssl("x509", "-in", certificate, "-noout", "-pubkey"))
        digest = {"1": "-sha1", "2": "-sha256"}[notification["SignatureVersion"]]
        signed = ["-signature", tmp_path / "signature", tmp_path / "text"]
        openssl("dgst", digest, "-verify", key, *signed)
        return notification

    return verify


def test_endpoint_is_asked_and_then_gets_messages(sns, topic, receiver, verified):
    request = {"TopicArn": topic, "Protocol": "http", "Endpoint": receiver.url + "/hook?x=1"}
    pending = sns.subscribe(**request, ReturnSubscriptionArn=True)["SubscriptionArn"]
    path, headers, body = receiver.next()

    assert path == "/hook?x=1"
    assert headers["x-amz-sns-message-type"] == "SubscriptionConfirmation"
    assert headers["x-amz-sns-topic-arn"] == topic
    assert "x-amz-sns-subscription-arn" not in headers
    confirmation = verified(json.loads(body))
    assert headers["x-amz-sns-message-id"] == confirmation["MessageId"]

    sns.publish(TopicArn=topic, Message="lost: nobody has confirmed")
    arn = sns.confirm_subscription(TopicArn=topic, Token=confirmation["Token"])["SubscriptionArn"]
    assert arn == pending
    published = sns.publish(
        TopicArn=topic,
        Subject="hi",
        Message="ö\nmessage",
        MessageAttributes={"a": {"DataType": "String", "StringValue": "b"}},
    )
    path, headers, body = receiver.next()

    notification = verified(json.loads(body))
    assert (notification["Message"], notification["Subject"]) == ("ö\nmessage", "hi")
    assert notification["MessageAttributes"] == {"a": {"Type": "String", "Value": "b"}}
    assert notification["MessageId"] == published["MessageId"] == headers["x-amz-sns-message-id"]
    assert headers["x-amz-sns-message-type"] == "Notification"
    assert headers["x-amz-sns-subscription-arn"] == arn
    assert headers["Content-Type"] == "text/plain; charset=UTF-8"
    assert headers["User-Agent"] == "Amazon Simple Notification Service Agent"
    assert "x-amz-sns-rawdelivery" not in headers


def test_signature_version_is_the_topics(sns, topic, receiver, subscribed, verified):
    subscribed()
    for version in ["2", "1"]:
        sns.set_topic_attributes(TopicArn=topic, AttributeName="SignatureVersion", AttributeValue=version)
        sns.publish(TopicArn=topic, Message="m")
        assert verified(json.loads(receiver.next()[2]))["SignatureVersion"] == version


def test_raw_delivery_is_the_bare_message(sns, topic, receiver, subscribed):
    policy = {"requestPolicy": {"headerContentType": "application/json"}}
    subscribed(RawMessageDelivery="true", DeliveryPolicy=json.dumps(policy))
    sns.publish(TopicArn=topic, Message='{"a": 1}')
    _, headers, body = receiver.next()

    assert (headers["x-amz-sns-rawdelivery"], body) == ("true", '{"a": 1}')
    assert headers["Content-Type"] == "application/json"


def test_link_in_a_notification_ends_the_subscription(sns, topic, receiver, subscribed, verified):
    arn = subscribed()
    sns.publish(TopicArn=topic, Message="m")
    notification = json.loads(receiver.next()[2])

    with urllib.request.urlopen(notification["UnsubscribeURL"]) as ended:
        assert ended.status == 200
    _, headers, body = receiver.next()
    farewell = verified(json.loads(body))
    assert headers["x-amz-sns-message-type"] == farewell["Type"] == "UnsubscribeConfirmation"
    assert headers["x-amz-sns-subscription-arn"] == arn
    with pytest.raises(ClientError, match="Subscription does not exist"):
        sns.get_subscription_attributes(SubscriptionArn=arn)

    with urllib.request.urlopen(farewell["SubscribeURL"]) as revived:
        assert arn in revived.read().decode()
    sns.publish(TopicArn=topic, Message="again")
    assert json.loads(receiver.next()[2])["Message"] == "again"


def test_failed_deliveries_are_retried_and_go_to_the_dead_letter_queue(
    sns, sqs, queue, arn, topic, receiver, subscribed
):
    dead_letters = queue()
    policy = {"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}}
    redrive = {"deadLetterTargetArn": arn(dead_letters)}
    subscribed(DeliveryPolicy=json.dumps(policy), RedrivePolicy=json.dumps(redrive))
    for answers, attempts in [([500, 503, 429], 3), ([404], 1), ([302], 1)]:
        for status in answers:
            receiver.answers.put(status)
        sns.publish(TopicArn=topic, Message=str(answers))
        bodies = {receiver.next()[2] for _ in range(attempts)}

        found = sqs.receive_message(QueueUrl=dead_letters, WaitTimeSeconds=20)["Messages"]
        assert {message["Body"] for message in found} == bodies
        sqs.delete_message(QueueUrl=dead_letters, ReceiptHandle=found[0]["ReceiptHandle"])
    for status in [500, 503]:
        receiver.answers.put(status)
    sns.publish(TopicArn=topic, Message="third time lucky")
    assert len({receiver.next()[2] for _ in range(3)}) == 1
    assert receiver.received.empty()


def test_settings_that_change_while_nothing_comes_count_for_the_next_message(
    sns, sqs, queue, arn, topic, receiver, subscribed
):
    subscription, dead_letters = subscribed(), queue()
    for name, value in [
        ("RedrivePolicy", {"deadLetterTargetArn": arn(dead_letters)}),
        ("DeliveryPolicy", {"requestPolicy": {"headerContentType": "application/json"}}),
    ]:
        sns.set_subscription_attributes(
            SubscriptionArn=subscription, AttributeName=name, AttributeValue=json.dumps(value)
        )
    receiver.answers.put(404)
    sns.publish(TopicArn=topic, Message="m")

    assert receiver.next()[1]["Content-Type"] == "application/json"
    (found,) = sqs.receive_message(QueueUrl=dead_letters, WaitTimeSeconds=20)["Messages"]
    assert json.loads(found["Body"])["Message"] == "m"


def test_the_token_of_a_refused_confirmation_goes_to_nobody_else(sns, sqs, queue, arn, topic, receiver, subscribed):
    dead_letters = queue()
    redrive = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn(dead_letters)})}
    receiver.answers.put(404)
    sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=receiver.url + "/unwilling", Attributes=redrive)
    assert receiver.next()[1]["x-amz-sns-message-type"] == "SubscriptionConfirmation"
    subscribed(**redrive)
    receiver.answers.put(404)
    sns.publish(TopicArn=topic, Message="m")

    found = sqs.receive_message(QueueUrl=dead_letters, WaitTimeSeconds=20, MaxNumberOfMessages=10)["Messages"]
    assert [json.loads(message["Body"])["Type"] for message in found] == ["Notification"]


def test_delivery_policies_are_checked_and_shown(sns, topic, subscribed):
    subscription = subscribed()
    effective = lambda: json.loads(  # noqa: E731
        sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]["EffectiveDeliveryPolicy"]
    )
    set_own = lambda value: sns.set_subscription_attributes(  # noqa: E731
        SubscriptionArn=subscription, AttributeName="DeliveryPolicy", AttributeValue=json.dumps(value)
    )
    set_topics = lambda value: sns.set_topic_attributes(  # noqa: E731
        TopicArn=topic, AttributeName="DeliveryPolicy", AttributeValue=json.dumps(value)
    )
    assert effective()["healthyRetryPolicy"]["numRetries"] == 3

    set_topics({"http": {"defaultHealthyRetryPolicy": {"numRetries": 5}}})
    assert effective()["healthyRetryPolicy"]["numRetries"] == 5
    set_own({"healthyRetryPolicy": {"numRetries": 7}, "throttlePolicy": {"maxReceivesPerSecond": 4}})
    assert effective()["healthyRetryPolicy"]["numRetries"] == 7
    assert effective()["throttlePolicy"] == {"maxReceivesPerSecond": 4}
    set_topics({"http": {"disableSubscriptionOverrides": True}})
    assert effective()["healthyRetryPolicy"]["numRetries"] == 3

    with pytest.raises(ClientError) as refused:
        set_own({"healthyRetryPolicy": {"minDelayTarget": 0}})
    text = "Invalid parameter: DeliveryPolicy: healthyRetryPolicy.minDelayTarget must be greater than or equal to 1"
    assert refused.value.response["Error"]["Message"] == text
    with pytest.raises(ClientError, match="http.defaultHealthyRetryPolicy.numRetries must be less"):
        set_topics({"http": {"defaultHealthyRetryPolicy": {"numRetries": 101}}})


def test_a_pending_endpoint_may_confirm_by_any_of_its_confirmations(sns, topic, receiver):
    request = {"TopicArn": topic, "Protocol": "http", "Endpoint": receiver.url}
    first, second = [sns.subscribe(**request) and json.loads(receiver.next()[2]) for _ in range(2)]
    assert first["MessageId"] != second["MessageId"]

    confirmed = {
        sns.confirm_subscription(TopicArn=topic, Token=confirmation["Token"])["SubscriptionArn"]
        for confirmation in [first, second]
    }
    assert len(confirmed) == 1
    assert sns.get_topic_attributes(TopicArn=topic)["Attributes"]["SubscriptionsConfirmed"] == "1"


def test_tokens_are_good_for_two_days(make_server, receiver):
    server = make_server(test=True)
    sns = sdk_client(server, service="sns")
    topic = sns.create_topic(Name="t")["TopicArn"]
    request = {"TopicArn": topic, "Protocol": "http", "Endpoint": receiver.url}

    def confirmation():
        sns.subscribe(**request)
        return json.loads(receiver.next()[2])["Token"]

    first = confirmation()
    server.advance(2 * 24 * 3600 + 1)
    with pytest.raises(ClientError, match="Invalid token"):
        sns.confirm_subscription(TopicArn=topic, Token=first)
    second = confirmation()
    assert second != first
    server.advance(24 * 3600)
    sns.confirm_subscription(TopicArn=topic, Token=second)


def test_a_signed_confirmation_forbids_the_link_that_unsubscribes(sns, topic, receiver):
    request = {"TopicArn": topic, "Protocol": "http", "Endpoint": receiver.url}
    arn = sns.subscribe(**request, ReturnSubscriptionArn=True)["SubscriptionArn"]
    confirmation = json.loads(receiver.next()[2])
    link = confirmation["SubscribeURL"]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(link + "&AuthenticateOnUnsubscribe=true")
    with urllib.request.urlopen(link) as confirmed:
        assert confirmed.status == 200
    # The link has confirmed it; whoever can sign may still forbid links.
    token = {"TopicArn": topic, "Token": confirmation["Token"]}
    assert sns.confirm_subscription(**token, AuthenticateOnUnsubscribe="true")["SubscriptionArn"] == arn
    attributes = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert attributes["ConfirmationWasAuthenticated"] == "true"

    sns.publish(TopicArn=topic, Message="m")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(json.loads(receiver.next()[2])["UnsubscribeURL"])
    sns.confirm_subscription(**token)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(link.replace("ConfirmSubscription", "Unsubscribe") + f"&SubscriptionArn={arn}")
    sns.unsubscribe(SubscriptionArn=arn)


def test_a_dead_letter_has_what_queues_take(sns, sqs, queue, arn, topic, receiver, subscribed):
    dead_letters = queue()
    policy = json.dumps({"deadLetterTargetArn": arn(dead_letters)})
    subscribed(RawMessageDelivery="true", RedrivePolicy=policy)
    for text in ["\0", "m"]:
        receiver.answers.put(404)
        sns.publish(TopicArn=topic, Message=text)
        assert receiver.next()[2] == text
    found = sqs.receive_message(QueueUrl=dead_letters, WaitTimeSeconds=20, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in found] == ["m"]


def test_a_post_that_a_crash_cut_off_is_made_again_soon(make_server):
    came, may_answer = queues.Queue(), threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            came.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if self.headers["x-amz-sns-message-type"] == "Notification":
                may_answer.wait(60)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        server = make_server()
        sns = sdk_client(server, service="sns")
        topic = sns.create_topic(Name="t")["TopicArn"]
        url = f"http://127.0.0.1:{endpoint.server_address[1]}/"
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=url)
        sns.confirm_subscription(TopicArn=topic, Token=came.get(timeout=30)["Token"])
        sns.publish(TopicArn=topic, Message="m")
        assert came.get(timeout=30)["Message"] == "m"
        server.kill()
        server.start()
        # The endpoint's 15 seconds, and a few more.
        assert came.get(timeout=25)["Message"] == "m"
        may_answer.set()
        endpoint.shutdown()


def test_deliveries_and_key_survive_kill(make_server, receiver, verified):
    server = make_server()
    sns = sdk_client(server, service="sns")
    topic = sns.create_topic(Name="t")["TopicArn"]
    policy = json.dumps({"healthyRetryPolicy": {"minDelayTarget": 2, "maxDelayTarget": 2}})
    request = {"TopicArn": topic, "Protocol": "http", "Endpoint": receiver.url}
    sns.subscribe(**request, Attributes={"DeliveryPolicy": policy})
    token = json.loads(receiver.next()[2])["Token"]
    sns.confirm_subscription(TopicArn=topic, Token=token)
    # The first attempt fails, and the second would come two seconds later.
    receiver.answers.put(500)
    sns.publish(TopicArn=topic, Message="m")
    first = receiver.next()[2]
    server.kill()

    server.start()
    assert receiver.next()[2] == first
    verified(json.loads(first))


def test_deliveries_are_counted_and_an_outage_is_logged_once(make_server, receiver):
    server = make_server()
    sns, sqs, cloudwatch = (sdk_client(server, service=name) for name in ["sns", "sqs", "cloudwatch"])
    topic = sns.create_topic(Name="t")["TopicArn"]
    sqs.create_queue(QueueName="lost")
    attributes = {
        "DeliveryPolicy": json.dumps({"healthyRetryPolicy": {"numRetries": 0}}),
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:lost"}),
    }
    request = {"TopicArn": topic, "Protocol": "http", "Endpoint": receiver.url, "Attributes": attributes}
    subscription = sns.subscribe(**request, ReturnSubscriptionArn=True)["SubscriptionArn"]
    sns.confirm_subscription(TopicArn=topic, Token=json.loads(receiver.next()[2])["Token"])

    def settled(figure, count):
        is_settled = lambda: of(scrape(server), figure) == count  # noqa: E731
        eventually(is_settled, f"{figure} is {count}")

    for count in [1, 2, 3]:
        receiver.answers.put(503)
        sns.publish(TopicArn=topic, Message="m")
        settled("millrace_push_failed_total", count)
    of_endpoint = {"subscription": subscription}
    series = scrape(server)
    assert of(series, "millrace_push_failing_endpoints") == of(series, "millrace_push_endpoints") == 1
    sns.publish(TopicArn=topic, Message="m")
    settled("millrace_push_delivered_total", 2)
    eventually(lambda: of(scrape(server), "millrace_push_waiting") == 0, "nothing waits")

    series = scrape(server)
    for figure, count in [("attempts", 5), ("delivered", 2), ("retried", 0), ("failed", 3), ("redriven", 3)]:
        assert of(series, f"millrace_push_{figure}_total") == count, figure
        assert of(series, f"millrace_push_endpoint_{figure}_total", **of_endpoint) == count, figure
    assert of(series, "millrace_push_failing_endpoints") == of(series, "millrace_push_in_flight") == 0
    assert of(series, "millrace_push_endpoint_waiting", **of_endpoint) == 0
    # The confirmation is no notification.
    assert (of(series, "millrace_sns_delivered_total"), of(series, "millrace_sns_failed_total")) == (1, 3)

    def total(metric):
        now = server.now()
        asked = {"StartTime": now - 3600, "EndTime": now + 60, "Period": 60, "Statistics": ["Sum"]}
        asked |= {"Namespace": "AWS/SNS", "Dimensions": [{"Name": "TopicName", "Value": "t"}]}
        points = cloudwatch.get_metric_statistics(MetricName=metric, **asked)["Datapoints"]
        return sum(point["Sum"] for point in points)

    assert total("NumberOfMessagesPublished") == 4
    assert total("NumberOfNotificationsDelivered") == 1
    assert total("NumberOfNotificationsFailed") == total("NumberOfNotificationsRedrivenToDlq") == 3
    log = server.log.read_text()
    (given_up,) = [line for line in log.splitlines() if "a delivery is given up" in line]
    assert " WARN " in given_up and subscription in given_up and "status 503" in given_up
    (again,) = [line for line in log.splitlines() if "takes deliveries again" in line]
    assert "given_up=3" in again
    assert "deliveries to an endpoint fail" not in log, "nothing was retried"


def test_an_ended_subscription_is_forgotten_once_no_token_revives_it(make_server, receiver):
    server = make_server()
    sns = sdk_client(server, service="sns")
    topic = sns.create_topic(Name="t")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=receiver.url)
    with urllib.request.urlopen(json.loads(receiver.next()[2])["SubscribeURL"]):
        pass
    sns.publish(TopicArn=topic, Message="m")
    with urllib.request.urlopen(json.loads(receiver.next()[2])["UnsubscribeURL"]):
        pass

    def kept_after(seconds):
        """Subscriptions that are kept, once another request has looked for outdated ones."""
        server.advance(seconds)
        sns.unsubscribe(SubscriptionArn=topic + ":00000000-0000-4000-8000-000000000000")
        return of(scrape(server), "millrace_sns_subscriptions")

    assert kept_after(47 * 3600) == 1
    assert kept_after(2 * 3600) == 0
