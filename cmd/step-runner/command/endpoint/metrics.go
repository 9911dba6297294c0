package endpoint

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/service"
)

// metricsTimeout bounds a request for metrics and its answer.
const metricsTimeout = 10 * time.Second

// serveMetrics serves the metrics of a service at address, on a loopback address if it names no host. The function that it returns ends that.
func serveMetrics(p *command.Program, svc *service.Service, address string) (stop func(), err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, exit.Usage("--metrics: %v", err).Hinted("write HOST:PORT or :PORT, such as :9101")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, exit.Coded(exit.System, "--metrics: %v", err).Hinted("choose another port; 0 picks a free one")
	}
	server := &http.Server{Handler: svc.MetricsHandler(), ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go func() { _ = server.Serve(listener) }()
	fmt.Fprintf(p.Stderr, "step-runner serves metrics at http://%s/metrics\n", listener.Addr())
	return func() { _ = server.Close() }, nil
}
