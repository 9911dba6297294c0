package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/ssh"
	"google.golang.org/api/compute/v1"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/fleet/group/plugin/plugintest"
	"github.com/rungci/rung/internal/pluginhost"
)

// program is the plugin's file, as it is built for people.
var program string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "group-plugin-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(folder, "group-plugin-googlecloud")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := []string{"build", "-o", program}
	if info, ok := debug.ReadBuildInfo(); ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" }) {
		build = append(build, "-race")
	}
	if out, err := exec.Command("go", append(build, ".")...).CombinedOutput(); err != nil {
		panic(string(out))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // tests wait more than they compute
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

type options = map[string]any

// config is that of a plugin that talks to a server; text are its options.
func (s *server) config(t *testing.T, more options) plugin.Config {
	t.Helper()
	all := options{
		"project": project, "credentials_file": s.credentials, "endpoint": s.URL + "/compute/v1/", "os_login_endpoint": s.URL + "/", "calls_per_second": 1000,
	}
	maps.Copy(all, more)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Config{Config: pluginhost.Config{Name: "googlecloud", File: program, Options: text, Log: slog.New(slog.DiscardHandler)}}
}

// modes are the ways in which machines are made.
var modes = map[string]options{
	"a group of a zone":   {"name": "runners", "zone": "eu-a"},
	"a group of a region": {"name": "runners", "region": "eu"},
	"single instances": {"instance_template": "ci", "zones": []string{"eu-a", "eu-b"}, "machine_types": []options{
		{"name": "n2-small", "price": 0.1, "currency": "EUR", "spot": true, "spot_price": 0.03, "suspended_price": 0.01}, {"name": "t2a-small"},
	}},
}

func TestThePluginPassesTheSuite(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			grouptest.Run(t, plugintest.Subject(s.config(t, mode)))
			s.change(func() {
				if len(s.vms)+len(s.disks) > 0 {
					t.Errorf("%d instances and %d disks are left", len(s.vms), len(s.disks))
				}
			})
		})
	}
}

func TestThePluginPassesTheSuiteWhenTheAPIFails(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			// Each method counts for itself: the calls of whoever lists in between must not decide that all tries of another one fail.
			counts := map[string]int{}
			s.fault = func(method string) (f fault) {
				counts[method]++
				calls := counts[method]
				switch {
				case strings.HasSuffix(method, ".insert") || strings.HasSuffix(method, ".createInstances"):
					f.lost = calls%3 == 0
				case strings.HasSuffix(method, "nstances.list") || strings.HasSuffix(method, ".listManagedInstances") || strings.HasSuffix(method, ".aggregatedList"):
					f.stale = calls%4 == 0
				case strings.HasSuffix(method, ".delete") || strings.HasSuffix(method, ".deleteInstances") || strings.HasSuffix(method, "Disk") || strings.HasSuffix(method, ".setLabels"):
					f.lost = calls%3 == 0
				}
				switch {
				case calls%97 == 7:
					f.refused = &refusal{503, "backendError", "Service Unavailable"}
				case calls%89 == 11:
					f.refused, f.after = &refusal{403, "rateLimitExceeded", "Rate Limit Exceeded"}, 1
				}
				return f
			}
			subject := plugintest.Subject(s.config(t, mode))
			subject.Patience = 3 * time.Minute // every failure is waited for before the next try
			grouptest.Run(t, subject)
			s.change(func() {
				if len(s.vms)+len(s.disks) > 0 {
					t.Errorf("%d instances and %d disks are left", len(s.vms), len(s.disks))
				}
			})
		})
	}
}

// fleet is the plugin's group as callers see it.
type fleet struct {
	*testing.T
	*group.Group
	*server
	plugin *plugin.Group
}

func settings(t *testing.T) group.Settings {
	t.Helper()
	return group.Settings{Owner: "Runner_1", Labels: map[string]string{"cost-centre": "R&D"}, State: t.TempDir(), ConnectorConfig: group.ConnectorConfig{Username: "ci", OS: "linux"}}
}

