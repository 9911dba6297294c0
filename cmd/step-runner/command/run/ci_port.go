package run

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/endpoint"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/session"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/steps/service"
)

// ciRunID is the id under which clients find the job of `ci --port`.
const ciRunID = "ci"

// portFlags let clients follow a job, or send some, while `ci` runs.
type portFlags struct {
	port      int
	tokenFile string
	service   endpoint.ServiceFlags
	set       *pflag.FlagSet
}

func (o *portFlags) flags(f *pflag.FlagSet) {
	o.set = f
	f.IntVar(&o.port, "port", 0, "let clients follow the job on `PORT` of 127.0.0.1 (0: any free port); without steps, run what they send")
	f.StringVar(&o.tokenFile, "token-file", "", "with --port: accept clients that present the token in `FILE` (default: a new token)")
}

func (o *portFlags) wanted() bool { return o.set.Changed("port") }

// check refuses flags that make no sense together.
func (o *portFlags) check() error {
	switch {
	case !o.wanted() && o.tokenFile != "":
		return exit.Usage("--token-file requires --port")
	case o.port < 0 || o.port > 65535:
		return exit.Usage("--port: there is no port %d", o.port)
	}
	return nil
}

// open listens on the port. The function it returns removes the token that was made.
func (o *portFlags) open(p *command.Program) (e *endpoint.Endpoint, remove func(), err error) {
	remove = func() {}
	var token *service.Token
	if o.tokenFile != "" {
		token, err = endpoint.ReadToken(p, o.tokenFile)
	} else {
		token, remove, err = makeToken(p)
	}
	if err != nil {
		return nil, remove, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if err != nil {
		remove()
		return nil, func() {}, endpoint.ListenError(err)
	}
	return &endpoint.Endpoint{Name: listener.Addr().String(), Listener: listener, Access: service.Access{Token: token}}, remove, nil
}

// makeToken writes a fresh token to a file that only this user can read, and says where.
func makeToken(p *command.Program) (*service.Token, func(), error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, func() {}, exit.Coded(exit.System, "making a token: %v", err)
	}
	dir, err := tempfolder.Make("token-")
	if err != nil {
		return nil, func() {}, exit.Coded(exit.System, "making a folder for the token: %v", err)
	}
	remove := func() { _ = os.RemoveAll(dir) }
	path := filepath.Join(dir, "token")
	text := hex.EncodeToString(secret)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		remove()
		return nil, func() {}, exit.Coded(exit.System, "writing the token: %v", err)
	}
	fmt.Fprintf(p.Stderr, "step-runner: clients present the token in %s\n", path)
	token, err := service.NewToken(text)
	return token, remove, err
}

// serveOnly runs what clients send.
func (o *portFlags) serveOnly(ctx context.Context, s *session.Session) error {
	o.service.From = s.From
	remove := func() {}
	defer func() { remove() }()
	return o.service.Serve(ctx, s.Program, nil, func() ([]*endpoint.Endpoint, error) {
		e, done, err := o.open(s.Program)
		remove = done
		if err == nil {
			fmt.Fprintln(s.Program.Stderr, "there are no steps: waiting for clients to send some (ci - reads them from standard input)")
		}
		return []*endpoint.Endpoint{e}, err
	})
}

// execute runs the session's job while clients may follow and cancel it.
func (o *portFlags) execute(ctx context.Context, s *session.Session, j session.Job) error {
	e, remove, err := o.open(s.Program)
	if err != nil {
		return err
	}
	defer remove()
	svc, err := o.service.Open(s.Program, true)
	if err != nil {
		endpoint.CloseAll([]*endpoint.Endpoint{e})
		return err
	}
	defer svc.Close()
	run, err := svc.Adopt(ciRunID, s.Grace)
	if err != nil {
		endpoint.CloseAll([]*endpoint.Endpoint{e})
		return exit.Coded(exit.System, "%v", err)
	}
	failed := make(chan error, 1) // that nobody can follow the job does not end it
	e.Start(svc, failed)
	fmt.Fprintf(s.Program.Stderr, "step-runner is listening on %s\n", e.Name)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-run.Cancelled():
			cancel(run.Reason())
		case <-ctx.Done():
		}
	}()
	s.Also, s.Force = run, run.Killed()
	_, err = s.Execute(ctx, j)
	run.Finish()
	drain, stop := context.WithTimeout(context.WithoutCancel(ctx), endpoint.DrainTime)
	defer stop()
	e.Server.Stop(drain)
	return err
}
