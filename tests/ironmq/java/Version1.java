// io.iron.ironmq 0.0.19, which speaks version 1, against the server that the environment names.

import io.iron.ironmq.Client;
import io.iron.ironmq.Cloud;
import io.iron.ironmq.HTTPException;
import io.iron.ironmq.Ids;
import io.iron.ironmq.Message;
import io.iron.ironmq.Queue;
import io.iron.ironmq.Queues;
import java.net.URI;

public class Version1 {
  static void equal(Object one, Object other) {
    if (!one.equals(other)) throw new AssertionError(one + " is not " + other);
  }

  public static void main(String[] arguments) throws Exception {
    URI endpoint = new URI(System.getenv("IRON_ENDPOINT"));
    Cloud cloud = new Cloud("http", endpoint.getHost(), endpoint.getPort());
    Client client = new Client(System.getenv("IRON_PROJECT"), "token", cloud);
    Queue jobs = client.queue("jobs");

    String id = jobs.push("a");
    Ids ids = jobs.pushMessages(new String[] {"b", "c"}, 90);
    equal(ids.getSize(), 2);
    equal(jobs.getInfoAboutQueue().getSize(), 3);
    equal(new Queues(client).getAllQueues().get(0).getName(), "jobs");
    equal(jobs.peek().getBody(), "a");
    equal(jobs.peek(3).getSize(), 3);
    equal(jobs.getMessageById(id).getBody(), "a");
    Message message = jobs.get();
    equal(message.getId(), id);
    equal(message.getReservedCount(), 1L);
    jobs.touchMessage(id);
    jobs.releaseMessage(id, 0);
    message = jobs.get();
    equal(message.getBody(), "a");
    jobs.deleteMessage(message);
    equal(jobs.get(2, 60, 1).getSize(), 2);
    jobs.deleteMessages(ids);
    equal(jobs.getInfoAboutQueue().getSize(), 0);
    jobs.push("d", 90, 60);
    jobs.clear();
    equal(jobs.getInfoAboutQueue().getSize(), 0);
    jobs.destroy();
    try {
      jobs.getInfoAboutQueue();
    } catch (HTTPException missing) {
      equal(missing.getStatusCode(), 404);
      equal(missing.getMessage(), "Queue not found");
      return;
    }
    throw new AssertionError("the queue is still there");
  }
}
