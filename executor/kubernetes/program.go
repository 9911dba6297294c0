package kubernetes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/internal/kube"
)

// Without an image that has it, the step-runner is streamed into the volume while the init container, which is the job's image with a shell,
// waits. It ends at a signal of the shell that has received and compared it. All of it needs no right but that to exec.

const (
	// awaitProgram is the script of the container that waits.
	awaitProgram = `trap 'exit 0' USR1; echo $$ >` + binFolder + `/.pid; sleep 3600 & wait $!; exit 1`
	// takeProgram is the script that receives the step-runner, and compares size and SHA-256.
	takeProgram = `cd ` + binFolder + ` && until [ -s .pid ]; do sleep 1; done
head -c "$1" >.part && [ "$(wc -c <.part)" -eq "$1" ] || { echo "not all of it has arrived" >&2; exit 1; }
if command -v sha256sum >/dev/null; then [ "$(sha256sum <.part | cut -c1-64)" = "$2" ] || { echo "its digest is another" >&2; exit 1; }; fi
chmod 755 .part && mv .part step-runner && kill -USR1 "$(cat .pid)"`
	// brought is how long the init container may take to end after it has the step-runner.
	brought = 10 * time.Second
)

// stream sends the step-runner for a pod's node to its init container, which runs.
func (v *preparation) stream(ctx context.Context, pod *corev1.Pod) error {
	const doing = "sending the step-runner to the job's pod"
	arch, err := v.architecture(ctx, pod)
	if err != nil {
		return v.executor.cluster.failed(ctx, doing, err)
	}
	path, err := v.executor.setup.Program("linux", arch)
	if err != nil {
		return fmt.Errorf("finding a step-runner for the job's pod: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the step-runner for the job's pod: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("reading the step-runner for the job's pod: %w", err)
	}
	said := &container.Said{}
	err = v.executor.cluster.Exec(ctx, pod, BringContainer,
		[]string{"sh", "-c", takeProgram, "sh", strconv.FormatInt(size, 10), hex.EncodeToString(hash.Sum(nil))},
		remotecommand.StreamOptions{Stdin: file, Stdout: said, Stderr: said})
	if err == nil {
		return nil
	}
	// The container may have ended with what it was to receive before the stream was answered.
	waiting, cancel := context.WithTimeout(ctx, brought)
	defer cancel()
	if v.await(waiting, func(pod *corev1.Pod) (bool, error) { return hasProgram(pod), nil }) == nil {
		return nil
	}
	if text := said.String(); text != "" {
		return fmt.Errorf("%s: %s", doing, text)
	}
	return v.executor.cluster.failed(ctx, doing, err)
}

// hasProgram reports whether the init container has ended well.
func hasProgram(pod *corev1.Pod) bool {
	s := kube.StatusOf(pod.Status.InitContainerStatuses, BringContainer)
	return s != nil && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
}

// architecture is that of a pod's node, as GOARCH has it.
func (v *preparation) architecture(ctx context.Context, pod *corev1.Pod) (string, error) {
	var out bytes.Buffer
	err := v.executor.cluster.Exec(ctx, pod, BringContainer, []string{"uname", "-m"}, remotecommand.StreamOptions{Stdout: &out, Stderr: io.Discard})
	if err != nil {
		return "", err
	}
	return kube.Architecture(out.String())
}
