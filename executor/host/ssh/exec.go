package ssh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
)

const (
	// killTime bounds the attempt to kill a command.
	killTime = 10 * time.Second
	// endTime is how long a killed command may take to end, and how long the output of one that has ended may stay open after its
	// group was killed.
	endTime = 2 * time.Second
	// stragglerTime is how long after the end of a command its output may be held open by what it started.
	stragglerTime = 200 * time.Millisecond
	// maxNoise bounds what a login shell may print before a command starts, in bytes.
	maxNoise = 256 << 10
	// maxComplaint bounds what is kept of the shell's own errors, in bytes.
	maxComplaint = 4 << 10
)

// proc is a command on the host.
type proc struct {
	host    *Host
	command *host.Command
	link    *link
	channel ssh.Channel
	mark    string
	pid     int

	killing sync.Once
	kill    chan struct{} // closed by Kill
	exited  chan struct{} // closed when the server has said how the command ended
	code    int           // then: its exit code, -1 if it has none
	signal  string        // then: as "SEGV"; "" is none
	ended   chan struct{} // closed when everything is over
	err     error         // then
}

// Exec starts a command on the host.
func (h *Host) Exec(ctx context.Context, command *host.Command) (host.Process, error) {
	if err := command.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p := &proc{
		host: h, command: command, mark: newMark(), code: -1,
		kill: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}),
	}
	text, err := body(p.mark, command)
	if err != nil {
		return nil, err
	}
	channel, requests, l, err := h.pool.session(ctx)
	if err != nil {
		return nil, err
	}
	p.channel, p.link = channel, l
	over := make(chan struct{})
	go func() {
		defer close(over)
		p.follow(requests)
	}()
	stop := context.AfterFunc(ctx, func() { _ = channel.Close() })
	stdout, stderr := bufio.NewReader(channel), newComplaint(channel.Stderr(), p.mark)
	err = p.begin(stdout, stderr, text)
	if !stop() && ctx.Err() != nil {
		if p.pid > 0 {
			h.killGroup(p.pid)
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = channel.Close()
		<-over
		h.pool.release(l)
		return nil, err
	}
	go p.attend(ctx, stdout, stderr, over)
	return p, nil
}

// begin makes the server start the command. It returns when the command runs.
func (p *proc) begin(stdout *bufio.Reader, stderr *complaint, body string) error {
	t := p.command.Terminal
	if t != nil {
		request := struct {
			Term                                  string
			Columns, Rows, PixelsWide, PixelsHigh uint32
			Modes                                 string
		}{Term: t.TERM(), Columns: uint32(t.Size.Columns), Rows: uint32(t.Size.Rows), Modes: "\x00"}
		if ok, err := p.channel.SendRequest("pty-req", true, ssh.Marshal(request)); err != nil || !ok {
			return p.refused("a terminal", err)
		}
		stderr.skip()
	}
	request := struct{ Command string }{greeting(p.mark, t != nil)}
	if ok, err := p.channel.SendRequest("exec", true, ssh.Marshal(request)); err != nil || !ok {
		return p.refused("to run commands", err)
	}
	go stderr.collect()
	send := func() { _, _ = io.WriteString(p.channel, body) } // that it fails shows in the answer
	if t == nil {
		go send()
	}
	pid, err := p.answer(stdout)
	if err != nil {
		return p.silent(err, stderr)
	}
	if p.pid, err = strconv.Atoi(pid); err != nil {
		return p.silent(fmt.Errorf("the shell gives %q as its process ID", pid), stderr)
	}
	if t != nil {
		go send()
	}
	said, err := p.answer(stdout)
	if err != nil {
		return p.silent(err, stderr)
	}
	if said != "ok" {
		return p.notStarted(said, stderr.text())
	}
	return nil
}

