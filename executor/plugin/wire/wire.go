// Package wire is what both ends of a connection to an executor plugin share: the handshake, and the contract's types and errors as messages
// of api/rung/executor/v1.
package wire

import (
	"time"

	"google.golang.org/grpc"
)

// The handshake of go-plugin. The cookie is no secret: it tells a person who starts a plugin by hand that this leads nowhere.
const (
	CookieKey   = "RUNG_EXECUTOR_PLUGIN"
	CookieValue = "rung.executor"
	// Name is what the plugin's service is called in a set of plugins.
	Name = "executor"
)

// Version is the version of the protocol: that of the package of its messages. A side that knows several offers them all.
const Version = 1

// Silence is how long a plugin may say nothing in a call, Prompt that in calls which do nothing, and MaxSilence what it may ask for at most.
const (
	Silence    = 20 * time.Second
	Prompt     = 10 * time.Second
	MaxSilence = 10 * time.Minute
)

// Chunk is how many bytes of a stream one message holds at most. MaxMessage bounds every message.
const (
	Chunk      = 64 << 10
	MaxMessage = 16 << 20
)

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
