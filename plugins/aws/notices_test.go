package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/rungci/rung/fleet/group"
)

func TestEventsOfAQueueAreNotices(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	queue, err := c.api.queue.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("events")})
	if err != nil {
		t.Fatal(err)
	}
	send := func(body string) {
		if _, err := c.api.queue.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: aws.String(body)}); err != nil {
			t.Fatal(err)
		}
	}
	event := func(kind, instance string) string {
		return fmt.Sprintf(`{"version": "0", "source": "aws.ec2", "detail-type": %q, "time": "2026-03-02T09:14:03Z", "detail": {"instance-id": %q, "instance-action": "terminate"}}`, kind, instance)
	}
	o := c.byShape(t)
	o.EventsQueue, o.DrainOnRebalance = aws.ToString(queue.QueueUrl), true
	c.fault("ReceiveMessage", 1, refuse(403, "AccessDenied"))
	g := open(t, o)
	ids := g.create(t, request(1, 3))
	send("not an event")
	send(event("EC2 Instance State-change Notification", ids[0]))
	send(event("EC2 Instance Rebalance Recommendation", ids[1]))
	send(event("EC2 Spot Instance Interruption Warning", ids[2]))
	var all map[string]group.Instance
	eventually(t, "there are two notices", func() bool {
		all = g.list(t)
		return all[ids[1]].Interruption != nil && all[ids[2]].Interruption != nil
	})
	if got := all[ids[0]].Interruption; got != nil {
		t.Errorf("of another event: %+v", got)
	}
	if got := all[ids[1]].Interruption; !got.At.IsZero() {
		t.Errorf("a recommendation: %+v", got)
	}
	if got := all[ids[2]].Interruption; !got.At.Equal(time.Date(2026, 3, 2, 9, 16, 3, 0, time.UTC)) {
		t.Errorf("a warning: %+v", got)
	}
	eventually(t, "the queue is empty", func() bool { return c.count("DeleteMessage") == 4 })
	if err := g.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	const patience = time.Minute
	for until := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after %s it is not so that %s", patience, what)
		}
	}
}
