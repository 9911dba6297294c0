package custom

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/executor/custom/frames"
)

// How a script that a driver runs becomes a connection. The contract gives a driver the path of a script and the name of a stage. The path
// is that of a named pipe. Whoever reads it gets the script, and the end of the pipe only when we say so: what we write after the script
// is the standard input of what the script starts, wherever that is, because a shell takes no more of its input than the command that it
// runs. What that prints comes back as the output of the driver, which is our log, in lines with a mark (package frames).
//
//	driver:  lxc exec NAME /bin/bash <"$1"      ssh … /bin/bash <"$1"      cat "$1" | …      bash "$1"
//
// A driver that copies the file before it runs it never sees the end of it. The first script of a job finds out (probe.sh), and ends the
// pipe for such a driver, which then gets ordinary files.

//go:embed probe.sh
var probeScript string

//go:embed begin.sh
var beginScript string

// probeTime is how long a driver may take to run the first command of a script that has not ended. Tests wait less.
var probeTime = 20 * time.Second

const (
	// echoTime is how long it may take to hand on one line.
	echoTime = 20 * time.Second
	// pipeSuffix is that of the name of a script's pipe which it keeps when the script becomes a file.
	pipeSuffix = ".pipe"
	// scriptMode is that of scripts.
	scriptMode = 0o700
)

// errCopies says that a driver waits for the end of a script before it runs any of it.
var errCopies = errors.New("it waits for the end of the script before it runs any of it")

// live is a call of run_exec whose script has not ended.
type live struct {
	*process
	path  string
	pipe  *os.File
	conn  *frames.Conn
	words chan string
	noise *output
}

// scriptPath is the path of a new script.
func (f *folder) scriptPath() (string, error) {
	dir, err := os.MkdirTemp(f.dir, "script")
	return filepath.Join(dir, "script"), err
}

// runCall calls run_exec.
func (f *folder) runCall(path, stage string, stdout, stderr io.Writer) call {
	args := append(append([]string(nil), f.driver.RunArgs...), path, stage)
	return call{exec: "run_exec (" + stage + ")", program: f.driver.RunExec, args: args, stdout: stdout, stderr: stderr}
}

// open starts a stage with a script that does not end. The driver's own output goes to noise.
func (f *folder) open(ctx context.Context, stage, mark, text string, noise *output) (*live, error) {
	path, err := f.scriptPath()
	if err == nil {
		err = makePipe(path)
	}
	if err == nil {
		err = os.Link(path, path+pipeSuffix)
	}
	if err != nil {
		return nil, fmt.Errorf("making a script for the driver: %w", err)
	}
	data, in := io.Pipe()
	l := &live{path: path, words: make(chan string, 16), noise: noise}
	said, errs, err := l.start(f, stage)
	if err != nil {
		return nil, err
	}
	reader := &frames.Reader{
		Mark: mark,
		Data: func(p []byte) error {
			_, err := in.Write(p)
			return err
		},
		Word: func(word string) {
			select {
			case l.words <- word:
			default: // nobody asked for so many
			}
		},
		Other: func(line []byte) { _, _ = noise.Write(append(line, '\n')) },
	}
	go func() {
		err := reader.Read(said)
		_ = said.Close() // whoever writes more is told
		_ = in.CloseWithError(errors.Join(err, io.EOF))
	}()
	go func() { _, _ = io.Copy(noise, errs) }()
	go func() {
		<-l.ended
		time.Sleep(stragglerTime) // for what it has said last
		_, _ = said.Close(), errs.Close()
	}()
	l.conn = &frames.Conn{In: data, End: func() error { return errors.Join(l.endPipe(), data.Close()) }}
	if l.pipe, err = openPipe(ctx, path, l.ended); err != nil {
		_ = data.Close()
		return l, err
	}
	l.conn.Out = l.pipe
	if _, err := io.WriteString(l.pipe, text); err != nil {
		return l, errors.Join(err, l.conn.Close())
	}
	return l, nil
}

// endPipe ends what the script and all that it starts read. A driver may be about to open the pipe again, at any time: without somebody to write
// to it, it would wait for ever.
func (l *live) endPipe() error {
	err := l.pipe.Close()
	go release(l.path+pipeSuffix, l.ended)
	return err
}

// send writes a file to the script, until the call ends or ctx does: whoever reads may have stopped.
func (l *live) send(ctx context.Context, file io.Reader) error {
	sent := make(chan struct{})
	defer close(sent)
	go func() {
		select {
		case <-sent:
			return
		case <-l.ended:
		case <-ctx.Done():
		}
		_ = l.pipe.SetWriteDeadline(time.Now())
	}()
	_, err := io.Copy(l.pipe, file)
	return cmp.Or(context.Cause(ctx), err)
}

