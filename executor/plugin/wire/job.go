package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
)

// duration is 0 as nothing.
func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// EncodeJob makes a message of a job.
func EncodeJob(j *executor.Job) *executorv1.Job {
	out := &executorv1.Job{
		Id: j.ID, ProjectName: j.ProjectName, ImageEnv: j.ImageEnv, Variables: j.Variables, Private: j.Private, Masked: j.Masked, Root: j.Root, Keep: j.Keep, KeepProject: j.KeepProject, KeepVolumes: j.KeepVolumes,
		Resources: encodeResources(j.Resources), ServiceResources: encodeResources(j.ServiceResources), Network: string(j.Network),
		Privileged: j.Privileged, User: j.User, Slot: j.Slot,
	}
	if j.Image != nil {
		out.Image = encodeImage(j.Image)
	}
	for i := range j.Services {
		out.Services = append(out.Services, encodeService(&j.Services[i]))
	}
	for _, r := range j.Registries {
		out.Registries = append(out.Registries, &executorv1.Registry{Host: r.Host, Username: r.Username, Password: r.Password, Path: r.Path, Last: r.Last})
	}
	return out
}

// DecodeJob is the job of a message.
func DecodeJob(m *executorv1.Job) *executor.Job {
	out := &executor.Job{
		ID: m.GetId(), ProjectName: m.GetProjectName(), ImageEnv: m.GetImageEnv(), Variables: m.GetVariables(), Private: m.GetPrivate(), Masked: m.GetMasked(), Root: m.GetRoot(),
		Keep: m.GetKeep(), KeepProject: m.GetKeepProject(), KeepVolumes: m.GetKeepVolumes(), Resources: decodeResources(m.GetResources()),
		ServiceResources: decodeResources(m.GetServiceResources()), Network: executor.NetworkPolicy(m.GetNetwork()), Privileged: m.GetPrivileged(), User: m.GetUser(), Slot: m.GetSlot(),
	}
	if m.GetImage() != nil {
		image := decodeImage(m.GetImage())
		out.Image = &image
	}
	for _, s := range m.GetServices() {
		out.Services = append(out.Services, decodeService(s))
	}
	for _, r := range m.GetRegistries() {
		out.Registries = append(out.Registries, containers.Registry{Host: r.GetHost(), Username: r.GetUsername(), Password: r.GetPassword(), Path: r.GetPath(), Last: r.GetLast()})
	}
	return out
}

func encodeResources(r executor.Resources) *executorv1.Resources {
	return &executorv1.Resources{Cpu: r.CPU, Memory: r.Memory, Pids: r.PIDs, Disk: r.Disk, Swap: r.Swap, Cpuset: r.CPUSet, Read: r.Read, Write: r.Write}
}

func decodeResources(m *executorv1.Resources) executor.Resources {
	return executor.Resources{
		CPU: m.GetCpu(), Memory: m.GetMemory(), PIDs: m.GetPids(), Disk: m.GetDisk(), Swap: m.GetSwap(), CPUSet: m.GetCpuset(), Read: m.GetRead(), Write: m.GetWrite(),
	}
}

func encodeImage(i *containers.Image) *executorv1.Image {
	return &executorv1.Image{Name: i.Name, Entrypoint: i.Entrypoint, HasEntrypoint: i.Entrypoint != nil, PullPolicies: i.PullPolicies, Platform: i.Platform, User: i.User}
}

func decodeImage(m *executorv1.Image) containers.Image {
	return containers.Image{
		Name: m.GetName(), Entrypoint: list(m.GetEntrypoint(), m.GetHasEntrypoint()), PullPolicies: m.GetPullPolicies(), Platform: m.GetPlatform(), User: m.GetUser(),
	}
}

// list tells an empty list from none.
func list(texts []string, has bool) []string {
	if has && texts == nil {
		return []string{}
	}
	return texts
}

func encodeService(s *containers.Service) *executorv1.Service {
	out := &executorv1.Service{
		Image: encodeImage(&s.Image), Aliases: s.Aliases, Command: s.Command, HasCommand: s.Command != nil, Variables: s.Variables,
	}
	if h := s.Health; h != nil {
		out.Health = &executorv1.Health{
			Command: h.Command, Interval: duration(h.Interval), Timeout: duration(h.Timeout), StartPeriod: duration(h.StartPeriod), Retries: int64(h.Retries),
		}
	}
	if s.Ports != nil {
		out.Ports = map[uint32]uint32{}
	}
	for from, to := range s.Ports {
		out.Ports[uint32(from)] = uint32(to)
	}
	return out
}

func decodeService(m *executorv1.Service) containers.Service {
	out := containers.Service{
		Image: decodeImage(m.GetImage()), Aliases: m.GetAliases(), Command: list(m.GetCommand(), m.GetHasCommand()), Variables: m.GetVariables(),
	}
	if h := m.GetHealth(); h != nil {
		out.Health = &containers.Health{
			Command: h.GetCommand(), Interval: h.GetInterval().AsDuration(), Timeout: h.GetTimeout().AsDuration(), StartPeriod: h.GetStartPeriod().AsDuration(),
			Retries: int(h.GetRetries()),
		}
	}
	if m.Ports != nil {
		out.Ports = map[uint16]uint16{}
	}
	for from, to := range m.GetPorts() {
		out.Ports[uint16(from)] = uint16(to)
	}
	return out
}
