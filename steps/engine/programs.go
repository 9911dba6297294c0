package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/steps/event"
)

const (
	// maxProgram bounds the file of a program whose digest is computed, in bytes.
	maxProgram = 1 << 30
	// maxPrograms bounds how many programs are remembered.
	maxPrograms = 1000
)

// programs are the programs that steps of this process ran, by the path that a step names: a digest is computed once for a file, not for
// each of its processes.
var programs = struct {
	sync.Mutex
	known map[string]*knownProgram
}{known: map[string]*knownProgram{}}

// knownProgram is the file of a program as it was when its digest was computed.
type knownProgram struct {
	info    os.FileInfo
	changed time.Time
	done    chan struct{} // closed when program is complete
	program event.Program
	shebang []string // the first line, where it is a script's
}

// identify finds out which file a command runs, unless that is this program or nobody wants to know.
func (o *Options) identify(command string, args, env []string, dir string) func() *event.Program {
	if !o.Programs || command == ownProgram {
		return func() *event.Program { return nil }
	}
	return identify(args[0], env, dir, maxInterpreters)
}

// identify finds out which program a process is about to run, while it runs. The function that it returns gives the answer; nil where there
// is none. Of a script it finds its interpreter, too, up to depth of them.
func identify(name string, env []string, dir string, depth int) func() *event.Program {
	path := programPath(name, env, dir)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return func() *event.Program { return nil }
	}
	programs.Lock()
	defer programs.Unlock()
	it := programs.known[path]
	if it == nil || !it.is(info) {
		if len(programs.known) >= maxPrograms {
			clear(programs.known)
		}
		it = &knownProgram{info: info, changed: changeTime(info), done: make(chan struct{})}
		programs.known[path] = it
		go it.compute(path)
	}
	result := make(chan *event.Program, 1)
	go func() {
		<-it.done
		found := it.program
		if it.shebang != nil && depth > 0 {
			found.Interpreter = identify(interpreterIn(it.shebang), env, dir, depth-1)()
		}
		result <- &found
	}()
	return func() *event.Program { return <-result }
}

// programPath is the file that a process with the arguments runs; "" when it is not found.
func programPath(name string, env []string, dir string) string {
	switch {
	case filepath.IsAbs(name):
		return name
	case strings.ContainsRune(filepath.ToSlash(name), '/'):
		return filepath.Join(dir, name)
	}
	for _, pair := range env {
		if path, ok := strings.CutPrefix(pair, "PATH="); ok {
			return lookPath(name, path)
		}
	}
	return ""
}

// is reports whether the file is still what it was.
func (k *knownProgram) is(info os.FileInfo) bool {
	return os.SameFile(k.info, info) && k.info.Size() == info.Size() && k.info.ModTime().Equal(info.ModTime()) && k.changed.Equal(changeTime(info))
}

// compute reads the file of the program. Symbolic links are followed: their target often has the version in its name.
func (k *knownProgram) compute(path string) {
	defer close(k.done)
	k.program.Path = path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		k.program.Path = target
	}
	file, err := os.Open(path)
	if err != nil {
		return // it may be executed, and not read
	}
	defer file.Close()
	sum := sha256.New()
	if n, err := io.Copy(sum, io.LimitReader(file, maxProgram+1)); err == nil && n <= maxProgram {
		k.program.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	}
	if k.shebang = shebangOf(file); k.shebang == nil {
		k.program.Version = versionOf(k.program.Path)
	}
}