// open opens the plugin with a server.
func open(t *testing.T, s *server, more options, with group.Settings) (*fleet, error) {
	t.Helper()
	f := &fleet{T: t, server: s, plugin: plugin.New(s.config(t, more))}
	f.Group = group.Adapt(f.plugin)
	_, err := f.Init(t.Context(), hclog.NewNullLogger(), with)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = f.Shutdown(ctx)
	})
	return f, err
}

func mustOpen(t *testing.T, s *server, more options) *fleet {
	t.Helper()
	f, err := open(t, s, more, settings(t))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// make makes one machine.
func (f *fleet) make(r group.Request) string {
	f.Helper()
	r.Count = 1
	created, err := f.Create(f.Context(), r)
	if err != nil || len(created.Instances) != 1 {
		f.Fatalf("Create: %+v, %v", created, err)
	}
	return created.Instances[0]
}

// await waits until an instance is as it should be.
func (f *fleet) await(id string, so func(group.Instance) bool) group.Instance {
	f.Helper()
	var last []group.Instance
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		all, err := f.List(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		last = all
		for _, i := range all {
			if i.ID == id && so(i) {
				return i
			}
		}
	}
	f.Fatalf("it is not so; the list is %+v", last)
	return group.Instance{}
}

func is(state group.State) func(group.Instance) bool {
	return func(i group.Instance) bool { return i.State == state }
}

// metadata is that of the only instance.
func (f *fleet) metadata(key string) (value string) {
	f.Helper()
	f.change(func() { value = item(f.only(f.T).Metadata.Items, key) })
	return value
}

func TestAnInstanceHasWhatTheTemplateAndTheRequestSay(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := mustOpen(t, newServer(t), mode)
			id := f.make(group.Request{ID: "Request-1", Labels: map[string]string{"project": "Group/Project"}})
			got := f.await(id, is(group.StateRunning))
			if got.Request != "Request-1" || got.Labels["project"] != "Group/Project" || got.Labels["cost-centre"] != "R&D" || got.Shape != "n2-small" || !strings.HasPrefix(got.Zone, "eu-") || got.Created.IsZero() {
				t.Errorf("it is listed as %+v", got)
			}
			info, err := f.ConnectInfo(t.Context(), id)
			if err != nil || !strings.HasPrefix(info.InternalAddr, "10.0.0.") || !strings.HasPrefix(info.ExternalAddr, "203.0.113.") || info.Username != "ci" {
				t.Errorf("%v, %v", info, err)
			}
			if want := ssh.FingerprintSHA256(f.hostKey); !slices.Equal(info.HostKeys, []string{want}) {
				t.Errorf("the host keys are %q, want %q", info.HostKeys, want)
			}
			signer, err := ssh.ParsePrivateKey(info.Key)
			if err != nil {
				t.Fatal(err)
			}
			public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
			line, expires, _ := strings.Cut(f.metadata("ssh-keys"), ` google-ssh {"userName":"rung","expireOn":"`)
			if want := "admin:ssh-ed25519 AAAA admin\nci:" + public; line != want {
				t.Errorf("ssh-keys are %q, want %q", line, want)
			}
			if at, err := time.Parse(expiryForm+`"}`, expires); err != nil || time.Until(at) < 23*time.Hour || time.Until(at) > 24*time.Hour {
				t.Errorf("the key expires at %s, %v", expires, err)
			}
			if f.metadata("startup-script") != "#!/bin/sh" || f.metadata("enable-oslogin") != "FALSE" {
				t.Error("the metadata of the template is lost, or OS Login is on")
			}
			f.change(func() {
				labels := f.only(t).Labels
				if labels["team"] != "ci" || name == "single instances" && (labels["project"] != "group_project" || labels["cost-centre"] != "r_d" || labels["rung-owner"] != "runner_1") {
					t.Errorf("the labels are %v", labels)
				}
			})
		})
	}
}

