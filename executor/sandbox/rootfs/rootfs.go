// Package rootfs keeps the file systems of images on this machine, unpacked, by digest. They come from registries, or from a folder of the
// operator with images that were saved to files. It takes root to keep the owners of their files.
//
//	FOLDER/images/DIGEST/root          the files of an image; nothing changes them afterwards
//	FOLDER/images/DIGEST/image.json    how it is run
//	FOLDER/names/DIGEST                what a name meant lately: the digest of an image
//	FOLDER/new-…                       what is being unpacked
package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

const (
	// abandoned is the age at which what was being unpacked counts as left behind.
	abandoned = 24 * time.Hour
	// maxRecord bounds the files beside a root, in bytes.
	maxRecord = 8 << 20
)

// Store is a folder with images. Its methods are safe for concurrent use, by several processes too.
type Store struct {
	// Folder is where images are kept; only its owner may enter it, since it holds programs with the set-user-ID bit.
	Folder string
	// Saved is the operator's folder with images in files: NAME.tar as docker save and skopeo write them, or a folder NAME that is an OCI
	// layout or a root. Empty is none. It comes before registries.
	Saved string
}

// Config says how an image is run.
type Config struct {
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	User         string              `json:"User,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"` // "8080/tcp"
}

// Image is an image whose files are here.
type Image struct {
	Root   string // the folder with its files
	ID     string // "sha256:…"; empty for a folder of the operator's
	Pull   string // the name by which its registry serves the same; empty if it has none
	Config Config
	// Unpacked says that this call has put its files here.
	Unpacked bool
}

// Request names an image.
type Request struct {
	Name     string
	Platform string // as "linux/arm64"; empty is this machine's
	// Username and Password are for its registry, see distribution.Credentials.
	Username, Password string
}

// record is what is kept beside a root.
type record struct {
	// Version is recordVersion. What another one wrote is made again, as it may lack something.
	Version int    `json:"version"`
	Pull    string `json:"pull,omitempty"`
	Config  Config `json:"config"`
}

const recordVersion = 2

// recordName is its file.
const recordName = "image.json"

// Find returns an image that is here; nil if none is.
func (s *Store) Find(ctx context.Context, r Request) (*Image, error) {
	if it, err := s.fromFiles(ctx, r); it != nil || err != nil {
		return it, err
	}
	digest, err := readBounded(s.nameFile(r))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.open(distribution.Digest(digest))
}

// nameFile is where the digest is that a name meant lately.
func (s *Store) nameFile(r Request) string {
	sum := sha256.Sum256([]byte(r.Name + "\x00" + r.Platform))
	return filepath.Join(s.Folder, "names", hex.EncodeToString(sum[:]))
}

// open returns the image with a digest; nil if it is not here.
func (s *Store) open(digest distribution.Digest) (*Image, error) {
	if err := digest.Validate(); err != nil {
		return nil, nil // damaged: it is fetched again
	}
	dir := s.folderOf(digest)
	text, err := readBounded(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is kept of the image %s: %w; remove %s", digest, err, dir)
	}
	if r.Version != recordVersion {
		return nil, nil
	}
	return &Image{Root: filepath.Join(dir, "root"), ID: digest.String(), Pull: r.Pull, Config: r.Config}, nil
}

func (s *Store) folderOf(digest distribution.Digest) string {
	return filepath.Join(s.Folder, "images", digest.Hex())
}

// keep makes the image with a digest, unless it is here already. fill unpacks it into a new root, and completes the record of it; scratch is a
// folder for what it needs meanwhile.
func (s *Store) keep(ctx context.Context, digest distribution.Digest, r *record, fill func(ctx context.Context, root, scratch string) error) (*Image, error) {
	if it, err := s.open(digest); it != nil || err != nil {
		return it, err
	}
	images := filepath.Join(s.Folder, "images")
	if err := errors.Join(os.MkdirAll(s.Folder, 0o700), os.MkdirAll(images, 0o700)); err != nil {
		return nil, err
	}
	s.removeAbandoned()
	work, err := os.MkdirTemp(s.Folder, "new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	made, root, scratch := filepath.Join(work, "image"), filepath.Join(work, "image", "root"), filepath.Join(work, "scratch")
	for _, dir := range []string{made, root, scratch} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if err := fill(ctx, root, scratch); err != nil {
		return nil, err
	}
	if err := Furnish(root); err != nil {
		return nil, err
	}
	r.Version = recordVersion
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(made, recordName), text, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(made, s.folderOf(digest)); err != nil {
		it, openErr := s.open(digest)
		if it != nil && openErr == nil { // another process was faster
			return it, nil
		}
		// The files are here, with a record of another version.
		if openErr != nil || os.Rename(filepath.Join(made, recordName), filepath.Join(s.folderOf(digest), recordName)) != nil {
			return nil, err
		}
	}
	it, err := s.open(digest)
	if it != nil {
		it.Unpacked = true
	}
	return it, err
}

// removeAbandoned removes what a killed process was unpacking.
func (s *Store) removeAbandoned() {
	found, _ := filepath.Glob(filepath.Join(s.Folder, "new-*"))
	for _, dir := range found {
		if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(dir)
		}
	}
}

// remember keeps what a name means.
func (s *Store) remember(r Request, digest distribution.Digest) error {
	file := s.nameFile(r)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return wholefile.WriteText(file, 0o600, []byte(digest))
}

func readBounded(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxRecord {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxRecord)
	}
	return os.ReadFile(file)
}

// Platform is the platform that a request asks for. The error is the user's.
func (r Request) platform() (oci.Platform, error) {
	if r.Platform == "" {
		return oci.Host(), nil
	}
	return oci.ParsePlatform(r.Platform)
}

// isLocalName reports whether a name can be that of a file below a folder.
func isLocalName(name string) bool {
	return filepath.IsLocal(name) && !strings.HasPrefix(name, ".")
}
