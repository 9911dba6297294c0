// Package store manages the .rung folder of a project: what jobs leave for later jobs and later runs, as GitLab would keep it.
//
//	.rung/artifacts/JOB/RUN/    archives and reports of a run, and JOB/latest.json, which says which run counts
//	.rung/cache/                caches, by their keys
//	.rung/releases/, pages/     what `release` and `pages` recorded
//	.rung/environments/NAME.json the last deployment to an environment
//	.rung/traces/JOB.json       the trace of the last run
//	.rung/incoming/             what comes from a job, until it is checked
//	.rung/children/JOB/         the same of the child pipeline of a trigger job
//	.rung/variables.yml, sources.toml   settings that the user writes
//
// Git ignores the folder but for the settings.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/wholefile"
)

// Folder is what the folder is called in a project.
const Folder = ".rung"

// VariablesFile is the file of the project's settings in it.
const VariablesFile = "variables.yml"

const (
	// keptRuns is how many runs' artifacts of a job are kept: the one that counts and the one before it, which another process may
	// still be reading.
	keptRuns = 2
	// keptTime is how long runs are kept in any case: a pipeline that goes on may need what it found at its start.
	keptTime = time.Hour
	// strayAge is how old a staging folder must be to be taken for a leftover: fetching takes less.
	strayAge = 24 * time.Hour
	// maxSlug is the longest readable part of a folder's name, in bytes.
	maxSlug = 80
	// maxManifest is the longest manifest that is read, in bytes.
	maxManifest = 16 << 20
)

// ignored is the .gitignore of the folder.
const ignored = `# step-runner keeps here what local runs leave. Only your settings are worth a commit, if they hold no secrets.
*
!variables.yml
!sources.toml
!includes.lock
!runners.yml
!limits.yml
`

// Store is the folder of one project, or of a child pipeline in it. Its methods are safe for concurrent use.
type Store struct {
	root string // of the whole store
	base string // of this pipeline's part of it
	made *sync.Once
	err  *error
}

// Open returns the store of a project. Nothing is made until something is kept.
func Open(project string) *Store {
	root := filepath.Join(project, Folder)
	return &Store{root: root, base: root, made: new(sync.Once), err: new(error)}
}

// Root is the folder itself.
func (s *Store) Root() string { return s.root }

// Child is the part of the store that belongs to the child pipeline of a job.
func (s *Store) Child(job string) *Store {
	child := *s
	child.base = filepath.Join(s.base, "children", Slug(job))
	return &child
}

// Make makes the folder, and lets Git ignore it.
func (s *Store) Make() error {
	s.made.Do(func() { *s.err = s.make() })
	return *s.err
}

func (s *Store) make() error {
	if err := s.contained(s.root); err != nil {
		return err
	}
	if err := os.MkdirAll(s.root, 0o755); err != nil {
		return fmt.Errorf("creating the folder for artifacts and caches: %w", err)
	}
	path := filepath.Join(s.root, ".gitignore")
	if _, err := os.Lstat(path); err == nil {
		return nil // the user may have changed it
	}
	return os.WriteFile(path, []byte(ignored), 0o644)
}

// folder makes a folder of the store.
func (s *Store) folder(path string) (string, error) {
	if err := s.Make(); err != nil {
		return "", err
	}
	if err := s.contained(path); err != nil {
		return "", err
	}
	return path, os.MkdirAll(path, 0o755)
}

// contained returns an error when something on the way to a path, or the store itself, is there and is not a folder: a repository can bring
// .rung along, and what is kept or removed through a symbolic link in it would be elsewhere.
func (s *Store) contained(path string) error {
	rest, err := filepath.Rel(s.root, path)
	if err != nil || !filepath.IsLocal(rest) {
		return fmt.Errorf("%s is not in %s", path, s.root)
	}
	at := s.root
	for _, name := range append([]string{"."}, strings.Split(rest, string(filepath.Separator))...) {
		at = filepath.Join(at, name)
		switch info, err := os.Lstat(at); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link that could lead outside the project; remove it", at)
		case !info.IsDir():
			return fmt.Errorf("%s is not a folder; remove it", at)
		}
	}
	return nil
}