func TestTheKeyOfTheNextProcessReplacesTheOneBefore(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	id := mustOpen(t, s, modes["a group of a zone"]).make(group.Request{ID: "r"})
	next := mustOpen(t, s, modes["a group of a zone"])
	next.await(id, is(group.StateRunning))
	before := next.metadata("ssh-keys")
	next.change(func() {
		s.fault = func(method string) (f fault) { // the first try
			if method == "compute.instances.setMetadata" && s.counts[method] == 1 {
				f.refused = &refusal{503, "backendError", "Service Unavailable"}
			}
			return f
		}
	})
	info, err := next.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(info.Key)
	if err != nil {
		t.Fatal(err)
	}
	after := next.metadata("ssh-keys")
	if key := string(ssh.MarshalAuthorizedKey(signer.PublicKey())); before == after || !strings.Contains(after, strings.TrimSpace(key)) || strings.Count(after, "ci:") != 1 || !strings.HasPrefix(after, "admin:") {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
	if _, err := next.ConnectInfo(t.Context(), id); err != nil || s.count("compute.instances.setMetadata") != 2 || s.count("compute.zoneOperations.get")+s.count("compute.zoneOperations.wait") == 0 {
		t.Errorf("it was put there %d times, %v", s.count("compute.instances.setMetadata"), err)
	}
}

func TestAKeyIsRenewedBeforeItExpiresAndGoesWithItsProcess(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			f := mustOpen(t, s, mode)
			id := f.make(group.Request{ID: "r"})
			f.await(id, is(group.StateRunning))
			info, err := f.ConnectInfo(t.Context(), id)
			if err != nil || info.Expires == nil || time.Until(*info.Expires) < time.Hour || time.Until(*info.Expires) > 20*time.Hour || s.count("compute.instances.setMetadata") != 0 {
				t.Fatalf("the key is to be asked for again at %v, %v", info.Expires, err)
			}
			before := f.metadata("ssh-keys")
			f.change(func() { // as it is later
				one := f.only(t).Metadata
				at := until(before, "ci", publicKeyOf(t, info))
				one.Items = set(one.Items, "ssh-keys", strings.ReplaceAll(before, at.Format(expiryForm), time.Now().Add(time.Hour).UTC().Format(expiryForm)))
			})
			if info, err = f.ConnectInfo(t.Context(), id); err != nil || time.Until(*info.Expires) < time.Hour || s.count("compute.instances.setMetadata") != 1 {
				t.Errorf("the key expires at %v, and was set %d times, %v", info.Expires, s.count("compute.instances.setMetadata"), err)
			}
			if at := until(f.metadata("ssh-keys"), "ci", publicKeyOf(t, info)); time.Until(at) < 20*time.Hour || strings.Count(f.metadata("ssh-keys"), "\n") != 1 {
				t.Errorf("after it was renewed, the keys are %s", f.metadata("ssh-keys"))
			}
			if err := f.Shutdown(t.Context()); err != nil || f.metadata("ssh-keys") != "admin:ssh-ed25519 AAAA admin" {
				t.Errorf("after Shutdown the keys are %q, %v", f.metadata("ssh-keys"), err)
			}
		})
	}
}

