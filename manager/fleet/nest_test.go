package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/connect"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
	"github.com/rungci/rung/nesting/nestingtest"
)

// mac is the machine of a fleet.
type mac struct {
	*nestingtest.Machine
	t *testing.T
}

func newMac(t *testing.T) *mac { return &mac{nestingtest.New(t), t} }

// entry is one with so many slots on a machine.
func (m *mac) entry(slots int) *config.Machinery {
	of := autoscaled(1, slots)
	of.Autoscaler.VMIsolation = config.VMIsolation{
		Enabled: true, NestingHost: "unix://" + m.Socket, NestingConfig: map[string]any{"image_directory": "/images"}, Image: "macos-15",
		Connector: config.VMConnector{Username: "ci", KeyPath: m.KeyFile},
	}
	return of
}

// open opens a fleet whose only machine this is. What is not closed by the test ends with it.
func (m *mac) open(of *config.Machinery, cloud *fake.Group, state string) *fleet.Provider {
	m.t.Helper()
	p, err := fleet.Open(m.t.Context(), fleet.Options{
		Name: "test", Machinery: of, Setup: provider.Setup{Owner: "test", State: state, Lease: time.Minute},
		Log:   slog.New(slog.NewTextHandler(io.Discard, nil)),
		Group: func(context.Context, string, map[string]any) (group.Basic, error) { return cloud, nil },
		Connect: func(ctx context.Context, to provider.Access) (host.Host, error) {
			if to.Via == nil { // the machine itself, which the cloud of this test does not know
				to.Address, to.User, to.Key = m.Address, "ci", m.Key
			}
			return connect.Host(ctx, to, func(string, string) (string, error) { return "", errors.New("there is none") })
		},
		Tuning: func(o *control.Options) {
			o.UpdateInterval, o.CheckInterval = 100*time.Millisecond, 50*time.Millisecond
			o.Scale.MissingAfter = 50 * time.Millisecond
		},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = p.Close() })
	return p
}

// begin opens a fleet with a cloud of its own.
func (m *mac) begin(slots int) *fleet.Provider {
	m.t.Helper()
	return m.open(m.entry(slots), fake.New(fake.Options{Size: 1}), m.t.TempDir())
}

