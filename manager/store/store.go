// Package store keeps what a manager has to know after it was killed: the jobs that run, and how far they are.
//
// Each job is a file that is replaced as a whole, so that what a job came to is there or not there, whatever becomes of the process, and
// what is damaged is one job. There are as many files as there are jobs at once, and they are only looked up by their names: a database
// would add nothing but a file that can break for all of them.
//
// What is in the files is sealed (AES-256-GCM), because records hold the tokens and variables of jobs. Each runner has a key of its own, which
// the store holds wrapped by the runner's token: with the configuration the records can be read, and without it they cannot. When a runner is taken from
// the configuration, its token is gone, and its jobs are not: a secret that is kept beside the configuration wraps the keys as well.
//
//	tokens/SHA-256 of a token        the runner's folder and its key, wrapped by that token
//	runners/ID/NUMBER                the sealed record of a job
//	runners/ID/next                  the sealed token of a rotation that is not in the configuration yet
//	runners/ID/settings              what the runner is, sealed
//	runners/ID/key                   its key, wrapped by the secret
//
// Where several hosts share a state, these are values of it, and not files.
package store

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/rungci/rung/internal/sharedstate"
)

const (
	// lockWait is how long another manager may have the folder.
	lockWait = 3 * time.Second
	keySize  = 32
)

// ErrInUse says that another manager has the folder.
var ErrInUse = errors.New("another manager uses this state folder")

// ErrDamaged says that a file of the store is not what was written, or was sealed by another token.
var ErrDamaged = errors.New("the file is damaged, or sealed by another token")

// Store is a folder, or a part of a shared state, that is this process's alone. Its methods are safe for concurrent use.
type Store struct {
	files  files
	unlock func()
	secret []byte     // nil: there is none
	making sync.Mutex // held while a runner is looked for, and begun
}

// Open opens the store in a folder, which is created. The secret opens the records of runners whose token is not known any more; nil: nothing does.
// The error is ErrInUse while another process has the folder.
func Open(folder string, secret []byte) (*Store, error) {
	for _, name := range []string{tokensFolder, runnersFolder} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			return nil, err
		}
	}
	unlock, err := Lock(filepath.Join(folder, "lock"))
	if err != nil {
		return nil, err
	}
	return &Store{files: inFolder(folder), unlock: unlock, secret: secret}, nil
}

// Lock locks a file of a manager's folder, until unlock is called or the process ends. The error is ErrInUse while another process has it locked.
func Lock(path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	unlock, err = lock(ctx, path)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, filepath.Dir(path))
	}
	return unlock, err
}

// Shared is a store in a state that several hosts share. The secret is the same on all of them.
func Shared(state *sharedstate.State, secret []byte) *Store {
	return &Store{files: inState{state}, unlock: func() {}, secret: secret}
}

// Beside is Rotate for a process beside the manager that may have the folder: it only adds files. A folder without records of the runner with that
// token, or none at all, is left as it is.
func Beside(folder, token string, to Next) error {
	s := &Store{files: inFolder(folder), unlock: func() {}}
	file, _, err := s.wrapping(token)
	if err != nil {
		return err
	}
	if _, err := s.files.read(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r, err := s.Runner(token)
	if err != nil {
		return err
	}
	return r.Rotate(to)
}

const (
	tokensFolder  = "tokens"
	runnersFolder = "runners"
)

// lock waits for the file until ctx ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	type result struct {
		unlock func()
		err    error
	}
	locked := make(chan result)
	go func() {
		unlock, err := lockedfile.MutexAt(path).Lock()
		select {
		case locked <- result{unlock, err}:
		case <-ctx.Done():
			if err == nil {
				unlock()
			}
		}
	}()
	select {
	case r := <-locked:
		return r.unlock, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close leaves the folder to others.
func (s *Store) Close() { s.unlock() }

// Runner is what the store has of one runner.
type Runner struct {
	store *Store
	id    string
	key   []byte
	seal  cipher.AEAD
	token string // of the token that it was found by
}

// Runner finds the records of the runner with a token, or begins them.
func (s *Store) Runner(token string) (*Runner, error) {
	file, wrap, err := s.wrapping(token)
	if err != nil {
		return nil, err
	}
	s.making.Lock()
	defer s.making.Unlock()
	r := &Runner{store: s, token: file}
	wrapped, err := s.files.read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.id, r.key = rand.Text(), make([]byte, keySize)
		_, _ = rand.Read(r.key) // never fails
		if err := s.files.begin(r.folder()); err != nil {
			return nil, err
		}
		if err = s.files.write(file, r.wrapped(wrap), true); err != nil {
			_ = s.files.remove(r.folder())
		}
	case err == nil:
		var text []byte
		if text, err = wrap.Open(nil, nil, wrapped, nil); err != nil || len(text) <= keySize {
			return nil, fmt.Errorf("%s: %w", s.files.where(file), ErrDamaged)
		}
		r.key, r.id = text[:keySize], string(text[keySize:])
	}
	if err != nil {
		return nil, err
	}
	if r.seal, err = sealing(r.key); err != nil {
		return nil, err
	}
	return r, nil
}

