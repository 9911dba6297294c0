package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/policy"
	"github.com/rungci/rung/steps/event"
)

func TestNeedsOfAJob(t *testing.T) {
	t.Parallel()
	entry := &config.Runner{Provider: &config.Provider{
		Needs: config.MachineNeeds{OS: "linux", CPUs: 2, Memory: 1 << 30, Labels: map[string]string{"zone": "eu"}},
		AllowedNeeds: config.AllowedNeeds{
			OS: []string{"darwin"}, Arch: []string{"amd64", "arm64"}, CPUs: 8, Memory: 4 << 30, GPUs: 1, Labels: []string{"disk=*"},
		},
	}}
	change := func(how func(*config.MachineNeeds)) config.MachineNeeds {
		n := entry.Provider.Needs
		n.Labels = map[string]string{"zone": "eu"}
		how(&n)
		return n
	}
	for name, c := range map[string]struct {
		name, value string
		want        config.MachineNeeds
		err         string
	}{
		"a job that asks for nothing":       {"", "", entry.Provider.Needs, ""},
		"more processors":                   {"CPUS", "7.5", change(func(n *config.MachineNeeds) { n.CPUs = 7.5 }), ""},
		"fewer than every job has":          {"CPUS", "1", entry.Provider.Needs, ""},
		"more memory":                       {"MEMORY", "3GiB", change(func(n *config.MachineNeeds) { n.Memory = 3 << 30 }), ""},
		"a graphics processor":              {"GPUS", "1", change(func(n *config.MachineNeeds) { n.GPUs = 1 }), ""},
		"an architecture":                   {"ARCH", "arm64", change(func(n *config.MachineNeeds) { n.Arch = "arm64" }), ""},
		"the system that every job has":     {"OS", "linux", entry.Provider.Needs, ""},
		"labels":                            {"LABELS", "disk=ssd, zone=eu", change(func(n *config.MachineNeeds) { n.Labels["disk"] = "ssd" }), ""},
		"too many processors":               {"CPUS", "9", config.MachineNeeds{}, "runners.provider.allowed_needs.cpus"},
		"what is no number":                 {"CPUS", "NaN", config.MachineNeeds{}, "RUNG_NEEDS_CPUS is \"NaN\", and must be a number, such as 2"},
		"what has no end":                   {"CPUS", "Inf", config.MachineNeeds{}, "RUNG_NEEDS_CPUS is \"Inf\", and must be a number, such as 2"},
		"what is too large for a number":    {"CPUS", "1e400", config.MachineNeeds{}, "RUNG_NEEDS_CPUS is \"1e400\", and must be a number, such as 2"},
		"what nobody allows":                {"DISK", "1g", config.MachineNeeds{}, "runners.provider.allowed_needs.disk"},
		"another system than every job has": {"OS", "darwin", config.MachineNeeds{}, "runners.provider.needs.os"},
		"an architecture that is not there": {"ARCH", "riscv64", config.MachineNeeds{}, "runners.provider.allowed_needs.arch"},
		"another label than every job has":  {"LABELS", "zone=us", config.MachineNeeds{}, "runners.provider.needs.labels"},
		"a label that nobody allows":        {"LABELS", "disk=ssd,owner=me", config.MachineNeeds{}, "runners.provider.allowed_needs.labels"},
		"what is no label":                  {"LABELS", "ssd", config.MachineNeeds{}, "RUNG_NEEDS_LABELS is"},
		"less than nothing":                 {"GPUS", "-1", config.MachineNeeds{}, "RUNG_NEEDS_GPUS is \"-1\", and must be a whole number, such as 1"},
		"what is no size":                   {"MEMORY", "much", config.MachineNeeds{}, "RUNG_NEEDS_MEMORY is \"much\", and must be a size, such as 2GiB"},
		"what is no size of a disk":         {"DISK", "abc", config.MachineNeeds{}, "RUNG_NEEDS_DISK is \"abc\", and must be a size, such as 2GiB"},
		"what is no number of processors":   {"CPUS", "two", config.MachineNeeds{}, "RUNG_NEEDS_CPUS is \"two\", and must be a number, such as 2"},
	} {
		got, err := policy.Needs(entry, func(v string) string {
			if v == policy.NeedsPrefix+c.name {
				return c.value
			}
			return ""
		})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", name, err, c.err)
			}
		case err != nil || cmp.Diff(c.want, got) != "":
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(c.want, got))
		}
	}
	fleet := &config.Runner{Provider: &config.Provider{Machinery: &config.Machinery{}}}
	for name, c := range map[string]struct {
		asked map[string]string
		want  config.MachineNeeds
		err   string
	}{
		"whatever its pools have": {
			map[string]string{"RUNG_NEEDS_CPUS": "64", "RUNG_NEEDS_ARCH": "arm64", "RUNG_NEEDS_SPOT": "never"},
			config.MachineNeeds{CPUs: 64, Arch: "arm64", Labels: map[string]string{"spot": "false"}}, "",
		},
		"machines that can be taken back":   {map[string]string{"RUNG_NEEDS_SPOT": "only"}, config.MachineNeeds{Labels: map[string]string{"spot": "true"}}, ""},
		"any machine":                       {map[string]string{"RUNG_NEEDS_SPOT": "any"}, config.MachineNeeds{}, ""},
		"what is neither":                   {map[string]string{"RUNG_NEEDS_SPOT": "maybe"}, config.MachineNeeds{}, "only, never or any"},
		"more processors than there can be": {map[string]string{"RUNG_NEEDS_CPUS": "Inf"}, config.MachineNeeds{}, "RUNG_NEEDS_CPUS is \"Inf\", and must be a number, such as 2"},
	} {
		got, err := policy.Needs(fleet, func(v string) string { return c.asked[v] })
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("a fleet, %s: %v, want %s", name, err, c.err)
			}
		case err != nil || cmp.Diff(c.want, got) != "":
			t.Errorf("a fleet, %s: %v\n%s", name, err, cmp.Diff(c.want, got))
		}
	}
	if len(entry.Provider.Needs.Labels) != 1 {
		t.Error("a job has changed the needs of its entry")
	}
	if _, err := policy.Needs(&config.Runner{}, func(v string) string { return map[string]string{"RUNG_NEEDS_GPUS": "1"}[v] }); err == nil || !strings.Contains(err.Error(), "(runners.provider)") {
		t.Error("a runner without machines:", err)
	}
}