// where says what a command of a job runs on.
func where(t *testing.T, m *provider.Machine) string {
	t.Helper()
	on, err := m.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	var out bytes.Buffer
	p, err := on.Exec(t.Context(), &host.Command{Args: []string{"/bin/sh", "-c", "echo $" + nestingtest.RunsOn}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	return strings.TrimSpace(out.String())
}

func TestEachJobRunsInAVirtualMachineOfItsOwnThatGoesWithIt(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	p := m.begin(2)
	first, second := acquire(t, p, "one", provider.Needs{}), acquire(t, p, "two", provider.Needs{})
	if got := where(t, first) + " " + where(t, second); got != "nesting-1 nesting-2" {
		t.Error("they run on", got)
	}
	if first.Name != "fake-0/nesting-1" || !first.Fresh || first.Slot != 0 || second.Slot != 1 {
		t.Errorf("the machines are %+v, %+v", first, second)
	}
	if m.Given() != `{"image_directory":"/images"}` {
		t.Error("the service was initialized with", m.Given())
	}
	release(t, p, "one")
	if got := m.VMs(); got != "nesting-2" {
		t.Errorf("after the first job there is %q", got)
	}
	if got := where(t, acquire(t, p, "three", provider.Needs{})); got != "nesting-3" {
		t.Error("the next job of the slot runs on", got)
	}
	release(t, p, "two")
	release(t, p, "three")
	if got := m.VMs(); got != "" || len(p.Status().Machines) != 1 {
		t.Errorf("at the end there are %q and %d machines", got, len(p.Status().Machines))
	}
}

func TestVirtualMachinesThatNobodyKnowsAreDeletedAndThoseOfJobsAreNot(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	m.Leave("left by somebody")
	of, cloud, state := m.entry(3), fake.New(fake.Options{Size: 1}), t.TempDir()
	p := m.open(of, cloud, state)
	recovered, lost := acquire(t, p, "recovered", provider.Needs{}), acquire(t, p, "lost", provider.Needs{})
	if got := m.VMs(); got != "nesting-2 nesting-3" {
		t.Fatalf("when the machine has jobs there are %q", got)
	}
	if err := p.Close(); err != nil { // as if it was killed: nothing is given back
		t.Fatal(err)
	}
	m.Leave("made as the manager was killed")

	next := m.open(of, cloud, state)
	again, err := next.Recover(t.Context(), "recovered", recovered.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if got := where(t, again); got != "nesting-2" || again.Name != recovered.Name {
		t.Errorf("the recovered job runs on %q, %q", got, again.Name)
	}
	if got := where(t, acquire(t, next, "new", provider.Needs{})); got != "nesting-5" {
		t.Error("a new job runs on", got)
	}
	m.Await("nesting-2 nesting-3 nesting-4 nesting-5") // whose nesting-3 and nesting-4 are is not known yet
	late, err := next.Recover(t.Context(), "lost", lost.Handle)
	if err != nil || where(t, late) != "nesting-3" {
		t.Error("the other job:", err)
	}
	m.Await("nesting-2 nesting-3 nesting-5")
	for _, key := range []string{"recovered", "lost", "new"} {
		release(t, next, key)
	}
	m.Await("")
}

func TestAJobLearnsThatItsVirtualMachineIsGone(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	of, cloud, state := m.entry(2), fake.New(fake.Options{Size: 1}), t.TempDir()
	p := m.open(of, cloud, state)
	one, two := acquire(t, p, "one", provider.Needs{}), acquire(t, p, "two", provider.Needs{})
	m.End("nesting-1")
	select {
	case <-one.Done():
	case <-time.After(time.Minute):
		t.Fatal("it does not learn it")
	}
	if err := one.Err(); !errors.Is(err, executor.ErrGone) || !strings.Contains(err.Error(), "the virtual machine nesting-1 is gone from fake-0") {
		t.Error("the reason is", err)
	}
	release(t, p, "one")
	if two.Err() != nil || len(p.Status().Machines) != 1 {
		t.Error("the other job has lost its machine:", two.Err())
	}
	if got := where(t, acquire(t, p, "three", provider.Needs{})); got != "nesting-3" {
		t.Error("the next job runs on", got)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	m.End("nesting-2")
	if _, err := m.open(of, cloud, state).Recover(t.Context(), "two", two.Handle); !errors.Is(err, executor.ErrGone) {
		t.Error("a job whose virtual machine went while nobody looked:", err)
	}
}

func TestTheServiceIsFoundWhereItListensByItself(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	of := m.entry(1)
	of.Autoscaler.VMIsolation.NestingHost = ""
	if got := where(t, acquire(t, m.open(of, fake.New(fake.Options{Size: 1}), t.TempDir()), "one", provider.Needs{})); got != "nesting-1" {
		t.Error("it runs on", got)
	}
}

// once refuses the first of some calls.
func once(call string, err error) func(context.Context, string) error {
	var done sync.Once
	return func(_ context.Context, asked string) (out error) {
		if asked == call {
			done.Do(func() { out = err })
		}
		return out
	}
}

func TestAVirtualMachineThatCannotBeMadeFailsItsJobAndNotItsMachine(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	p := m.begin(1)
	m.Refuse(once("Create", nestingtest.Refusal("no network is free")))
	if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Acquire(t.Context(), "one", provider.Job{}, nil); err == nil || !strings.Contains(err.Error(), "fake-0: cannot create a virtual machine of macos-15") || !strings.Contains(err.Error(), "no network is free") {
		t.Error("the error is", err)
	}
	got, err := p.Acquire(t.Context(), "one", provider.Job{}, nil) // as the manager does
	if err != nil || where(t, got) != "nesting-1" || len(p.Status().Machines) != 1 {
		t.Error(err)
	}
}

func TestAJobDoesNotWaitForAServiceThatHangs(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	p := m.begin(1)
	asked, left := make(chan struct{}), make(chan struct{})
	var first sync.Once
	m.Refuse(func(ctx context.Context, call string) error {
		hang := false
		if call == "Create" {
			first.Do(func() { hang = true })
		}
		if hang {
			close(asked)
			<-ctx.Done()
			m.Leave("late") // nobody asks for it any more
			close(left)
			return ctx.Err()
		}
		return nil
	})
	if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		_, err := p.Acquire(context.Background(), "one", provider.Job{}, nil)
		over <- err
	}()
	<-asked
	release(t, p, "one")
	if err := <-over; err == nil {
		t.Error("it has a machine")
	}
	<-left
	m.Await("") // late is deleted with a check
	if got := where(t, acquire(t, p, "two", provider.Needs{})); got != "nesting-2" {
		t.Error("the next job runs on", got)
	}
}

func TestJobsGoOnWhileTheServiceIsAway(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	p := m.begin(2)
	one := acquire(t, p, "one", provider.Needs{})
	m.Stop()
	if err := p.Reserve(t.Context(), "two", provider.Needs{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Acquire(t.Context(), "two", provider.Job{}, nil); err == nil || !strings.Contains(err.Error(), "`nesting serve` must run on the host") {
		t.Error("the error is", err)
	}
	if got := where(t, one); got != "nesting-1" || one.Err() != nil {
		t.Errorf("the job runs on %q, %v", got, one.Err())
	}
	m.Serve()
	two, err := p.Acquire(t.Context(), "two", provider.Job{}, nil)
	if err != nil || where(t, two) != "nesting-2" || one.Err() != nil {
		t.Error("after the service is back:", err, one.Err())
	}
}

func TestAVirtualMachineThatCannotBeDeletedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	p := m.begin(1)
	acquire(t, p, "one", provider.Needs{})
	m.Refuse(func(_ context.Context, call string) error {
		if call == "Delete" {
			return nestingtest.Refusal("the disk is busy")
		}
		return nil
	})
	release(t, p, "one")
	if got := m.VMs(); got != "nesting-1" {
		t.Fatalf("there is %q", got)
	}
	if got := where(t, acquire(t, p, "two", provider.Needs{})); got != "nesting-2" || m.VMs() != "nesting-2" {
		t.Errorf("the next job of the slot runs on %q beside %q", got, m.VMs())
	}
	m.Leave("in no slot")
	m.Refuse(nil)
	m.Await("nesting-2")
}

func TestAVirtualMachineThatLetsNobodyInIsDeleted(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	of := m.entry(1)
	of.Autoscaler.VMIsolation.Connector.Timeout = time.Second
	of.Autoscaler.VMIsolation.Connector.ProtocolPort = 23
	p := m.open(of, fake.New(fake.Options{Size: 1}), t.TempDir())
	if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Acquire(t.Context(), "one", provider.Job{}, nil); err == nil || !strings.Contains(err.Error(), "the virtual machine nesting-1 of fake-0: it could not be reached within 1s") {
		t.Error("the error is", err)
	}
	m.Await("")
}

func TestIsolationThatCannotBeIsRefusedBeforeThereAreMachines(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*config.VMIsolation){
		"must be unix:PATH or HOST:PORT": func(v *config.VMIsolation) { v.NestingHost = "nowhere" },
		"not by \"telnet\"":              func(v *config.VMIsolation) { v.Connector.Protocol = "telnet" },
		"nesting_config cannot be JSON":  func(v *config.VMIsolation) { v.NestingConfig = map[string]any{"f": func() {}} },
	} {
		of := autoscaled(1, 1)
		of.Autoscaler.VMIsolation = config.VMIsolation{Enabled: true, Image: "macos-15"}
		change(&of.Autoscaler.VMIsolation)
		if _, err := (&clouds{}).open(t.Context(), of, provider.Setup{Owner: "test", State: t.TempDir()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
