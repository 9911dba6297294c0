package direct

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/sandbox/rootfs"
)

// Where things are in a sandbox.
const (
	buildsFolder = "/" + rootfs.Builds
	programFile  = "/" + rootfs.Program
	binFolder    = "/" + rootfs.Own + "/bin"
	// socketFolder is made by the step-runner, as the job's user.
	socketFolder = "/" + rootfs.Run + "/job"
	socketFile   = socketFolder + "/step-runner.sock"
	defaultPath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	// proxyFile describes the command that connects to the step-runner.
	proxyFile = "proxy.json"

	openFiles = 1 << 20
)

// rights are those of root in a sandbox: what Docker gives a container.
var rights = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE",
	"CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// rightsOf are those that a user's processes have; others than root get them by programs with the set-user-ID bit only.
func rightsOf(uid int) *capabilities {
	if uid != 0 {
		return &capabilities{Bounding: rights}
	}
	return &capabilities{Bounding: rights, Effective: rights, Permitted: rights}
}

// The OCI runtime specification, as far as it is needed: https://github.com/opencontainers/runtime-spec/blob/v1.2.1/config.md.
type (
	spec struct {
		Version  string  `json:"ociVersion"`
		Process  process `json:"process"`
		Root     root    `json:"root"`
		Hostname string  `json:"hostname"`
		Mounts   []mount `json:"mounts"`
		Linux    linux   `json:"linux"`
	}
	root struct {
		Path string `json:"path"`
	}
	mount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source,omitempty"`
		Options     []string `json:"options,omitempty"`
	}
	linux struct {
		CgroupsPath string      `json:"cgroupsPath,omitempty"`
		Namespaces  []namespace `json:"namespaces"`
	}
	namespace struct {
		Type string `json:"type"`
		Path string `json:"path,omitempty"`
	}
)

// spec describes a sandbox. program is the step-runner, group the path of its control group ("" is none), and network its network namespace ("" is one
// without any). mounts are more than each sandbox has.
func (b *box) spec(program, host, dir, group, network string, mounts []mount, p process) *spec {
	p.Rlimits = []rlimit{{Type: "RLIMIT_NOFILE", Hard: openFiles, Soft: openFiles}}
	return &spec{
		Version: "1.2.1", Hostname: host, Root: root{dir}, Process: p,
		Mounts: append([]mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts"},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
			{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
			file(programFile, program),
			file("/etc/hosts", b.path("hosts")),
			file("/etc/resolv.conf", b.path("resolv.conf")),
		}, mounts...),
		Linux: linux{CgroupsPath: group, Namespaces: []namespace{{Type: "pid"}, {Type: "mount"}, {Type: "ipc"}, {Type: "uts"}, {"network", network}}},
	}
}

// file is a file of this machine in the sandbox, for reading.
func file(at, source string) mount {
	return mount{Destination: at, Type: "bind", Source: source, Options: []string{"bind", "ro", "nosuid", "nodev"}}
}

// entrypoint is that of the job, else of the image.
func (v *preparation) entrypoint() []string {
	all := v.image.Config.Entrypoint
	if v.job.Image != nil && v.job.Image.Entrypoint != nil {
		all = v.job.Image.Entrypoint
	}
	if strings.TrimSpace(strings.Join(all, "")) == "" { // [""] does without
		return nil
	}
	return all
}

// environ is the environment of the image's entrypoint.
func (v *preparation) environ() []string {
	path, out, hidden := defaultPath, []string{}, container.GoVariables(v.image.Config.Env)
	for _, pair := range v.image.Config.Env {
		if slices.Contains(hidden, pair) {
			continue
		}
		if value, ok := strings.CutPrefix(pair, "PATH="); ok {
			if value != "" {
				path = value
			}
			continue
		}
		out = append(out, pair)
	}
	out = append(out, "PATH="+path+":"+binFolder)
	others := v.way()
	if others == nil {
		others = map[string]string{}
	}
	others["HOME"] = v.home
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if !slices.ContainsFunc(out, func(pair string) bool { return strings.HasPrefix(pair, name+"=") }) {
			out = append(out, name+"="+others[name])
		}
	}
	return out
}

// serve is the command of the step-runner, which makes the job's folders.
func (v *preparation) serve() []string {
	e := v.executor
	args := append([]string{programFile, "serve", "--socket", socketFile, "--connected", "3,4"}, e.setup.Lease.Args()...)
	if v.job.ImageEnv {
		args = append(args, "--pass-environment")
		for _, pair := range container.GoVariables(v.image.Config.Env) {
			args = append(args, "--image-variable="+pair)
		}
	}
	for _, folder := range []string{"0755:" + v.layout.Project, "0700:" + v.layout.Temp, "0700:" + socketFolder} {
		args = append(args, "--folder="+folder)
	}
	return append(append(args, e.setup.Limits.Args()...), e.setup.Serve...)
}

// hostname is a name for a sandbox: an ID may hold what a host's name may not.
func hostname(id string) string {
	return strings.Trim(strings.ToLower(strings.ReplaceAll(id, "_", "-")), "-")
}

// write writes what runsc and the sandbox read.
func (v *preparation) write() error {
	network := ""
	if v.net != nil {
		network = v.net.path
	}
	main := process{User: v.user, Args: slices.Concat(v.entrypoint(), container.EntrypointArgs(v.entrypoint(), v.serve())), Env: v.environ(), Cwd: "/", Capabilities: rightsOf(v.user.UID)}
	mounts, err := v.at.mounts(v.kept)
	if err != nil {
		return err
	}
	text, err := json.Marshal(v.at.spec(v.executor.program, hostname(v.job.ID), v.image.Root, v.group, network, mounts, main))
	if err != nil {
		return err
	}
	proxy, err := json.Marshal(v.process([]string{programFile, "proxy", "--socket", socketFile}, "/", nil))
	if err != nil {
		return err
	}
	return v.at.write(map[string][]byte{"config.json": text, proxyFile: proxy, "hosts": v.hosts(hostname(v.job.ID)), "resolv.conf": v.resolver()})
}

// resolver says which name servers there are.
func (v *preparation) resolver() []byte {
	if v.net == nil || !v.net.names {
		return nil
	}
	return fmt.Appendf(nil, "nameserver %s\n", nameServer)
}

// write writes files into the folder of a sandbox.
func (b *box) write(files map[string][]byte) error {
	for name, content := range files {
		const forAll = 0o644 // in a folder that is the owner's alone
		if err := os.WriteFile(b.path(name), content, forAll); err != nil {
			return err
		}
	}
	return nil
}
