// Package rawplugin serves plugins that do not use an SDK, so that tests can have ones that lie.
package rawplugin

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/rungci/rung/internal/pluginhost/handshake"
)

// Serve makes this program a plugin that speaks these versions of the protocol, and returns when its runner has ended it.
func Serve(register func(*grpc.Server), versions ...int) {
	sets := map[int]goplugin.PluginSet{}
	for _, version := range versions {
		sets[version] = goplugin.PluginSet{handshake.Name: &served{register: register}}
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue},
		VersionedPlugins: sets, GRPCServer: goplugin.DefaultGRPCServer,
	})
}

// ServeAnother makes this program a plugin of another program's, which ends at once.
func ServeAnother() {
	goplugin.Serve(&goplugin.ServeConfig{HandshakeConfig: goplugin.HandshakeConfig{MagicCookieKey: "ANOTHER_PROGRAM", MagicCookieValue: "x"}})
}

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
	return nil, errors.ErrUnsupported
}
