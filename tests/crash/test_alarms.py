"""The real binary is killed around changes of alarms.

- An alarm, a state and their history are there once they were answered.
- A change of state that is there is told to the queue at least once, whenever the server was killed.

`CRASH_ROUNDS` (20) and `CRASH_SEED` (random, printed) choose how often and when.
"""

import json
import os
import random
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError

from support.sdk import sdk_client

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "20"))
SEED = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
PAGES = "arn:aws:sqs:us-east-1:000000000000:pages"
RULE = {
    "Namespace": "Shop",
    "MetricName": "Sales",
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 1.0,
    "ComparisonOperator": "GreaterThanThreshold",
    "TreatMissingData": "ignore",
    "AlarmActions": [PAGES],
    "OKActions": [PAGES],
}


class Alarms:
    def __init__(self, server):
        self.server = server
        self.sqs = sdk_client(server)
        self.cloudwatch = sdk_client(server, service="cloudwatch")
        self.url = self.sqs.create_queue(QueueName="pages")["QueueUrl"]
        self.told = set()

    def crash(self):
        self.server.kill()
        self.server.start()

    def alarm(self, name):
        return self.cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]

    def changes(self, name) -> set:
        """The reasons of all changes of state in the history."""
        pages = self.cloudwatch.get_paginator("describe_alarm_history").paginate(
            AlarmName=name, HistoryItemType="StateUpdate"
        )
        items = [item for page in pages for item in page["AlarmHistoryItems"]]
        return {json.loads(item["HistoryData"])["newState"]["stateReason"] for item in items}

    def check_told(self, reasons):
        """That the queue was told of each of these changes, or is soon."""
        deadline = time.monotonic() + 20
        while not reasons <= self.told:
            assert time.monotonic() < deadline, f"never told: {sorted(reasons - self.told)[:5]}"
            answer = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            for message in answer.get("Messages", []):
                self.told.add(json.loads(message["Body"])["NewStateReason"])
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])


@pytest.fixture
def alarms(make_server, capsys):
    with capsys.disabled():
        print(f"alarms: seed {SEED}, {ROUNDS} rounds; CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS} repeats it")
    return Alarms(make_server(durability="fsync", test=False))


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_what_was_answered_before_a_kill_is_there(alarms):
    for number in range(ROUNDS // 2):
        name, reason = f"alarm-{number}", f"drill {number}"
        alarms.cloudwatch.put_metric_alarm(AlarmName=name, **RULE)
        alarms.crash()
        assert alarms.alarm(name)["StateValue"] == "INSUFFICIENT_DATA"

        alarms.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason=reason)
        alarms.crash()
        assert (alarms.alarm(name)["StateValue"], alarms.alarm(name)["StateReason"]) == ("ALARM", reason)
        assert alarms.changes(name) == {reason}
        alarms.check_told({reason})


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_a_kill_between_a_change_of_state_and_its_notification_loses_neither(alarms):
    rng = random.Random(SEED)
    names = [f"alarm-{number}" for number in range(4)]
    for name in names:
        alarms.cloudwatch.put_metric_alarm(AlarmName=name, **RULE)
    # Of one round: of an account the history has the latest 10,000 items.
    answered = {name: set() for name in names}
    total = dict.fromkeys(names, 0)

    def flip(cloudwatch, name, round_number, first):
        """Changes the state again and again until the server is killed."""
        for number in range(first, 1_000_000):
            reason = f"{name}, round {round_number}, change {number}"
            state = ["ALARM", "OK"][number % 2]
            try:
                cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason=reason)
            except BotoCoreError:
                return  # A cut call or a refused connection: nobody knows whether it happened.
            answered[name].add(reason)

    for round_number in range(ROUNDS):
        threads = []
        for name in names:
            # From the state that it is not in: each call is a change.
            first = int(alarms.alarm(name)["StateValue"] == "ALARM")
            client = sdk_client(alarms.server, service="cloudwatch")
            threads.append(threading.Thread(target=flip, args=(client, name, round_number, first)))
        for thread in threads:
            thread.start()
        time.sleep(rng.uniform(0.02, 0.3))
        alarms.server.kill()
        for thread in threads:
            thread.join()
        alarms.server.start()
        for name in names:
            changes = alarms.changes(name)
            assert answered[name] <= changes, "what was answered is there"
            assert alarms.alarm(name)["StateReason"] in changes, "a state and its history are one"
            alarms.check_told(changes)
            total[name] += len(answered[name])
            answered[name].clear()
    assert all(total[name] > ROUNDS for name in names)
