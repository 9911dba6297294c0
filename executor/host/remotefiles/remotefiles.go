// Package remotefiles implements host.Files for a machine that can only run commands: a copy of this program there does the work (Serve),
// and Client starts it for each call. Paths are its arguments, archives its input and output, and an error is one line of JSON on its
// standard error. Where that takes a process each time, Sessions do the brief ones with one.
package remotefiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/rungci/rung/executor/archive"
	"github.com/rungci/rung/executor/host"
)

// Channel is the type of SSH channels at whose other end Serve is: of servers of ours. Their data are its arguments, as JSON.
const Channel = "files@rung"

const (
	// maxAnswer bounds what is read of an answer, and of an error, in bytes.
	maxAnswer = 64 << 10
	// failed is the exit code with an error in JSON. Others are those of a program that could not begin.
	failed = 1
)

// operation is one call of host.Files.
type operation struct {
	usage string // its arguments
	run   func(ctx context.Context, files host.Files, args []string, in io.Reader, out io.Writer) error
}

var operations = map[string]operation{
	"temp": {"", func(ctx context.Context, files host.Files, _ []string, _ io.Reader, out io.Writer) error {
		path, err := files.Temp(ctx)
		return answer(out, path, err)
	}},
	"stat": {"PATH", func(ctx context.Context, files host.Files, args []string, _ io.Reader, out io.Writer) error {
		info, err := files.Stat(ctx, args[0])
		return answer(out, info, err)
	}},
	"mkdir": {"PERMISSIONS PATH", func(ctx context.Context, files host.Files, args []string, _ io.Reader, _ io.Writer) error {
		return withPerm(ctx, args, files.Mkdir)
	}},
	"mkdir-all": {"PERMISSIONS PATH", func(ctx context.Context, files host.Files, args []string, _ io.Reader, _ io.Writer) error {
		return withPerm(ctx, args, files.MkdirAll)
	}},
	"link": {"TARGET PATH", func(ctx context.Context, files host.Files, args []string, _ io.Reader, _ io.Writer) error {
		return files.Link(ctx, args[0], args[1])
	}},
	"remove": {"PATH", func(ctx context.Context, files host.Files, args []string, _ io.Reader, _ io.Writer) error {
		return files.RemoveAll(ctx, args[0])
	}},
	"taken": {"PATH", func(ctx context.Context, files host.Files, args []string, _ io.Reader, out io.Writer) error {
		bytes, err := files.Taken(ctx, args[0])
		return answer(out, bytes, err)
	}},
	"free": {"PATH", func(ctx context.Context, files host.Files, args []string, _ io.Reader, out io.Writer) error {
		bytes, known, err := files.Free(ctx, args[0])
		return answer(out, freeSpace{bytes, known}, err)
	}},
	"overwrite": {"FILE", func(_ context.Context, _ host.Files, args []string, in io.Reader, _ io.Writer) error {
		return overwrite(args[0], in)
	}},
	"own": {"USER GROUP DIR", func(ctx context.Context, _ host.Files, args []string, _ io.Reader, _ io.Writer) error {
		return own(ctx, args)
	}},
	"environ": {"", func(_ context.Context, _ host.Files, _ []string, _ io.Reader, out io.Writer) error {
		return answer(out, os.Environ(), nil)
	}},
	"unpack": {"DIR", func(ctx context.Context, files host.Files, args []string, in io.Reader, _ io.Writer) error {
		return files.Unpack(ctx, args[0], in)
	}},
	"pack": {"PATH", func(ctx context.Context, files host.Files, args []string, _ io.Reader, out io.Writer) error {
		return files.Pack(ctx, args[0], out)
	}},
}

// answer writes what an operation has found, unless it failed.
func answer(out io.Writer, found any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(found)
}

// freeSpace is what host.Files.Free says.
type freeSpace struct {
	Bytes int64 `json:"bytes"`
	Known bool  `json:"known"`
}

func withPerm(ctx context.Context, args []string, make func(context.Context, string, fs.FileMode) error) error {
	perm, err := strconv.ParseUint(args[0], 8, 9)
	if err != nil {
		return fmt.Errorf("%q are not permissions: write them as 0755", args[0])
	}
	return make(ctx, args[1], fs.FileMode(perm))
}

// Serve does what args ask for with files, and returns the exit code.
func Serve(ctx context.Context, files host.Files, args []string, in io.Reader, out, errs io.Writer) (exitCode int) {
	do := func() error { return serve(ctx, files, args, in, out) }
	if len(args) == 1 && args[0] == sessionOperation {
		do = func() error { return serveSession(ctx, files, in, out) }
	}
	err := do()
	if err == nil {
		return 0
	}
	_ = json.NewEncoder(errs).Encode(newWireError(err))
	return failed
}

func serve(ctx context.Context, files host.Files, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("an operation is missing")
	}
	op, known := operations[args[0]]
	if !known {
		return fmt.Errorf("%q is not an operation on files: this program may be of another version", args[0])
	}
	if args = args[1:]; len(args) != len(strings.Fields(op.usage)) {
		return fmt.Errorf("%q are not the arguments %s", args, op.usage)
	}
	return op.run(ctx, files, args, in, out)
}

