package store

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
)

// What makes a runner's jobs readable when its token is not known any more, beside their records.
const (
	settingsFile = "settings" // sealed: what the runner was
	keyFile      = "key"      // the runner's key, wrapped by the secret
	keptPrefix   = "kept-"    // sealed: what is kept under a name
)

// KeepSettings keeps what a runner is, so that Left finds it. It does nothing in a store without a secret.
func (r *Runner) KeepSettings(settings []byte) error {
	if r.store.secret == nil {
		return nil
	}
	wrap, err := r.store.keyWrap()
	if err != nil {
		return err
	}
	if err := r.store.files.write(path.Join(r.folder(), keyFile), wrap.Seal(nil, nil, r.key, []byte(r.id)), false); err != nil {
		return err
	}
	return r.store.files.write(path.Join(r.folder(), settingsFile), r.seal.Seal(nil, nil, settings, []byte(settingsFile)), false)
}

// Settings are those that were kept last.
func (r *Runner) Settings() ([]byte, error) {
	file := path.Join(r.folder(), settingsFile)
	sealed, err := r.store.files.read(file)
	if err != nil {
		return nil, err
	}
	settings, err := r.seal.Open(nil, nil, sealed, []byte(settingsFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.store.files.where(file), ErrDamaged)
	}
	return settings, nil
}

// Keep keeps something of the runner under a name, which is that of a file, in place of what was there.
func (r *Runner) Keep(name string, text []byte) error {
	name = keptPrefix + name
	return r.store.files.write(path.Join(r.folder(), name), r.seal.Seal(nil, nil, text, []byte(name)), false)
}

// Kept is what was kept last under a name; nil: nothing was.
func (r *Runner) Kept(name string) ([]byte, error) {
	name = keptPrefix + name
	file := path.Join(r.folder(), name)
	sealed, err := r.store.files.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := r.seal.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.store.files.where(file), ErrDamaged)
	}
	return text, nil
}

// Left are the runners whose ID is not known, with jobs or with what else they have left: they have been taken from the configuration. The error is about
// those that cannot be read.
func (s *Store) Left(known, other func(id string) bool) (left []*Runner, err error) {
	folders, err := s.files.list(runnersFolder)
	if err != nil {
		return nil, err
	}
	var unread []error
	for _, folder := range folders {
		r := &Runner{store: s, id: folder}
		if known(r.id) {
			continue
		}
		jobs, err := r.count()
		if err == nil && (jobs > 0 || other(r.id)) {
			if err = r.open(); err == nil {
				left = append(left, r)
			}
		}
		if err != nil {
			unread = append(unread, fmt.Errorf("%d records of jobs in %s: %w", jobs, s.files.where(r.folder()), err))
		}
	}
	return left, errors.Join(unread...)
}

// count is how many records of jobs there are.
func (r *Runner) count() (int, error) {
	names, err := r.store.files.list(r.folder())
	n := 0
	for _, name := range names {
		if _, err := strconv.ParseInt(name, 10, 64); err == nil {
			n++
		}
	}
	return n, err
}

// open reads the runner's key by the secret.
func (r *Runner) open() error {
	if r.store.secret == nil {
		return errors.New("there is no secret beside the configuration that opens them")
	}
	wrapped, err := r.store.files.read(path.Join(r.folder(), keyFile))
	if err != nil {
		return err
	}
	wrap, err := r.store.keyWrap()
	if err != nil {
		return err
	}
	if r.key, err = wrap.Open(nil, nil, wrapped, []byte(r.id)); err != nil {
		return fmt.Errorf("they are sealed by another secret: %w", ErrDamaged)
	}
	r.seal, err = sealing(r.key)
	return err
}

// keyWrap wraps keys of runners with the secret.
func (s *Store) keyWrap() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, s.secret, nil, "rung manager: keys of runners", keySize)
	if err != nil {
		return nil, err
	}
	return sealing(key)
}