// ID is the same for all tokens that the runner has had.
func (r *Runner) ID() string { return r.id }

// Next is the token that a runner has from now on.
type Next struct {
	Token    string    `json:"token"`
	Obtained time.Time `json:"obtained"`
	Expires  time.Time `json:"expires"`
	Before   string    `json:"before"` // the file of the token before; Rotate sets it
}

// Rotate lets the records be read by another token as well, before that is in the configuration, and keeps the token: a process that ends before it is
// there has not lost it. Settle ends that.
func (r *Runner) Rotate(to Next) error {
	if err := r.Settle(); err != nil {
		return err
	}
	file, wrap, err := r.store.wrapping(to.Token)
	if err != nil {
		return err
	}
	to.Before = path.Base(r.token)
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	if err := r.store.files.write(file, r.wrapped(wrap), true); err != nil {
		return err
	}
	return r.store.files.write(r.next(), r.seal.Seal(nil, nil, text, []byte(nextFile)), true)
}

// Unfinished is the token of a Rotate that has not been settled; nil if there is none.
func (r *Runner) Unfinished() (*Next, error) {
	sealed, err := r.store.files.read(r.next())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := r.seal.Open(nil, nil, sealed, []byte(nextFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.store.files.where(r.next()), ErrDamaged)
	}
	var next Next
	if err := json.Unmarshal(text, &next); err != nil {
		return nil, fmt.Errorf("%s: %w", r.store.files.where(r.next()), ErrDamaged)
	}
	return &next, nil
}

// Settle ends a rotation to the token that the runner was found by, because that is in the configuration now: only that reads the records from then on.
func (r *Runner) Settle() error {
	next, err := r.Unfinished()
	if errors.Is(err, ErrDamaged) {
		return r.store.files.remove(r.next()) // the jobs are worth more
	}
	if err != nil || next == nil {
		return err
	}
	if file, _, err := r.store.wrapping(next.Token); err != nil || file != r.token {
		return err
	}
	if before := path.Base(next.Before); before != path.Base(r.token) {
		if err := r.store.files.remove(path.Join(tokensFolder, before)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return r.store.files.remove(r.next())
}

// nextFile is the sealed token of a rotation on its way, beside the records.
const nextFile = "next"

func (r *Runner) next() string { return path.Join(r.folder(), nextFile) }

func (r *Runner) wrapped(wrap cipher.AEAD) []byte {
	return wrap.Seal(nil, nil, append(append([]byte(nil), r.key...), r.id...), nil)
}

func (r *Runner) folder() string { return path.Join(runnersFolder, r.id) }

func (r *Runner) file(job int64) string { return path.Join(r.folder(), strconv.FormatInt(job, 10)) }

// Put records how far a job is. When it returns, the record outlives this process.
func (r *Runner) Put(job int64, record []byte) error {
	file := r.file(job)
	// Not synced: a job would wait for the disk several times, and what a loss of power damages has lost its environment, too.
	return r.store.files.write(file, r.seal.Seal(nil, nil, record, []byte(path.Base(file))), false)
}

// Delete removes the record of a job. One that is not there is no error.
func (r *Runner) Delete(job int64) error {
	if err := r.store.files.remove(r.file(job)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Jobs are the records of all jobs. A file that cannot be read is removed, and is among the errors of err; the others are returned.
func (r *Runner) Jobs() (map[int64][]byte, error) {
	names, err := r.store.files.list(r.folder())
	if err != nil {
		return nil, err
	}
	out := map[int64][]byte{}
	var wrong []error
	for _, name := range names {
		switch name {
		case nextFile, settingsFile, keyFile:
			continue
		}
		if strings.HasPrefix(name, keptPrefix) {
			continue
		}
		job, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			_ = r.store.files.remove(path.Join(r.folder(), name)) // a write that was cut off
			continue
		}
		data, err := r.store.files.read(r.file(job))
		if err == nil {
			if data, err = r.seal.Open(nil, nil, data, []byte(name)); err != nil {
				err = errors.Join(ErrDamaged, r.Delete(job))
			}
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the record of the job %d: %w", job, err))
			continue
		}
		out[job] = data
	}
	return out, errors.Join(wrong...)
}

// wrapping is the file of a token, and what wraps a key with it.
func (s *Store) wrapping(token string) (file string, wrap cipher.AEAD, err error) {
	sum := sha256.Sum256([]byte("rung manager " + token))
	key, err := hkdf.Key(sha256.New, []byte(token), nil, "rung manager: key of a runner's records", keySize)
	if err != nil {
		return "", nil, err
	}
	wrap, err = sealing(key)
	return path.Join(tokensFolder, hex.EncodeToString(sum[:])), wrap, err
}

func sealing(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