// answer reads lines until one with the mark, and returns the rest of it.
func (p *proc) answer(in *bufio.Reader) (string, error) {
	var noise []byte
	for total := 0; ; {
		line, err := in.ReadSlice('\n')
		total += len(line)
		if rest, found := bytes.CutPrefix(line, []byte(p.mark+" ")); found && err == nil {
			return strings.TrimRight(string(rest), "\r\n"), nil
		}
		noise = append(noise, line[:min(len(line), maxComplaint-len(noise))]...)
		switch {
		case total > maxNoise:
			return "", fmt.Errorf("the login shell prints more than %d bytes before it runs a command; make its start files quiet", maxNoise)
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			if text := strings.TrimSpace(string(noise)); text != "" {
				return "", fmt.Errorf("the login shell does not run /bin/sh, but says %q", text)
			}
			return "", errors.New("the login shell does not run /bin/sh")
		}
	}
}

// refused is the error of a request that the server did not grant.
func (p *proc) refused(what string, err error) error {
	if err != nil {
		return lost(p.host.name, err)
	}
	return fmt.Errorf("%s refuses %s; see its sshd_config", p.host.name, what)
}

// silent is the error of a shell that did not answer.
func (p *proc) silent(err error, stderr *complaint) error {
	select {
	case <-p.link.alive.Done():
		return lost(p.host.name, errors.New("the connection ended while a command was started"))
	case <-p.exited:
	case <-time.After(endTime):
	}
	if text := strings.TrimSpace(stderr.text()); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return fmt.Errorf("%s: %w", p.host.name, err)
}

// notStarted is the error of a command that the shell could not become.
func (p *proc) notStarted(why, stderr string) error {
	program := p.command.Args[0]
	e := &host.StartError{Program: program, Host: p.host.name, Err: fs.ErrNotExist}
	switch why {
	case "nodir":
		e.Reason = "its working directory " + p.command.Dir + " does not exist"
	case "baddir":
		e.Reason, e.Err = "its working directory "+p.command.Dir+" cannot be entered; check its permissions", fs.ErrPermission
	case "missing":
		e.Reason = "it does not exist"
	case "unknown":
		e.Reason = "it is not in the PATH there; install it, or use its full path"
	case "folder":
		e.Reason, e.Err = "it is not a file", fs.ErrPermission
	case "noexec":
		e.Reason, e.Err = "it has no execute permission; run chmod +x on it", fs.ErrPermission
	default:
		e.Reason, e.Err = cleanComplaint(stderr), fs.ErrPermission
	}
	return e
}

// cleanComplaint is what a shell said about a command that it could not start.
func cleanComplaint(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "the system refuses to execute it; it may be for another platform, or on a file system that is mounted noexec"
	}
	return "the shell says " + strconv.Quote(text)
}

