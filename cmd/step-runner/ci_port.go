package main

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

	"github.com/rungci/rung/steps/service"
)

// ciRunID is the id under which clients find the job of `ci --port`.
const ciRunID = "ci"

// portFlags let clients follow a job, or send some, while `ci` runs.
type portFlags struct {
	port      int
	tokenFile string
	service   serviceFlags
	set       *pflag.FlagSet
}

func (o *portFlags) flags(f *pflag.FlagSet) {
	o.set = f
	f.IntVar(&o.port, "port", 0, "let clients follow the job on `PORT` of 127.0.0.1 (0 takes a free one); without steps, run those that they send")
	f.StringVar(&o.tokenFile, "token-file", "", "with --port, let in clients that show the token in `FILE` (default: one is made)")
}

func (o *portFlags) wanted() bool { return o.set.Changed("port") }

// check refuses flags that make no sense together.
func (o *portFlags) check() error {
	switch {
	case !o.wanted() && o.tokenFile != "":
		return usage("--token-file is of no use without --port")
	case o.port < 0 || o.port > 65535:
		return usage("--port: there is no port %d", o.port)
	}
	return nil
}

// open listens on the port. The function it returns removes the token that was made.
func (o *portFlags) open(a *app) (e *endpoint, remove func(), err error) {
	remove = func() {}
	var token *service.Token
	if o.tokenFile != "" {
		token, err = a.readToken(o.tokenFile)
	} else {
		token, remove, err = a.makeToken()
	}
	if err != nil {
		return nil, remove, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if err != nil {
		remove()
		return nil, func() {}, listenError(err)
	}
	return &endpoint{name: listener.Addr().String(), listener: listener, access: service.Access{Token: token}}, remove, nil
}

// makeToken writes a fresh token to a file that only this user can read, and says where.
func (a *app) makeToken() (*service.Token, func(), error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, func() {}, coded(exitSystem, "making a token: %v", err)
	}
	dir, err := os.MkdirTemp("", "step-runner-token-")
	if err != nil {
		return nil, func() {}, coded(exitSystem, "making a folder for the token: %v", err)
	}
	remove := func() { _ = os.RemoveAll(dir) }
	path := filepath.Join(dir, "token")
	text := hex.EncodeToString(secret)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		remove()
		return nil, func() {}, coded(exitSystem, "writing the token: %v", err)
	}
	fmt.Fprintf(a.stderr, "step-runner: clients show the token in %s\n", path)
	token, err := service.NewToken(text)
	return token, remove, err
}

// serveOnly runs what clients send.
func (o *portFlags) serveOnly(ctx context.Context, s *session) error {
	o.service.from = s.from
	remove := func() {}
	defer func() { remove() }()
	return s.app.serve(ctx, &o.service, func() ([]*endpoint, error) {
		e, done, err := o.open(s.app)
		remove = done
		if err == nil {
			fmt.Fprintln(s.app.stderr, "there are no steps: waiting for clients to send some (ci - reads them from standard input)")
		}
		return []*endpoint{e}, err
	})
}

// execute runs the session's job while clients may follow and cancel it.
func (o *portFlags) execute(ctx context.Context, s *session, j job) error {
	e, remove, err := o.open(s.app)
	if err != nil {
		return err
	}
	defer remove()
	svc, err := s.app.newService(&o.service, true)
	if err != nil {
		closeAll([]*endpoint{e})
		return err
	}
	defer svc.Close()
	run, err := svc.Adopt(ciRunID, s.grace)
	if err != nil {
		closeAll([]*endpoint{e})
		return coded(exitSystem, "%v", err)
	}
	failed := make(chan error, 1) // that nobody can follow the job does not end it
	e.start(svc, failed)
	fmt.Fprintf(s.app.stderr, "step-runner is listening on %s\n", e.name)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-run.Cancelled():
			cancel(run.Reason())
		case <-ctx.Done():
		}
	}()
	s.also, s.force = run, run.Killed()
	_, err = s.execute(ctx, j)
	run.Finish()
	drain, stop := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer stop()
	e.server.Stop(drain)
	return err
}