func TestAKeyOfTheConfigurationStays(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	first := mustOpen(t, s, modes["a group of a zone"])
	id := first.make(group.Request{ID: "r"})
	first.await(id, is(group.StateRunning))
	info, err := first.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	with := settings(t)
	with.Key = info.Key
	f, err := open(t, s, modes["a group of a zone"], with)
	if err != nil {
		t.Fatal(err)
	}
	f.await(id, is(group.StateRunning))
	if _, err := f.ConnectInfo(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := f.Shutdown(t.Context()); err != nil || until(f.metadata("ssh-keys"), "ci", publicKeyOf(t, info)).IsZero() {
		t.Errorf("after Shutdown the keys are %q, %v", f.metadata("ssh-keys"), err)
	}
}

func publicKeyOf(t *testing.T, info group.ConnectInfo) string {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(info.Key)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

func TestOSLogin(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, options{"name": "runners", "zone": "eu-a", "os_login": true})
	id := f.make(group.Request{ID: "r"})
	f.await(id, is(group.StateRunning))
	for range 2 {
		if info, err := f.ConnectInfo(t.Context(), id); err != nil || info.Username != "sa_1234" || info.Expires == nil || time.Until(*info.Expires) < time.Hour {
			t.Errorf("%v, expires %v, %v", info, info.Expires, err)
		}
	}
	if f.metadata("enable-oslogin") != "TRUE" || strings.Contains(f.metadata("ssh-keys"), "ci:") {
		t.Error("the key is in the metadata")
	}
	f.change(func() {
		if len(s.logins) != 1 {
			t.Errorf("the profile has the keys %v", s.logins)
		}
	})
	if err := f.Shutdown(t.Context()); err != nil || len(s.logins) != 0 || s.count("oslogin.users.importSshPublicKey") != 1 {
		t.Errorf("after Shutdown the profile has the keys %v, %v", s.logins, err)
	}
}

func TestHostKeysThatAreRequiredAreWaitedFor(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.hostKeys = false
	id := mustOpen(t, s, modes["a group of a zone"]).make(group.Request{ID: "r"})
	lax := mustOpen(t, s, modes["a group of a zone"])
	lax.await(id, is(group.StateRunning))
	if info, err := lax.ConnectInfo(t.Context(), id); err != nil || len(info.HostKeys) > 0 {
		t.Errorf("%q, %v", info.HostKeys, err)
	}
	f := mustOpen(t, s, options{"name": "runners", "zone": "eu-a", "require_host_keys": true})
	if _, err := f.ConnectInfo(t.Context(), id); !errors.Is(err, group.ErrTransient) {
		t.Error(err)
	}
	f.change(func() { s.hostKeys = true })
	if info, err := f.ConnectInfo(t.Context(), id); err != nil || len(info.HostKeys) != 1 {
		t.Errorf("%q, %v", info.HostKeys, err)
	}
}

func TestShapesAreOfferedPerZone(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, newServer(t), modes["single instances"])
	offers, err := f.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range offers {
		got = append(got, fmt.Sprintf("%s %s %s %g CPUs %d MB %d GB %d GPUs spot %t %g+%g %s", o.Zone, o.Shape, o.Arch, o.CPUs, o.Memory>>20, o.Disk>>30, o.GPUs, o.Spot, o.Price, o.SuspendedPrice, o.Currency))
	}
	want := []string{
		"eu-a n2-small amd64 2 CPUs 8192 MB 50 GB 0 GPUs spot false 0.1+0.01 EUR", "eu-a n2-small amd64 2 CPUs 8192 MB 50 GB 0 GPUs spot true 0.03+0.01 EUR",
		"eu-b n2-small amd64 2 CPUs 8192 MB 50 GB 0 GPUs spot false 0.1+0.01 EUR", "eu-b n2-small amd64 2 CPUs 8192 MB 50 GB 0 GPUs spot true 0.03+0.01 EUR",
		"eu-b t2a-small arm64 1 CPUs 4096 MB 50 GB 2 GPUs spot false 0+0 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("offered:\n%s", strings.Join(got, "\n"))
	}
	id := f.make(group.Request{ID: "r", Shape: "n2-small", Zone: "eu-b", Spot: true})
	if i := f.await(id, is(group.StateRunning)); i.Zone != "eu-b" || !i.Spot || i.Shape != "n2-small" {
		t.Errorf("it is %+v", i)
	}
	if _, err := f.Create(t.Context(), group.Request{ID: "x", Count: 1, Zone: "eu-z"}); !errors.Is(err, group.ErrNotFound) {
		t.Error("a zone that is not configured:", err)
	}
}

func TestAZoneWithoutCapacityIsLeftForTheNext(t *testing.T) {
	for _, code := range []string{"ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "quotaExceeded"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.exhausted["eu-a"] = code
			f := mustOpen(t, s, modes["single instances"])
			if i := f.await(f.make(group.Request{ID: "r"}), is(group.StateRunning)); i.Zone != "eu-b" {
				t.Errorf("it is %+v", i)
			}
			s.change(func() { s.exhausted["eu-b"] = code })
			for range 2 { // the request that failed is not the answer to the next one
				if created, err := f.Create(t.Context(), group.Request{ID: "none", Count: 1}); !errors.Is(err, group.ErrQuota) || created.Count > 0 {
					t.Errorf("%+v, %v", created, err)
				}
			}
			s.change(func() { clear(s.exhausted) })
			f.await(f.make(group.Request{ID: "none"}), is(group.StateRunning))
		})
	}
}

