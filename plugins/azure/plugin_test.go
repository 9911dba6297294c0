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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	grouplugin "github.com/rungci/rung/fleet/group/plugin"
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
	program = filepath.Join(folder, "group-plugin-azure")
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

// config is that of a plugin that talks to a judge.
func (j *judge) config(t *testing.T, more options) grouplugin.Config {
	t.Helper()
	all := options{
		"subscription_id": subscription, "resource_group_name": resources, "credentials_file": j.credentials, "endpoint": j.URL, "authority_host": j.URL, "calls_per_second": 1000,
	}
	maps.Copy(all, more)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return grouplugin.Config{Config: pluginhost.Config{Name: "azure", File: program, Options: text, Env: []string{"SSL_CERT_FILE=" + j.authority}, Log: slog.New(slog.DiscardHandler)}}
}

// modes are the ways in which machines are made.
var modes = map[string]options{
	"a uniform scale set":  {"name": "uniform"},
	"a flexible scale set": {"name": "flexible"},
	"virtual machines": {"location": "westeurope", "image": "Canonical:ubuntu:server:latest", "subnet": subnet, "zones": []string{"1", "2"}, "public_ip": true, "sizes": []options{
		{"name": "Standard_D2s_v5", "price": 0.1, "currency": "EUR", "spot": true, "spot_price": 0.02}, {"name": "Standard_NC4"}, {"name": "Standard_D8ps_v5"},
	}},
}

func tryAll(t *testing.T, fault func() func(string) fault) {
	t.Helper()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJudge(t)
			j.fault = fault()
			grouptest.Run(t, plugintest.Subject(j.config(t, mode)))
			j.during(func() {
				if len(j.vms)+len(j.members) > 0 {
					t.Errorf("%d machines are left", len(j.vms)+len(j.members))
				}
			})
		})
	}
}

func TestThePluginPassesTheSuite(t *testing.T) {
	tryAll(t, func() func(string) fault { return func(string) fault { return fault{} } })
}

func TestThePluginPassesTheSuiteWhenTheAPIFails(t *testing.T) {
	tryAll(t, func() func(string) fault {
		calls, makes := 0, 0
		return func(method string) (f fault) {
			calls++
			switch {
			case strings.HasSuffix(method, ".BeginCreateOrUpdate") || strings.HasSuffix(method, ".BeginUpdate"):
				makes++
				f.lost = makes%3 == 0
			case strings.HasPrefix(method, "VirtualMachine") && strings.HasSuffix(method, "Pager"):
				f.stale = calls%4 == 0
			case strings.HasPrefix(method, "VirtualMachine") && strings.Contains(method, ".BeginDelete"):
				f.lost = calls%3 == 0
			}
			switch {
			case calls%97 == 0:
				f.status, f.code = 503, "ServerTimeout"
			case calls%89 == 0:
				f.status, f.code, f.after = 429, "TooManyRequests", 1
			}
			return f
		}
	})
}

// fleet is the plugin's group as callers see it.
type fleet struct {
	*testing.T
	*group.Group
	*judge
}

func settings(t *testing.T) group.Settings {
	t.Helper()
	return group.Settings{Owner: "Runner_1", Labels: map[string]string{"cost-centre": "R&D"}, State: t.TempDir(), ConnectorConfig: group.ConnectorConfig{Username: "ci", OS: "linux"}}
}

func open(t *testing.T, j *judge, more options, with group.Settings) (*fleet, error) {
	t.Helper()
	f := &fleet{T: t, judge: j, Group: group.Adapt(grouplugin.New(j.config(t, more)))}
	_, err := f.Init(t.Context(), hclog.NewNullLogger(), with)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = f.Shutdown(ctx)
	})
	return f, err
}

