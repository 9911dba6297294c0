// Package artifact keeps the artifacts of a workflow run in a folder, so that its other jobs, and whoever runs them, find them there:
// for each NAME a file NAME.zip (NAME.file when it is not an archive) with its content, and NAME.json that says what it is.
package artifact

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rungci/rung/internal/wholefile"
)

// Limits of artifacts.
const (
	// MaxName is how long a name may be, in bytes.
	MaxName = 240
	// MaxCount is how many artifacts a run may leave: GitHub's limit of a job.
	MaxCount = 500
	// maxInfo is how large the description of an artifact may be, in bytes.
	maxInfo = 64 << 10
)

// Zip is the media type of the usual artifact.
const Zip = "application/zip"

// What can be wrong.
var (
	ErrName   = errors.New("the name of the artifact cannot be used")
	ErrExists = errors.New("an artifact with this name already exists on the workflow run")
	// ErrTooMany says that the run has MaxCount artifacts.
	ErrTooMany = errors.New("the workflow run can have no more artifacts")
)

// Artifact says what an artifact is.
type Artifact struct {
	ID        int64     `json:"id"` // microseconds since 1970: later ones have higher numbers
	Name      string    `json:"name"`
	Size      int64     `json:"size"`   // bytes
	Digest    string    `json:"digest"` // sha256:…
	MediaType string    `json:"media_type"`
	Created   time.Time `json:"created"`
	Job       string    `json:"job,omitempty"` // the job that left it
}

// File is the name that the content has for people: NAME.zip, or NAME for what is not an archive.
func (a Artifact) File() string {
	if a.MediaType == Zip && !strings.HasSuffix(strings.ToLower(a.Name), ".zip") {
		return a.Name + ".zip"
	}
	return a.Name
}

// Folder is where artifacts are kept. Several processes may use one at the same time.
type Folder struct{ Dir string }

// CheckName refuses names that are no part of a path on every system, as GitHub's own client does.
func CheckName(name string) error {
	switch {
	case name == "" || len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, and may have 1 to %d", ErrName, len(name), MaxName)
	case strings.ContainsAny(name, `":<>|*?\/`), strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf(`%w: %q has one of " : < > | * ? \ / or a control character`, ErrName, name)
	case strings.Trim(name, ". ") == "", !filepath.IsLocal(name):
		return fmt.Errorf("%w: %q leads out of the folder of artifacts, or is a device", ErrName, name)
	}
	return nil
}

func (f Folder) infoPath(name string) string { return filepath.Join(f.Dir, name+".json") }

// Path is where the content of an artifact is.
func (f Folder) Path(a Artifact) string {
	if a.MediaType == Zip {
		return filepath.Join(f.Dir, a.Name+".zip")
	}
	return filepath.Join(f.Dir, a.Name+".file")
}

// List returns all artifacts, the oldest first.
func (f Folder) List() ([]Artifact, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Artifact
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !e.Type().IsRegular() {
			continue
		}
		a, err := f.read(name)
		if err == nil {
			all = append(all, a)
		} else if !errors.Is(err, fs.ErrNotExist) { // not deleted in between
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Artifact) int { return int(a.ID - b.ID) })
	return all, nil
}

func (f Folder) read(name string) (Artifact, error) {
	var a Artifact
	info, err := os.Stat(f.infoPath(name))
	if err != nil {
		return a, err
	}
	if info.Size() > maxInfo {
		return a, fmt.Errorf("artifact %q: its description %s has %d bytes, and may have %d", name, f.infoPath(name), info.Size(), maxInfo)
	}
	text, err := os.ReadFile(f.infoPath(name))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil || a.Name != name || CheckName(name) != nil {
		return a, fmt.Errorf("artifact %q: %s does not describe it; remove the file", name, f.infoPath(name))
	}
	return a, nil
}

// Find returns the artifact of a name; fs.ErrNotExist when there is none.
func (f Folder) Find(name string) (Artifact, error) {
	if err := CheckName(name); err != nil {
		return Artifact{}, err
	}
	return f.read(name)
}

// Add moves a file into the folder. It fills in the ID and the time, and returns ErrExists where the name is taken.
func (f Folder) Add(a Artifact, file string) (Artifact, error) {
	if err := CheckName(a.Name); err != nil {
		return a, err
	}
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return a, err
	}
	all, err := f.List()
	if err != nil {
		return a, err
	}
	if len(all) >= MaxCount {
		return a, fmt.Errorf("%w: it has %d; put more files into one", ErrTooMany, len(all))
	}
	a.Created = time.Now().UTC().Truncate(time.Microsecond)
	a.ID = a.Created.UnixMicro()
	for _, other := range all {
		if other.Name == a.Name {
			return a, ErrExists
		}
		a.ID = max(a.ID, other.ID+1)
	}
	if err := moveNew(file, f.Path(a)); err != nil {
		return a, err
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return a, err
	}
	return a, wholefile.WriteText(f.infoPath(a.Name), 0o644, append(text, '\n'))
}

// Take adds the artifacts of another folder, which a job has left; their files are moved. That folder may hold anything: what does not
// describe itself, or is not what it says, is left. An artifact that exists already stays as it is; changed are the names of those that
// the job has others of.
func (f Folder) Take(from Folder, job string) (changed []string, err error) {
	entries, err := os.ReadDir(from.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var fresh []Artifact
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !e.Type().IsRegular() {
			continue
		}
		a, err := from.read(name)
		if err != nil {
			continue
		}
		switch here, err := f.Find(name); {
		case err == nil && here.Digest != a.Digest:
			changed = append(changed, name)
		case errors.Is(err, fs.ErrNotExist):
			fresh = append(fresh, a)
		}
	}
	slices.SortFunc(fresh, func(a, b Artifact) int { return cmp.Compare(a.ID, b.ID) })
	for _, a := range fresh {
		path := from.Path(a)
		size, digest, err := measure(path)
		if err != nil || size != a.Size || digest != a.Digest {
			continue
		}
		_, err = f.Add(Artifact{Name: a.Name, Size: size, Digest: digest, MediaType: a.MediaType, Job: job}, path)
		if errors.Is(err, ErrExists) {
			changed = append(changed, a.Name)
		} else if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// measure returns the size and the digest of a plain file.
func measure(path string) (size int64, digest string, err error) {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return 0, "", errors.Join(err, fs.ErrInvalid)
	}
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	sum := sha256.New()
	size, err = io.Copy(sum, file)
	return size, "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
}

// moveNew moves a file to where none is. Where the file system has links, one decides which of two processes was first.
func moveNew(from, to string) error {
	err := os.Link(from, to)
	if err == nil {
		_ = os.Chmod(to, 0o644)
		return os.Remove(from)
	}
	if _, statErr := os.Lstat(to); statErr == nil {
		return ErrExists
	}
	return copyNew(from, to)
}

// copyNew is for places on different file systems.
func copyNew(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	err = wholefile.Write(to, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
	if err != nil {
		return err
	}
	return os.Remove(from)
}

// Delete removes an artifact.
func (f Folder) Delete(a Artifact) error {
	if err := CheckName(a.Name); err != nil {
		return err
	}
	if err := os.Remove(f.infoPath(a.Name)); err != nil {
		return err
	}
	if err := os.Remove(f.Path(a)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