func TestAnOperationThatFailsLateIsAFailedInstance(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["single instances"])
	s.change(func() { s.held = true })
	id := f.make(group.Request{ID: "r"})
	if i := f.await(id, is(group.StateCreating)); i.Request != "r" {
		t.Errorf("it is %+v", i)
	}
	if _, err := f.Delete(t.Context(), []string{id}); !errors.Is(err, group.ErrTransient) {
		t.Error("deleting what is not there yet:", err)
	}
	s.change(func() { s.held, s.exhausted["eu-a"] = false, "ZONE_RESOURCE_POOL_EXHAUSTED" })
	i := f.await(id, is(group.StateFailed))
	if !strings.Contains(i.Reason, "the zone eu-a does not have enough resources (ZONE_RESOURCE_POOL_EXHAUSTED)") {
		t.Errorf("the reason is %q", i.Reason)
	}
	if done, err := f.Delete(t.Context(), []string{id}); err != nil || len(done) != 1 {
		t.Errorf("%v, %v", done, err)
	}
	if all, err := f.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestAGroupThatCannotMakeAnInstanceSaysWhy(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.exhausted["eu-a"] = "QUOTA_EXCEEDED"
	f := mustOpen(t, s, modes["a group of a zone"])
	id := f.make(group.Request{ID: "r"})
	if i := f.await(id, is(group.StateFailed)); i.Reason != "no capacity in eu-a (QUOTA_EXCEEDED)" || i.Request != "r" {
		t.Errorf("it is %+v", i)
	}
	if _, err := f.Delete(t.Context(), []string{id}); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; {
		all, err := f.List(t.Context())
		if err == nil && len(all) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%v, %v", all, err)
		}
	}
}

func TestAnInstanceThatStopsSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		operation, message string
		want               string
	}{
		"preempted":       {"compute.instances.preempted", "Instance was preempted.", "the instance was preempted: spot capacity is needed (Instance was preempted.)"},
		"the host failed": {"compute.instances.hostError", "", "the host has failed"},
		"somebody":        {"stop", "", "the instance was stopped by somebody@example.com"},
		"nobody knows":    {"start", "", "the instance is terminated, and was not asked to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			f := mustOpen(t, s, modes["single instances"])
			id := f.make(group.Request{ID: "r", Spot: true, Shape: "n2-small"})
			f.await(id, is(group.StateRunning))
			s.change(func() { s.stop(s.only(t), c.operation, c.message, "STOPPING", "STOPPING", "TERMINATED") })
			if name == "preempted" {
				notice := f.await(id, func(i group.Instance) bool { return i.Interruption != nil })
				if notice.State != group.StateRunning || time.Until(notice.Interruption.At) > preemptionTime || notice.Interruption.Reason != c.want {
					t.Errorf("the notice is %+v", notice.Interruption)
				}
			}
			if i := f.await(id, func(i group.Instance) bool { return i.State == group.StateFailed && (i.Reason == c.want) }); i.Interruption != nil {
				t.Errorf("it is %+v", i)
			}
		})
	}
}

func TestAnEndThatIsKnownIsANoticeOnceItIsNear(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["single instances"])
	id := f.make(group.Request{ID: "r"})
	f.await(id, is(group.StateRunning))
	at := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }
	s.change(func() {
		one := s.only(t)
		one.Scheduling = &compute.Scheduling{OnHostMaintenance: "TERMINATE"}
		one.ResourceStatus = &compute.ResourceStatus{Scheduling: &compute.ResourceStatusScheduling{TerminationTimestamp: at(24 * time.Hour)}, UpcomingMaintenance: &compute.UpcomingMaintenance{WindowStartTime: at(24 * time.Hour)}}
	})
	if i := f.await(id, is(group.StateRunning)); i.Interruption != nil {
		t.Errorf("a day before: %+v", i.Interruption)
	}
	s.change(func() { s.only(t).ResourceStatus.UpcomingMaintenance.WindowStartTime = at(time.Minute) })
	f.await(id, func(i group.Instance) bool {
		return i.Interruption != nil && i.Interruption.Reason == "host maintenance"
	})
	s.change(func() { s.only(t).ResourceStatus.Scheduling.TerminationTimestamp = at(time.Minute) })
	f.await(id, func(i group.Instance) bool {
		return i.Interruption != nil && i.Interruption.Reason == "the time that the instance may run ends"
	})
}

