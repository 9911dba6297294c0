// Package pluginstore keeps installed plugins in a folder, by name and version, each with a record of what it is:
//
//	FOLDER/NAME/VERSION/plugin        the program; plugin.exe on Windows
//	FOLDER/NAME/VERSION/plugin.json   a Record
//	FOLDER/NAME/use                   the version that is used where several will do, instead of the newest; may be missing
//	FOLDER/.new-…                     what is being installed
//
// NAME is the name of the program (group-plugin-aws), or a short name (aws) where nothing says what the plugin is for. A version is complete or not there: it
// is made elsewhere and moved into its place. A program is run by the digest in its record, see pluginhost.
package pluginstore

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
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/internal/wholefile"
)

// FolderVariable names the plugin folder.
const FolderVariable = "RUNG_PLUGIN_PATH"

const (
	recordFile = "plugin.json"
	newPrefix  = ".new-"
	// abandoned is the age at which what was being installed counts as left behind.
	abandoned = 24 * time.Hour
	// MaxSize bounds a program, in bytes.
	MaxSize = 1 << 30
	// maxRecord bounds a record, in bytes.
	maxRecord = 1 << 20
)

// Record is what there is to know of an installed plugin.
type Record struct {
	// Name is the short name, "aws"; Kind one of Kinds, or empty where nothing says what the plugin is for.
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"`
	// Version is a full version, or "sha256-…" of one that was installed by its digest and does not say its version.
	Version string `json:"version"`
	// Source is "registry/repository"; empty where it came from a folder under a name alone.
	Source string `json:"source,omitempty"`
	// Digest is that of the image or the index that was asked for, Manifest that of the image for this platform: "sha256:…".
	Digest   string `json:"digest"`
	Manifest string `json:"manifest,omitempty"`
	// SHA256 is that of the program, in hexadecimal.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"` // of the program, in bytes
	// Platform is what the program is for: "linux/amd64".
	Platform  string    `json:"platform,omitempty"`
	Installed time.Time `json:"installed"`

	folder string
}

// File is the program.
func (r *Record) File() string { return filepath.Join(r.folder, Program()) }

// Full is the name of the folder of its versions: "group-plugin-aws".
func (r *Record) Full() string {
	if r.Kind == "" {
		return r.Name
	}
	return r.Kind + "-plugin-" + r.Name
}

// Is reports whether the plugin is the one that a reference names, in some version. kind is what it is wanted for; empty: whatever.
func (r *Record) Is(ref Reference, kind string) bool {
	asked, short := Divide(ref.Name)
	return r.Name == short && (asked == "" || r.Kind == "" || r.Kind == asked) && (kind == "" || r.Kind == "" || r.Kind == kind) &&
		(ref.Source == "" || r.Source == ref.Source || strings.HasSuffix(r.Source, "/"+ref.Source))
}

// meets reports whether this is the version, or the digest, that a reference names.
func (r *Record) meets(ref Reference) bool {
	if ref.Digest != "" {
		return (r.Digest == ref.Digest || r.Manifest == ref.Digest) && (ref.Constraint == Latest || Meets(r.Version, ref.Constraint))
	}
	return ref.Constraint == Latest && !IsVersion(r.Version) || Meets(r.Version, ref.Constraint)
}

// Matches reports whether a reference means this version. A name without a version means every one.
func (r *Record) Matches(ref Reference) bool {
	return r.Is(ref, "") && (ref.Constraint == Latest && ref.Digest == "" || r.meets(ref))
}

// Program is what programs are called on this system.
func Program() string {
	if runtime.GOOS == "windows" {
		return "plugin.exe"
	}
	return "plugin"
}

// DefaultFolder is the plugin folder unless one is configured: RUNG_PLUGIN_PATH, else /var/lib/rung/plugins for root, else one of the user's. It is empty where there is no home.
func DefaultFolder(getenv func(string) string) string {
	if folder := getenv(FolderVariable); folder != "" {
		return folder
	}
	if os.Geteuid() == 0 {
		return "/var/lib/rung/plugins"
	}
	if data := getenv("XDG_DATA_HOME"); data != "" {
		return filepath.Join(data, "rung", "plugins")
	}
	if data := getenv("LocalAppData"); data != "" && runtime.GOOS == "windows" {
		return filepath.Join(data, "rung", "plugins")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "rung", "plugins")
	}
	return ""
}

// List are the plugins that are installed in a folder, by name and the newest first. What is damaged is left out, and is in the error.
func List(folder string) (all []*Record, err error) {
	names, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, name := range names {
		if !name.IsDir() || strings.HasPrefix(name.Name(), ".") {
			continue
		}
		versions, err := os.ReadDir(filepath.Join(folder, name.Name()))
		if err != nil {
			wrong = append(wrong, err)
		}
		for _, version := range versions {
			if !version.IsDir() {
				continue
			}
			r, err := read(filepath.Join(folder, name.Name(), version.Name()))
			switch {
			case err != nil && !errors.Is(err, fs.ErrNotExist): // else it is no plugin, or is being removed
				wrong = append(wrong, err)
			case err == nil && r.Full() == name.Name() && r.Version == version.Name():
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Record) int {
		return cmp.Or(strings.Compare(a.Full(), b.Full()), Compare(b.Version, a.Version))
	})
	return all, errors.Join(wrong...)
}

// read reads a record.
func read(folder string) (*Record, error) {
	file, err := os.Open(filepath.Join(folder, recordFile))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxRecord))
	if err != nil {
		return nil, err
	}
	r := &Record{folder: folder}
	if err := json.Unmarshal(text, r); err != nil || len(r.SHA256) != hex.EncodedLen(sha256.Size) {
		return nil, fmt.Errorf("the record %s of an installed plugin is damaged; remove its folder, and install the plugin again", file.Name())
	}
	return r, nil
}

