package session

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// found is an environment whose images turned out to be something.
type found struct {
	executor.Environment
	images []executor.FoundImage
}

func (f found) Layout() executor.Layout { return executor.Layout{Images: f.images} }

func TestAPlaceIsDescribedSoThatItCanBeMadeAgain(t *testing.T) {
	job := &executor.Job{
		Image:     &containers.Image{Name: "golang:1", Entrypoint: []string{""}, User: "worker", PullPolicies: []string{"always"}},
		Services:  []containers.Service{{Image: containers.Image{Name: "db"}, Aliases: []string{"store"}, Command: []string{"--password", "s3cret"}, Variables: map[string]string{"A": "b"}}},
		Variables: map[string]string{"URL": "db://me:s3cret@store", "PLAIN": "x"},
	}
	env := found{images: []executor.FoundImage{{ID: "sha256:1", Pull: "registry/golang@sha256:2"}, {ID: "sha256:3"}}}
	hide := func(text string) string { return strings.ReplaceAll(text, "s3cret", "[MASKED]") }
	got := Describe(executor.Container, job, env, []event.File{{To: "/builds/p.tmp/KEY", Text: "s3cret", Name: "KEY"}}, hide)
	want := &event.Environment{
		Level: "container",
		Image: &event.Image{
			Image: containers.Image{Name: "golang:1", Entrypoint: []string{""}, User: "worker"}, Found: event.Found{Digest: "sha256:1", Pull: "registry/golang@sha256:2"},
		},
		Services: []event.Service{{Found: event.Found{Digest: "sha256:3"}, Service: containers.Service{
			Image: containers.Image{Name: "db"}, Aliases: []string{"store"}, Command: []string{"--password", "[MASKED]"}, Variables: map[string]string{"A": "b"},
		}}},
		Variables: map[string]string{"URL": "db://me:[MASKED]@store", "PLAIN": "x"},
		Files:     []event.File{{To: "/builds/p.tmp/KEY", Text: "[MASKED]", Name: "KEY"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	again := Job(got)
	if again.Image.Name != "registry/golang@sha256:2" || again.Services[0].Name != "db" || again.Services[0].Aliases[0] != "store" {
		t.Errorf("what is asked for again is %+v", again)
	}
	if job.Services[0].Command[1] != "s3cret" {
		t.Error("the job was changed")
	}
}

func TestARecordedPlaceIsLimitedAsItWasAndGrantsNoPrivileges(t *testing.T) {
	job := &executor.Job{
		Resources: executor.Resources{CPU: 2, Memory: 1 << 30, PIDs: 100, Disk: 1 << 40}, ServiceResources: executor.Resources{Memory: 1 << 29},
		Network: executor.NetworkNone, Privileged: true,
	}
	got := Describe(executor.Container, job, found{}, nil, strings.Clone)
	if !got.Limits.Privileged {
		t.Error("it is not recorded that the job was privileged")
	}
	again := Job(got)
	if again.Resources != job.Resources || again.ServiceResources != job.ServiceResources || again.Network != job.Network || again.Privileged {
		t.Errorf("what is asked for again is %+v", again)
	}
}

// running are services on ports of the machine.
type running struct{ executor.Services }

func (running) Ports(int) map[uint16]uint16 { return map[uint16]uint16{6379: 32768} }

func (running) Images() []executor.FoundImage {
	return []executor.FoundImage{{ID: "sha256:1", Pull: "registry/redis@sha256:2"}}
}

func TestServicesBesideAJobAreDescribedWithTheirPortsAndDigests(t *testing.T) {
	job := &executor.Job{
		Services:  []containers.Service{{Image: containers.Image{Name: "redis"}, Command: []string{"s3cret"}, Ports: map[uint16]uint16{6379: 0}}},
		Variables: map[string]string{"A": "b"},
	}
	got := &event.Environment{Level: "none"}
	Beside(got, job, running{}, func(text string) string { return strings.ReplaceAll(text, "s3cret", "[MASKED]") })
	want := &event.Environment{
		Level: "none", Variables: map[string]string{"A": "b"},
		Services: []event.Service{{
			Service: containers.Service{Image: containers.Image{Name: "redis"}, Command: []string{"[MASKED]"}, Ports: map[uint16]uint16{6379: 32768}},
			Found:   event.Found{Digest: "sha256:1", Pull: "registry/redis@sha256:2"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if again := Job(got); again.Services[0].Ports[6379] != 32768 || again.Services[0].Name != "registry/redis@sha256:2" {
		t.Errorf("what is asked for again is %+v", again)
	}
}

func TestOnlyTheFirstEventTellsOfTheJobAndItsPlace(t *testing.T) {
	var got []event.Event
	env, job := &event.Environment{Level: "none"}, &event.Identity{Job: "test"}
	sink := Described(sinkFunc(func(e event.Event) { got = append(got, e) }), env, job)
	sink.Event(event.Event{Seq: 1, Body: event.RunStarted{ID: "1"}})
	sink.Event(event.Event{Seq: 2, Body: event.Warning{Message: "x"}})
	want := []event.Event{{Seq: 1, Body: event.RunStarted{ID: "1", Environment: env, Identity: job}}, {Seq: 2, Body: event.Warning{Message: "x"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

type sinkFunc func(event.Event)

func (f sinkFunc) Event(e event.Event) { f(e) }

func TestFilesOfATraceGoNowhereElse(t *testing.T) {
	env, from := newElsewhere(t), t.TempDir()
	write(t, from+"/a", "text")
	if err := os.Mkdir(from+"/.rung", 0o700); err != nil {
		t.Fatal(err)
	}
	kept := from + "/.rung/a"
	write(t, kept, "text")
	for _, f := range []event.File{
		{From: from + "/a", To: "/builds/p.tmp/store/a"}, {From: from + "/.rung/../a", To: "/builds/p.tmp/store/a"}, {From: t.TempDir(), To: "/builds/p", Tree: true},
	} {
		if _, err := Bring(t.Context(), env, []event.File{f}, ".rung", ""); err == nil || !strings.Contains(err.Error(), "no folder .rung") {
			t.Errorf("%+v: the error is %v", f, err)
		}
	}
	for _, to := range []string{"/etc/passwd", "/builds/p.tmp/store/../../../etc", "/builds/p/a", "/builds/p.tmp/../x"} {
		if _, err := Bring(t.Context(), env, []event.File{{From: kept, To: to}}, ".rung", ""); err == nil {
			t.Errorf("%s was accepted", to)
		}
		if _, err := Bring(t.Context(), env, []event.File{{Text: "x", To: to}}, ".rung", ""); err == nil {
			t.Errorf("%s was accepted for a text", to)
		}
		if _, err := Bring(t.Context(), env, []event.File{{From: from, To: to, Tree: true}}, ".rung", ""); err == nil {
			t.Errorf("%s was accepted for a work tree", to)
		}
	}
	missing, err := Bring(t.Context(), env, []event.File{
		{From: kept, To: "/builds/p.tmp/store/incoming/a"}, {From: from + "/none", To: "/builds/p.tmp/store/b"}, {To: "/builds/p.tmp/KEY", Text: "k"},
	}, ".rung", "")
	if err != nil || len(missing) != 1 || env.read(t, "/builds/p.tmp/store/incoming/a") != "text" || env.read(t, "/builds/p.tmp/KEY") != "k" {
		t.Errorf("missing %v, %v", missing, err)
	}
	for _, to := range []string{"/builds/p", "/builds/p.tmp/store/tree"} {
		if _, err := Bring(t.Context(), env, []event.File{{From: from, To: to, Tree: true}}, ".rung", ""); err != nil || env.read(t, to+"/a") != "text" {
			t.Errorf("a work tree in %s: %v", to, err)
		}
	}
}
