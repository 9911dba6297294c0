package remotefiles

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/rungci/rung/executor/host"
)

// sessionOperation makes Serve do one brief operation after another. A request is the arguments of one, as JSON, and a reply is in one line of JSON.
const sessionOperation = "session"

// brief are the operations that read nothing and answer in a few words.
var brief = []string{"temp", "stat", "mkdir", "mkdir-all", "link", "remove", "environ", "free"}

// Brief reports whether Sessions can do what args ask for.
func Brief(args []string) bool { return len(args) > 0 && slices.Contains(brief, args[0]) }

// trust is Sessions.Trust by default.
const trust = time.Second

// reply is the answer to a request.
type reply struct {
	Output json.RawMessage `json:"output,omitempty"`
	Error  *wireError      `json:"error,omitempty"`
}

// serveSession does what is asked for until there is nothing more.
func serveSession(ctx context.Context, files host.Files, in io.Reader, out io.Writer) error {
	requests, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var args []string
		if err := requests.Decode(&args); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		var r reply
		var output bytes.Buffer
		err := fmt.Errorf("%q is not a brief operation on files: this program may be of another version", args)
		if Brief(args) {
			err = serve(ctx, files, args, bytes.NewReader(nil), &output)
		}
		if err != nil {
			r.Error = newWireError(err)
		} else {
			r.Output = output.Bytes()
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

// Sessions keep a program for files running on a host from one brief operation to the next, because its start takes longer than what it does. There is one
// that waits at most; calls at the same time have one each. Its methods are safe for concurrent use.
type Sessions struct {
	// Start starts the program there with args after those that lead to Serve. The process ends with ctx, and with its input.
	Start func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (host.Process, error)
	// Trust is how long a program that waits is believed to be there still. After that it is asked first, as nobody knows of a request that got no reply
	// whether it was done. 0 is a second.
	Trust time.Duration

	mu   sync.Mutex
	idle *session
}

// Run does what args ask for, as Client.Run.
func (s *Sessions) Run(ctx context.Context, args []string, out, errs io.Writer) (exitCode int, err error) {
	one := s.take(ctx)
	if one == nil {
		if one, err = s.start(ctx); err != nil {
			return -1, err
		}
	}
	r, err := one.ask(ctx, args)
	if err != nil {
		return -1, err
	}
	s.keep(one)
	switch {
	case r.Error != nil:
		_ = json.NewEncoder(errs).Encode(r.Error)
		return failed, nil
	case out != nil:
		_, err = out.Write(r.Output)
	}
	return 0, err
}

// take returns the one that waits; nil if there is none, or it has ended meanwhile.
func (s *Sessions) take(ctx context.Context) *session {
	s.mu.Lock()
	one := s.idle
	s.idle = nil
	s.mu.Unlock()
	if one == nil || one.ended() {
		return nil
	}
	if time.Since(one.used) > cmp.Or(s.Trust, trust) {
		if _, err := one.ask(ctx, []string{"temp"}); err != nil {
			return nil
		}
	}
	return one
}

// keep lets one wait for the next call, if no other does.
func (s *Sessions) keep(one *session) {
	one.used = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil || s.idle.ended() {
		s.idle = one
		return
	}
	go one.end()
}

// session is a program that runs.
type session struct {
	kill    context.CancelFunc
	in      *io.PipeWriter
	replies *json.Decoder
	limit   *io.LimitedReader // of the next reply
	used    time.Time         // lately
	over    chan struct{}     // closed when it has ended
	err     error             // then: why
}

func (s *Sessions) start(ctx context.Context) (*session, error) {
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	in, requests := io.Pipe()
	out, answers := io.Pipe()
	said := &limited{}
	stop := context.AfterFunc(ctx, kill)
	process, err := s.Start(life, []string{sessionOperation}, in, answers, said)
	if !stop() && err == nil { // it was killed before it was of use
		_, _ = process.Wait()
		err = context.Cause(ctx)
	}
	if err != nil {
		kill()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	one := &session{kill: kill, in: requests, limit: &io.LimitedReader{R: out}, over: make(chan struct{})}
	one.replies = json.NewDecoder(one.limit)
	go func() {
		defer close(one.over)
		code, err := process.Wait()
		if err == nil {
			err = fmt.Errorf("the program for files on the host ended with exit code %d: %s", code, bytes.TrimSpace(said.text))
		}
		one.err = err
		_ = in.CloseWithError(err)
		_ = answers.CloseWithError(err)
		kill()
	}()
	return one, nil
}

// ask has it do something. After an error it has ended, or will.
func (o *session) ask(ctx context.Context, args []string) (*reply, error) {
	defer context.AfterFunc(ctx, o.kill)()
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	var r reply
	o.limit.N = maxAnswer
	if _, err = o.in.Write(append(text, '\n')); err == nil {
		err = o.replies.Decode(&r)
	}
	if err == nil {
		return &r, nil
	}
	ended := o.ended()
	o.kill()
	_ = o.in.Close()
	go func() { _, _ = io.Copy(io.Discard, o.limit.R) }() // or it could not end
	<-o.over
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case ended || errors.Is(err, o.err):
		return nil, o.err
	}
	return nil, fmt.Errorf("the program for files on the host does not answer in JSON: %w", err)
}

// end ends it in the way of all programs: with its input.
func (o *session) end() { _ = o.in.Close() }

func (o *session) ended() bool {
	select {
	case <-o.over:
		return true
	default:
		return false
	}
}
