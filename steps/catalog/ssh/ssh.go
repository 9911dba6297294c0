// Package ssh is the code of builtin://ssh/agent: shell text that can use SSH keys.
//
// The step itself is the agent. The keys are in its memory and in no file; what the text starts can have things signed with them, and
// cannot read them. The agent, and all that the text started, end with the step.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/value"
)

// manyKeys is how many keys a server is willing to look at, where nobody changed OpenSSH's MaxAuthTries.
const manyKeys = 6

type inputs struct {
	Script     string   `json:"script"`
	Shell      string   `json:"shell"`
	Keys       []string `json:"keys"`
	Passphrase string   `json:"passphrase"`
	KnownHosts string   `json:"known_hosts"`
	Lifetime   string   `json:"lifetime"`
}

// Agent is builtin://ssh/agent.
func Agent(ctx context.Context, call *program.Call) (err error) {
	if runtime.GOOS == "windows" {
		return errors.New("an agent for SSH needs a Unix socket, which ssh on Windows does not use; run the step on Linux or macOS")
	}
	var in inputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	lifetime, err := parseLifetime(in.Lifetime)
	if err != nil {
		return err
	}
	if err := checkKnownHosts(in.KnownHosts); err != nil {
		return err
	}
	ring, err := newKeyring(in.Keys, in.Passphrase, lifetime)
	if err != nil {
		return err
	}
	folder, err := call.SocketFolder("ssh-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	agent, err := listen(filepath.Join(folder, "agent"), ring.keys)
	if err != nil {
		return err
	}
	defer agent.stop()
	if err := ring.show(call); err != nil {
		return err
	}
	env := []string{"SSH_AUTH_SOCK=" + agent.path}
	if in.KnownHosts != "" {
		more, err := configure(call, folder, in.KnownHosts)
		if err != nil {
			return fmt.Errorf("telling ssh about known_hosts: %w", err)
		}
		env = append(env, more...)
	}
	return runScript(ctx, call, folder, env, in.Shell, in.Script)
}

// runScript runs the text from a file, since the arguments of a process are for everybody to see, and the text may hold secrets.
func runScript(ctx context.Context, call *program.Call, folder string, env []string, shell, text string) error {
	file := filepath.Join(folder, "script")
	if shell != "" {
		return call.RunScript(ctx, env, text, file, shell)
	}
	err := call.RunScript(ctx, env, text, file, "bash")
	if errors.Is(err, process.ErrNotFound) {
		err = call.RunScript(ctx, env, text, file, "sh")
	}
	return err
}

// show tells which keys there are, by what is public of them.
func (r *keyring) show(call *program.Call) error {
	items := make([]value.Value, len(r.public))
	for i, key := range r.public {
		fmt.Fprintf(call.Stdout, "Key %d: %s (%s)\n", i+1, key.fingerprint, key.kind)
		items[i] = value.OfString(key.fingerprint)
	}
	if len(items) > manyKeys {
		selection.Warn(call, "there are %d keys, and most servers refuse after they have seen %d", len(items), manyKeys)
	}
	return call.Output("fingerprints", value.OfArray(items))
}
