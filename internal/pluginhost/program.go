package pluginhost

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"
)

const (
	// maxLine bounds one line of what a plugin writes, in bytes: of a longer one, each part is a line.
	maxLine = 64 << 10
	// maxHandshake bounds what is read of the line that says where a plugin listens, in bytes.
	maxHandshake = 16 << 10
)

// program is the process of a plugin, as go-plugin runs it. It reads all that the process writes: go-plugin stops at a line of standard output that is too long, and the
// process hangs once the pipe is full.
type program struct {
	cmd            *exec.Cmd
	log            *said
	stdout, stderr io.ReadCloser
}

// run prepares a command to be run by go-plugin, which gives it more variables. Those of the command count.
func run(cmd *exec.Cmd, log hclog.Logger, kept io.Writer) func(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) {
	return func(_ hclog.Logger, wanted *exec.Cmd, _ string) (_ runner.Runner, err error) {
		cmd.Env, cmd.Stdin = append(wanted.Env, cmd.Env...), wanted.Stdin
		p := &program{cmd: cmd, log: &said{to: log.Named(filepath.Base(cmd.Path)), kept: kept}}
		if p.stdout, err = cmd.StdoutPipe(); err != nil {
			return nil, err
		}
		p.stderr, err = cmd.StderrPipe()
		return p, err
	}
}

var _ runner.Runner = (*program)(nil)

// Start implements runner.Runner.
func (p *program) Start(context.Context) error { return p.cmd.Start() }

// Wait implements runner.AttachedRunner.
func (p *program) Wait(context.Context) error { return p.cmd.Wait() }

// Kill implements runner.AttachedRunner.
func (p *program) Kill(context.Context) error {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // it may have ended
	}
	return nil
}

// Stdout implements runner.Runner: it has the first line, which says where the plugin listens. What else the plugin prints goes to the log.
func (p *program) Stdout() io.ReadCloser {
	from, first := bufio.NewReaderSize(p.stdout, maxLine), true
	var line []byte
	return &reader{p.stdout, func(into []byte) (int, error) {
		if first {
			first = false
			read, _, err := from.ReadLine()
			if err != nil {
				return 0, err
			}
			line = append(append(line, read[:min(len(read), maxHandshake)]...), '\n')
		}
		if len(line) == 0 {
			eachLine(from, p.log.printed)
			return 0, io.EOF
		}
		n := copy(into, line)
		line = line[n:]
		return n, nil
	}}
}

// Stderr implements runner.Runner: it is empty, as all of it goes to the log.
func (p *program) Stderr() io.ReadCloser {
	return &reader{p.stderr, func([]byte) (int, error) {
		eachLine(bufio.NewReaderSize(p.stderr, maxLine), p.log.wrote)
		return 0, io.EOF
	}}
}

// reader is a function as a reader.
type reader struct {
	io.Closer
	read func([]byte) (int, error)
}

// Read implements io.Reader.
func (r *reader) Read(into []byte) (int, error) { return r.read(into) }

// eachLine calls do with each line until there are no more. It must not keep them; more says that the line goes on in the next call.
func eachLine(from *bufio.Reader, do func(line []byte, more bool)) {
	for {
		line, more, err := from.ReadLine()
		if err != nil {
			return
		}
		do(line, more)
	}
}

// Name implements runner.Runner.
func (p *program) Name() string { return p.cmd.Path }

// ID implements runner.AttachedRunner: it is the number of the process.
func (p *program) ID() string {
	if p.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(p.cmd.Process.Pid)
}

// Diagnose implements runner.Runner.
func (*program) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.AddrTranslator.
func (*program) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.AddrTranslator.
func (*program) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
