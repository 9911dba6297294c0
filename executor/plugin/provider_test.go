//go:build unix

package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/plugin/plugintest"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/fake"
	"github.com/rungci/rung/executor/provider/hosts"
	"github.com/rungci/rung/executor/provider/providertest"
	sdk "github.com/rungci/rung/sdk/provider"
)

// provideTo makes the test binary a provider plugin.
func provideTo(what string) {
	sdk.Serve(sdk.Plugin{Name: what, Open: func(_ context.Context, setup sdk.Setup, _ json.RawMessage) (sdk.Provider, error) {
		return provide(what, setup)
	}})
}

func provide(what string, setup sdk.Setup) (sdk.Provider, error) {
	switch what {
	case "hosts":
		return hosts.New(listed, setup)
	case "fresh":
		return sdk.NewFresh(sdk.Fresh{
			Max: 2,
			Create: func(_ context.Context, id string, _ sdk.Job, _ sdk.Reporter) (*sdk.Machine, error) {
				return &sdk.Machine{Access: sdk.Access{Protocol: sdk.SSH, Address: "127.0.0.1:22"}}, os.WriteFile(filepath.Join(setup.State, id), nil, 0o600)
			},
			Delete: func(_ context.Context, id string) error { return os.RemoveAll(filepath.Join(setup.State, id)) },
			Check: func(_ context.Context, id string) error {
				if _, err := os.Stat(filepath.Join(setup.State, id)); err != nil {
					return &sdk.Gone{Reason: "somebody has deleted it"}
				}
				return nil
			},
			CheckEvery: 50 * time.Millisecond,
		}, setup)
	case "hanging":
		return fake.New(fake.Options{Room: 1, Before: func(context.Context, fake.Call) error { select {} }}, setup), nil
	case "panicking":
		return fake.New(fake.Options{Room: 1, Before: func(_ context.Context, c fake.Call) error {
			if c.Name == "Acquire" {
				panic("made up")
			}
			return nil
		}}, setup), nil
	case "lying":
		return fake.New(fake.Options{Room: 1, Machine: func(_ int, m *provider.Machine) { m.Name = "" }}, setup), nil
	}
	return nil, fmt.Errorf("there is no provider %q", what)
}

var listed = []hosts.Host{
	{Name: "a", Slots: 2, Access: provider.Access{Protocol: provider.SSH, Address: "a.test:22", Key: []byte("a private key")}},
	{Name: "b", Slots: 1, Access: provider.Access{Protocol: provider.Local}},
}

func providing(what string) plugin.Config {
	return plugin.Config{Name: what, File: os.Args[0], Env: []string{plays + "=provider " + what}, Log: slog.New(slog.DiscardHandler)}
}

