package service

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	planv1 "github.com/rungci/rung/api/rung/plan/v1"
	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/plan/planpb"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/value"
)

// runnerFace is the API of rung.runner.v1.
type runnerFace struct {
	runnerv1.UnimplementedStepRunnerServer
	service *Service
}

// Run starts a run.
func (f *runnerFace) Run(_ context.Context, in *runnerv1.RunRequest) (*runnerv1.RunResponse, error) {
	req, err := fromRunRequest(in)
	if err != nil {
		return nil, err
	}
	started, err := f.service.start(req)
	if err != nil {
		return nil, err
	}
	return &runnerv1.RunResponse{Started: started}, nil
}

// fromRunRequest makes the request of a message.
func fromRunRequest(in *runnerv1.RunRequest) (*request, error) {
	digest, err := digestOf(in)
	if err != nil {
		return nil, err
	}
	req := &request{
		id: in.GetId(), digest: digest, workDir: in.GetWorkDir(), env: in.GetEnv(), secrets: in.GetSecrets(), grace: engine.DefaultGrace, logPath: in.GetLogFile(),
		inheritEnv: in.GetInheritEnv(), untraced: in.GetUntraced(),
		confine: plan.Confinement(in.GetConfine()),
	}
	if in.GetConfine() != "" && !slices.Contains(plan.Confinements, in.GetConfine()) {
		return nil, invalid("confine is %q, which must be one of %s", in.GetConfine(), strings.Join(plan.Confinements, ", "))
	}
	switch steps := in.GetSteps().(type) {
	case *runnerv1.RunRequest_Text:
		req.name, req.text = steps.Text.GetName(), steps.Text.GetYaml()
		if req.name == "" {
			req.name = "steps"
		}
	case *runnerv1.RunRequest_Component:
		if req.component, err = planpb.FromProto(steps.Component); err != nil {
			return nil, &apiError{code: codeInvalid, message: "the component is wrong: " + err.Error(), diagnostics: diag.List{{Message: err.Error()}}}
		}
	default:
		return nil, invalid("there are no steps: the request has neither a text nor a component")
	}
	if in.GetLock() != "" {
		if req.lock, err = lock.Parse("the lock file", []byte(in.GetLock())); err != nil {
			return nil, invalid("%v", err)
		}
	}
	if from := in.GetFrom(); from != nil {
		if req.from, err = engine.ParseState(from.GetState().GetDocument(), from.GetState().GetSensitive()); err != nil {
			return nil, invalid("%v", err)
		}
		req.files = from.GetFolder()
	}
	req.paused = in.GetPaused()
	given, err := digestOf(&runnerv1.RunRequest{Variables: in.GetVariables(), Lock: in.GetLock()})
	if err != nil {
		return nil, err
	}
	req.given = hex.EncodeToString(given[:])
	for _, v := range in.GetVariables() {
		req.variables = append(req.variables, variable{name: v.GetName(), value: v.GetValue(), masked: v.GetMasked(), file: v.GetFile()})
	}
	for name, v := range in.GetInputs() {
		converted, err := planpb.FromValue(v)
		if err != nil {
			return nil, invalid("the input %q: %v", name, err)
		}
		if req.inputs == nil {
			req.inputs = map[string]value.Value{}
		}
		req.inputs[name] = converted
	}
	for _, d := range []*durationpb.Duration{in.GetTimeout(), in.GetGrace()} {
		if d != nil && !d.IsValid() {
			return nil, invalid("a duration is out of range: %v", d.CheckValid())
		}
	}
	if in.GetTimeout() != nil {
		req.timeout = in.GetTimeout().AsDuration()
		if req.timeout == 0 {
			return nil, invalid("a timeout of 0 leaves no time; omit it to use the server's limit")
		}
	}
	if in.GetGrace() != nil {
		req.grace = max(in.GetGrace().AsDuration(), -1)
		if req.grace == 0 {
			req.grace = 1 // the engine's 0 is its default
		}
	}
	return req, nil
}

// Status says how runs are.
func (f *runnerFace) Status(_ context.Context, in *runnerv1.StatusRequest) (*runnerv1.StatusResponse, error) {
	if in.GetId() != "" {
		r, err := f.service.find(in.GetId())
		if err != nil {
			return nil, err
		}
		return &runnerv1.StatusResponse{Runs: []*runnerv1.RunStatus{toRunStatus(r)}}, nil
	}
	out := &runnerv1.StatusResponse{}
	for _, r := range f.service.all() {
		out.Runs = append(out.Runs, toRunStatus(r))
	}
	return out, nil
}

var states = map[event.Status]runnerv1.State{
	event.Running:   runnerv1.State_STATE_RUNNING,
	event.Success:   runnerv1.State_STATE_SUCCESS,
	event.Failure:   runnerv1.State_STATE_FAILURE,
	event.Cancelled: runnerv1.State_STATE_CANCELLED,
}

var errorKinds = map[event.ErrorKind]runnerv1.ErrorKind{
	event.ErrorStep:       runnerv1.ErrorKind_ERROR_KIND_STEP,
	event.ErrorTimeout:    runnerv1.ErrorKind_ERROR_KIND_TIMEOUT,
	event.ErrorDefinition: runnerv1.ErrorKind_ERROR_KIND_DEFINITION,
	event.ErrorDenied:     runnerv1.ErrorKind_ERROR_KIND_DENIED,
	event.ErrorNotFound:   runnerv1.ErrorKind_ERROR_KIND_NOT_FOUND,
	event.ErrorCancelled:  runnerv1.ErrorKind_ERROR_KIND_CANCELLED,
	event.ErrorSystem:     runnerv1.ErrorKind_ERROR_KIND_SYSTEM,
}