// Staging makes a folder for files that a job left and that nothing of is taken over yet. The caller removes it; what a process left
// there that was killed goes after strayAge.
func (s *Store) Staging() (string, error) {
	dir, err := s.folder(filepath.Join(s.root, "incoming"))
	if err != nil {
		return "", err
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range left {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > strayAge {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // tried again next time
		}
	}
	return os.MkdirTemp(dir, "job-*")
}

// Take moves a plain file from a staging folder to a path of the store, in the place of the file there. It reports whether there was one:
// anything else, a link among them, is left where it is.
func (s *Store) Take(file, to string) (bool, error) {
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := s.folder(filepath.Dir(to)); err != nil {
		return false, err
	}
	if err := os.Chmod(file, 0o644); err != nil {
		return false, err
	}
	return true, os.Rename(file, to)
}

// Cache is the folder of the caches. Child pipelines share it: caches belong to the project.
func (s *Store) Cache() (string, error) { return s.folder(filepath.Join(s.root, "cache")) }

// Releases is the folder of recorded releases.
func (s *Store) Releases() (string, error) { return s.folder(filepath.Join(s.root, "releases")) }

// Pages is the folder of published pages.
func (s *Store) Pages() (string, error) { return s.folder(filepath.Join(s.root, "pages")) }

// Trace is the file for the trace of a job, in a folder that is made.
func (s *Store) Trace(job string) (string, error) {
	dir, err := s.folder(filepath.Join(s.base, "traces"))
	return filepath.Join(dir, Slug(job)+".json"), err
}

// Artifacts is the folder for the artifacts of a run of a job.
func (s *Store) Artifacts(job, run string) (string, error) {
	return s.folder(filepath.Join(s.jobFolder(job), run))
}

func (s *Store) jobFolder(job string) string { return filepath.Join(s.base, "artifacts", Slug(job)) }

// Manifest says what a run of a job left.
type Manifest struct {
	Job      string    `json:"job"`
	Run      string    `json:"run"`
	Ref      string    `json:"ref,omitempty"`
	SHA      string    `json:"sha,omitempty"`
	Status   string    `json:"status"`
	Finished time.Time `json:"finished"`
	// Archive is the file of the archive, below the run's folder; empty when there is none.
	Archive string `json:"archive,omitempty"`
	// Reports are the other files.
	Reports []Report `json:"reports,omitempty"`
	// Expires is when GitLab would remove them; zero is never.
	Expires time.Time `json:"expires,omitzero"`

	folder string
}

// Report is a report of a job.
type Report struct {
	Type string `json:"type"`
	File string `json:"file"`
}

// ArchivePath is the archive's file on this machine, "" when there is none.
func (m *Manifest) ArchivePath() string {
	if m == nil || m.Archive == "" {
		return ""
	}
	return filepath.Join(m.folder, filepath.FromSlash(m.Archive))
}

// ReportPaths are the files of the reports of a type.
func (m *Manifest) ReportPaths(kind string) []string {
	var out []string
	for _, r := range m.Reports {
		if r.Type == kind {
			out = append(out, filepath.Join(m.folder, filepath.FromSlash(r.File)))
		}
	}
	return out
}

// Keep makes a run the one that counts for its job, and removes older ones. Files that the manifest names must be in the folder of the
// run, or the error says which is not.
func (s *Store) Keep(m *Manifest) error {
	m.folder = filepath.Join(s.jobFolder(m.Job), m.Run)
	for _, name := range append([]string{m.Archive}, reportFiles(m)...) {
		if name != "" && !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("the artifact %q of the job %q is not in its folder", name, m.Job)
		}
	}
	if m.Archive == "" && len(m.Reports) == 0 {
		if _, err := os.Stat(s.jobFolder(m.Job)); errors.Is(err, fs.ErrNotExist) {
			return nil // nothing, and nothing before
		}
	}
	dir, err := s.folder(s.jobFolder(m.Job))
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, latestFile), m); err != nil {
		return err
	}
	return prune(dir)
}

