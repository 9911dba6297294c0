package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/rungci/rung/sdk/instancegroup"
)

// notices are what AWS says of machines that it will take away.
type notices struct {
	*Group
	end  context.CancelFunc
	over chan struct{} // closed when nobody reads the queue any more; nil: nobody does

	mu     sync.Mutex
	queued map[string]notice // from the queue, by machine
	marked map[string]notice // spot requests that are marked, by machine
	asked  time.Time         // when it was asked for those
	mute   bool              // asking is not allowed
}

// notice is that a machine will be taken away, and when that was said.
type notice struct {
	instancegroup.Interruption
	since time.Time
}

const (
	warning    = 2 * time.Minute // the time that EC2 leaves a spot machine
	askEvery   = 5 * time.Second
	askTime    = 5 * time.Second // the list does not wait for longer
	noticeTime = time.Hour       // how long a notice of a machine that is not listed is kept
	maxNotices = 10_000
)

// watchNotices reads the queue, if the options have one, until stop.
func watchNotices(g *Group) *notices {
	ctx, end := context.WithCancel(context.Background())
	n := &notices{Group: g, end: end, queued: map[string]notice{}, marked: map[string]notice{}}
	if g.EventsQueue != "" {
		n.over = make(chan struct{})
		go func() {
			defer close(n.over)
			n.read(ctx)
		}()
	}
	return n
}

func (n *notices) stop() {
	n.end()
	if n.over != nil {
		<-n.over
	}
}

// mark puts notices on machines.
func (n *notices) mark(ctx context.Context, all []machine) {
	spot := false
	for _, m := range all {
		spot = spot || m.Spot && m.State == instancegroup.StateRunning
	}
	if spot {
		n.ask(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	listed := map[string]bool{}
	for i := range all {
		m := &all[i]
		listed[m.ID] = true
		for _, from := range []map[string]notice{n.marked, n.queued} {
			if said, ok := from[m.ID]; ok && m.Interruption == nil && m.State != instancegroup.StateDeleted {
				interruption := said.Interruption
				m.Interruption = &interruption
			}
		}
	}
	for id, said := range n.queued {
		if !listed[id] && time.Since(said.since) > noticeTime {
			delete(n.queued, id)
		}
	}
}

// ask asks for spot requests that are marked for interruption: few, whoever's they are.
func (n *notices) ask(ctx context.Context) {
	n.mu.Lock()
	early := n.mute || time.Since(n.asked) < askEvery
	if !early {
		n.asked = time.Now()
	}
	n.mu.Unlock()
	if early {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	marked := map[string]notice{}
	in := &ec2.DescribeSpotInstanceRequestsInput{Filters: []types.Filter{{Name: aws.String("status-code"), Values: []string{"marked-for-termination", "marked-for-stop"}}}}
	err := pages(ctx, n.api, n.api.ec2.DescribeSpotInstanceRequests, in,
		func(in *ec2.DescribeSpotInstanceRequestsInput, token *string) { in.NextToken = token },
		func(out *ec2.DescribeSpotInstanceRequestsOutput) *string { return out.NextToken },
		func(page *ec2.DescribeSpotInstanceRequestsOutput) {
			for _, r := range page.SpotInstanceRequests {
				said := notice{Interruption: instancegroup.Interruption{Reason: "EC2 takes the spot machine back"}}
				if r.Status != nil && r.Status.UpdateTime != nil {
					said.At = r.Status.UpdateTime.Add(warning)
				}
				marked[aws.ToString(r.InstanceId)] = said
			}
		})
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		n.marked = marked
		return
	}
	n.mute = errors.Is(err, instancegroup.ErrUnauthorised)
	n.log.Warn("notices of spot machines are unknown", "error", err)
}

// What is read of the queue at once, and how long nothing may come; between errors there is a pause.
const (
	perRead  = 10
	readTime = 20 * time.Second
	readLag  = 10 * time.Second
	minPause = time.Second
	maxPause = time.Minute
)

// read reads the queue until ctx ends.
func (n *notices) read(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		err := n.receive(ctx)
		if err == nil {
			pause = minPause
			continue
		}
		if ctx.Err() == nil {
			n.log.Warn("the queue of events cannot be read", "queue", n.EventsQueue, "error", err)
			_ = sleep(ctx, pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// receive reads some messages. They are deleted, whatever they say: the queue is of this group alone.
func (n *notices) receive(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, readTime+readLag)
	defer cancel()
	out, err := n.api.queue.ReceiveMessage(try, &sqs.ReceiveMessageInput{QueueUrl: aws.String(n.EventsQueue), MaxNumberOfMessages: perRead, WaitTimeSeconds: int32(readTime / time.Second)})
	if err != nil {
		return failure(ctx, err)
	}
	for _, m := range out.Messages {
		n.hear(aws.ToString(m.Body))
		if _, err := call(ctx, n.api, n.api.queue.DeleteMessage, &sqs.DeleteMessageInput{QueueUrl: aws.String(n.EventsQueue), ReceiptHandle: m.ReceiptHandle}); err != nil {
			return err
		}
	}
	return nil
}

// event is one of EventBridge.
type event struct {
	Source string    `json:"source"`
	Kind   string    `json:"detail-type"`
	Time   time.Time `json:"time"`
	Detail struct {
		Instance string `json:"instance-id"`
		Action   string `json:"instance-action"`
	} `json:"detail"`
}

// hear takes a notice from an event.
func (n *notices) hear(body string) {
	var e event
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Source != "aws.ec2" || e.Detail.Instance == "" {
		n.log.Warn("the queue has a message that is not an event of EC2; it is deleted", "error", err)
		return
	}
	said := notice{since: time.Now()}
	switch e.Kind {
	case "EC2 Spot Instance Interruption Warning":
		said.Reason, said.At = "EC2 takes the spot machine back: "+e.Detail.Action, e.Time.Add(warning)
	case "EC2 Instance Rebalance Recommendation":
		if !n.DrainOnRebalance {
			return
		}
		said.Reason = "EC2 recommends another machine: this one is likely to be taken back"
	default:
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old, ok := n.queued[e.Detail.Instance]; ok && !old.At.IsZero() || len(n.queued) >= maxNotices {
		return // a time counts more than a recommendation
	}
	n.queued[e.Detail.Instance] = said
}
