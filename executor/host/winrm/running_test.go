//go:build unix

package winrm_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rungci/rung/executor/host/winrm"
)

// running is a command of the server. It knows three command lines: that which asks for the architecture, and those of the two scripts, which it does in Go.
type running struct {
	in *os.File // its input

	mu      sync.Mutex
	changed chan struct{} // closed when there is more
	out     []byte
	errs    []byte
	code    int
	over    bool
	process *os.Process
	killed  bool

	sending sync.Mutex
}

// stream is an output of a command.
type stream struct {
	r    *running
	text *[]byte
}

func (s stream) Write(p []byte) (int, error) {
	for {
		s.r.mu.Lock()
		if len(*s.text) < 4*maxStream || s.r.killed {
			*s.text = append(*s.text, p...)
			s.r.tell()
			s.r.mu.Unlock()
			return len(p), nil
		}
		changed := s.r.changed
		s.r.mu.Unlock()
		<-changed
	}
}

// tell says that something has changed. The caller holds the lock.
func (r *running) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (s *server) run(line string) *running {
	r := &running{changed: make(chan struct{})}
	in, to, err := os.Pipe()
	if err != nil {
		s.t.Error(err)
		return r
	}
	r.in = to
	home := s.t.TempDir()
	go func() {
		defer in.Close()
		code := r.do(line, in, home)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.code, r.over = code, true
		r.tell()
	}()
	return r
}

func (r *running) do(line string, in *os.File, home string) int {
	out, errs := stream{r, &r.out}, stream{r, &r.errs}
	switch line {
	case "echo %PROCESSOR_ARCHITECTURE%":
		fmt.Fprint(out, "AMD64\r\n")
		return 0
	case winrm.Put:
		return put(in, out, errs)
	case winrm.Launch:
		return r.launch(in, out, errs, home)
	}
	fmt.Fprintf(errs, "'%s' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n", line)
	return 1
}

// header reads what the first line of input says, and not a byte of what follows.
func header(in io.Reader, into any) error {
	var line []byte
	for one := make([]byte, 1); ; line = append(line, one[0]) {
		if _, err := io.ReadFull(in, one); err != nil {
			return err
		}
		if one[0] == '\n' {
			break
		}
	}
	text, err := base64.StdEncoding.DecodeString(string(line))
	return errors.Join(err, json.Unmarshal(text, into))
}

// launch does what launch.ps1 does.
func (r *running) launch(in *os.File, out, errs io.Writer, home string) int {
	var o struct {
		Word, Program, Arguments, Dir string
		Env                           []string
	}
	if header(in, &o) != nil {
		return 1
	}
	fmt.Fprintf(errs, "#< CLIXML\r\n%s %d\r\n", o.Word, os.Getpid())
	cmd := exec.Command(o.Program, unquoted(o.Arguments)...)
	cmd.Dir, cmd.Env = o.Dir, append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, o.Env...)
	if cmd.Dir == "" {
		cmd.Dir = home
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Minute // its output may wait for a client that is slow to fetch it
	r.mu.Lock()
	err := cmd.Start()
	r.process = cmd.Process
	if r.killed && err == nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	r.mu.Unlock()
	if err != nil {
		code := 0
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
			code = 2
		case errors.Is(err, fs.ErrPermission):
			code = 5
		}
		fmt.Fprintf(errs, "%s failed %d %s\r\n", o.Word, code, base64.StdEncoding.EncodeToString([]byte(err.Error())))
		return 1
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// unquoted takes a command line apart (CommandLineToArgvW, without the program).
func unquoted(line string) (out []string) {
	var arg strings.Builder
	within, any := false, false
	for i := 0; i < len(line); i++ {
		slashes := 0
		for i < len(line) && line[i] == '\\' {
			slashes++
			i++
		}
		if i < len(line) && line[i] == '"' {
			arg.WriteString(strings.Repeat(`\`, slashes/2))
			any = true
			if slashes%2 == 1 {
				arg.WriteByte('"')
			} else {
				within = !within
			}
			continue
		}
		if slashes > 0 {
			arg.WriteString(strings.Repeat(`\`, slashes))
			any = true
		}
		if i == len(line) {
			break
		}
		if !within && (line[i] == ' ' || line[i] == '\t') {
			if any {
				out = append(out, arg.String())
			}
			arg.Reset()
			any = false
			continue
		}
		arg.WriteByte(line[i])
		any = true
	}
	if any {
		out = append(out, arg.String())
	}
	return out
}

// programs is where copies of programs are kept.
var programs string

// put does what put.ps1 does.
func put(in io.Reader, out, errs io.Writer) int {
	var o struct {
		Sum, Name string
		Store     bool
	}
	if header(in, &o) != nil {
		return 1
	}
	file := filepath.Join(programs, o.Sum, o.Name)
	good := func(file string) bool {
		content, err := os.ReadFile(file)
		sum := sha256.Sum256(content)
		return err == nil && hex.EncodeToString(sum[:]) == o.Sum
	}
	if o.Store && !good(file) {
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		var content []byte
		for lines := bufio.NewReader(in); err == nil; {
			line, end := lines.ReadString('\n')
			if line == "" {
				break
			}
			var part []byte
			part, err = base64.StdEncoding.DecodeString(strings.TrimSpace(line))
			content = append(content, part...)
			if end != nil {
				break
			}
		}
		if err = errors.Join(err, os.WriteFile(file+".new", content, 0o755)); err != nil {
			fmt.Fprintln(errs, err)
			return 1
		}
		if good(file + ".new") {
			_ = os.Rename(file+".new", file)
		}
	}
	if good(file) {
		fmt.Fprint(out, base64.StdEncoding.EncodeToString([]byte(file)))
	}
	return 0
}

// send is input.
func (r *running) send(text []byte, end bool) {
	r.sending.Lock()
	defer r.sending.Unlock()
	_, _ = r.in.Write(text) // nobody may read it
	if end {
		_ = r.in.Close()
	}
}

// take is what was written since the last time, once there is something.
func (r *running) take(patience time.Duration, most int) (out, errs []byte, code int, over bool) {
	late := time.After(patience)
	for {
		r.mu.Lock()
		if len(r.out)+len(r.errs) > 0 || r.over {
			out, errs = r.out[:min(most, len(r.out))], r.errs[:min(most, len(r.errs))]
			r.out, r.errs = r.out[len(out):], r.errs[len(errs):]
			over, code = r.over && len(r.out)+len(r.errs) == 0, r.code
			r.tell()
			r.mu.Unlock()
			return out, errs, code, over
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			return nil, nil, 0, false
		}
	}
}

func (r *running) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.process != nil && !r.over {
		_ = syscall.Kill(-r.process.Pid, syscall.SIGKILL)
	}
	if r.in != nil {
		_ = r.in.Close()
	}
	r.tell()
}