func TestAnInstanceThatItsGroupMakesAgainHasFailed(t *testing.T) {
	for _, action := range []string{"RECREATING", "RESTARTING", ""} {
		t.Run("action "+action, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			f := mustOpen(t, s, modes["a group of a zone"])
			id := f.make(group.Request{ID: "r"})
			f.await(id, is(group.StateRunning))
			s.change(func() {
				if one := s.members[zonal][id]; action != "" {
					one.action, one.vm.path = action, []string{"STOPPING", "STOPPING", "RUNNING"}
				} else {
					one.vm.Id += 1000 // between two lists
				}
			})
			f.await(id, func(i group.Instance) bool { return i.State == group.StateFailed && i.Reason != "" })
		})
	}
}

func TestAnInstanceThatItsGroupHasAbandonedIsDeleted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["a group of a region"])
	id := f.make(group.Request{ID: "r"})
	f.await(id, is(group.StateRunning))
	s.change(func() { delete(s.members[regional], id) })
	f.await(id, is(group.StateRunning))
	if _, err := f.Delete(t.Context(), []string{id}); err != nil || s.count("compute.instances.delete") != 1 {
		t.Error(err)
	}
}

func TestMachinesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := mustOpen(t, s, modes["a group of a zone"])
	f.await(f.make(group.Request{ID: "r"}), is(group.StateRunning))
	with := settings(t)
	with.Owner = "another"
	other, err := open(t, s, modes["a group of a zone"], with)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := other.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestErrorsHaveTheirKind(t *testing.T) {
	for name, c := range map[string]struct {
		refused *refusal
		after   int
		want    error
	}{
		"401":           {&refusal{401, "authError", "Invalid Credentials"}, 0, group.ErrUnauthorised},
		"403":           {&refusal{403, "forbidden", "no permission"}, 0, group.ErrUnauthorised},
		"404":           {&refusal{404, "notFound", "no such project"}, 0, group.ErrNotFound},
		"quota":         {&refusal{403, "quotaExceeded", "Quota 'CPUS' exceeded"}, 0, group.ErrQuota},
		"rate limit":    {&refusal{403, "rateLimitExceeded", "slower"}, 1, group.ErrTransient},
		"429":           {&refusal{429, "rateLimitExceeded", "slower"}, 0, group.ErrTransient},
		"500":           {&refusal{500, "internalError", "oops"}, 0, group.ErrTransient},
		"a bad request": {&refusal{400, "invalid", "no such field"}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			f := mustOpen(t, s, modes["single instances"])
			s.guard.Lock()
			s.fault = func(string) fault { return fault{refused: c.refused, after: c.after} }
			s.guard.Unlock()
			_, err := f.List(t.Context())
			if c.want != nil && !errors.Is(err, c.want) || err == nil || !strings.Contains(err.Error(), c.refused.message) {
				t.Errorf("%v, want %v", err, c.want)
			}
			tries := s.count("compute.instances.list") / 2 // zones
			if want := map[bool]int{true: 5, false: 1}[errors.Is(c.want, group.ErrTransient)]; tries != want {
				t.Errorf("%d tries, want %d", tries, want)
			}
		})
	}
}

