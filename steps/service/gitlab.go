package service

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// gitlabFace is the API of the existing step-runner, v0.11, for its clients as they are.
//
// Where that program loses something, this one does not: blank lines, lines of any length, and a last line without an end come
// as they are, and an offset is an offset. The same id with other steps is refused, where it was ignored.
type gitlabFace struct {
	stepsv0.UnimplementedStepRunnerServer
	service *Service
}

// gitlabCloseWait is how long Close waits for a run to end. Its clients expect an answer soon; the run's end, and the removal of what
// it leaves, go on without them.
const gitlabCloseWait = 2 * time.Second

// Run starts a run.
func (f *gitlabFace) Run(_ context.Context, in *stepsv0.RunRequest) (*stepsv0.RunResponse, error) {
	digest, err := digestOf(in)
	if err != nil {
		return nil, err
	}
	req := &request{
		id: in.GetId(), digest: digest, name: "steps", text: in.GetSteps(), workDir: in.GetWorkDir(), env: in.GetEnv(), grace: engine.DefaultGrace,
		inheritEnv: true, // as the existing step-runner does
	}
	if dir := in.GetJob().GetBuildDir(); dir != "" {
		req.workDir = dir
	}
	last := map[string]int{}
	for _, v := range in.GetJob().GetVariables() {
		next := variable{name: v.GetKey(), value: v.GetValue(), masked: v.GetMasked(), file: v.GetFile()}
		if i, ok := last[next.name]; ok { // these clients send some twice, and the last one counts
			req.variables[i] = next
			continue
		}
		last[next.name] = len(req.variables)
		req.variables = append(req.variables, next)
	}
	if _, err := f.service.start(req); err != nil {
		return nil, err
	}
	return &stepsv0.RunResponse{}, nil
}

// FollowLogs streams a log. Where its rest could not be kept, the stream says so and then ends as if it were whole: to these
// clients an error would mean that the job has failed.
func (f *gitlabFace) FollowLogs(in *stepsv0.FollowLogsRequest, out stepsv0.StepRunner_FollowLogsServer) error {
	r, err := f.service.find(in.GetId())
	if err != nil {
		return err
	}
	end, err := f.service.follow(r)
	if err != nil {
		return err
	}
	defer end()
	send := func(data []byte) error { return out.Send(&stepsv0.FollowLogsResponse{Data: data}) }
	err = r.followLog(out.Context(), in.GetOffset(), send)
	size, _, cut := r.log.extent()
	if err == nil || cut == nil || out.Context().Err() != nil {
		return err
	}
	if in.GetOffset() <= size {
		note := fmt.Sprintf("\nstep-runner: the log ends here because the rest could not be stored: %v\n", cut)
		if err := send([]byte(note)); err != nil {
			return err
		}
	}
	select {
	case <-r.ended:
		return nil
	case <-out.Context().Done():
		return contextError(out.Context())
	}
}

// Status says how runs are.
func (f *gitlabFace) Status(_ context.Context, in *stepsv0.StatusRequest) (*stepsv0.StatusResponse, error) {
	if in.GetId() != "" {
		r, err := f.service.find(in.GetId())
		if err != nil {
			return nil, err
		}
		return &stepsv0.StatusResponse{Jobs: []*stepsv0.Status{toGitLabStatus(r)}}, nil
	}
	out := &stepsv0.StatusResponse{}
	for _, r := range f.service.all() {
		out.Jobs = append(out.Jobs, toGitLabStatus(r))
	}
	return out, nil
}

func toGitLabStatus(r *run) *stepsv0.Status {
	now := r.current()
	out := &stepsv0.Status{Id: clean(r.id), StartTime: timestamppb.New(r.started)}
	out.Status, out.Message = gitlabResult(now)
	if now.status != running {
		out.EndTime = timestamppb.New(now.finished)
	}
	return out
}

// gitlabResult maps the end of a run to what these clients expect. A run that exceeded its time limit counts as cancelled, and the message
// names the reason as Go's contexts do. They find the exit code by the words "exit status" in the message.
func gitlabResult(now state) (stepsv0.StepResult_Status, string) {
	message, timedOut := "", false
	if now.err != nil {
		shown := *now.err
		timedOut = shown.Code == event.CodeRunTimeout
		switch {
		case now.exitCode == nil || shown.Kind != event.ErrorStep:
		case shown.Code == event.CodeExitStatus:
			shown.Message = fmt.Sprintf("exec: exit status %d", *now.exitCode)
		default:
			shown.Message += fmt.Sprintf(": exit status %d", *now.exitCode)
		}
		message = clean(shown.Error())
	}
	switch {
	case now.status == running:
		return stepsv0.StepResult_running, ""
	case now.status == event.Success:
		return stepsv0.StepResult_success, ""
	case now.status == event.Cancelled:
		return stepsv0.StepResult_cancelled, context.Canceled.Error() + ": " + message
	case timedOut:
		return stepsv0.StepResult_cancelled, context.DeadlineExceeded.Error() + ": " + message
	default:
		return stepsv0.StepResult_failure, message
	}
}

// Close removes a run.
func (f *gitlabFace) Close(ctx context.Context, in *stepsv0.CloseRequest) (*stepsv0.CloseResponse, error) {
	short, cancel := context.WithTimeout(ctx, gitlabCloseWait)
	defer cancel()
	if err := f.service.close(short, in.GetId(), false); err != nil && ctx.Err() != nil {
		return nil, err
	}
	return &stepsv0.CloseResponse{}, nil
}
