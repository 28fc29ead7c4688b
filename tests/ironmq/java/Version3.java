// io.iron.ironmq 3.0.5, which speaks version 3, against the server that the environment names.

import io.iron.ironmq.Alert;
import io.iron.ironmq.Client;
import io.iron.ironmq.Cloud;
import io.iron.ironmq.EmptyQueueException;
import io.iron.ironmq.HTTPException;
import io.iron.ironmq.Ids;
import io.iron.ironmq.Message;
import io.iron.ironmq.Messages;
import io.iron.ironmq.Queue;
import io.iron.ironmq.QueueModel;
import io.iron.ironmq.Queues;
import io.iron.ironmq.Subscriber;
import java.util.ArrayList;
import java.util.List;

public class Version3 {
  interface Call {
    void run() throws Exception;
  }

  static void equal(Object one, Object other) {
    if (!one.equals(other)) throw new AssertionError(one + " is not " + other);
  }

  static void refused(int status, String text, Call call) throws Exception {
    try {
      call.run();
    } catch (HTTPException refusal) {
      equal(refusal.getStatusCode(), status);
      equal(refusal.getMessage(), text);
      return;
    }
    throw new AssertionError("not refused: " + text);
  }

  public static void main(String[] arguments) throws Exception {
    Cloud cloud = new Cloud(System.getenv("IRON_ENDPOINT"));
    Client client = new Client(System.getenv("IRON_PROJECT"), "token", cloud, 3);
    Queue jobs = client.queue("jobs");

    equal(jobs.create().getName(), "jobs");
    equal(jobs.update(new QueueModel(90, 7200)).getMessageTimeout(), 90);
    QueueModel info = jobs.getInfoAboutQueue();
    equal(info.getMessageExpiration(), 7200);
    equal(info.getSize(), 0);
    equal(Queues.getQueues(client).get(0).getName(), "jobs");
    equal(Queues.getQueues(client, "jobs", 10, null).size(), 0);
    equal(Queues.getQueues(client, "j").size(), 1);

    String id = jobs.push("a");
    Ids ids = jobs.pushMessages(new String[] {"b", "c", "d", "e"});
    equal(ids.getSize(), 4);
    equal(jobs.peek().getBody(), "a");
    equal(jobs.peek(3).getSize(), 3);
    equal(jobs.getMessageById(id).getBody(), "a");
    Message message = jobs.reserve();
    equal(message.getId(), id);
    equal(message.getReservedCount(), 1L);
    refused(400, "A reservation_id is required", () -> jobs.deleteMessage(id));
    String old = message.getReservationId();
    jobs.touchMessage(message, 120);
    if (message.getReservationId().equals(old)) throw new AssertionError("touch gave no new reservation");
    refused(403, "Reservation timed out", () -> jobs.deleteMessage(id, old));
    jobs.releaseMessage(message);
    message = jobs.reserve();
    equal(message.getBody(), "a");
    jobs.deleteMessage(message);
    refused(404, "Message not found", () -> jobs.deleteMessage(id));

    Messages two = jobs.reserve(2, 60, 1);
    equal(two.getSize(), 2);
    jobs.deleteMessages(two);
    equal(jobs.getInfoAboutQueue().getSize(), 2);
    jobs.deleteMessage(ids.getId(2));
    jobs.clear();
    try {
      jobs.reserve();
      throw new AssertionError("there is a message after the clear");
    } catch (EmptyQueueException expected) {
      // That is how it says so.
    }
    jobs.deleteMessages(jobs.pushMessages(new String[] {"x", "y"}));
    equal(jobs.getInfoAboutQueue().getSize(), 0);

    ArrayList<Alert> alerts = new ArrayList<>(List.of(new Alert(Alert.typeFixed, Alert.directionAscending, 10, "alarms")));
    equal(jobs.addAlertsToQueue(alerts).getAlerts().size(), 1);
    jobs.destroy();
    refused(404, "Queue not found", jobs::getInfoAboutQueue);

    Queue pushed = client.queue("pushed");
    ArrayList<Subscriber> subscribers = new ArrayList<>(List.of(new Subscriber("http://127.0.0.1:9/a", "a")));
    equal(pushed.create(subscribers, null, "multicast", 5, 30).getType(), "multicast");
    pushed.addSubscribers(new Subscriber[] {new Subscriber("http://127.0.0.1:9/b", "b")});
    equal(pushed.getInfoAboutQueue().getPushInfo().getSubscribers().size(), 2);
    pushed.removeSubscribers(subscribers);
    equal(pushed.getInfoAboutQueue().getPushInfo().getSubscribers().size(), 1);
    pushed.destroy();
  }
}
