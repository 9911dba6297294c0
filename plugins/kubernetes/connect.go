package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/rungci/rung/executor/host/brought"
	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/sdk/instancegroup"
)

// maxSaid bounds what is kept of what a command in a pod says, in bytes.
const maxSaid = 8 << 10

// user is who logs in where the configuration does not say: the server that is brought takes any name.
const user = "root"

// Connect implements instancegroup.Connecter: it brings the SSH server if need be, and the key to it.
func (c *cloud) Connect(ctx context.Context, m instancegroup.Machine, key string, info *instancegroup.ConnectInfo) error {
	if m.State != instancegroup.StateRunning {
		return instancegroup.Transient(0, fmt.Errorf("the machine %s is %s%s", m.ID, m.State, kube.After(m.Reason)))
	}
	info.OS = cmp.Or(info.OS, "linux")
	info.Username = cmp.Or(info.Username, user)
	if shape, err := c.shape(m.Shape, "", false); err == nil && shape != nil {
		info.Arch = cmp.Or(info.Arch, shape.Arch)
	}
	turn := c.turn(m.ID)
	turn.Lock()
	defer turn.Unlock()
	pod, err := c.cluster.Pod(ctx, c.Namespace, m.ID)
	if err != nil {
		return c.failure(ctx, "asking for a pod", err)
	}
	if err := c.letIn(ctx, pod, key, info); err != nil {
		return err
	}
	if c.doors == nil {
		if pod.Status.PodIP == "" {
			return instancegroup.Transient(0, fmt.Errorf("the pod %s has no address yet", m.ID))
		}
		info.InternalAddr, info.ExternalAddr = net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(c.Port)), ""
		return nil
	}
	info.InternalAddr, err = c.doors.open(m.ID)
	info.ExternalAddr = ""
	return err
}

// turn is for one who connects to a machine at a time.
func (c *cloud) turn(id string) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns[id] == nil {
		c.turns[id] = &sync.Mutex{}
	}
	return c.turns[id]
}

// letIn brings the key to a machine's SSH server, and the server if it is this program.
func (c *cloud) letIn(ctx context.Context, pod *corev1.Pod, key string, info *instancegroup.ConnectInfo) error {
	if c.Server == serverOfImage {
		if key == "" || c.settings.UseStaticCredentials {
			return nil // it lets the operator's in
		}
		const take = `umask 077; cd && mkdir -p "$(dirname "$1")" && cat >"$1"`
		_, err := c.run(ctx, pod, strings.NewReader(key+"\n"), "sh", "-c", take, "sh", c.AuthorizedKeys)
		return c.told(ctx, "bringing the key to the pod", err)
	}
	if c.ServerImage == "" {
		if err := c.send(ctx, pod); err != nil {
			return err
		}
	}
	fingerprint, err := c.run(ctx, pod, strings.NewReader(key+"\n"), brought.Program, machineArgument, "authorize")
	if err != nil {
		return c.told(ctx, "bringing the key to the pod", err)
	}
	info.HostKeys = []string{fingerprint}
	return nil
}

// takeProgram is the script that receives the program, and compares size and SHA-256. Nothing is sent where it is already.
const takeProgram = `cd ` + brought.BinFolder + ` && head -c "$1" >.part$$ && [ "$(wc -c <.part$$)" -eq "$1" ] || { echo "not all of it has arrived" >&2; exit 1; }
if command -v sha256sum >/dev/null; then [ "$(sha256sum <.part$$ | cut -c1-64)" = "$2" ] || { echo "its digest is another" >&2; exit 1; }; fi
chmod 755 .part$$ && mv .part$$ "$3"`

// send sends this program to a machine that does not have it.
func (c *cloud) send(ctx context.Context, pod *corev1.Pod) error {
	const doing = "sending the SSH server to the pod"
	said, err := c.run(ctx, pod, nil, "sh", "-c", `[ ! -x "$1" ] || echo has; uname -m`, "sh", brought.Program)
	if err != nil {
		return c.told(ctx, doing, err)
	}
	uname, has := strings.CutPrefix(said, "has\n")
	if has {
		return nil
	}
	arch, err := kube.Architecture(uname)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	path, err := c.program(arch)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer file.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	_, err = c.run(ctx, pod, file, "sh", "-c", takeProgram, "sh", strconv.FormatInt(size, 10), hex.EncodeToString(hash.Sum(nil)), brought.Program)
	return c.told(ctx, doing, err)
}

// program is the file of this program for machines of an architecture.
func (c *cloud) program(arch string) (string, error) {
	if file := c.Programs[arch]; file != "" {
		return file, nil
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == arch {
		return os.Executable()
	}
	return "", wrong(fmt.Errorf(`there is no program for linux/%s: name the file of this plugin for it in "programs", or an image in "server_image"`, arch), "programs")
}

// run runs a command in the machine's container, and returns what it writes. The error has what it says of its own.
func (c *cloud) run(ctx context.Context, pod *corev1.Pod, in io.Reader, command ...string) (string, error) {
	var out, errs limited
	err := c.cluster.Exec(ctx, pod, machineContainer, command, remotecommand.StreamOptions{Stdin: in, Stdout: &out, Stderr: &errs})
	if said := strings.TrimSpace(errs.String()); err != nil && said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return strings.TrimSpace(out.String()), err
}

// told is the error of a command in a pod. One that the command ends with may not come again: the container has just begun.
func (c *cloud) told(ctx context.Context, doing string, err error) error {
	var code exec.CodeExitError
	if errors.As(err, &code) {
		return instancegroup.Transient(0, fmt.Errorf("%s: %w", doing, err))
	}
	return c.failure(ctx, doing, err)
}

// limited keeps the beginning of what is written.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	_, _ = l.Buffer.Write(p[:min(len(p), max(0, maxSaid-l.Len()))])
	return len(p), nil
}
