package serve

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/endpoint"
)

func (a *app) serveCommand() *cobra.Command {
	var o endpoint.Flags
	cmd := &cobra.Command{
		Use:   "serve [DIR]",
		Short: "Run steps for other programs, over gRPC",
		Long: `serve waits for clients and runs the steps that they send. docs/service.md says how to write one; those of the existing
step-runner (v0.11) work as they are.

It listens on the unix socket step-runner.sock in DIR, or in the folder for temporary files, to which only your user can
connect. When it is ready it says so on standard error: "step-runner is listening on socket PATH". A socket that a killed
server has left is replaced.

With --listen it listens on a TCP port instead (or as well, when a socket is named). That takes TLS and, for its clients, a
certificate (--tls-client-ca) or a token (--token-file); on a loopback address a token will do. Whoever can connect can run
commands as your user.

The first SIGTERM or SIGINT stops the runs that go on, gracefully, and ends the server; the second one ends all at once.

How a run ends does not change the exit code of the server.

Exit codes: 0 it was told to end · 2 usage · 4 not allowed · 5 our system failed · 6 a folder or file is missing`,
		Example: `  step-runner serve
  step-runner serve --listen 0.0.0.0:7443 --tls-cert cert.pem --tls-key key.pem --tls-client-ca clients.pem
  step-runner serve --listen 127.0.0.1:7000 --token-file token`,
		Args: command.Arguments(0, 1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Service.Check(); err != nil {
				return err
			}
			if err := o.Place(args); err != nil {
				return err
			}
			return o.Service.Serve(cmd.Context(), a.Program, func() ([]*endpoint.Endpoint, error) { return o.Open(a.Program) })
		},
	}
	o.Declare(cmd.Flags())
	return cmd
}