func TestAProviderIsCheckedWithoutBeingOpened(t *testing.T) {
	for name, tc := range map[string]struct {
		config plugin.Config
		want   string // of the error
	}{
		"one that cannot be opened": {providing("nothing"), ""},
		"options that it has not":   {func() plugin.Config { c := providing("fresh"); c.Options = json.RawMessage(`{"a": 1}`); return c }(), "takes no options"},
		"one that is not there":     {plugin.Config{Name: "no-such-plugin"}, "there is no provider plugin"},
	} {
		err := plugin.CheckProvider(t.Context(), &tc.config)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConformanceOfHostsOverTheWire(t *testing.T) {
	providertest.Run(t, plugintest.Subject(providing("hosts"), 3))
}

func TestConformanceOfFreshMachinesOverTheWire(t *testing.T) {
	states := func(m *provider.Machine) (files []string) {
		files, _ = filepath.Glob(filepath.Join(os.TempDir(), "Test*", "*", m.Name))
		return files
	}
	subject := plugintest.Subject(providing("fresh"), 2)
	subject.Ends = map[string]func(*testing.T, *provider.Machine){"it is deleted from outside": func(t *testing.T, m *provider.Machine) {
		files := states(m)
		if len(files) != 1 {
			t.Fatal("the machine is", files)
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
	}}
	subject.Left = func(setup provider.Setup) (left []string) {
		files, _ := filepath.Glob(filepath.Join(setup.State, "rung-*"))
		return files
	}
	providertest.Run(t, subject)
}

func TestTheExampleOfAProviderPassesTheSuite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, plugin.ProviderPrefix+"command")
	if out, err := exec.Command("go", "build", "-o", file, "github.com/rungci/rung/examples/plugins/provider-plugin-command").CombinedOutput(); err != nil {
		t.Fatalf("building the example: %v\n%s", err, out)
	}
	c := plugin.Config{Name: "command", File: file, Log: slog.New(slog.DiscardHandler)}
	c.Options, _ = machinesAreFiles(t)
	providertest.Run(t, plugintest.Subject(c, 2))
}

// machinesAreFiles are options of the examples, whose machines are files in a folder. None may be left.
func machinesAreFiles(t *testing.T) (options json.RawMessage, machines string) {
	t.Helper()
	machines = filepath.Join(t.TempDir(), "machines")
	options, err := json.Marshal(map[string]any{
		"create": []string{"sh", "-c", `mkdir -p "$0" && touch "$0/$1" && echo '{"address": "127.0.0.1:22", "user": "ci"}'`, machines},
		"delete": []string{"sh", "-c", `rm -f "$0/$1"`, machines}, "max": 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, _ := os.ReadDir(machines); len(left) > 0 {
			t.Error("machines are left:", left)
		}
	})
	return options, machines
}

// commandInPython is the example of a provider in Python.
func commandInPython(t *testing.T, options json.RawMessage) plugin.Config {
	t.Helper()
	c := inPython(t, "provider-plugin-command.py", string(options))
	c.Name, c.Log = "command", slog.New(slog.DiscardHandler)
	return c
}

func TestTheExampleOfAProviderInPythonPassesTheSuite(t *testing.T) {
	options, machines := machinesAreFiles(t)
	check, err := json.Marshal([]string{"sh", "-c", `[ -e "$0/$1" ]`, machines})
	if err != nil {
		t.Fatal(err)
	}
	options = append(options[:len(options)-1], `,"check":`+string(check)+`}`...)
	subject := plugintest.Subject(commandInPython(t, options), 2)
	subject.Ends = map[string]func(*testing.T, *provider.Machine){"somebody removes it": func(t *testing.T, m *provider.Machine) {
		if err := os.Remove(filepath.Join(machines, m.Name)); err != nil {
			t.Error(err)
		}
	}}
	subject.Left = func(setup provider.Setup) (left []string) {
		files, _ := filepath.Glob(filepath.Join(setup.State, "*"))
		return files
	}
	providertest.Run(t, subject)
}

func TestTheExampleOfAProviderInPythonSaysWhatIsWrong(t *testing.T) {
	for options, want := range map[string]struct{ text, option string }{
		`{"create": ["made-up-name"], "delete": ["true"], "max": 1}`: {`there is no command made-up-name`, "/create/0"},
		`{"create": ["true"], "delete": ["true"], "max": 0}`:         {`at '/max': minimum`, "/max"},
		`{"create": ["true"], "max": 1}`:                             {`missing property 'delete'`, ""},
	} {
		_, err := plugin.OpenProvider(t.Context(), commandInPython(t, json.RawMessage(options)), provider.Setup{State: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), want.text) || optionOf(err) != want.option {
			t.Errorf("%s: %v, of the option %q", options, err, optionOf(err))
		}
	}
	for create, want := range map[string]string{
		`["false"]`:               "false rung-",
		`["true"]`:                "true must print a JSON object with the machine's address",
		`["sh", "-c", "echo {}"]`: "must print a JSON object with the machine's address",
		`["sh", "-c", "echo '{\"address\": \"\"}'"]`: "there is no address",
	} {
		p, err := plugin.OpenProvider(t.Context(), commandInPython(t, json.RawMessage(`{"create": `+create+`, "delete": ["true"], "max": 1}`)), provider.Setup{State: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
			t.Error(err)
		}
		if m, err := p.Acquire(t.Context(), "one", provider.Job{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", create, m, err)
		}
		if err := errors.Join(p.Release(t.Context(), "one", ""), p.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestAProviderPluginThatIsWrong(t *testing.T) {
	open := func(t *testing.T, what string) *plugin.Provider {
		t.Helper()
		p, err := plugin.OpenProvider(t.Context(), providing(what), provider.Setup{State: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	t.Run("that hangs is given up", func(t *testing.T) {
		p := open(t, "hanging")
		err := p.Reserve(t.Context(), "one", provider.Needs{})
		var failure *plugin.Failure
		if !errors.As(err, &failure) || !strings.Contains(err.Error(), `the provider plugin "hanging" has not answered`) {
			t.Error(err)
		}
	})
	t.Run("that panics fails one job", func(t *testing.T) {
		p := open(t, "panicking")
		if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Acquire(t.Context(), "one", provider.Job{}, nil); err == nil || !strings.Contains(err.Error(), "the plugin panicked: made up") {
			t.Error(err)
		}
		if err := p.Release(t.Context(), "one", ""); err != nil {
			t.Error(err)
		}
	})
	t.Run("that lies is not believed", func(t *testing.T) {
		p := open(t, "lying")
		if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Acquire(t.Context(), "one", provider.Job{}, nil); err == nil || !strings.Contains(err.Error(), "the machine has no name") {
			t.Error(err)
		}
	})
	t.Run("that is an executor is named", func(t *testing.T) {
		_, err := plugin.OpenProvider(t.Context(), config("none"), provider.Setup{State: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), `the provider plugin "none" is a plugin that provides no machines`) {
			t.Error(err)
		}
	})
	t.Run("a provider is no executor", func(t *testing.T) {
		if _, err := plugin.Open(t.Context(), providing("hosts"), executor.Setup{}); err == nil {
			t.Error("it is opened")
		}
	})
	t.Run("a pin is held", func(t *testing.T) {
		c := providing("hosts")
		c.SHA256 = strings.Repeat("0", 64)
		if _, err := plugin.OpenProvider(t.Context(), c, provider.Setup{}); err == nil || !strings.Contains(err.Error(), "nothing of it was run") {
			t.Error(err)
		}
	})
	t.Run("a key does not reach the log", func(t *testing.T) {
		var log lockedBuffer
		c := providing("hosts")
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		p, err := plugin.OpenProvider(t.Context(), c, provider.Setup{State: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
			t.Fatal(err)
		}
		m, err := p.Acquire(t.Context(), "one", provider.Job{}, nil)
		if err != nil || string(m.Access.Key) != "a private key" {
			t.Error(m, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if text := log.String() + fmt.Sprintf("%v %+v %#v", m.Access, m.Access, m.Access); strings.Contains(text, "private") {
			t.Error("it is shown:", text)
		}
	})
}

// lockedBuffer is a log that a plugin may still write to while it is read.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
