// Package egress holds the command that is the way out of a job's network.
package egress

import (
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/egress"
	"github.com/rungci/rung/internal/egress/proxy"
)

// Command is the way out of the network of a job that may not reach everything. It is run beside the job's environment, by its level.
func Command() *cobra.Command {
	var network, namespace string
	var own []string
	var endWithInput bool
	cmd := &cobra.Command{
		Use:    "egress POLICY",
		Short:  "Connect a job to what its network policy lets through",
		Hidden: true,
		Args:   command.Arguments(1, 1, "a network policy"),
		RunE: func(cmd *cobra.Command, args []string) error {
			policy, err := egress.Parse(args[0])
			if err != nil {
				return exit.Usage("%v", err)
			}
			way := &proxy.Proxy{Policy: policy}
			for _, text := range own {
				address, err := netip.ParseAddr(text)
				if err != nil {
					return exit.Usage("%q is not an address", text)
				}
				way.Own = append(way.Own, address.Unmap())
			}
			in, err := netip.ParsePrefix(network)
			if err != nil {
				return exit.Usage("%q is not a network, such as 10.0.0.0/24", network)
			}
			var listener net.Listener
			if namespace != "" {
				listener, err = proxy.ListenWithin(namespace, in)
			} else {
				listener, err = proxy.ListenIn(in)
			}
			if err != nil {
				return err
			}
			if err := proxy.GiveUpRights(); err != nil {
				return fmt.Errorf("giving up the rights of root: %w", err)
			}
			if endWithInput {
				go func() {
					_, _ = io.Copy(io.Discard, cmd.InOrStdin())
					_ = listener.Close()
				}()
			}
			fmt.Fprintf(cmd.OutOrStdout(), "step-runner is listening on %s\n", listener.Addr())
			return way.Serve(listener)
		},
	}
	cmd.Flags().StringVar(&network, "in", "", "listen on this machine's address in `NETWORK`")
	cmd.Flags().StringVar(&namespace, "namespace", "", "listen in the network namespace of `FILE`, and connect from this one")
	cmd.Flags().BoolVar(&endWithInput, "end-with-input", false, "end when standard input does")
	cmd.Flags().StringSliceVar(&own, "own", nil, "take `ADDRESS` for one of the machine's own")
	return cmd
}
