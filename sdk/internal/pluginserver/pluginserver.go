// Package pluginserver is the part of a plugin that every kind of plugin has: it serves the runner that started the program.
package pluginserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/rungci/rung/internal/pluginhost/handshake"
)

// unattended is how long a plugin waits for the runner that started it.
const unattended = 30 * time.Second

// stderr is where the runner's log is.
var stderr = os.Stderr

// End ends the program of a plugin.
func End(why string) {
	fmt.Fprintln(stderr, "[INFO] the plugin ends:", why)
	os.Exit(1)
}

// Serve serves the service of the newest version of the protocol that the runner speaks, too, and ends the program with its runner. services register one each, by
// version; opened reports whether a runner uses it.
func Serve(name string, services map[int]func(*grpc.Server), opened func() bool) {
	time.AfterFunc(unattended, func() {
		if !opened() {
			End("no runner has opened it")
		}
	})
	versions := map[int]goplugin.PluginSet{}
	for version, register := range services {
		versions[version] = goplugin.PluginSet{handshake.Name: &served{register: register}}
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue},
		VersionedPlugins: versions,
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(handshake.ServerOptions(options...), logged()...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Warn, JSONFormat: true, Output: stderr}),
	})
}

// logged has what the plugin's code prints go to the runner's log from the first call on: go-plugin puts pipes in place of standard output and standard error when it
// begins to serve, whose other ends nobody reads.
func logged() []grpc.ServerOption {
	var once sync.Once
	restore := func() { os.Stdout, os.Stderr = stderr, stderr }
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			once.Do(restore)
			return handle(ctx, request)
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			once.Do(restore)
			return handle(server, stream)
		}),
	}
}

// served is the plugin as go-plugin knows it.
type served struct {
	goplugin.NetRPCUnsupportedPlugin
	register func(*grpc.Server)
}

// GRPCServer implements goplugin.GRPCPlugin.
func (s *served) GRPCServer(_ *goplugin.GRPCBroker, to *grpc.Server) error {
	s.register(to)
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin.
func (*served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin is not a client of plugins")
}

// Logger is what a plugin writes to: its lines are in the runner's log, with their levels.
func Logger(name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Debug, JSONFormat: true, Output: stderr})
}

// ErrPanic is what the error of code that has panicked wraps.
var ErrPanic = errors.New("the plugin panicked")

// Guard turns a panic of the plugin's code into an error of its job; others go on.
func Guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return do()
}