// Find is the newest installed plugin that a reference names and that is of a kind; ErrNone where there is none. A name alone that means plugins of
// several registries is an error.
func Find(folder string, ref Reference, kind string) (*Record, error) {
	all, err := List(folder)
	var found *Record
	for _, r := range all {
		if !r.Is(ref, kind) || !r.meets(ref) {
			continue
		}
		switch {
		case found == nil:
			found = r
		case used(r):
			return r, err
		case used(found):
		case found.Source != r.Source && found.Source != "" && r.Source != "":
			return nil, fmt.Errorf("%s is installed from %s and from %s; write which one with its registry", ref, found.Source, r.Source)
		case Compare(r.Version, found.Version) > 0 || Compare(r.Version, found.Version) == 0 && r.Installed.After(found.Installed):
			found = r
		}
	}
	if found == nil {
		return nil, errors.Join(ErrNone, err)
	}
	return found, nil
}

// useFile names the version that is used.
const useFile = "use"

// Used is the version of a plugin that is used where several will do; empty: the newest. name is that of Record.Full.
func Used(folder, name string) string {
	text, err := os.ReadFile(filepath.Join(folder, name, useFile))
	if err != nil {
		return "" // and then the newest is
	}
	return strings.TrimSpace(string(text))
}

func used(r *Record) bool {
	return Used(filepath.Dir(filepath.Dir(r.folder)), r.Full()) == r.Version
}

// Use says that a version is used where several will do, and Unuse that the newest is again.
func Use(r *Record) error {
	return wholefile.WriteText(filepath.Join(filepath.Dir(r.folder), useFile), 0o644, []byte(r.Version+"\n"))
}

// Unuse undoes Use.
func Unuse(r *Record) error {
	err := os.Remove(filepath.Join(filepath.Dir(r.folder), useFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ConflictError says that another plugin has the name and version already.
type ConflictError struct{ There, Wanted *Record }

func (e *ConflictError) Error() string {
	if e.There.Source != e.Wanted.Source {
		return fmt.Sprintf("%s is installed from %s already, and not from %s", e.There.Full(), cmp.Or(e.There.Source, "a folder"), cmp.Or(e.Wanted.Source, "a folder"))
	}
	return fmt.Sprintf("%s %s is installed already, with other content: it is %s, and this is %s", e.There.Full(), e.There.Version, e.There.Digest, e.Wanted.Digest)
}

// Add installs a program, which open opens. It completes the record. Another plugin of the same name and version is replaced if replace says so, and is a *ConflictError
// otherwise; so is, in any case, one of the same name from another registry.
func Add(folder string, r Record, replace bool, open func() (io.ReadCloser, error)) (added *Record, err error) {
	if filepath.Base(r.Version) != r.Version || filepath.Base(r.Full()) != r.Full() || strings.HasPrefix(r.Version, ".") || strings.HasPrefix(r.Full(), ".") {
		return nil, fmt.Errorf("the plugin %q cannot have the version %q", r.Full(), r.Version)
	}
	all, err := List(folder)
	if err != nil {
		return nil, err
	}
	for _, there := range all {
		if there.Full() != r.Full() {
			continue
		}
		same := there.Version == r.Version && there.Digest == r.Digest
		if there.Source != r.Source && there.Source != "" && r.Source != "" || there.Version == r.Version && !same && !replace {
			return nil, &ConflictError{There: there, Wanted: &r}
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	clear(folder)
	temp, err := os.MkdirTemp(folder, newPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	if err := r.fill(temp, open); err != nil {
		return nil, err
	}
	r.folder = filepath.Join(folder, r.Full(), r.Version)
	return &r, place(temp, r.folder)
}

// fill writes the program and the record into a folder.
func (r *Record) fill(folder string, open func() (io.ReadCloser, error)) error {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(folder, Program()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	hash := sha256.New()
	r.Size, err = io.Copy(io.MultiWriter(out, hash), io.LimitReader(in, MaxSize+1))
	if err == nil && r.Size > MaxSize {
		err = fmt.Errorf("the program of the plugin %s is larger than %d MiB", r.Full(), MaxSize>>20)
	}
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	r.SHA256, r.Installed = hex.EncodeToString(hash.Sum(nil)), time.Now().UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, recordFile), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Chmod(folder, 0o755)
}

// place moves a folder to its place, and what is there out of the way. A version that somebody else has placed meanwhile is as good.
func place(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	old := from + ".old"
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer os.RemoveAll(old)
	err := os.Rename(from, to)
	if _, there := read(to); err != nil && there == nil {
		return nil
	}
	return err
}

// clear removes what an installation has left that was killed.
func clear(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // whoever adds something says so
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), newPrefix) && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(filepath.Join(folder, e.Name())) // the next one tries it again
		}
	}
}

// Remove uninstalls a plugin. Its record goes first: what cannot be removed whole is no plugin any more.
func Remove(r *Record) error {
	if err := os.Remove(filepath.Join(r.folder, recordFile)); err != nil {
		return err
	}
	if err := os.RemoveAll(r.folder); err != nil {
		return err
	}
	if used(r) {
		if err := Unuse(r); err != nil {
			return err
		}
	}
	_ = os.Remove(filepath.Dir(r.folder)) // if it was the last version
	return nil
}

// Check compares the program with its record.
func (r *Record) Check() error {
	in, err := os.Open(r.File())
	if err != nil {
		return err
	}
	defer in.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, in); err != nil {
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != r.SHA256 {
		return fmt.Errorf("%s was changed after it was installed: it has the SHA-256 %s, and its record %s", r.File(), sum, r.SHA256)
	}
	return nil
}
