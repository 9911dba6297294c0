// Package traces keeps the traces of jobs in a folder: signed, and no more and no longer than their operator says.
//
//	DIR/gitlab.example.com/project-7/job-48112.trace.json         for `step-runner replay`
//	DIR/gitlab.example.com/project-7/job-48112.trace.json.log     of a long log
//	DIR/gitlab.example.com/project-7/job-48112.trace.json.dsse    the signature
//
// A trace is masked before it comes here.
package traces

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/publish/provenance"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/trace"
)

const (
	// MaxPacked is how large a packed trace may be, in bytes: GitLab takes artifacts of 100 MB unless it is told otherwise.
	MaxPacked = 100 << 20
	// pruneEvery is how often old traces are looked for.
	pruneEvery = time.Minute
	// maxKey bounds the file of a key, in bytes.
	maxKey = 64 << 10

	suffix = ".trace.json"
)

// Options are those of a Folder.
type Options struct {
	Dir string
	// Keep is how many traces are kept, MaxAge how long; 0 is no limit.
	Keep   int
	MaxAge time.Duration
	// Key is a file with a private key that traces are signed with; empty signs none.
	Key string
}

// Folder takes over traces. It is safe for concurrent use.
type Folder struct {
	mu     sync.Mutex
	pruned time.Time
}

// Of says which job a trace is of.
type Of struct {
	GitLab       string // its address
	Project, Job int64
}

// name is where the trace of a job is, in the folder. Nothing in it is what a job's author chose.
func (o Of) name() string {
	return filepath.Join(ProjectFolder(o.GitLab, o.Project), fmt.Sprintf("job-%d%s", o.Job, suffix))
}

// ProjectFolder is the relative path of a folder that is one project's alone: the number of a project means something only with the address of its
// GitLab.
func ProjectFolder(address string, project int64) string {
	server := "gitlab"
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		server = strings.NewReplacer(":", "_", "[", "", "]", "", "/", "+", `\`, "+").Replace(strings.ToLower(u.Host) + strings.TrimRight(u.Path, "/"))
	}
	return filepath.Join(server, fmt.Sprintf("project-%d", project))
}

// Take gives a finished trace its place in the folder, signs it, and removes traces that are too old or too many. It returns where the trace is.
func (f *Folder) Take(file string, of Of, o Options) (string, error) {
	to := filepath.Join(o.Dir, of.name())
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	if err := trace.HandOver(file, to); err != nil {
		return "", err
	}
	now := time.Now()
	_ = os.Chtimes(to, now, now) // the age counts from here
	err := Sign(to, o.Key)
	return to, errors.Join(err, f.prune(o, now))
}

// Sign writes the signature of a trace beside it. An empty key signs nothing.
func Sign(file, key string) error {
	if key == "" {
		return nil
	}
	private, err := open(key)
	if err != nil {
		return fmt.Errorf("the key %s cannot sign traces: %w", key, err)
	}
	t, sum, err := trace.ReadSummed(file)
	if err != nil {
		return err
	}
	statement, err := provenance.Statement(t, provenance.File{Name: filepath.Base(file), SHA256: sum}, nil)
	if err != nil {
		return err
	}
	envelope, err := statement.Envelope()
	if err != nil {
		return err
	}
	if err := envelope.Sign(private); err != nil {
		return err
	}
	return wholefile.WriteText(file+signature.Suffix, 0o600, envelope.Encode())
}

// open reads a private key that has no password, and that nobody else can read.
func open(name string) (*signature.PrivateKey, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("other users can read it (mode %04o): chmod 600 %s", info.Mode().Perm(), name)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKey))
	if err != nil {
		return nil, err
	}
	return signature.ParsePrivateKey(text, func() ([]byte, error) {
		return nil, errors.New("it has a password, which nobody is here to type: use a key without one")
	})
}

// CheckKey says why a key cannot sign traces; nil if it can, or if there is none.
func CheckKey(key string) error {
	if key == "" {
		return nil
	}
	_, err := open(key)
	return err
}

// Pack writes an archive (zip) of a trace, with what belongs to it. It fails beyond MaxPacked.
func Pack(file string, to io.Writer) error {
	w := zip.NewWriter(&bounded{to: to, left: MaxPacked})
	for _, ending := range []string{"", trace.LogSuffix, signature.Suffix} {
		if err := pack(w, file+ending); err != nil && (ending == "" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return w.Close()
}

// bounded takes no more than what is left, in bytes.
type bounded struct {
	to   io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, fmt.Errorf("the trace is larger than %d MB, packed", MaxPacked>>20)
	}
	return b.to.Write(p)
}

func pack(w *zip.Writer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	to, err := w.CreateHeader(&zip.FileHeader{Name: filepath.Base(name), Method: zip.Deflate, Modified: time.Now()})
	if err != nil {
		return err
	}
	_, err = io.Copy(to, file)
	return err
}

// prune removes traces that are too old or too many, once in a while.
func (f *Folder) prune(o Options, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.pruned) < pruneEvery || o.Keep == 0 && o.MaxAge == 0 {
		return nil
	}
	f.pruned = now
	return Prune(o, now)
}

// Prune removes traces that are too old or too many. Other files in the folder stay.
func Prune(o Options, now time.Time) error {
	type kept struct {
		file string
		at   time.Time
	}
	files, err := filepath.Glob(filepath.Join(escaped(o.Dir), "*", "project-*", "job-*"+suffix))
	if err != nil {
		return err
	}
	var all []kept
	for _, file := range files {
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			all = append(all, kept{file, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.file, b.file)) })
	var wrong []error
	for i, k := range all {
		if (o.Keep == 0 || i < o.Keep) && (o.MaxAge == 0 || now.Sub(k.at) < o.MaxAge) {
			continue
		}
		for _, ending := range []string{signature.Suffix, trace.LogSuffix, ""} {
			if err := os.Remove(k.file + ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
				wrong = append(wrong, err)
			}
		}
	}
	return errors.Join(wrong...)
}

// escaped is a path that stands for itself in a pattern. On Windows there is nothing to escape but brackets, which Glob cannot.
func escaped(path string) string {
	if runtime.GOOS == "windows" {
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
