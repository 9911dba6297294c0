package executor

import (
	"google.golang.org/grpc"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/internal/pluginhost/handshake"
	"github.com/rungci/rung/sdk/internal/pluginserver"
)

// Serve serves a plugin to the runner that started this program, and ends the program with it. What is written to standard error is in the
// runner's log; a line that begins with [WARN] or [ERROR] has that level there. So is what it prints, once it serves.
func Serve(p Plugin) {
	s := newServer(p, pluginserver.End)
	pluginserver.Serve(p.Name, map[int]func(*grpc.Server){handshake.Version: func(to *grpc.Server) { executorv1.RegisterExecutorServer(to, s) }}, s.opened)
}
