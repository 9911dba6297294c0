package forged

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
)

// Teller tells the events of a run of this ID, as long as tell returns no error.
type Teller func(run string, tell func(event.Event) error) error

// NewServer is a step-runner that runs nothing: it starts every run, and reports what the teller says.
func NewServer(teller Teller) *grpc.Server {
	s := grpc.NewServer()
	runnerv1.RegisterStepRunnerServer(s, &liar{teller: teller})
	return s
}

// Tell tells a list of events. RunStarted and RunFinished may be left out: the run then succeeds.
func Tell(run string, told []event.Event, tell func(event.Event) error) error {
	if len(told) == 0 || told[0].Body.Type() != (event.RunStarted{}).Type() {
		told = append([]event.Event{{Body: event.RunStarted{ID: run}}}, told...)
	}
	if last := told[len(told)-1]; last.Body.Type() != (event.RunFinished{}).Type() {
		told = append(told, event.Event{Body: event.RunFinished{Status: event.Success}})
	}
	for _, e := range told {
		if err := tell(e); err != nil {
			return err
		}
	}
	return nil
}

// liar is the step-runner.
type liar struct {
	runnerv1.UnimplementedStepRunnerServer
	teller Teller
}

// Run implements runnerv1.StepRunnerServer.
func (*liar) Run(context.Context, *runnerv1.RunRequest) (*runnerv1.RunResponse, error) {
	return &runnerv1.RunResponse{Started: true}, nil
}

// Status implements runnerv1.StepRunnerServer: every run goes on for ever.
func (*liar) Status(_ context.Context, request *runnerv1.StatusRequest) (*runnerv1.StatusResponse, error) {
	return &runnerv1.StatusResponse{Runs: []*runnerv1.RunStatus{{Id: request.GetId(), State: runnerv1.State_STATE_RUNNING}}}, nil
}

// Close implements runnerv1.StepRunnerServer.
func (*liar) Close(context.Context, *runnerv1.CloseRequest) (*runnerv1.CloseResponse, error) {
	return &runnerv1.CloseResponse{}, nil
}

// FollowSteps implements runnerv1.StepRunnerServer.
func (l *liar) FollowSteps(request *runnerv1.FollowStepsRequest, stream grpc.ServerStreamingServer[runnerv1.FollowStepsResponse]) error {
	seq := int64(0)
	return l.teller(request.GetId(), func(e event.Event) error {
		seq++
		message := &runnerv1.Event{Seq: seq, Type: e.Body.Type(), Step: e.Step}
		if log, ok := e.Body.(event.Log); ok {
			message.Log = &runnerv1.Log{Offset: log.Offset, Data: log.Data}
		} else {
			body, err := json.Marshal(e.Body)
			if err != nil {
				return err
			}
			message.Body = string(body)
		}
		return stream.Send(&runnerv1.FollowStepsResponse{Events: []*runnerv1.Event{message}})
	})
}
