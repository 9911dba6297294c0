package place

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/manager/status"
)

const (
	// answerTime bounds a question to the manager.
	answerTime = 10 * time.Second
	// maxStatus bounds its answer, in bytes.
	maxStatus = 64 << 20
)

// Ask asks the manager with a state folder.
func Ask(ctx context.Context, state string) (*status.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", Socket(state))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://manager/status", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(req)
	if long := SocketError(state, err); long != nil {
		return nil, long
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, exit.Coded(exit.Denied, "the manager with the state folder %s is another user's", state).Hinted("run this command as that user")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, exit.Coded(exit.NotFound, "no manager runs with the state folder %s", state).Hinted("start `rung run`, or name its folder with --state")
	case err != nil:
		return nil, exit.Coded(exit.System, "the manager does not answer: %v", err)
	}
	defer answer.Body.Close()
	var s status.Status
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&s); err != nil {
		return nil, exit.Coded(exit.System, "the answer of the manager cannot be read: %v", err).Hinted("the manager may be another version of rung: use the same version")
	}
	return &s, nil
}