// wireError is an error on its way to another machine.
type wireError struct {
	Message string   `json:"message"`
	Kinds   []string `json:"kinds,omitempty"`
	Entry   string   `json:"entry,omitempty"` // of an *archive.UnsafeError
	Why     string   `json:"why,omitempty"`
}

// kinds are the errors that keep their identity.
var kinds = map[string]error{
	"not-exist": fs.ErrNotExist, "exist": fs.ErrExist, "permission": fs.ErrPermission, "no-space": host.ErrNoSpace,
}

func newWireError(err error) *wireError {
	w := &wireError{Message: err.Error()}
	for name, kind := range kinds {
		if errors.Is(err, kind) {
			w.Kinds = append(w.Kinds, name)
		}
	}
	if unsafe := (*archive.UnsafeError)(nil); errors.As(err, &unsafe) {
		w.Entry, w.Why = unsafe.Entry, unsafe.Why
	}
	return w
}

// err is the error as the caller sees it.
func (w *wireError) err() error {
	if w.Why != "" {
		return &archive.UnsafeError{Entry: w.Entry, Why: w.Why}
	}
	e := &remoteError{message: w.Message}
	for _, name := range w.Kinds {
		if kind, known := kinds[name]; known {
			e.kinds = append(e.kinds, kind)
		}
	}
	return e
}

type remoteError struct {
	message string
	kinds   []error
}

func (e *remoteError) Error() string   { return e.message }
func (e *remoteError) Unwrap() []error { return e.kinds }

// Client are the files of another machine.
type Client struct {
	// Run runs the program there with args after those that lead to Serve, and waits for it.
	Run func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (exitCode int, err error)
}

var _ host.Files = (*Client)(nil)

func (c *Client) call(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	errs := &limited{}
	code, err := c.Run(ctx, args, in, out, errs)
	if err != nil || code == 0 {
		return err
	}
	text := bytes.TrimSpace(errs.text)
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	var w wireError
	if code != failed || json.Unmarshal(text, &w) != nil || w.Message == "" {
		return fmt.Errorf("the program for files on the host failed with exit code %d: %s", code, bytes.TrimSpace(errs.text))
	}
	return w.err()
}

// ask is a call whose answer is JSON.
func (c *Client) ask(ctx context.Context, answer any, args ...string) error {
	out := &limited{}
	if err := c.call(ctx, nil, out, args...); err != nil {
		return err
	}
	if err := json.Unmarshal(out.text, answer); err != nil {
		return fmt.Errorf("the program for files on the host does not answer in JSON: %w", err)
	}
	return nil
}

// Temp is the folder for temporary files.
func (c *Client) Temp(ctx context.Context) (path string, err error) {
	err = c.ask(ctx, &path, "temp")
	return path, err
}

// Stat describes a file.
func (c *Client) Stat(ctx context.Context, path string) (info host.Info, err error) {
	err = c.ask(ctx, &info, "stat", path)
	return info, err
}

// Mkdir makes a folder.
func (c *Client) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	return c.call(ctx, nil, nil, "mkdir", octal(perm), path)
}

// MkdirAll makes a folder and those above it.
func (c *Client) MkdirAll(ctx context.Context, path string, perm fs.FileMode) error {
	return c.call(ctx, nil, nil, "mkdir-all", octal(perm), path)
}

func octal(perm fs.FileMode) string { return fmt.Sprintf("%04o", perm.Perm()) }

// Link makes a program available at another path.
func (c *Client) Link(ctx context.Context, target, path string) error {
	return c.call(ctx, nil, nil, "link", target, path)
}

// RemoveAll removes a file or folder.
func (c *Client) RemoveAll(ctx context.Context, path string) error {
	return c.call(ctx, nil, nil, "remove", path)
}

// Taken measures a file or folder.
func (c *Client) Taken(ctx context.Context, path string) (bytes int64, err error) {
	err = c.ask(ctx, &bytes, "taken", path)
	return bytes, err
}

// Free measures what is left of a folder's disk.
func (c *Client) Free(ctx context.Context, path string) (bytes int64, known bool, err error) {
	var left freeSpace
	err = c.ask(ctx, &left, "free", path)
	return left.Bytes, left.Known, err
}

// Environ are the variables that the program has there, as NAME=VALUE.
func (c *Client) Environ(ctx context.Context) (env []string, err error) {
	err = c.ask(ctx, &env, "environ")
	return env, err
}

// Unpack unpacks a tar archive.
func (c *Client) Unpack(ctx context.Context, dir string, in io.Reader) error {
	return c.call(ctx, in, nil, "unpack", dir)
}

// Pack writes a tar archive.
func (c *Client) Pack(ctx context.Context, path string, out io.Writer) error {
	return c.call(ctx, nil, out, "pack", path)
}

// limited keeps the beginning of what is written.
type limited struct{ text []byte }

func (l *limited) Write(p []byte) (int, error) {
	l.text = append(l.text, p[:min(len(p), maxAnswer-len(l.text))]...)
	return len(p), nil
}