func reportFiles(m *Manifest) []string {
	var out []string
	for _, r := range m.Reports {
		out = append(out, r.File)
	}
	return out
}

const latestFile = "latest.json"

// Latest returns what the last run of a job left; the error is fs.ErrNotExist when there was none, or it left nothing.
func (s *Store) Latest(job string) (*Manifest, error) {
	dir := s.jobFolder(job)
	if err := s.contained(dir); err != nil {
		return nil, err
	}
	var m Manifest
	if err := readJSON(filepath.Join(dir, latestFile), &m); err != nil {
		return nil, err
	}
	if !filepath.IsLocal(m.Run) {
		return nil, fmt.Errorf("%s is damaged: it names the run %q", filepath.Join(dir, latestFile), m.Run)
	}
	for _, name := range append([]string{m.Archive}, reportFiles(&m)...) {
		if name != "" && !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("%s is damaged: it names the file %q", filepath.Join(dir, latestFile), name)
		}
	}
	m.folder = filepath.Join(dir, m.Run)
	return &m, nil
}

// runName is what the folder of a run is called; nothing else is ever removed.
var runName = lazyregexp.New(`^[0-9a-f]{16}-[0-9]+$`)

// NewRun is a name for a run that begins now. Names of runs sort by time.
func NewRun() string { return fmt.Sprintf("%016x-%d", time.Now().UnixNano(), os.Getpid()) }

// age is how long ago a run of that name began.
func age(run string) time.Duration {
	hex, _, _ := strings.Cut(run, "-")
	began, err := strconv.ParseInt(hex, 16, 64)
	if err != nil {
		return 0
	}
	return time.Since(time.Unix(0, began))
}

// prune removes the artifacts of all but the last runs.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var runs []string
	for _, e := range entries {
		if e.IsDir() && runName.MatchString(e.Name()) {
			runs = append(runs, e.Name())
		}
	}
	slices.Sort(runs)
	for len(runs) > keptRuns && age(runs[0]) > keptTime {
		if err := os.RemoveAll(filepath.Join(dir, runs[0])); err != nil {
			return err
		}
		runs = runs[1:]
	}
	return nil
}

// Deployment is the last one to an environment.
type Deployment struct {
	Environment string    `json:"environment"`
	URL         string    `json:"url,omitempty"`
	Tier        string    `json:"tier,omitempty"`
	Action      string    `json:"action"`
	Job         string    `json:"job"`
	Ref         string    `json:"ref,omitempty"`
	SHA         string    `json:"sha,omitempty"`
	Status      string    `json:"status"`
	Finished    time.Time `json:"finished"`
	OnStop      string    `json:"on_stop,omitempty"`
	AutoStopIn  string    `json:"auto_stop_in,omitempty"`
}

// Deployed records a deployment.
func (s *Store) Deployed(d Deployment) error {
	dir, err := s.folder(filepath.Join(s.root, "environments"))
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, Slug(d.Environment)+".json"), d)
}

// WriteKeys writes the public keys with which identity tokens of local runs can be checked, and returns the file.
func (s *Store) WriteKeys(jwks any) (string, error) {
	if err := s.Make(); err != nil {
		return "", err
	}
	path := filepath.Join(s.root, "jwks.json")
	return path, writeJSON(path, jwks)
}

// Slug is a name that a folder can have, and that no other name has.
func Slug(name string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '.':
			b.WriteRune(c)
		default:
			b.WriteByte('-')
		}
	}
	slug := strings.Trim(b.String(), "-.")
	if slug == name && len(slug) <= maxSlug && slug != "" {
		return slug
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimLeft(slug[:min(len(slug), maxSlug)]+"-", "-") + hex.EncodeToString(sum[:4])
}

// writeJSON replaces a file whole.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.WriteText(path, 0o600, append(data, '\n'))
}

func readJSON(path string, v any) error {
	info, err := os.Lstat(path) // nothing of ours is a link, but in a project that somebody else made
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file; remove it to continue", path)
	}
	if info.Size() > maxManifest {
		return fmt.Errorf("%s is too large", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s is damaged: %w; remove it to continue", path, err)
	}
	return nil
}