func mustOpen(t *testing.T, j *judge, more options) *fleet {
	t.Helper()
	f, err := open(t, j, more, settings(t))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// make makes one machine, and waits until it is listed.
func (f *fleet) make(r group.Request) string {
	f.Helper()
	r.Count = 1
	created, err := f.Create(f.Context(), r)
	if err != nil || created.Count != 1 {
		f.Fatalf("Create: %+v, %v", created, err)
	}
	return f.await("", func(group.Instance) bool { return true }).ID
}

// await waits until an instance, or any, is as it should be.
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
			if (i.ID == id || id == "") && so(i) {
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

func TestAMachineHasWhatTheModelAndTheRequestSay(t *testing.T) {
	for _, name := range []string{"a flexible scale set", "virtual machines"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode := maps.Clone(modes[name])
			mode["custom_data"] = "#cloud-config"
			f := mustOpen(t, newJudge(t), mode)
			id := f.make(group.Request{ID: "Request-1", Labels: map[string]string{"project": "Group/Project"}})
			got := f.await(id, is(group.StateRunning))
			if got.Request != "Request-1" || got.Labels["project"] != "Group/Project" || got.Labels["cost-centre"] != "R&D" || got.Shape != "Standard_D2s_v5" || got.Created.IsZero() {
				t.Errorf("it is listed as %+v", got)
			}
			info, err := f.ConnectInfo(t.Context(), id)
			if err != nil || !strings.HasPrefix(info.InternalAddr, "10.1.0.") || !strings.HasPrefix(info.ExternalAddr, "203.0.113.") || info.Username != "ci" {
				t.Errorf("%v, %v", info, err)
			}
			signer, err := ssh.ParsePrivateKey(info.Key)
			if err != nil {
				t.Fatal(err)
			}
			f.during(func() {
				vm := f.only(t)
				keys := vm.Properties.OSProfile.LinuxConfiguration.SSH.PublicKeys
				if want := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))) + " rung"; len(keys) != 1 || *keys[0].KeyData != want || len(f.scripts) > 0 {
					t.Errorf("the keys are %v, want %s; scripts: %v", keys, want, f.scripts)
				}
				if value(vm.Properties.OSProfile.CustomData) != "I2Nsb3VkLWNvbmZpZw==" {
					t.Errorf("it has not the custom data: %+v", vm.Properties.OSProfile)
				}
				if name == "a flexible scale set" && (value(vm.Tags["team"]) != "ci" || value(vm.Properties.UserData) != "dXNlcg==" || *vm.Properties.VirtualMachineScaleSet.ID != *f.sets["flexible"].ID || *vm.Properties.StorageProfile.ImageReference.Offer != "o") {
					t.Errorf("it is not like the model of the set: %+v", vm)
				}
			})
		})
	}
}

func TestTheKeyOfTheNextProcessIsPutOnTheMachine(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJudge(t)
			id := mustOpen(t, j, mode).make(group.Request{ID: "r"})
			next := mustOpen(t, j, mode)
			next.await(id, is(group.StateRunning))
			var info group.ConnectInfo
			for range 2 { // the second time it is there
				var err error
				if info, err = next.ConnectInfo(t.Context(), id); err != nil || info.Username != "ci" {
					t.Fatal(err)
				}
			}
			signer, err := ssh.ParsePrivateKey(info.Key)
			if err != nil {
				t.Fatal(err)
			}
			key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
			j.during(func() {
				if ran := j.scripts[id]; len(ran) != 1 || !strings.Contains(ran[0], "echo '"+key+" rung' >>") || !strings.Contains(ran[0], "getent passwd 'ci'") {
					t.Errorf("the scripts are %q", ran)
				}
			})
		})
	}
}

