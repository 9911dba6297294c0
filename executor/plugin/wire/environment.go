package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
)

// EncodeCapabilities makes a message of what a level can do.
func EncodeCapabilities(c executor.Capabilities) *executorv1.Capabilities {
	out := &executorv1.Capabilities{
		Image: c.Image, Services: c.Services, Snapshot: c.Snapshot, Branch: c.Branch, Resources: c.Resources, Privileges: c.Privileges, User: c.User,
		KeepProject: c.KeepProject, Reattach: c.Reattach, NeedsRoot: c.NeedsRoot, NeedsKvm: c.NeedsKVM,
		Disk: c.Disk, Io: c.IO, Slots: c.Slots,
	}
	for _, n := range c.Networks {
		out.Networks = append(out.Networks, string(n))
	}
	return out
}

// DecodeCapabilities is what a message says that a level can do.
func DecodeCapabilities(m *executorv1.Capabilities) executor.Capabilities {
	out := executor.Capabilities{
		Image: m.GetImage(), Services: m.GetServices(), Snapshot: m.GetSnapshot(), Branch: m.GetBranch(), Resources: m.GetResources(), Privileges: m.GetPrivileges(),
		User: m.GetUser(), KeepProject: m.GetKeepProject(), Reattach: m.GetReattach(), NeedsRoot: m.GetNeedsRoot(), NeedsKVM: m.GetNeedsKvm(),
		Disk: m.GetDisk(), IO: m.GetIo(), Slots: m.GetSlots(),
	}
	for _, n := range m.GetNetworks() {
		out.Networks = append(out.Networks, executor.NetworkPolicy(n))
	}
	return out
}

// EncodePreparing makes a message of how far a phase is.
func EncodePreparing(p event.Preparing) *executorv1.Preparing {
	return &executorv1.Preparing{
		Phase: string(p.Phase), Subject: clip(p.Subject), Current: p.Current, Total: p.Total, Unit: p.Unit, Done: p.Done, Duration: duration(p.Duration), Message: clip(p.Message),
	}
}

// DecodePreparing is what a message says of how far a phase is.
func DecodePreparing(m *executorv1.Preparing) event.Preparing {
	return event.Preparing{
		Phase: event.Phase(clip(m.GetPhase())), Subject: clip(m.GetSubject()), Current: m.GetCurrent(), Total: m.GetTotal(), Unit: clip(m.GetUnit()), Done: m.GetDone(),
		Duration: m.GetDuration().AsDuration(), Message: clip(m.GetMessage()),
	}
}

// EncodeHandle makes a message of a handle.
func EncodeHandle(h executor.Handle) *executorv1.Handle {
	return &executorv1.Handle{Level: string(h.Level), Host: h.Host, Id: h.ID, State: string(h.State)}
}

// DecodeHandle is the handle of a message.
func DecodeHandle(m *executorv1.Handle) executor.Handle {
	return executor.Handle{Level: executor.Level(m.GetLevel()), Host: m.GetHost(), ID: m.GetId(), State: json.RawMessage(m.GetState())}
}

// EncodeEnvironment makes a message of what is said of an environment that is ready.
func EncodeEnvironment(env executor.Environment) *executorv1.Environment {
	l := env.Layout()
	layout := &executorv1.Layout{Name: l.Name, Project: l.Project, Temp: l.Temp, Bin: l.Bin, Env: l.Env, Shared: l.Shared}
	for _, i := range l.Images {
		layout.Images = append(layout.Images, &executorv1.FoundImage{Id: i.ID, Pull: i.Pull})
	}
	return &executorv1.Environment{Handle: EncodeHandle(env.Handle()), Layout: layout}
}

// maxState bounds the state of a handle, in bytes: it is stored for every job.
const maxState = 1 << 20

// DecodeEnvironment is what a plugin says of an environment of its level. The error says what of it cannot be.
func DecodeEnvironment(m *executorv1.Environment, level executor.Level) (executor.Handle, executor.Layout, error) {
	handle := DecodeHandle(m.GetHandle())
	l := m.GetLayout()
	layout := executor.Layout{Name: l.GetName(), Project: l.GetProject(), Temp: l.GetTemp(), Bin: l.GetBin(), Env: l.GetEnv(), Shared: l.GetShared()}
	for _, i := range l.GetImages() {
		layout.Images = append(layout.Images, executor.FoundImage{ID: i.GetId(), Pull: i.GetPull()})
	}
	switch {
	case handle.Level != level:
		return handle, layout, fmt.Errorf("its environment is one of level %q, and the plugin says that it is level %q", clip(string(handle.Level)), level)
	case handle.ID == "":
		return handle, layout, errors.New("the handle of its environment has no ID")
	case len(handle.State) > maxState:
		return handle, layout, fmt.Errorf("the handle of its environment has %d bytes of state; at most %d are stored", len(handle.State), maxState)
	case len(handle.State) > 0 && !json.Valid(handle.State):
		return handle, layout, errors.New("the state in the handle of its environment is not JSON")
	}
	for _, folder := range []struct{ name, path string }{{"project", layout.Project}, {"temp", layout.Temp}, {"bin", layout.Bin}} {
		if !absolute(folder.path) {
			return handle, layout, fmt.Errorf("the layout of its environment has %q as the folder %s, which is not an absolute path", clip(folder.path), folder.name)
		}
	}
	for name, value := range layout.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return handle, layout, fmt.Errorf("the layout of its environment has %q among its variables, which is not the name of one", clip(name))
		}
	}
	return handle, layout, nil
}

// absolute reports whether a path is one of some system: the environment's may differ from this machine's.
func absolute(path string) bool {
	drive := len(path) > 2 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
	return !strings.ContainsAny(path, "\x00\n") && (drive || strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\\`))
}
