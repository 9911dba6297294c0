package wire

import (
	"fmt"
	"runtime"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
)

// platforms are those whose step-runners a plugin is offered, if there are any, beside that of this machine.
var platforms = []struct{ os, arch string }{{"linux", "amd64"}, {"linux", "arm64"}, {runtime.GOOS, runtime.GOARCH}}

// EncodeSetup makes the request that opens a plugin. Setup.Host is not part of it.
func EncodeSetup(s executor.Setup, options string) *executorv1.OpenRequest {
	out := &executorv1.OpenRequest{
		Options: options, Serve: s.Serve, Terms: append(s.Lease.Args(), s.Limits.Args()...), Env: s.Env, HasEnv: s.Env != nil, State: s.State, Temp: s.Temp,
		Lease:        &executorv1.Lease{Owner: s.Lease.Owner, Keep: duration(s.Lease.Keep), Away: duration(s.Lease.Away), Elsewhere: s.Lease.Elsewhere},
		Limits:       &executorv1.Limits{Duration: duration(s.Limits.Duration), LogBytes: s.Limits.LogBytes, RequestBytes: s.Limits.RequestBytes},
		PullPolicies: s.PullPolicies, Labels: s.Labels, HostEnv: s.HostEnv,
	}
	program := s.Program
	if program == nil {
		program = executor.ThisProgram
	}
	known := map[string]bool{}
	for _, p := range platforms {
		file, err := program(p.os, p.arch)
		if name := p.os + "/" + p.arch; err == nil && !known[name] {
			known[name] = true
			out.Programs = append(out.Programs, &executorv1.Program{Os: p.os, Arch: p.arch, File: file})
		}
	}
	return out
}

// DecodeSetup is the setup of a request that opens a plugin.
func DecodeSetup(m *executorv1.OpenRequest) executor.Setup {
	out := executor.Setup{
		Serve: m.GetServe(), Env: list(m.GetEnv(), m.GetHasEnv()), State: m.GetState(), Temp: m.GetTemp(),
		Lease:        executor.Lease{Owner: m.GetLease().GetOwner(), Keep: m.GetLease().GetKeep().AsDuration(), Away: m.GetLease().GetAway().AsDuration(), Elsewhere: m.GetLease().GetElsewhere()},
		Limits:       executor.Limits{Duration: m.GetLimits().GetDuration().AsDuration(), LogBytes: m.GetLimits().GetLogBytes(), RequestBytes: m.GetLimits().GetRequestBytes()},
		PullPolicies: m.GetPullPolicies(), Labels: m.GetLabels(), HostEnv: m.GetHostEnv(),
	}
	files := map[string]string{}
	for _, p := range m.GetPrograms() {
		files[p.GetOs()+"/"+p.GetArch()] = p.GetFile()
	}
	out.Program = func(system, arch string) (string, error) {
		if file := files[system+"/"+arch]; file != "" {
			return file, nil
		}
		return "", fmt.Errorf("the runner has no step-runner for %s/%s", system, arch)
	}
	return out
}
