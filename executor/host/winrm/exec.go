package winrm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/masterzen/winrm"

	"github.com/rungci/rung/executor/host"
)

//go:embed launch.ps1
var launchScript string

const (
	// chunk is how much input a message carries, in bytes: in Base64 it must fit in an envelope.
	chunk = 64 << 10
	// maxBefore bounds what is looked through for the line of the script that says that it runs, in bytes.
	maxBefore = 64 << 10
	// fileNotFound, pathNotFound, accessDenied and badFormat are errors of Windows.
	fileNotFound, pathNotFound, accessDenied, badFormat = 2, 3, 5, 193
)

// powershell is the command line of a script: what a list of processes shows. Comments are left out, as a command line has at most 8191 characters.
func powershell(script string) string {
	var lines []string
	for _, line := range strings.Split(script, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	var text []byte
	for _, unit := range utf16.Encode([]rune(strings.Join(lines, "\n"))) {
		text = append(text, byte(unit), byte(unit>>8))
	}
	return "powershell.exe -NoProfile -NonInteractive -OutputFormat Text -EncodedCommand " + base64.StdEncoding.EncodeToString(text)
}

// described is what a script reads first: one line.
func described(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append([]byte(base64.StdEncoding.EncodeToString(text)), '\n'), err
}

// launch is what launch.ps1 reads.
type launch struct {
	Word, Program, Arguments, Dir string
	Env                           []string
}

// Exec starts a command.
func (h *Host) Exec(ctx context.Context, command *host.Command) (host.Process, error) {
	if err := command.Validate(); err != nil {
		return nil, err
	}
	if command.Terminal != nil {
		return nil, fmt.Errorf("commands of %s have no terminals: %w", h.Name(), errors.ErrUnsupported)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l := launch{Word: rand.Text(), Program: command.Args[0], Arguments: quoted(command.Args[1:]), Dir: command.Dir, Env: command.Env}
	header, err := described(l)
	if err != nil {
		return nil, err
	}
	p := &proc{host: h, word: l.Word, program: l.Program, begun: make(chan struct{}), ended: make(chan struct{}), kill: make(chan struct{})}
	go p.run(ctx, powershell(launchScript), header, command)
	select {
	case <-p.begun:
		return p, nil
	case <-p.ended:
		select {
		case <-p.begun: // and ended already
			return p, nil
		default:
			return nil, p.err
		}
	}
}

// script runs a command line of our own to its end.
func (h *Host) script(ctx context.Context, line string, in io.Reader) (out, errs string, code int, err error) {
	var stdout, stderr bytes.Buffer
	p := &proc{host: h, begun: make(chan struct{}), ended: make(chan struct{}), kill: make(chan struct{})}
	p.run(ctx, line, nil, &host.Command{Stdin: in, Stdout: &stdout, Stderr: &stderr})
	return stdout.String(), stderr.String(), p.code, p.err
}

// proc is a running command.
type proc struct {
	host    *Host
	word    string // begins what the script says; empty: it is none that says something
	program string
	pid     int
	begun   chan struct{}
	ended   chan struct{}
	code    int
	err     error
	killing sync.Once
	kill    chan struct{}
}

// run runs a command line to its end.
func (p *proc) run(ctx context.Context, line string, header []byte, command *host.Command) {
	defer close(p.ended)
	p.code = -1
	shell, remote, err := p.start(ctx, line)
	if err != nil {
		p.err = err
		return
	}
	over := make(chan struct{})
	var output sync.WaitGroup
	var outErr, errsErr error
	stdout, stderr := host.Outputs(command.Stdout, command.Stderr)
	output.Go(func() { outErr = carry(stdout, remote.Stdout) })
	output.Go(func() { errsErr = p.carryErrors(stderr, remote.Stderr) })
	unfed := make(chan error, 1)
	go func() {
		if err := feed(remote.Stdin, header, command.Stdin); err != nil {
			unfed <- err
		}
	}()
	stopped := make(chan error, 1)
	go func() {
		var why error
		select {
		case <-over:
			return
		case <-ctx.Done():
			why = context.Cause(ctx)
		case <-p.kill:
			why = host.ErrKilled
		case <-p.host.life.Done():
			why = context.Cause(p.host.life)
		case err := <-unfed: // it has ended, and will be said to have, or it waits for what does not come
			select {
			case <-over:
				return
			case <-time.After(unfedTime):
			}
			why = fmt.Errorf("%w: %s: the input of a command could not be sent: %w", host.ErrLost, p.host.Name(), err)
		}
		stopped <- why
		_ = remote.Close() // the server ends it
	}()
	output.Wait()
	remote.Wait()
	close(over)
	_ = shell.Close()
	select {
	case p.err = <-stopped:
		return
	default:
	}
	if lost := errors.Join(outErr, errsErr); lost != nil {
		p.err = fmt.Errorf("%w: %s: %w", host.ErrLost, p.host.Name(), lost)
		return
	}
	if p.err == nil {
		p.code = int(uint32(remote.ExitCode())) //nolint:gosec // Windows has 32 bits, with a sign or without
	}
}

// start makes a shell and runs a command line in it. The library does not know contexts: what it has begun is ended when it is ready.
func (p *proc) start(ctx context.Context, line string) (*winrm.Shell, *winrm.Command, error) {
	type started struct {
		shell  *winrm.Shell
		remote *winrm.Command
		err    error
	}
	ready := make(chan started, 1)
	go func() {
		shell, err := p.host.client.CreateShell()
		if err != nil {
			ready <- started{err: err}
			return
		}
		remote, err := shell.ExecuteWithContext(context.Background(), line)
		if err != nil {
			_ = shell.Close()
		}
		ready <- started{shell, remote, err}
	}()
	select {
	case s := <-ready:
		if s.err != nil {
			s.err = fmt.Errorf("%w: %s: %w", host.ErrLost, p.host.Name(), s.err)
		}
		return s.shell, s.remote, s.err
	case <-ctx.Done():
	case <-p.kill:
	}
	go func() {
		if s := <-ready; s.err == nil {
			_ = s.remote.Close()
			_ = s.shell.Close()
		}
	}()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	return nil, nil, host.ErrKilled
}

// unfedTime is how long a command that takes no input any more may take to end.
const unfedTime = 10 * time.Second

// feed sends the input of a command, and its end. It is not waited for. It fails if the server did not take all: the end is not sent then, so that
// nothing counts as all of the input that is not.
func feed(to io.WriteCloser, header []byte, in io.Reader) error {
	if len(header) > 0 {
		if _, err := to.Write(header); err != nil {
			return err
		}
	}
	buffer := make([]byte, chunk)
	for in != nil {
		n, err := in.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			break
		}
	}
	return to.Close()
}

// carry hands output on. A writer that fails gets no more, and the command goes on.
func carry(to io.Writer, from io.Reader) error {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 && to != nil {
			if _, err := to.Write(buffer[:n]); err != nil {
				to = nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// carryErrors takes what the script says out of the error output, and hands the rest on.
func (p *proc) carryErrors(to io.Writer, from io.Reader) error {
	if p.word == "" {
		close(p.begun)
		return carry(to, from)
	}
	in := bufio.NewReaderSize(from, chunk)
	for before := 0; before < maxBefore; { // PowerShell may say something of its own first
		line, err := in.ReadString('\n')
		before += len(line)
		if said, is := strings.CutPrefix(line, p.word+" "); is {
			p.pid, _ = strconv.Atoi(strings.TrimSpace(said))
			break
		}
		if errors.Is(err, io.EOF) {
			p.err = fmt.Errorf("PowerShell on %s has not started the command: %s", p.host.Name(), strings.TrimSpace(line))
			return nil
		}
		if err != nil {
			return err
		}
	}
	close(p.begun)
	failed := []byte(p.word + " failed ")
	if next, _ := in.Peek(len(failed)); bytes.Equal(next, failed) {
		line, err := in.ReadString('\n')
		p.err = p.notStarted(strings.TrimPrefix(line, string(failed)))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return carry(to, in)
}

// notStarted is why a program did not start: the number of an error of Windows, and its words.
func (p *proc) notStarted(said string) error {
	number, words, _ := strings.Cut(strings.TrimSpace(said), " ")
	reason, err := base64.StdEncoding.DecodeString(words)
	if err != nil {
		reason = []byte(words)
	}
	e := &host.StartError{Program: p.program, Host: p.host.Name(), Reason: string(reason)}
	switch code, _ := strconv.Atoi(number); code {
	case fileNotFound, pathNotFound:
		e.Err = fs.ErrNotExist
	case accessDenied, badFormat:
		e.Err = fs.ErrPermission
	}
	return e
}

// PID is that of the script, which is above the command.
func (p *proc) PID() int { return p.pid }

// Wait waits for the end.
func (p *proc) Wait() (int, error) {
	<-p.ended
	return p.code, p.err
}

// Kill ends the command and what it has started.
func (p *proc) Kill() error {
	p.killing.Do(func() { close(p.kill) })
	return nil
}

// Resize does nothing: there is no terminal.
func (*proc) Resize(host.Size) error { return nil }

// quoted are arguments as programs of Windows take them apart (CommandLineToArgvW).
func quoted(args []string) string {
	var out []string
	for _, a := range args {
		if a != "" && !strings.ContainsAny(a, " \t\n\v\"") {
			out = append(out, a)
			continue
		}
		var b strings.Builder
		b.WriteByte('"')
		slashes := 0
		for i := 0; i < len(a); i++ {
			switch a[i] {
			case '\\':
				slashes++
				continue
			case '"':
				b.WriteString(strings.Repeat(`\`, 2*slashes+1))
			default:
				b.WriteString(strings.Repeat(`\`, slashes))
			}
			slashes = 0
			b.WriteByte(a[i])
		}
		b.WriteString(strings.Repeat(`\`, 2*slashes) + `"`)
		out = append(out, b.String())
	}
	return strings.Join(out, " ")
}