func TestAMisspeltNeedIsRefused(t *testing.T) {
	t.Parallel()
	for name, hint := range map[string]string{
		"RUNG_NEEDS_MEMROY": "did you mean RUNG_NEEDS_MEMORY?",
		"RUNG_NEEDS_CPU":    "did you mean RUNG_NEEDS_CPUS?",
		"RUNG_NEEDS_memory": "did you mean RUNG_NEEDS_MEMORY?",
		"RUNG_NEEDS_COLOUR": "use RUNG_NEEDS_OS, RUNG_NEEDS_ARCH, RUNG_NEEDS_CPUS, RUNG_NEEDS_MEMORY, RUNG_NEEDS_DISK, RUNG_NEEDS_GPUS, RUNG_NEEDS_LABELS, RUNG_NEEDS_SPOT, RUNG_NEEDS_VOLUME",
	} {
		var wrong *event.Error
		if err := policy.Known(name); !errors.As(err, &wrong) || wrong.Code != event.CodeEnvironmentInvalid || wrong.Hint != hint || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %+v", name, err)
		}
	}
	for _, name := range []string{"RUNG_NEEDS_VOLUME", "RUNG_NEEDS_SPOT", "RUNG_NEEDS_OS", "RUNG_ISOLATION", "MY_RUNG_NEEDS_X", "RUNG_NEEDLES"} {
		if err := policy.Known(name); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsTooMuchSaysHowMuchIsAllowed(t *testing.T) {
	t.Parallel()
	entry := &config.Runner{Provider: &config.Provider{AllowedNeeds: config.AllowedNeeds{Memory: 4 << 30, CPUs: 2.5}}}
	for name, want := range map[string]string{"MEMORY": "ask for 4GiB at most, or use another runner", "CPUS": "ask for 2.5 at most, or use another runner"} {
		var refused *event.Error
		_, err := policy.Needs(entry, func(v string) string {
			if v == policy.NeedsPrefix+name {
				return map[string]string{"MEMORY": "8GiB", "CPUS": "8"}[name]
			}
			return ""
		})
		if !errors.As(err, &refused) || refused.Hint != want {
			t.Errorf("%s: %+v", name, err)
		}
	}
}
