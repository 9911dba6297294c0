package ssh

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
)

// sshConfig makes ssh know the hosts of a file and no others. All else is as the user and the system have it, since ssh takes the first
// value that it finds.
const sshConfig = `Host *
UserKnownHostsFile "%s"
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
UpdateHostKeys no
Include ~/.ssh/config
Include /etc/ssh/ssh_config
`

// sshPrograms are those that read the configuration of ssh.
var sshPrograms = []string{"ssh", "scp", "sftp"}

// configure writes the hosts' keys and a configuration into a folder, and returns the variables by which programs use it: git by its own,
// and all others by an ssh of the same name before the real one in PATH. A file below $HOME would not do: ssh looks for the user's folder in
// the system's list of users.
func configure(call *program.Call, folder, knownHosts string) ([]string, error) {
	hosts, config, bin := filepath.Join(folder, "known_hosts"), filepath.Join(folder, "config"), filepath.Join(folder, "bin")
	knownHosts = strings.TrimRight(strings.ReplaceAll(knownHosts, "\r\n", "\n"), "\n") + "\n"
	if err := os.WriteFile(hosts, []byte(knownHosts), 0o600); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(sshConfig, strings.ReplaceAll(hosts, "%", "%%"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := os.Mkdir(bin, 0o700); err != nil {
		return nil, err
	}
	option := " -F " + shellscript.Quote(config, shellscript.Sh)
	path := call.Getenv("PATH")
	for _, name := range sshPrograms {
		program := find(path, name)
		if program == "" {
			continue
		}
		script := "#!/bin/sh\nexec " + shellscript.Quote(program, shellscript.Sh) + option + ` "$@"` + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			return nil, err
		}
	}
	env := []string{"PATH=" + bin + string(filepath.ListSeparator) + path}
	if own := call.Getenv("GIT_SSH_COMMAND"); own != "" {
		selection.Warn(call, "GIT_SSH_COMMAND is set, so that git knows the hosts of known_hosts only if it starts ssh by its name")
		return env, nil
	}
	return append(env, "GIT_SSH_COMMAND=ssh"+option), nil
}

// find returns the path of a program, "" when there is none.
func find(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}