var faults = map[event.Fault]runnerv1.Fault{
	event.FaultUser:      runnerv1.Fault_FAULT_USER,
	event.FaultTimeout:   runnerv1.Fault_FAULT_TIMEOUT,
	event.FaultDenied:    runnerv1.Fault_FAULT_DENIED,
	event.FaultCancelled: runnerv1.Fault_FAULT_CANCELLED,
	event.FaultSystem:    runnerv1.Fault_FAULT_SYSTEM,
}

func toError(e *event.Error) *runnerv1.Error {
	out := &runnerv1.Error{
		Kind: errorKinds[e.Kind], Code: clean(string(cmp.Or(e.Code, e.Kind.Code()))), Fault: faults[e.Fault()], Step: clean(e.Step), StepName: clean(e.StepName),
		Message: clean(e.Message), Hint: clean(e.Hint), Diagnostics: toDiagnostics(e.Diagnostics),
	}
	if t := e.Timeout; t != nil {
		out.Timeout = &runnerv1.Timeout{Of: string(t.Of), Limit: durationpb.New(time.Duration(t.Limit))}
	}
	return out
}

func toRunStatus(r *run) *runnerv1.RunStatus {
	now := r.current()
	logBytes, _, _ := r.log.extent()
	out := &runnerv1.RunStatus{
		Id: clean(r.id), State: states[now.status], Started: timestamppb.New(r.started), LogBytes: logBytes, LastEvent: now.events,
	}
	if now.status == running {
		out.Paused = r.boundary()
		return out
	}
	out.Finished = timestamppb.New(now.finished)
	if now.exitCode != nil {
		code := int32(*now.exitCode)
		out.ExitCode = &code
	}
	if e := now.err; e != nil {
		out.Error = toError(e)
	}
	for name, v := range now.outputs {
		converted, err := planpb.ToValue(v)
		if err != nil {
			continue // a value that came from JSON always converts
		}
		if out.Outputs == nil {
			out.Outputs = map[string]*planv1.Value{}
		}
		out.Outputs[clean(name)] = converted
	}
	return out
}

// FollowLogs streams a log.
func (f *runnerFace) FollowLogs(in *runnerv1.FollowLogsRequest, out runnerv1.StepRunner_FollowLogsServer) error {
	r, err := f.service.find(in.GetId())
	if err != nil {
		return err
	}
	end, err := f.service.follow(r)
	if err != nil {
		return err
	}
	defer end()
	send := func(data []byte) error { return out.Send(&runnerv1.FollowLogsResponse{Data: data}) }
	if in.GetStep() != "" {
		return r.followStepLog(out.Context(), in.GetStep(), in.GetOffset(), send)
	}
	return r.followLog(out.Context(), in.GetOffset(), send)
}

// FollowSteps streams events.
func (f *runnerFace) FollowSteps(in *runnerv1.FollowStepsRequest, out runnerv1.StepRunner_FollowStepsServer) error {
	r, err := f.service.find(in.GetId())
	if err != nil {
		return err
	}
	end, err := f.service.follow(r)
	if err != nil {
		return err
	}
	defer end()
	logs := noLogs
	switch {
	case in.GetLogPlaces() && !r.log.given:
		return failedPrecondition("the log of the run %q is not in a file of the client's", r.id)
	case in.GetLogPlaces():
		logs = logPlaces
	case in.GetLogs():
		logs = logData
	}
	return r.followEvents(out.Context(), in.GetAfter(), logs, func(events []*runnerv1.Event) error {
		return out.Send(&runnerv1.FollowStepsResponse{Events: events})
	})
}

// GetTrace streams a trace.
func (f *runnerFace) GetTrace(in *runnerv1.GetTraceRequest, out runnerv1.StepRunner_GetTraceServer) error {
	r, err := f.service.find(in.GetId())
	if err != nil {
		return err
	}
	end, err := f.service.follow(r)
	if err != nil {
		return err
	}
	defer end()
	return r.sendTrace(out.Context(), in.GetIncomplete(), func(data []byte) error {
		return out.Send(&runnerv1.GetTraceResponse{Data: data})
	})
}

// Cancel stops a run.
func (f *runnerFace) Cancel(_ context.Context, in *runnerv1.CancelRequest) (*runnerv1.CancelResponse, error) {
	r, err := f.service.find(in.GetId())
	if err != nil {
		return nil, err
	}
	reason, err := cancelReason(in.GetCode(), in.GetReason())
	if err != nil {
		return nil, err
	}
	r.stop(reason, in.GetForce())
	return &runnerv1.CancelResponse{}, nil
}

// Close removes a run.
func (f *runnerFace) Close(ctx context.Context, in *runnerv1.CloseRequest) (*runnerv1.CloseResponse, error) {
	if in.GetMoved() {
		if err := f.service.leave(ctx, in.GetId()); err != nil {
			return nil, err
		}
	}
	if err := f.service.close(ctx, in.GetId(), in.GetForce()); err != nil {
		return nil, err
	}
	return &runnerv1.CloseResponse{}, nil
}
