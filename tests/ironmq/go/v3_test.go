// Package ironmq has both Go clients of IronMQ run against the server that the environment names.
package ironmq

import (
	"net/url"
	"os"
	"strconv"
	"testing"

	"github.com/iron-io/iron_go3/config"
	"github.com/iron-io/iron_go3/mq"
)

// Host and port of the server.
func server(t *testing.T) (string, uint16) {
	t.Helper()
	endpoint, err := url.Parse(os.Getenv("IRON_ENDPOINT"))
	must(t, err)
	port, err := strconv.ParseUint(endpoint.Port(), 10, 16)
	must(t, err)
	return endpoint.Hostname(), uint16(port)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || err.Error() != text {
		t.Fatalf("refused with %v, not with %q", err, text)
	}
}

func equal(t *testing.T, one, other interface{}) {
	t.Helper()
	if one != other {
		t.Fatalf("%v is not %v", one, other)
	}
}

func TestVersion3(t *testing.T) {
	host, port := server(t)
	settings := config.Settings{
		Scheme: "http", Host: host, Port: port, ApiVersion: "3", Token: "token", ProjectId: os.Getenv("IRON_PROJECT"),
	}
	made, err := mq.ConfigCreateQueue(mq.QueueInfo{Name: "go jobs", MessageTimeout: 90}, &settings)
	must(t, err)
	equal(t, made.Name, "go jobs")
	equal(t, made.MessageTimeout, 90)
	equal(t, made.MessageExpiration, 604800)

	queue := mq.ConfigNew("go jobs", &settings)
	changed, err := queue.Update(mq.QueueInfo{MessageExpiration: 7200})
	must(t, err)
	equal(t, changed.MessageTimeout, 90)
	equal(t, changed.MessageExpiration, 7200)
	listed, err := mq.ListQueues(settings, "go", "", 10)
	must(t, err)
	equal(t, len(listed), 1)
	equal(t, listed[0].Name, "go jobs")
	listed, err = mq.ListQueues(settings, "", "go jobs", 10)
	must(t, err)
	equal(t, len(listed), 0)

	id, err := queue.PushString("a")
	must(t, err)
	ids, err := queue.PushStrings("b", "c", "d")
	must(t, err)
	equal(t, len(ids), 3)
	info, err := queue.Info()
	must(t, err)
	equal(t, info.Size, 4)
	equal(t, info.TotalMessages, 4)
	peeked, err := queue.PeekN(2)
	must(t, err)
	equal(t, len(peeked), 2)
	equal(t, peeked[0].Body, "a")

	message, err := queue.Reserve()
	must(t, err)
	equal(t, message.Id, id)
	equal(t, message.ReservedCount, 1)
	refused(t, queue.DeleteMessage(id, ""), "400 Bad Request: A reservation_id is required")
	old := message.ReservationId
	must(t, message.Touch())
	if message.ReservationId == old {
		t.Fatal("touch gave no new reservation")
	}
	refused(t, queue.DeleteMessage(id, old), "403 Forbidden: Reservation timed out")
	must(t, message.Release(0))
	refused(t, message.Delete(), "403 Forbidden: Reservation timed out")
	message, err = queue.Reserve()
	must(t, err)
	equal(t, message.Body, "a")
	must(t, message.Delete())

	many, err := queue.LongPoll(2, 60, 1, false)
	must(t, err)
	equal(t, len(many), 2)
	must(t, queue.DeleteReservedMessages(many))
	must(t, queue.DeleteMessages(ids[2:]))
	_, err = queue.PushMessage(mq.Message{Body: "popped"})
	must(t, err)
	popped, err := queue.Pop()
	must(t, err)
	equal(t, popped.Body, "popped")
	none, err := queue.ReserveN(10)
	must(t, err)
	equal(t, len(none), 0)

	_, err = queue.PushStrings("x", "y")
	must(t, err)
	must(t, queue.Clear())
	info, err = queue.Info()
	must(t, err)
	equal(t, info.Size, 0)
	must(t, queue.Delete())
	_, err = queue.Info()
	if err == nil || !mq.ErrQueueNotFound(err) {
		t.Fatalf("%v is not what the client knows a missing queue by", err)
	}
}

func TestSubscribersOfVersion3(t *testing.T) {
	host, port := server(t)
	settings := config.Settings{
		Scheme: "http", Host: host, Port: port, ApiVersion: "3", Token: "token", ProjectId: os.Getenv("IRON_PROJECT"),
	}
	subscriber := func(name string) mq.QueueSubscriber {
		return mq.QueueSubscriber{Name: name, URL: "http://127.0.0.1:9/" + name}
	}
	push := mq.PushInfo{Retries: 5, RetriesDelay: 30, Subscribers: []mq.QueueSubscriber{subscriber("a")}}
	_, err := mq.ConfigCreateQueue(mq.QueueInfo{Name: "pushed", Type: "unicast", Push: &push}, &settings)
	must(t, err)
	queue := mq.ConfigNew("pushed", &settings)
	must(t, queue.AddSubscribers(subscriber("b")))
	must(t, queue.RemoveSubscribers("a"))
	must(t, queue.ReplaceSubscribers(subscriber("c")))
	info, err := queue.Info()
	must(t, err)
	equal(t, info.Type, "unicast")
	equal(t, info.Push.Retries, 5)
	equal(t, len(info.Push.Subscribers), 1)
	equal(t, info.Push.Subscribers[0].Name, "c")
	must(t, queue.Delete())
}
