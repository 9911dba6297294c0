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
		Short: "Run steps for gRPC clients",
		Long: `serve runs steps for gRPC clients. docs/service.md explains how to write one; clients of the existing step-runner (v0.11)
work unchanged.

It listens on the unix socket step-runner.sock in DIR, or in your folder step-runner-user-ID in the temporary folder, to which only your
user can connect. When it is ready it prints "step-runner is listening on socket PATH" to standard error. It replaces the socket of a server that
was killed.

With --listen it listens on a TCP port instead, or as well if you name a socket. TCP requires TLS and a client certificate
(--tls-client-ca) or a token (--token-file); on a loopback address a token is enough. Whoever can connect can run commands
as your user.

The first SIGTERM or SIGINT stops runs gracefully and ends the server; the second ends everything at once. The results of
runs do not change the exit code of the server.

Exit codes: 0 stopped · 2 usage · 4 not allowed · 5 internal error · 6 a folder or file is missing`,
		Example: `  step-runner serve
  step-runner serve --listen 0.0.0.0:7443 --tls-cert cert.pem \\
    --tls-key key.pem --tls-client-ca clients.pem
  step-runner serve --listen 127.0.0.1:7000 --token-file token`,
		Args: command.Arguments(0, 1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Service.Check(); err != nil {
				return err
			}
			if err := o.Place(args); err != nil {
				return err
			}
			owner, err := o.Owner()
			if err != nil {
				return err
			}
			return o.Service.Serve(cmd.Context(), a.Program, owner, func() ([]*endpoint.Endpoint, error) { return o.Open(a.Program) })
		},
	}
	o.Declare(cmd.Flags())
	return cmd
}