// follow takes what the server says about the command, until its session is over.
func (p *proc) follow(requests <-chan *ssh.Request) {
	var once sync.Once
	for r := range requests {
		switch r.Type {
		case "exit-status":
			var status struct{ Code uint32 }
			if ssh.Unmarshal(r.Payload, &status) == nil {
				once.Do(func() {
					p.code = int(status.Code)
					close(p.exited)
				})
			}
		case "exit-signal":
			var status struct {
				Signal     string
				CoreDumped bool
				Message    string
				Language   string
			}
			if ssh.Unmarshal(r.Payload, &status) == nil {
				once.Do(func() {
					p.signal = status.Signal
					close(p.exited)
				})
			}
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}

// attend carries the command's input and output, stops it when it is asked to, and waits for its end.
func (p *proc) attend(ctx context.Context, stdout *bufio.Reader, stderr *complaint, over <-chan struct{}) {
	go p.feed()
	written := make(chan error, 2)
	stdoutTo, stderrTo := host.Outputs(p.command.Stdout, p.command.Stderr)
	out := &exitMark{mark: []byte(p.mark + " failed"), out: stdoutTo}
	go func() { written <- errors.Join(copyAll(out, stdout), out.flush()) }()
	go func() { written <- copyAll(stderrTo, stderr.rest()) }()
	quiet := make(chan error, 1) // gets the error of writing when all output was handed on
	go func() { quiet <- errors.Join(<-written, <-written) }()

	stopped := p.supervise(ctx, over)
	outputErr := <-quiet
	_ = p.channel.Close()
	p.host.pool.release(p.link)
	p.err = p.result(stopped, outputErr, out.seen)
	if p.err != nil && outputErr == nil {
		p.code = -1
	}
	close(p.ended)
}

// supervise waits until the session is over, and stops the command if it must. It returns why.
func (p *proc) supervise(ctx context.Context, over <-chan struct{}) (stopped error) {
	exited, stop, kill := p.exited, ctx.Done(), p.kill
	var straggling, giveUp <-chan time.Time
	for {
		select {
		case <-over:
			return stopped
		case <-exited: // its output may be held open by what it started
			exited, stop, kill = nil, nil, nil
			straggling = time.After(stragglerTime)
		case <-straggling:
			p.host.killGroup(p.pid)
			giveUp = time.After(endTime)
		case <-stop:
			stop, kill, stopped = nil, nil, context.Cause(ctx)
			p.host.killGroup(p.pid)
			giveUp = time.After(endTime)
		case <-kill:
			stop, kill, stopped = nil, nil, host.ErrKilled
			p.host.killGroup(p.pid)
			giveUp = time.After(endTime)
		case <-giveUp:
			giveUp = nil
			_ = p.channel.Close()
		case <-p.link.alive.Done():
			<-over
			return stopped
		}
	}
}

// result is what Wait returns.
func (p *proc) result(stopped, outputErr error, failed bool) error {
	select {
	case <-p.exited:
	default:
		if stopped != nil {
			return stopped
		}
		return lost(p.host.name, errors.New("the connection ended before the command did"))
	}
	switch {
	case stopped != nil:
		return stopped
	case failed:
		return &host.StartError{Program: p.command.Args[0], Host: p.host.name, Reason: cleanComplaint(""), Err: fs.ErrPermission}
	case p.signal != "":
		return &host.SignalError{Signal: "SIG" + strings.TrimPrefix(p.signal, "SIG")}
	}
	return outputErr
}

// feed sends the command's input. On a terminal its end is not passed on: it would hang up.
func (p *proc) feed() {
	if p.command.Stdin != nil {
		_, _ = io.Copy(p.channel, p.command.Stdin)
	}
	if p.command.Terminal == nil {
		_ = p.channel.CloseWrite()
	}
}

// copyAll copies until the end, also when the writer takes no more.
func copyAll(to io.Writer, from io.Reader) error {
	_, err := io.Copy(to, from)
	if err != nil {
		_, _ = io.Copy(io.Discard, from)
		return fmt.Errorf("writing the output of a command: %w", err)
	}
	return nil
}

// killGroup kills a process group on the host.
func (h *Host) killGroup(pid int) {
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	channel, requests, l, err := h.pool.session(ctx)
	if err != nil {
		return
	}
	defer h.pool.release(l)
	defer channel.Close()
	defer context.AfterFunc(ctx, func() { _ = channel.Close() })()
	command := struct{ Command string }{fmt.Sprintf("exec /bin/sh -c 'kill -s KILL -- -%d'", pid)}
	if ok, err := channel.SendRequest("exec", true, ssh.Marshal(command)); err != nil || !ok {
		return
	}
	_ = channel.CloseWrite()
	go func() { _, _ = io.Copy(io.Discard, channel.Stderr()) }()
	go func() { _, _ = io.Copy(io.Discard, channel) }()
	for r := range requests {
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}

// PID is the process ID on the host.
func (p *proc) PID() int { return p.pid }

// Wait waits for the end.
func (p *proc) Wait() (int, error) {
	<-p.ended
	return p.code, p.err
}

// Kill kills the process group.
func (p *proc) Kill() error {
	p.killing.Do(func() { close(p.kill) })
	return nil
}

// Resize tells the terminal its new size.
func (p *proc) Resize(size host.Size) error {
	if p.command.Terminal == nil {
		return nil
	}
	request := struct{ Columns, Rows, PixelsWide, PixelsHigh uint32 }{Columns: uint32(size.Columns), Rows: uint32(size.Rows)}
	_, err := p.channel.SendRequest("window-change", false, ssh.Marshal(request))
	if errors.Is(err, io.EOF) { // it has ended
		return nil
	}
	return err
}
