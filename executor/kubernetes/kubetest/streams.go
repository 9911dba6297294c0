//go:build linux

package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// serve answers the API server as a kubelet does: /containerLogs/…, /exec/… and /portForward/…
func (n *Node) serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	const words = 4 // what, namespace, pod, container
	if len(parts) < words-1 || len(parts) > words {
		http.NotFound(w, r)
		return
	}
	p, err := n.find(parts[1], parts[2])
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if parts[0] == "portForward" {
		n.forward(w, r, p)
		return
	}
	id := p.id(parts[len(parts)-1])
	if id == "" {
		http.Error(w, fmt.Sprintf("container %s has not been made", parts[3]), http.StatusBadRequest)
		return
	}
	switch parts[0] {
	case "containerLogs":
		n.logs(w, r, id)
	case "exec":
		n.exec(w, r, id)
	default:
		http.NotFound(w, r)
	}
}

// logs are those of a container.
func (n *Node) logs(w http.ResponseWriter, r *http.Request, id string) {
	q := r.URL.Query()
	lines := q.Get("tailLines")
	if lines == "" {
		lines = "all"
	}
	out, err := n.engine.ContainerLogs(r.Context(), id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: q.Get("follow") == "true", Tail: lines})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer out.Close()
	to := &flushing{w, http.NewResponseController(w)}
	_ = to.FlushError()
	_, _ = stdcopy.StdCopy(to, to, out)
}

// flushing sends what is written at once.
type flushing struct {
	io.Writer
	*http.ResponseController
}

func (f *flushing) FlushError() error { return f.Flush() }

func (f *flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	return n, errors.Join(err, f.Flush())
}

// streams are those of a command.
type streams struct {
	mu  sync.Mutex
	all map[string]httpstream.Stream // by their type
	got chan struct{}                // one for each
}

const (
	// streamsTime bounds how long a client may take to open them.
	streamsTime = 30 * time.Second
	streamsIdle = 4 * time.Hour
)

// exec runs a command in a container.
func (n *Node) exec(w http.ResponseWriter, r *http.Request, id string) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s := &streams{all: map[string]httpstream.Stream{}, got: make(chan struct{}, 8)}
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all[stream.Headers().Get(corev1.StreamType)] = stream
		s.got <- struct{}{}
		return nil
	})
	if conn == nil {
		return // it has answered
	}
	defer conn.Close()
	conn.SetIdleTimeout(streamsIdle)
	q := r.URL.Query()
	wanted := []string{corev1.StreamTypeError}
	for name, kind := range map[string]string{"input": corev1.StreamTypeStdin, "output": corev1.StreamTypeStdout, "error": corev1.StreamTypeStderr} {
		if q.Get(name) == "1" {
			wanted = append(wanted, kind)
		}
	}
	tty := q.Get("tty") == "1"
	if tty {
		wanted = append(wanted, corev1.StreamTypeResize)
	}
	late := time.NewTimer(streamsTime)
	defer late.Stop()
	for range wanted {
		select {
		case <-s.got:
		case <-late.C:
			return
		case <-conn.CloseChan():
			return
		}
	}
	status := n.command(r, id, q["command"], tty, s.all, conn.CloseChan())
	text, err := json.Marshal(status)
	if err == nil {
		_, _ = s.all[corev1.StreamTypeError].Write(text)
	}
	for _, stream := range s.all {
		_ = stream.Close()
	}
	select { // the client closes it when it has read everything
	case <-conn.CloseChan():
	case <-time.After(5 * time.Second):
	}
}

// command runs a command in a container with streams, and says how it has ended. gone is closed when nobody reads it.
func (n *Node) command(r *http.Request, id string, args []string, tty bool, with map[string]httpstream.Stream, gone <-chan bool) *metav1.Status {
	ctx := r.Context()
	failed := func(err error) *metav1.Status {
		return &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	}
	stdin := with[corev1.StreamTypeStdin]
	made, err := n.engine.ExecCreate(ctx, id, client.ExecCreateOptions{
		Cmd: args, TTY: tty, AttachStdin: stdin != nil, AttachStdout: with[corev1.StreamTypeStdout] != nil, AttachStderr: with[corev1.StreamTypeStderr] != nil,
	})
	if err != nil {
		return failed(err)
	}
	attached, err := n.engine.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: tty})
	if err != nil {
		return failed(err)
	}
	defer attached.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-gone: // then the command reads the end of its input
			attached.Close()
		case <-ended:
		}
	}()
	if resize := with[corev1.StreamTypeResize]; resize != nil {
		go func() {
			for in := json.NewDecoder(resize); ; {
				var size struct{ Width, Height uint }
				if in.Decode(&size) != nil {
					return
				}
				_, _ = n.engine.ExecResize(ctx, made.ID, client.ExecResizeOptions{Height: size.Height, Width: size.Width})
			}
		}()
	}
	if stdin != nil {
		go func() {
			_, _ = io.Copy(attached.Conn, stdin)
			_ = attached.CloseWrite()
		}()
	}
	out, errs := io.Discard, io.Discard
	if stream := with[corev1.StreamTypeStdout]; stream != nil {
		out = stream
	}
	if stream := with[corev1.StreamTypeStderr]; stream != nil {
		errs = stream
	}
	if tty {
		_, err = io.Copy(out, attached.Reader)
	} else {
		_, err = stdcopy.StdCopy(out, errs, attached.Reader)
	}
	if err != nil {
		return failed(err)
	}
	return n.outcome(r, made.ID)
}

// outcome is how a command has ended whose output has.
func (n *Node) outcome(r *http.Request, id string) *metav1.Status {
	found, err := n.engine.ExecInspect(r.Context(), id, client.ExecInspectOptions{})
	for range 100 {
		if err != nil || !found.Running {
			break
		}
		time.Sleep(20 * time.Millisecond) // the engine tells of the end a moment after the output's
		found, err = n.engine.ExecInspect(r.Context(), id, client.ExecInspectOptions{})
	}
	switch {
	case err != nil:
		return &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	case found.ExitCode == 0 && !found.Running:
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Message: fmt.Sprintf("command terminated with non-zero exit code: %d", found.ExitCode),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(found.ExitCode)}}},
	}
}