func TestTheScriptPutsTheKeyThere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the script is for Linux")
	}
	t.Parallel()
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	// Users and owners are not those of this machine.
	for name, text := range map[string]string{"getent": "echo ci:x:1:1::" + home + ":/bin/sh", "id": "echo 1", "chown": "true", "install": "mkdir -p " + home + "/.ssh"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(home, ".ssh", "authorized_keys")
	a := &azure{settings: group.Settings{}}
	for _, key := range []string{"ssh-ed25519 AAAAfirst", "ssh-ed25519 AAAAsecond"} {
		a.pushed.forget("m")
		err := a.letIn(t.Context(), "m", "ci", nil, key, func(ctx context.Context, script armcompute.RunCommandInput) error {
			var lines []string
			for _, line := range script.Script {
				lines = append(lines, *line)
			}
			cmd := exec.CommandContext(ctx, "sh", "-c", strings.Join(lines, "\n"))
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil || string(text) != key+" rung\n" {
			t.Errorf("it is %q, %v", text, err)
		}
	}
	if err := a.letIn(t.Context(), "n", "ci'; rm -rf /", nil, "k", nil); err == nil {
		t.Error("a user that is a script is accepted")
	}
}

func TestSizesAreOfferedPerZone(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, newJudge(t), modes["virtual machines"])
	offers, err := f.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range offers {
		got = append(got, fmt.Sprintf("%s %s %s %g CPUs %d GB %d GPUs spot %t %g %s", o.Zone, o.Shape, o.Arch, o.CPUs, o.Memory>>30, o.GPUs, o.Spot, o.Price, o.Currency))
	}
	want := []string{
		"1 Standard_D2s_v5 amd64 2 CPUs 8 GB 0 GPUs spot false 0.1 EUR", "1 Standard_D2s_v5 amd64 2 CPUs 8 GB 0 GPUs spot true 0.02 EUR",
		"2 Standard_D2s_v5 amd64 2 CPUs 8 GB 0 GPUs spot false 0.1 EUR", "2 Standard_D2s_v5 amd64 2 CPUs 8 GB 0 GPUs spot true 0.02 EUR",
		"1 Standard_NC4 amd64 4 CPUs 28 GB 1 GPUs spot false 0 ",
		"1 Standard_D8ps_v5 arm64 4 CPUs 32 GB 0 GPUs spot false 0 ", "2 Standard_D8ps_v5 arm64 4 CPUs 32 GB 0 GPUs spot false 0 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("offered:\n%s", strings.Join(got, "\n"))
	}
	id := f.make(group.Request{ID: "r", Shape: "Standard_D2s_v5", Zone: "2", Spot: true})
	if i := f.await(id, is(group.StateRunning)); i.Zone != "2" || !i.Spot || i.Shape != "Standard_D2s_v5" {
		t.Errorf("it is %+v", i)
	}
	if _, err := f.Create(t.Context(), group.Request{ID: "x", Count: 1, Zone: "3"}); !errors.Is(err, group.ErrNotFound) {
		t.Error("a zone that is not configured:", err)
	}
}

func TestAZoneWithoutCapacityIsLeftForTheNext(t *testing.T) {
	for _, code := range []string{"QuotaExceeded", "SkuNotAvailable", "AllocationFailed", "ZonalAllocationFailed", "OperationNotAllowed"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			j := newJudge(t)
			j.refuses["1"] = code
			f := mustOpen(t, j, modes["virtual machines"])
			if i := f.await(f.make(group.Request{ID: "r"}), is(group.StateRunning)); i.Zone != "2" {
				t.Errorf("it is %+v", i)
			}
			j.during(func() { j.refuses["2"] = code })
			if created, err := f.Create(t.Context(), group.Request{ID: "none", Count: 1}); !errors.Is(err, group.ErrQuota) || created.Count > 0 || !strings.Contains(err.Error(), code) {
				t.Errorf("%+v, %v", created, err)
			}
		})
	}
}

func TestAMachineThatIsNotMadeSaysWhy(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	j.fails = "AllocationFailed"
	f := mustOpen(t, j, modes["virtual machines"])
	id := f.make(group.Request{ID: "r"})
	if i := f.await(id, is(group.StateFailed)); i.Reason != "Allocation failed. We do not have sufficient capacity. (AllocationFailed)" || i.Request != "r" {
		t.Errorf("it is %+v", i)
	}
	if done, err := f.Delete(t.Context(), []string{id}); err != nil || len(done) != 1 {
		t.Errorf("%v, %v", done, err)
	}
}