// start starts the program. Its output is read by pipes of our own, so that its end is known at once, whoever else holds them.
func (l *live) start(f *folder, stage string) (stdout, stderr *os.File, err error) {
	var theirs [2]*os.File
	if stdout, theirs[0], err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if stderr, theirs[1], err = os.Pipe(); err != nil {
		return nil, nil, errors.Join(err, stdout.Close(), theirs[0].Close())
	}
	l.process, err = f.start(f.runCall(l.path, stage, theirs[0], theirs[1]))
	_, _ = theirs[0].Close(), theirs[1].Close()
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
	}
	return stdout, stderr, err
}

// word waits for the next word.
func (l *live) word(ctx context.Context) (string, error) {
	select {
	case word := <-l.words:
		return word, nil
	default:
	}
	select {
	case word := <-l.words:
		return word, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-l.ended:
		select { // what it has said last
		case word := <-l.words:
			return word, nil
		case <-time.After(stragglerTime):
		}
		if err := l.result(); err != nil {
			return "", err
		}
		return "", &Failure{Exec: l.call.exec, Reason: "has ended, and has not run its script to the end"}
	}
}

// script puts a mark, and other values, into the text of a script. Values are words that no shell interprets.
func script(text, mark string, values ...string) string {
	_, nonce, _ := strings.Cut(mark, frames.Prefix)
	return strings.NewReplacer(append(values, "NONCE", nonce)...).Replace(text)
}

// found is what the first script of a job finds out.
type found struct {
	system, machine string // as uname has them
	live            bool   // what a script starts has an input
}

// probe runs the stage prepare_script.
func (f *folder) probe(ctx context.Context, noise *output) (found, error) {
	out, err := f.tryLive(ctx, noise)
	if err == nil || ctx.Err() != nil {
		return out, err
	}
	if out.system != "" { // it has run, and only failed then
		return out, err
	}
	return f.probeFile(ctx, noise)
}

// tryLive runs the first script from a pipe.
func (f *folder) tryLive(ctx context.Context, noise *output) (out found, err error) {
	mark := frames.NewMark()
	text := script(probeScript, mark)
	l, err := f.open(ctx, "prepare_script", mark, text, noise)
	if err != nil {
		if l != nil && l.process != nil {
			return out, errors.Join(err, l.wait(ctx))
		}
		return out, err
	}
	timed, cancel := context.WithTimeoutCause(ctx, probeTime, errCopies)
	defer cancel()
	hello, err := l.word(timed)
	if err == nil {
		cancel()
		timed, cancel = context.WithTimeoutCause(ctx, echoTime, errCopies)
		defer cancel()
		if _, err = io.WriteString(l.pipe, "yes\n"); err == nil {
			var heard string
			heard, err = l.word(timed)
			out.live = err == nil && heard == "heard yes"
		}
	}
	// Whoever reads it again gets an ordinary file.
	plain := l.path + ".plain"
	problem := os.WriteFile(plain, []byte(text), scriptMode)
	if problem == nil {
		problem = os.Rename(plain, l.path)
	}
	if problem = errors.Join(problem, l.endPipe()); problem != nil {
		return out, errors.Join(problem, l.wait(ctx))
	}
	if ended := l.wait(ctx); ended != nil {
		_ = l.conn.In.(io.Closer).Close()
		return out, ended
	}
	if hello == "" {
		if hello, err = l.word(ctx); err != nil {
			return out, err
		}
	}
	return out, out.read(hello)
}

// probeFile runs the first script from an ordinary file.
func (f *folder) probeFile(ctx context.Context, noise *output) (out found, err error) {
	mark := frames.NewMark()
	var hello string
	reader := &frames.Reader{
		Mark: mark, Data: func([]byte) error { return nil },
		Word: func(word string) {
			if hello == "" {
				hello = word
			}
		},
		Other: func(line []byte) { _, _ = noise.Write(append(line, '\n')) },
	}
	said, to := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- reader.Read(said) }()
	err = f.runFile(ctx, "prepare_script", script(probeScript, mark), to, noise)
	_ = to.Close()
	if err = errors.Join(err, <-done); err != nil {
		return out, err
	}
	return out, out.read(hello)
}

// read reads the first word of a script.
func (o *found) read(hello string) error {
	fields := strings.Fields(hello)
	if len(fields) != 3 || fields[0] != "hello" {
		return &Failure{Exec: "run_exec (prepare_script)", Reason: "has ended, and has not run its script: it must run the file of its last argument but one with bash, and hand on what that prints"}
	}
	o.system, o.machine = fields[1], fields[2]
	return nil
}

// runFile runs a stage whose script is an ordinary file.
func (f *folder) runFile(ctx context.Context, stage, text string, stdout, stderr io.Writer) error {
	path, err := f.scriptPath()
	if err == nil {
		err = os.WriteFile(path, []byte(text), scriptMode)
	}
	if err != nil {
		return fmt.Errorf("making a script for the driver: %w", err)
	}
	return f.run(ctx, f.runCall(path, stage, stdout, stderr))
}
