package git

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/rungci/rung/steps/source/tree"
)

// The folders of a repository.
const (
	objectsDir = "objects"
	packsDir   = "objects/pack"
	// temporaryPrefix begins the names of files that are being written; git gc removes such files, too.
	temporaryPrefix = "tmp_rung_"
)

// Limits of what is read as a whole.
const (
	maxTree   = 64 << 20 // bytes of a commit, a tag or one folder's list of files
	streamed  = 8 << 20  // a file from this size on is not held in memory, where it is stored whole
	maxLinked = 16       // repositories whose objects one repository uses, too
)

// objects are the objects of a repository on this machine. They are hashed whenever they are read. Close it.
type objects struct {
	stores []*filesystem.ObjectStorage // the repository's own, then those of repositories that it borrows from
}

// damagedError says that an object is not there, or not what its name says.
type damagedError struct {
	hash plumbing.Hash
	why  string
}

func (e *damagedError) Error() string { return fmt.Sprintf("the object %s %s", e.hash, e.why) }

// openObjects opens the objects below files, whose folder on disk is dir.
func openObjects(files billy.Filesystem, dir string) (*objects, error) {
	o := &objects{}
	o.open(files)
	folders := []string{filepath.Join(dir, objectsDir)}
	for i := 0; i < len(folders); i++ {
		borrowed, err := alternates(folders[i])
		if err != nil {
			o.close()
			return nil, err
		}
		for _, folder := range borrowed {
			if filepath.Base(folder) != objectsDir {
				o.close()
				return nil, fmt.Errorf("it uses the objects in %s, which is not a repository's", folder)
			}
			folders = append(folders, folder)
			if len(folders) > maxLinked {
				o.close()
				return nil, fmt.Errorf("it uses the objects of more than %d repositories", maxLinked)
			}
			o.open(osfs.New(filepath.Dir(folder)))
		}
	}
	return o, nil
}

func (o *objects) open(files billy.Filesystem) {
	options := filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: streamed}
	o.stores = append(o.stores, filesystem.NewObjectStorageWithOptions(dotgit.New(files), cache.NewObjectLRUDefault(), options))
}

func (o *objects) close() {
	for _, s := range o.stores {
		_ = s.Close()
	}
}

// alternates returns the folders with objects that the ones in a folder build on.
func alternates(folder string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "info", "alternates"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(folder, filepath.FromSlash(line))
		}
		found = append(found, filepath.Clean(line))
	}
	return found, err
}

// find returns an object, whose content is not checked.
func (o *objects) find(h plumbing.Hash) (plumbing.EncodedObject, error) {
	for _, s := range o.stores {
		size, err := s.EncodedObjectSize(h)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		}
		if err != nil {
			return nil, &damagedError{h, "cannot be read: " + err.Error()}
		}
		if size > maxObject {
			return nil, fmt.Errorf("%w: a file of %d MiB, and %d MiB is the limit", tree.ErrLimit, size>>20, maxObject>>20)
		}
		object, err := s.EncodedObject(plumbing.AnyObject, h)
		if err != nil {
			return nil, &damagedError{h, "cannot be read: " + err.Error()}
		}
		return object, nil
	}
	return nil, &damagedError{h, "is missing"}
}

// read returns the content of an object, which is what its name says.
func (o *objects) read(h plumbing.Hash) (plumbing.ObjectType, []byte, error) {
	content, err := o.stream(h)
	if err != nil {
		return 0, nil, err
	}
	defer content.Close()
	if content.size > maxTree {
		return 0, nil, fmt.Errorf("%w: a list of files of %d MiB", tree.ErrLimit, content.size>>20)
	}
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, content); err != nil {
		return 0, nil, &damagedError{h, "cannot be read: " + err.Error()}
	}
	return content.typ, buf.Bytes(), content.check()
}

// content is an object that is being read.
type content struct {
	io.ReadCloser
	name plumbing.Hash
	typ  plumbing.ObjectType
	size int64
	sum  plumbing.Hasher
}

func (o *objects) stream(h plumbing.Hash) (*content, error) {
	object, err := o.find(h)
	if err != nil {
		return nil, err
	}
	r, err := object.Reader()
	if err != nil {
		return nil, &damagedError{h, "cannot be read: " + err.Error()}
	}
	return &content{r, h, object.Type(), object.Size(), plumbing.NewHasher(object.Type(), object.Size())}, nil
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum.Write(p[:n])
	return n, err
}

// check reports whether all that was read is what the object's name says. It is called when everything was read.
func (c *content) check() error {
	if got := c.sum.Sum(); got != c.name {
		return &damagedError{c.name, "was changed: its content is now " + got.String()}
	}
	return nil
}

// commits returns the commits whose names begin with some digits.
func (o *objects) commits(beginning string) ([]plumbing.Hash, error) {
	beginning = strings.ToLower(beginning)
	prefix, err := hex.DecodeString(beginning[:len(beginning)&^1])
	if err != nil {
		return nil, err
	}
	var found []plumbing.Hash
	for _, s := range o.stores {
		hashes, err := s.HashesWithPrefix(prefix)
		if err != nil {
			return nil, err
		}
		for _, h := range hashes {
			if !strings.HasPrefix(h.String(), beginning) {
				continue
			}
			if object, err := o.find(h); err == nil && object.Type() == plumbing.CommitObject {
				found = append(found, h)
			}
		}
	}
	return found, nil
}

// target returns what an object names: of a commit its tree, of a tag what that is about.
func (o *objects) target(h plumbing.Hash) (typ plumbing.ObjectType, target plumbing.Hash, err error) {
	typ, data, err := o.read(h)
	if err != nil {
		return typ, plumbing.ZeroHash, err
	}
	field := map[plumbing.ObjectType]string{plumbing.CommitObject: "tree ", plumbing.TagObject: "object "}[typ]
	if field == "" {
		return typ, plumbing.ZeroHash, nil
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	name, ok := bytes.CutPrefix(line, []byte(field))
	if !ok || !isCommitName(string(name)) {
		return typ, plumbing.ZeroHash, &damagedError{h, "is no " + typ.String()}
	}
	return typ, plumbing.NewHash(string(name)), nil
}