func TestAnEvictionIsANotice(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	f := mustOpen(t, j, modes["virtual machines"])
	id := f.make(group.Request{ID: "r", Shape: "Standard_D2s_v5", Spot: true})
	f.await(id, is(group.StateRunning))
	j.during(func() { j.setVM(j.only(t))("Updating", status("PowerState/deallocating", "")) })
	if i := f.await(id, func(i group.Instance) bool { return i.Interruption != nil }); i.State != group.StateRunning || i.Interruption.Reason != evicted {
		t.Errorf("it is %+v", i)
	}
	j.during(func() { j.setVM(j.only(t))("Succeeded", status("PowerState/deallocated", "")) })
	if i := f.await(id, is(group.StateFailed)); i.Reason != evicted {
		t.Errorf("it is %+v", i)
	}
}

func TestAMachineThatIsStoppedHasFailed(t *testing.T) {
	t.Parallel()
	for _, power := range []string{"stopping", "stopped", "deallocating", "deallocated"} {
		i := group.Instance{}
		view{provisioning: "Succeeded", statuses: []*armcompute.InstanceViewStatus{status("PowerState/"+power, "")}}.set(&i)
		if i.State != group.StateFailed || i.Reason != "the machine is "+power+", and was not asked to" {
			t.Errorf("%s: %+v", power, i)
		}
	}
	for name, c := range map[string]struct {
		at   time.Duration
		want bool
	}{"near": {time.Minute, true}, "far": {time.Hour * 24, false}} {
		i := group.Instance{}
		view{
			provisioning: "Succeeded", statuses: []*armcompute.InstanceViewStatus{status("PowerState/running", "")},
			maintenance: &armcompute.MaintenanceRedeployStatus{MaintenanceWindowStartTime: to.Ptr(time.Now().Add(c.at))},
		}.set(&i)
		if i.State != group.StateRunning || (i.Interruption != nil) != c.want {
			t.Errorf("maintenance that is %s: %+v", name, i)
		}
	}
}

func TestAUniformSetNeverDeletesMachinesByItsCapacity(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	f := mustOpen(t, j, modes["a uniform scale set"])
	f.await(f.make(group.Request{ID: "first"}), is(group.StateRunning))
	j.during(func() { j.fails = "AllocationFailed" })
	if _, err := f.Create(t.Context(), group.Request{ID: "fails", Count: 3}); err != nil {
		t.Fatal(err)
	}
	failed := func() (is bool) {
		j.during(func() { is = *j.sets["uniform"].Properties.ProvisioningState == "Failed" })
		return is
	}
	for until := time.Now().Add(time.Minute); !failed(); {
		if _, err := f.List(t.Context()); err != nil || time.Now().After(until) {
			t.Fatal("the set has not failed", err)
		}
	}
	j.during(func() { j.fails = "" })
	// The set has a capacity of 4, and one machine: one more makes two, and not five.
	if _, err := f.Create(t.Context(), group.Request{ID: "next", Count: 1}); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; {
		all, err := f.List(t.Context())
		if err != nil || len(all) > 2 || time.Now().After(until) {
			t.Fatalf("%+v, %v", all, err)
		}
		if len(all) == 2 && all[0].State == group.StateRunning && all[1].State == group.StateRunning {
			return
		}
	}
}

func TestAUniformSetThatSomebodyElseChangesIsReadAgain(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	f := mustOpen(t, j, modes["a uniform scale set"])
	changed := false
	j.during(func() {
		j.fault = func(method string) fault {
			if method == "VirtualMachineScaleSetsClient.BeginUpdate" && !changed {
				changed = true
				*j.sets["uniform"].SKU.Capacity = 2
				j.change(j.sets["uniform"])
			}
			return fault{}
		}
	})
	if created, err := f.Create(t.Context(), group.Request{ID: "r", Count: 1}); err != nil || created.Count != 1 {
		t.Fatalf("%+v, %v", created, err)
	}
	j.during(func() {
		if got := *j.sets["uniform"].SKU.Capacity; got != 3 {
			t.Errorf("the capacity is %d, want 3", got)
		}
	})
}

