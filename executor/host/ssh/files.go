package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/remotefiles"
)

// askFiles has a server of ours (executor/host/sshd) do something with the host's files.
func (h *Host) askFiles(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (int, error) {
	text, err := json.Marshal(args)
	if err != nil {
		return -1, err
	}
	l, _, err := h.pool.take(ctx)
	if err != nil {
		return -1, err
	}
	defer h.pool.release(l)
	channel, requests, err := openChannel(ctx, l, remotefiles.Channel, text)
	if ctx.Err() != nil {
		if err == nil {
			_ = channel.Close()
		}
		return -1, context.Cause(ctx)
	}
	if err != nil {
		return -1, lost(h.name, err)
	}
	defer channel.Close()
	defer context.AfterFunc(ctx, func() { _ = channel.Close() })()
	go func() {
		if in != nil {
			_, _ = io.Copy(channel, in)
		}
		_ = channel.CloseWrite()
	}()
	var output sync.WaitGroup
	var outErr, errsErr error
	out, errs = host.Outputs(out, errs)
	output.Go(func() { outErr = copyAll(out, channel) })
	output.Go(func() { errsErr = copyAll(errs, channel.Stderr()) })
	code := -1
	for r := range requests {
		var status struct{ Code uint32 }
		if r.Type == "exit-status" && ssh.Unmarshal(r.Payload, &status) == nil {
			code = int(status.Code)
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
	output.Wait()
	switch {
	case ctx.Err() != nil:
		return -1, context.Cause(ctx)
	case code < 0:
		return -1, lost(h.name, errors.New("the connection ended before the answer"))
	}
	return code, errors.Join(outErr, errsErr)
}
