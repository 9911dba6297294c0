package client

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
)

// imposter is a server that answers as a hostile job would.
type imposter struct {
	runnerv1.UnimplementedStepRunnerServer
	answer *runnerv1.FollowStepsResponse
}

func (i *imposter) FollowSteps(_ *runnerv1.FollowStepsRequest, out grpc.ServerStreamingServer[runnerv1.FollowStepsResponse]) error {
	return out.Send(i.answer)
}

func TestAMessageThatTakesTooMuchMemoryIsNotRead(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	many := &runnerv1.FollowStepsResponse{Events: make([]*runnerv1.Event, maxElements+1)}
	for i := range many.Events {
		many.Events[i] = &runnerv1.Event{}
	}
	for want, answer := range map[string]*runnerv1.FollowStepsResponse{
		"larger than max": {Events: []*runnerv1.Event{{Step: strings.Repeat("x", most)}}},
		"more others":     many,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		runnerv1.RegisterStepRunnerServer(s, &imposter{answer: answer})
		go s.Serve(l)
		c, err := Dial(l.Addr().String(), func(s *settings) { s.most = most })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.FollowSteps(t.Context(), "run", StepOptions{}, func(event.Event) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, and should say %q", err, want)
		}
		c.Disconnect()
		s.Stop()
	}
}
