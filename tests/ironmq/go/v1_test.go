package ironmq

import (
	"os"
	"testing"

	"github.com/iron-io/iron_go/config"
	"github.com/iron-io/iron_go/mq"
)

func TestVersion1(t *testing.T) {
	host, port := server(t)
	settings := config.Settings{
		Scheme: "http", Host: host, Port: port, ApiVersion: "1", Token: "token", ProjectId: os.Getenv("IRON_PROJECT"),
	}
	queue := mq.ConfigNew("old jobs", &settings)

	id, err := queue.PushString("a")
	must(t, err)
	_, err = queue.PushMessages(&mq.Message{Body: "b", Timeout: 90, Delay: 0}, &mq.Message{Body: "c"})
	must(t, err)
	info, err := queue.Info()
	must(t, err)
	equal(t, info.Name, "old jobs")
	equal(t, info.Size, 3)
	listed, err := mq.ListSettingsQueues(settings, 0, 100)
	must(t, err)
	equal(t, len(listed), 1)
	equal(t, listed[0].Name, "old jobs")

	peeked, err := queue.PeekN(3)
	must(t, err)
	equal(t, len(peeked), 3)
	message, err := queue.Get()
	must(t, err)
	equal(t, message.Id, id)
	equal(t, message.Body, "a")
	must(t, message.Touch())
	must(t, message.Release(0))
	message, err = queue.Get()
	must(t, err)
	equal(t, message.Body, "a")
	must(t, message.Delete())
	many, err := queue.GetNWithTimeoutAndWait(10, 30, 1)
	must(t, err)
	equal(t, len(many), 2)
	must(t, queue.DeleteMessages(many))

	_, err = queue.PushStrings("x", "y")
	must(t, err)
	must(t, queue.Clear())
	_, err = queue.Get()
	refused(t, err, "Couldn't get a single message")
	_, err = queue.Delete()
	must(t, err)
	_, err = queue.Info()
	refused(t, err, "404 Not Found: The resource, project, or endpoint being requested doesn't exist.")
}

func TestAlertsOfVersion1(t *testing.T) {
	host, port := server(t)
	settings := config.Settings{
		Scheme: "http", Host: host, Port: port, ApiVersion: "1", Token: "token", ProjectId: os.Getenv("IRON_PROJECT"),
	}
	queue := mq.ConfigNew("alerted", &settings)
	_, err := queue.Update(mq.QueueInfo{})
	must(t, err)
	must(t, queue.AddAlerts(&mq.Alert{Type: "fixed", Direction: "asc", Trigger: 10, Queue: "alarms"}))
	must(t, queue.UpdateAlerts(&mq.Alert{Type: "fixed", Direction: "desc", Trigger: 20, Queue: "alarms"}))
	info, err := queue.Info()
	must(t, err)
	equal(t, len(info.Alerts), 1)
	equal(t, info.Alerts[0].Trigger, 20)
	must(t, queue.RemoveAllAlerts())
	info, err = queue.Info()
	must(t, err)
	equal(t, len(info.Alerts), 0)
	_, err = queue.Delete()
	must(t, err)
}
