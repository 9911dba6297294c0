package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rungci/rung/executor/host/brought"
	"github.com/rungci/rung/executor/host/sshd"
)

// box is a machine that is a container or a sandbox: what differs between them. Its first process is this program as brought.ServeSocket, whose input ends with the keeper.
type box interface {
	// begin makes and starts it.
	begin(ctx context.Context) error
	// run runs a part of it (brought.Run) to the end.
	run(ctx context.Context, part []string, in io.Reader, out io.Writer) error
	// wait waits until it has ended, and says why.
	wait(ctx context.Context) string
	// pause stops all that runs in it, and resume lets that go on.
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	// end kills and removes it, also if another process has made it, or nobody has.
	end(ctx context.Context) error
}

const (
	// endTime bounds how long the keeper tries to remove a box, and gateTime how long the box may take to learn the keys that are let in.
	endTime, gateTime = time.Minute, 30 * time.Second
	// maxSaid bounds what is kept of what a box says, in bytes.
	maxSaid = 4 << 10
)

// open is the box of a machine, which need not exist.
func open(c *Config, log io.Writer) (box, error) { return openContainer(c, log) }

// inBox keeps a machine that is in a box to its end.
func (k *keeper) inBox() error {
	b, err := open(&k.Config, k.log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		k.stop("it was asked to end")
	}()
	go k.until(cancel)
	k.save()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if err := b.end(ctx); err != nil {
			fmt.Fprintln(k.log, err)
		}
	}()
	if err := b.begin(ctx); err != nil {
		return err
	}
	g := &gate{box: b, keys: filepath.Join(k.state, Authorized), log: k.log}
	if k.status.HostKey, err = g.open(ctx); err != nil {
		return fmt.Errorf("its SSH server does not begin: %w", err)
	}
	listener, err := net.FileListener(k.port)
	if err != nil {
		return err
	}
	defer listener.Close()
	go g.serve(ctx, listener)
	k.save()
	k.ended = b.wait(ctx)
	return nil
}

// gate leads from the listener of a machine to the server in its box.
type gate struct {
	box  box
	keys string // the file of keys that are let in
	log  io.Writer

	mu          sync.Mutex
	known       []byte // what the server knows of it
	fingerprint string
}

// open tells the server which keys are let in, if it knows others, and returns the fingerprint of its own.
func (g *gate) open(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	keys, err := os.ReadFile(g.keys)
	if err != nil || bytes.Equal(keys, g.known) {
		return g.fingerprint, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	var said strings.Builder
	if err := g.box.run(ctx, brought.Authorize, bytes.NewReader(keys), &said); err != nil {
		return "", err
	}
	g.known, g.fingerprint = keys, strings.TrimSpace(said.String())
	return g.fingerprint, nil
}

// serve carries the connections of a listener.
func (g *gate) serve(ctx context.Context, listener net.Listener) {
	room := make(chan struct{}, sshd.MaxConnections)
	for {
		room <- struct{}{}
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { <-room }()
			defer conn.Close()
			_, err := g.open(ctx)
			if err == nil {
				err = g.box.run(ctx, brought.Connect, conn, conn)
			}
			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(g.log, "a connection:", err)
			}
		}()
	}
}

// boxOf is the box of the machine in a folder; nil for processes, and where nothing was begun.
func boxOf(folder string) (box, error) {
	var c Config
	known, err := read(folder, configFile, &c)
	if err != nil || !known || c.Box == nil {
		return nil, err
	}
	return open(&c, io.Discard)
}

// Suspend stops all that runs on the machine in a folder, which keeps its memory.
func Suspend(ctx context.Context, folder string) error {
	return power(folder, func(b box) error { return b.pause(ctx) }, func(init Process) error {
		if err := init.StopAll(ctx); err != nil {
			return errors.Join(err, init.ContinueAll())
		}
		return nil
	})
}

// Resume ends what Suspend began.
func Resume(ctx context.Context, folder string) error {
	return power(folder, func(b box) error { return b.resume(ctx) }, Process.ContinueAll)
}

func power(folder string, boxed func(box) error, processes func(init Process) error) error {
	b, err := boxOf(folder)
	switch {
	case err != nil:
		return err
	case b != nil:
		return boxed(b)
	}
	status, _, err := ReadStatus(folder)
	if err != nil {
		return err
	}
	return processes(status.Init)
}

// Remove removes what the keeper of the machine in a folder has not removed, as it was killed: a container, or a sandbox.
func Remove(ctx context.Context, folder string) error {
	b, err := boxOf(folder)
	if err != nil || b == nil {
		return err
	}
	return b.end(ctx)
}

// said keeps the end of what a box says, and hands it on to its log.
type said struct {
	log io.Writer

	mu   sync.Mutex
	text []byte
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	s.text = s.text[max(0, len(s.text)-maxSaid):]
	return s.log.Write(p)
}

// last is the last line, with a word before it; empty if nothing was said.
func (s *said) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimSpace(string(s.text))
	if text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}
