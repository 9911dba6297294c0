package service

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/service/codec"
)

// Server serves a Service to clients that come one way: with the same credentials, through any number of listeners.
type Server struct {
	service *Service
	grpc    *grpc.Server
	health  *health.Server
}

// Access says who may use a server.
type Access struct {
	// TLS are the credentials of the transport; nil is none.
	TLS credentials.TransportCredentials
	// Token is what every call must bring along; nil demands none.
	Token *Token
}

const (
	// aliveAfter and aliveWithin find out that a client is gone whose connection was not closed: it is asked after so long a
	// silence, and must answer within so much time.
	aliveAfter, aliveWithin = time.Minute, 20 * time.Second
	// aliveEvery is how often a client may ask the same of the server.
	aliveEvery = 5 * time.Second
	// writeBuffer is how much is handed to a connection at once, in bytes.
	writeBuffer = 256 << 10
	// maxHeaders is how much metadata a call may bring along, in bytes. It is read before the token in it is looked at.
	maxHeaders = 64 << 10
	// connectWithin is how long a client may take for the handshakes of a connection.
	connectWithin = 20 * time.Second
)

// NewServer makes a server. Health checks need no token.
func NewServer(s *Service, access Access) *Server {
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec.New(0)),
		grpc.MaxRecvMsgSize(s.limits.RequestBytes),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.WriteBufferSize(writeBuffer),
		grpc.ConnectionTimeout(connectWithin),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: aliveAfter, Timeout: aliveWithin}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: aliveEvery, PermitWithoutStream: true}),
		grpc.InTapHandle(access.tap),
		grpc.UnaryInterceptor(s.recoverUnary),
		grpc.StreamInterceptor(s.recoverStream),
	}
	if access.TLS != nil {
		opts = append(opts, grpc.Creds(access.TLS))
	}
	server := &Server{service: s, grpc: grpc.NewServer(opts...), health: health.NewServer()}
	runnerv1.RegisterStepRunnerServer(server.grpc, &runnerFace{service: s})
	stepsv0.RegisterStepRunnerServer(server.grpc, &gitlabFace{service: s})
	healthv1.RegisterHealthServer(server.grpc, server.health)
	for _, name := range []string{runnerv1.StepRunner_ServiceDesc.ServiceName, stepsv0.StepRunner_ServiceDesc.ServiceName} {
		server.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	return server
}

// Serve takes clients until the server is stopped.
func (s *Server) Serve(listener net.Listener) error { return s.grpc.Serve(listener) }

// NotServing tells those who check the server's health that it is about to end.
func (s *Server) NotServing() { s.health.Shutdown() }

// Stop takes no more calls and lets those under way end, until ctx is done; then it cuts them off.
func (s *Server) Stop(ctx context.Context) {
	s.NotServing()
	stopped := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		s.grpc.Stop()
		<-stopped
	}
}

// bug makes the error of a call that panicked.
func (s *Service) bug(method string, cause any) error {
	s.opts.Log(fmt.Sprintf("%s: a bug: %v\n%s", method, cause, debug.Stack()))
	return internal("internal error in %s; the server's log has the details", method)
}

func (s *Service) recoverUnary(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = s.bug(info.FullMethod, cause)
		}
	}()
	return next(ctx, in)
}

func (s *Service) recoverStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = s.bug(info.FullMethod, cause)
		}
	}()
	return next(srv, stream)
}
