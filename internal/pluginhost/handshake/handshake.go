// Package handshake is what the runner and every plugin must agree on before they speak: go-plugin's handshake, and the limits of their connection.
package handshake

import (
	"time"

	"google.golang.org/grpc"
)

// The handshake of go-plugin, the same for every kind of plugin. The cookie is no secret: it tells a person who starts a plugin by hand that this leads nowhere.
const (
	CookieKey   = "RUNG_EXECUTOR_PLUGIN"
	CookieValue = "rung.executor"
	// Name is what the plugin's service is called in a set of plugins.
	Name = "executor"
)

// Version is the version of the protocol: that of the packages of its messages. A side that knows several offers them all.
const Version = 1

// Silence is how long a plugin may say nothing in a call, Prompt that in calls which do nothing, and MaxSilence what it may ask for at most.
const (
	Silence    = 20 * time.Second
	Prompt     = 10 * time.Second
	MaxSilence = 10 * time.Minute
)

// MaxMessage bounds every message, in bytes.
const MaxMessage = 16 << 20

// A job that nobody hears of for a while must not be cut off, and 1,000 jobs share one connection: windows are per stream.
const window = 1 << 20

// ServerOptions are those of a plugin's server.
func ServerOptions(more ...grpc.ServerOption) []grpc.ServerOption {
	return append(more, grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage), grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(16*window))
}

// DialOptions are those of the runner's connection.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(16 * window),
	}
}