func TestAUniformSetIsRefusedBeyondItsSizeOrQuota(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	f := mustOpen(t, j, options{"name": "uniform", "max_size": 2})
	if created, err := f.Create(t.Context(), group.Request{ID: "r", Count: 3}); !errors.Is(err, group.ErrQuota) || created.Count != 2 {
		t.Errorf("there is room for two: %+v, %v", created, err)
	}
	if created, err := f.Create(t.Context(), group.Request{ID: "r2", Count: 1}); !errors.Is(err, group.ErrQuota) || created.Count > 0 {
		t.Errorf("it is full: %+v, %v", created, err)
	}
	f = mustOpen(t, j, options{"name": "uniform"})
	j.during(func() { j.refuses["set"] = "OperationNotAllowed" })
	if created, err := f.Create(t.Context(), group.Request{ID: "s", Count: 1}); !errors.Is(err, group.ErrQuota) || created.Count > 0 {
		t.Errorf("%+v, %v", created, err)
	}
	if _, err := f.Create(t.Context(), group.Request{ID: "t", Count: 1, Shape: "Standard_D2s_v5"}); !errors.Is(err, group.ErrUnsupported) {
		t.Error("a shape:", err)
	}
}

func TestErrorsHaveTheirKind(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault
		want  error
	}{
		"401":           {fault{status: 401, code: "InvalidAuthenticationToken"}, group.ErrUnauthorised},
		"403":           {fault{status: 403, code: "AuthorizationFailed"}, group.ErrUnauthorised},
		"no quota":      {fault{status: 409, code: "OperationNotAllowed", text: "exceeding approved Total Regional Cores quota"}, group.ErrQuota},
		"a conflict":    {fault{status: 409, code: "OperationNotAllowed", text: "another operation is in progress"}, group.ErrTransient},
		"not allowed":   {fault{status: 400, code: "OperationNotAllowed"}, nil},
		"404":           {fault{status: 404, code: "ResourceGroupNotFound"}, group.ErrNotFound},
		"quota":         {fault{status: 409, code: "QuotaExceeded"}, group.ErrQuota},
		"429":           {fault{status: 429, code: "TooManyRequests", after: 1}, group.ErrTransient},
		"500":           {fault{status: 500, code: "InternalExecutionError"}, group.ErrTransient},
		"a bad request": {fault{status: 400, code: "InvalidParameter"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJudge(t)
			f := mustOpen(t, j, modes["a flexible scale set"])
			j.during(func() { j.fault = func(string) fault { return c.fault } })
			_, err := f.List(t.Context())
			if c.want != nil && !errors.Is(err, c.want) || err == nil || !strings.Contains(err.Error(), "refused on purpose") || !strings.Contains(err.Error(), c.fault.code) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if want, got := map[bool]int{true: 5, false: 1}[errors.Is(c.want, group.ErrTransient)], j.count("VirtualMachinesClient.NewListPager"); got != want {
				t.Errorf("%d tries, want %d", got, want)
			}
		})
	}
}

