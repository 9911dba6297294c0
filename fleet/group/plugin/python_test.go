//go:build unix

package plugin_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginoption"
)

// scripts are the commands of a cloud whose machines are files.
var scripts = map[string]string{
	"create": `printf '{"id": "vm-%s", "labels": %s, "addresses": ["10.0.0.7", "203.0.113.7"], "zone": "%s"}' "$1" "$LABELS" "$ZONE" >"$0.$1" && echo "$PUBLIC_KEY" >"$0.key" && mv "$0.$1" "$(dirname "$0")/vm-$1" && echo "vm-$1"`,
	"list": `between=; echo "["
for file in "$(dirname "$0")"/vm-*; do
  text=$(cat "$file" 2>/dev/null) || continue
  printf '%s%s' "$between" "$text"
  between=,
done
echo "]"`,
	"delete": `rm -f "$(dirname "$0")/$1"`,
}

// commands is the example in Python, with other scripts in place of some of those above.
func commands(t *testing.T, other map[string]string) (c plugin.Config, folder string) {
	t.Helper()
	python := "/usr/bin/python3" // other Pythons than the system's do not see its packages
	if err := exec.Command(python, "-c", "import grpc, google.protobuf").Run(); err != nil {
		enginetest.Skip(t, "Python with grpcio and protobuf")
	}
	enginetest.Program(t, "openssl")
	file, err := filepath.Abs("../../../examples/plugins/group-plugin-command.py")
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	options := map[string]any{"max": 100}
	for name, text := range scripts {
		if replaced, ok := other[name]; ok {
			text = replaced
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		options[name] = []string{"sh", filepath.Join(folder, name)}
	}
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Config{Config: pluginhost.Config{Name: "command", File: file, Options: text, Log: slog.New(slog.DiscardHandler), Env: []string{"PYTHONDONTWRITEBYTECODE=1"}}}, folder
}

func TestTheExampleInPythonPassesTheSuite(t *testing.T) {
	c, _ := commands(t, nil)
	t.Parallel()
	grouptest.Run(t, grouptest.Subject{Open: func(*testing.T) group.Basic { return plugin.New(c) }, Kill: kill})
}

// inPython opens the example.
func inPython(t *testing.T, c plugin.Config, connector group.ConnectorConfig) (*group.Group, error) {
	t.Helper()
	g := group.Adapt(plugin.New(c))
	_, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us", ConnectorConfig: connector})
	t.Cleanup(func() { _ = g.Shutdown(t.Context()) })
	return g, err
}

func TestTheExampleInPythonSaysWhatIsWrong(t *testing.T) {
	for about, tc := range map[string]struct {
		options, text, pointer string
	}{
		"no such command": {`{"create": ["made-up-name"], "list": ["true"], "delete": ["true"], "max": 1}`, "there is no command made-up-name", "/create/0"},
		"no list":         {`{"create": ["true"], "list": ["echo", "{"], "delete": ["true"], "max": 1}`, "echo must print a JSON list of machines", ""},
		"a schema":        {`{"create": ["true"], "list": ["true"], "delete": ["true"], "max": 0}`, "minimum: got 0, want 1", "/max"},
		"a failure":       {`{"create": ["true"], "list": ["false"], "delete": ["true"], "max": 1}`, "false has ended with 1", ""},
	} {
		c, _ := commands(t, nil)
		c.Options = json.RawMessage(tc.options)
		_, err := inPython(t, c, group.ConnectorConfig{})
		var wrong *pluginoption.Errors
		if err == nil || !strings.Contains(err.Error(), tc.text) || errors.As(err, &wrong) != (tc.pointer != "") || wrong != nil && wrong.All[0].Pointer != tc.pointer {
			t.Errorf("%s: %v, %+v", about, err, wrong)
		}
	}
}

func TestErrorsOfTheExampleInPythonKeepTheirKind(t *testing.T) {
	for script, want := range map[string]error{"exit 69": group.ErrQuota, "exit 75": group.ErrTransient, "exit 77": group.ErrUnauthorised} {
		c, _ := commands(t, map[string]string{"create": script})
		g, err := inPython(t, c, group.ConnectorConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if created, err := g.Create(t.Context(), group.Request{ID: "r", Count: 2}); !errors.Is(err, want) || created.Count != 0 {
			t.Errorf("%s: %+v, %v", script, created, err)
		}
	}
}

// keys are private keys in the formats that people have, with their lines for authorized_keys; one that the plugin makes is empty.
func keys(t *testing.T) map[string][]byte {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "comment")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{"made by the plugin": nil, "in the format of OpenSSH": pem.EncodeToMemory(block)}
	if _, err := exec.LookPath("ssh-keygen"); err == nil {
		old, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		all["in an older format"] = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(old)})
	}
	return all
}

func TestMachinesOfTheExampleInPythonAreReachedWithTheKeyThatTheyWereGiven(t *testing.T) {
	for about, key := range keys(t) {
		c, folder := commands(t, nil)
		g, err := inPython(t, c, group.ConnectorConfig{Username: "ci", Key: key})
		if err != nil {
			t.Errorf("a key %s: %v", about, err)
			continue
		}
		created, err := g.Create(t.Context(), group.Request{ID: "r", Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		info, err := g.ConnectInfo(t.Context(), created.Instances[0])
		if err != nil || info.Username != "ci" || info.InternalAddr != "10.0.0.7" || info.ExternalAddr != "203.0.113.7" {
			t.Fatalf("%+v, %v", info, err)
		}
		signer, err := ssh.ParsePrivateKey(info.Key)
		if err != nil {
			t.Fatalf("a key %s: %v", about, err)
		}
		line, err := os.ReadFile(filepath.Join(folder, "create.key"))
		if err != nil {
			t.Fatal(err)
		}
		public, _, _, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil || string(public.Marshal()) != string(signer.PublicKey().Marshal()) {
			t.Errorf("a key %s: the machine was given %q, %v", about, line, err)
		}
	}
	c, _ := commands(t, nil)
	if _, err := inPython(t, c, group.ConnectorConfig{UseStaticCredentials: true}); err == nil || !strings.Contains(err.Error(), "use_static_credentials needs") {
		t.Errorf("static credentials without any: %v", err)
	}
	if _, err := inPython(t, c, group.ConnectorConfig{Key: []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END")}); err == nil || !strings.Contains(err.Error(), "is not a private key") {
		t.Errorf("a damaged key: %v", err)
	}
}

func TestTheNextProcessOfTheExampleInPythonHasTheKeyOfTheOneBefore(t *testing.T) {
	c, _ := commands(t, nil)
	settings := group.Settings{Owner: "us", State: t.TempDir()}
	var keys, ids []string
	for range 2 {
		g := group.Adapt(plugin.New(c))
		if _, err := g.Init(t.Context(), hclog.NewNullLogger(), settings); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Shutdown(t.Context()) })
		if ids == nil {
			created, err := g.Create(t.Context(), group.Request{ID: "r", Count: 1})
			if err != nil {
				t.Fatal(err)
			}
			ids = created.Instances
		}
		info, err := g.ConnectInfo(t.Context(), ids[0])
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(info.Key))
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("the keys: %q", keys)
	}
	if info, err := os.Stat(filepath.Join(settings.State, "key.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record: %v, %v", info, err)
	}
}
