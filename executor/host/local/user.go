package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/remotefiles"
	"github.com/rungci/rung/internal/account"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/wholefile"
)

const (
	// userSeparator is in the name of this machine as another user: "local/builder".
	userSeparator = "/"
	// programs is where root keeps copies of programs that other users cannot reach, by their SHA-256.
	programs = "/var/cache/rung/programs"
	// unused is how long a copy stays without being used.
	unused = 30 * 24 * time.Hour
	// userPath is PATH of other users.
	userPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// CanBeOthers reports whether this program may run commands as other users: it is root's.
func CanBeOthers() bool { return runtime.GOOS != "windows" && os.Geteuid() == 0 }

// UserOf returns the user in the name of a host that As has made.
func UserOf(hostName string) (user string, is bool) {
	return strings.CutPrefix(hostName, Name+userSeparator)
}

// User is this machine as another user: commands are that user's, and files are handled by a program that runs as that user, so that no
// link in them leads to where only root may go.
type User struct {
	Host
	name     string
	home     string
	shell    string
	identity process.User
	files    remotefiles.Client
	program  string

	mu   sync.Mutex
	puts map[string]string // files, and where the user finds them
}

var _ host.Host = (*User)(nil)

// As returns this machine as the user with a name or number, who must exist. program is a step-runner, which handles the user's files.
// Only root can be others.
func As(name, program string) (*User, error) {
	if !CanBeOthers() {
		return nil, fmt.Errorf("only root may run jobs as another user (%s); start this program with sudo", name)
	}
	found, err := account.Find(name)
	if err != nil {
		return nil, fmt.Errorf("there is no user %q on this machine; make it: useradd --create-home %s", name, name)
	}
	u := &User{name: found.Username, home: found.HomeDir, shell: "/bin/sh", program: program, puts: map[string]string{}}
	groups, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("finding the groups of the user %s: %w", name, err)
	}
	numbers, err := parse(slices.Concat([]string{found.Uid, found.Gid}, groups))
	if err != nil {
		return nil, err
	}
	u.identity = process.User{ID: numbers[0], Group: numbers[1], Groups: numbers[2:]}
	u.files.Run = u.runFiles
	return u, nil
}

func parse(numbers []string) (out []uint32, err error) {
	for _, text := range numbers {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not the number of a user or group", text)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

// Name returns "local/NAME".
func (u *User) Name() string { return Name + userSeparator + u.name }

// Exec starts a process as the user, in the user's home unless the command says otherwise.
func (u *User) Exec(ctx context.Context, command *host.Command) (host.Process, error) {
	c := *command
	if c.Dir == "" {
		c.Dir = "/"
		if info, err := os.Stat(u.home); err == nil && info.IsDir() {
			c.Dir = u.home
		}
	}
	env := []string{"HOME=" + u.home, "USER=" + u.name, "LOGNAME=" + u.name, "SHELL=" + u.shell, "PATH=" + userPath}
	for _, name := range []string{"TZ", "LANG", "LC_ALL", "LC_CTYPE"} {
		if value, is := os.LookupEnv(name); is {
			env = append(env, name+"="+value)
		}
	}
	return start(ctx, &c, environ(&c, env), &u.identity)
}

// Put returns the absolute path of the file, or that of a copy where the user cannot reach it.
func (u *User) Put(ctx context.Context, file string) (string, error) {
	path, err := u.Host.Put(ctx, file)
	if err != nil {
		return "", err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if put, known := u.puts[path]; known {
		return put, nil
	}
	put := path
	if !everybodys(path) {
		if put, err = keep(path); err != nil {
			return "", fmt.Errorf("copying %s to where the user %s finds it: %w", path, u.name, err)
		}
	}
	u.puts[path] = put
	return put, nil
}

// everybodys reports whether every user may run a file.
func everybodys(file string) bool {
	const run = 0o5 // for others
	info, err := os.Stat(file)
	if err != nil || info.Mode()&run != run {
		return false
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o1 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// keep makes a copy of a program that everybody may run and only root may change, and removes those that nobody has used for long.
func keep(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return "", err
	}
	entries, _ := os.ReadDir(programs)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unused {
			_ = os.RemoveAll(filepath.Join(programs, e.Name()))
		}
	}
	sum := sha256.Sum256(content)
	dir := filepath.Join(programs, hex.EncodeToString(sum[:]))
	copied := filepath.Join(dir, filepath.Base(file))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
	if there, err := os.ReadFile(copied); err == nil && bytes.Equal(there, content) {
		return copied, nil
	}
	return copied, wholefile.WriteText(copied, 0o755, content)
}

// Files are handled by the program, as the user.
func (u *User) Files() host.Files { return &u.files }

func (u *User) runFiles(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (int, error) {
	program, err := u.Put(ctx, u.program)
	if err != nil {
		return -1, err
	}
	p, err := u.Exec(ctx, &host.Command{Args: append([]string{program, "host"}, args...), Stdin: in, Stdout: out, Stderr: errs})
	if err != nil {
		return -1, err
	}
	return p.Wait()
}