func TestAConfigurationThatCannotBeIsRefused(t *testing.T) {
	own := func(more options) options {
		out := maps.Clone(modes["virtual machines"])
		maps.Copy(out, more)
		return out
	}
	for name, c := range map[string]struct {
		options options
		set     func(*armcompute.VirtualMachineScaleSetProperties)
		want    string
	}{
		"nothing":                   {options{}, nil, `set the option "name", a scale set, or "location", "image", "subnet" and "sizes"`},
		"a set and machines":        {own(options{"name": "flexible"}), nil, `remove "location", "image" and "subnet", or "name"`},
		"two kinds of credentials":  {options{"name": "flexible", "credentials": "cli"}, nil, "not both"},
		"a secret that is wrong":    {options{"name": "flexible", "credentials_file": "WRONG"}, nil, "the cloud refuses the credentials"},
		"no file of credentials":    {options{"name": "flexible", "credentials_file": "/nowhere"}, nil, `the file of the option "credentials_file"`},
		"no such set":               {options{"name": "other"}, nil, `the scale set "other"`},
		"another group":             {options{"name": "flexible", "resource_group_name": "other"}, nil, "the cloud refuses the credentials"},
		"sizes of a uniform set":    {options{"name": "uniform", "sizes": []options{{"name": "x"}}}, nil, `remove "sizes" and "zones"`},
		"a disk of a set":           {options{"name": "flexible", "disk_size_gb": 30}, nil, `"disk_size_gb" has no effect with "name"`},
		"a disk type of a set":      {options{"name": "flexible", "disk_type": "Premium_LRS"}, nil, `"disk_type" has no effect with "name"`},
		"identities of a set":       {options{"name": "flexible", "identities": []string{"i"}}, nil, `"identities" has no effect with "name"`},
		"data for a uniform set":    {options{"name": "uniform", "custom_data": "#cloud-config"}, nil, `remove "custom_data"`},
		"an image that is none":     {own(options{"image": "ubuntu"}), nil, "PUBLISHER:OFFER:SKU:VERSION"},
		"a size that is not there":  {own(options{"sizes": []options{{"name": "Standard_X"}}}), nil, `the size "Standard_X" is not to be had`},
		"a size that is restricted": {own(options{"sizes": []options{{"name": "Standard_Gone"}}}), nil, `the size "Standard_Gone" is not to be had`},
		"an unknown option":         {options{"nmae": "flexible"}, nil, "nmae"},
		"overprovision":             {options{"name": "uniform"}, func(p *armcompute.VirtualMachineScaleSetProperties) { p.Overprovision = to.Ptr(true) }, "set its overprovision to false"},
		"rolling upgrades": {options{"name": "uniform"}, func(p *armcompute.VirtualMachineScaleSetProperties) {
			p.UpgradePolicy.Mode = to.Ptr(armcompute.UpgradeModeRolling)
		}, "set the mode of its upgrade policy to Manual"},
		"upgrades of the image": {options{"name": "uniform"}, func(p *armcompute.VirtualMachineScaleSetProperties) {
			p.UpgradePolicy.AutomaticOSUpgradePolicy = &armcompute.AutomaticOSUpgradePolicy{EnableAutomaticOSUpgrade: to.Ptr(true)}
		}, "disable its automatic OS upgrades"},
		"restored spot machines": {options{"name": "flexible"}, func(p *armcompute.VirtualMachineScaleSetProperties) {
			p.SpotRestorePolicy = &armcompute.SpotRestorePolicy{Enabled: to.Ptr(true)}
		}, "disable its spot restore policy"},
		"a set without a model": {options{"name": "flexible"}, func(p *armcompute.VirtualMachineScaleSetProperties) { p.VirtualMachineProfile = nil }, "has no model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJudge(t)
			if c.set != nil {
				c.set(j.sets["uniform"].Properties)
				c.set(j.sets["flexible"].Properties)
			}
			if c.options["credentials_file"] == "WRONG" {
				c.options["credentials_file"] = filepath.Join(t.TempDir(), "wrong.json")
				if err := os.WriteFile(c.options["credentials_file"].(string), []byte(`{"tenantId": "a-tenant", "clientId": "a", "clientSecret": "not-the-one"}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := open(t, j, c.options, settings(t)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "not-the-one") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestWindowsNeedsAPassword(t *testing.T) {
	t.Parallel()
	m := &machines{azure: &azure{settings: group.Settings{ConnectorConfig: group.ConnectorConfig{OS: "windows", Username: "ci"}}}}
	p := &armcompute.OSProfile{}
	if err := m.setUser(p, "rung-0123456789-0123456789", "key"); err == nil || !strings.Contains(err.Error(), "need a password") {
		t.Error(err)
	}
	m.settings.UseStaticCredentials, m.settings.Password = true, "secret"
	if err := m.setUser(p, "rung-0123456789-0123456789", ""); err != nil || len(*p.ComputerName) > maxComputerName || *p.AdminPassword != "secret" {
		t.Errorf("%+v, %v", p, err)
	}
}