func TestAConfigurationThatCannotBeIsRefused(t *testing.T) {
	s := newServer(t)
	for name, c := range map[string]struct {
		options options
		group   func(*compute.InstanceGroupManager)
		want    string
	}{
		"nothing":               {options{}, nil, `set either the option "name", a managed instance group, or "instance_template"`},
		"both":                  {options{"name": "runners", "zone": "eu-a", "instance_template": "ci"}, nil, `set either the option "name"`},
		"a group of nowhere":    {options{"name": "runners"}, nil, `needs either the option "zone" or the option "region"`},
		"a group with types":    {options{"name": "runners", "zone": "eu-a", "machine_types": []options{{"name": "x"}}}, nil, `remove "zones" and "machine_types"`},
		"instances in a region": {options{"instance_template": "ci", "region": "eu"}, nil, `use the option "zones" in place of "region"`},
		"two kinds of zones":    {options{"instance_template": "ci", "zone": "eu-a", "zones": []string{"eu-b"}}, nil, `not both`},
		"no zones":              {options{"instance_template": "ci"}, nil, `"zones" lists no zones`},
		"a URL of a template":   {options{"instance_template": "https://x/y", "zone": "eu-a"}, nil, `must be NAME, or regions/REGION/instanceTemplates/NAME`},
		"no such group":         {options{"name": "other", "zone": "eu-a"}, nil, "there is no group zones/eu-a/other"},
		"no such template":      {options{"instance_template": "other", "zone": "eu-a"}, nil, `the instance template "other"`},
		"no such machine type":  {options{"instance_template": "ci", "zone": "eu-a", "machine_types": []options{{"name": "t2a-small"}}}, nil, `none of the zones eu-a has the machine type "t2a-small"`},
		"no such file":          {options{"instance_template": "ci", "zone": "eu-a", "credentials_file": "/nowhere"}, nil, `the file of the option "credentials_file"`},
		"another project":       {options{"instance_template": "ci", "zone": "eu-a", "project": "other"}, nil, "the cloud refuses the credentials"},
		"an unknown option":     {options{"instance_template": "ci", "zoen": "eu-a"}, nil, "zoen"},
		"a price of nothing":    {options{"instance_template": "ci", "zone": "eu-a", "machine_types": []options{{"name": "x", "price": 1}}}, nil, "currency"},
		"no such disk type":     {options{"instance_template": "ci", "zones": []string{"eu-a", "eu-b"}, "volume_type": "hyperdisk-balanced"}, nil, `the option "volume_type": not found: the disk type "hyperdisk-balanced" of eu-b`},
		"no disk type":          {options{"instance_template": "ci", "zone": "eu-a", "volume_type": "PD SSD"}, nil, "volume_type"},
		"a KMS key of nowhere":  {options{"instance_template": "ci", "zone": "eu-a", "volume_kms_key": "k"}, nil, `must be projects/PROJECT/locations/`},
		"volumes of a region":   {options{"name": "runners", "region": "eu", "volume_type": "pd-ssd"}, nil, `has no volumes: remove "volume_type"`},
		"an autoscaler": {
			modes["a group of a zone"], func(g *compute.InstanceGroupManager) { g.Status.Autoscaler = "x/autoscalers/scaler" }, "has the autoscaler scaler, which removes busy instances",
		},
		"proactive updates": {
			modes["a group of a zone"], func(g *compute.InstanceGroupManager) {
				g.UpdatePolicy = &compute.InstanceGroupManagerUpdatePolicy{Type: "PROACTIVE"}
			}, "set the type of its update policy to OPPORTUNISTIC",
		},
		"redistribution": {
			modes["a group of a region"], func(g *compute.InstanceGroupManager) {
				g.UpdatePolicy = &compute.InstanceGroupManagerUpdatePolicy{Type: "OPPORTUNISTIC", InstanceRedistributionType: "PROACTIVE"}
			}, "set its instance redistribution type to NONE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.change(func() { s.groups = newWorld().groups })
			if c.group != nil {
				c.group(s.groups[zonal])
				c.group(s.groups[regional])
			}
			if _, err := open(t, s, c.options, settings(t)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestAKeyNeedsAUser(t *testing.T) {
	t.Parallel()
	with := settings(t)
	with.Username = ""
	f, err := open(t, newServer(t), modes["single instances"], with)
	if err != nil {
		t.Fatal(err)
	}
	if created, err := f.Create(t.Context(), group.Request{ID: "r", Count: 1}); err == nil || created.Count > 0 || !strings.Contains(err.Error(), "username of connector_config is not set") {
		t.Errorf("%+v, %v", created, err)
	}
}
