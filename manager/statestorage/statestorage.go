// Package statestorage opens the state that managers on several hosts share, as [state_storage] says.
package statestorage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/internal/kubestate"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/manager/cachestore/s3"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/store"
)

// KeyVariable is the variable of the environment with the key, if the configuration names no file.
const KeyVariable = "RUNG_STATE_KEY"

// The files of this host's part, in the state folder.
const (
	lockFile   = "shared.lock"
	holderFile = "shared.holder"
	// maxKey bounds the key, in bytes.
	maxKey = 4096
)

// ErrConfiguration is wrapped by errors about [state_storage].
var ErrConfiguration = errors.New("[state_storage] of the configuration cannot be used")

// ErrKey says that other managers have another key.
var ErrKey = sharedstate.ErrKey

// Waiting is for what Open waits.
type Waiting = sharedstate.Waiting

// State is the state, while this manager has it.
type State struct {
	*sharedstate.State
	// Secret is of the state, and the same on all hosts.
	Secret []byte
	unlock func()
}

// Options are those of Open.
type Options struct {
	Config config.StateStorage
	// Folder is this manager's state folder. One process at a time can have it.
	Folder string
	Getenv func(string) string
	Log    *slog.Logger
	// OnLost is that of sharedstate.Options.
	OnLost func(why error)
	// OnWait is that of sharedstate.Options. The folder is this process's when it is called.
	OnWait func(Waiting)
}

// Open waits until no other manager has the state, and takes it over. Errors wrap ErrConfiguration, or store.ErrInUse if another process has the folder.
func Open(ctx context.Context, o Options) (*State, error) {
	key, err := readKey(o.Config.KeyFile, o.Getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	where, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, &store.FolderError{Folder: o.Folder, Err: err}
	}
	unlock, err := store.Lock(filepath.Join(o.Folder, lockFile))
	if errors.Is(err, store.ErrInUse) {
		return nil, err
	}
	if err != nil {
		return nil, &store.FolderError{Folder: o.Folder, Err: err}
	}
	state, err := acquire(ctx, o, key, where)
	if err != nil {
		unlock()
		return nil, err
	}
	return &State{State: state, Secret: key, unlock: unlock}, nil
}

// place is where the state is.
type place struct {
	sharedstate.Objects
	maxState int // bytes; 0: whatever is possible
}

// open reads where the state is. Nothing is asked.
func open(o Options) (p place, err error) {
	bucket, k := o.Config.S3.BucketName != "", o.Config.Kubernetes
	switch {
	case bucket && k != config.StateKubernetes{}:
		return p, errors.New("there are [state_storage.s3] and [state_storage.kubernetes], and the state is in one place; remove one of them")
	case bucket:
		if p.Objects, err = s3.NewObjects(o.Config.S3, o.Config.Prefix); err != nil {
			return p, fmt.Errorf("[state_storage.s3]: %w", err)
		}
		return p, nil
	case k.Namespace != "":
		access := kube.Access{Kubeconfig: k.Kubeconfig, Context: k.Context}
		objects, err := kubestate.New(kubestate.Options{Access: access, Env: []string{"KUBECONFIG=" + o.Getenv("KUBECONFIG")}, Namespace: k.Namespace, Name: o.Config.Prefix})
		if err != nil {
			return p, fmt.Errorf("[state_storage.kubernetes]: %w", err)
		}
		return place{objects, kubestate.MaxState}, nil
	case k != config.StateKubernetes{}:
		return p, errors.New("namespace in [state_storage.kubernetes] is missing")
	}
	return p, errors.New("BucketName in [state_storage.s3] is missing, or namespace in [state_storage.kubernetes]")
}

func acquire(ctx context.Context, o Options, key []byte, where place) (*sharedstate.State, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(o.Folder)
	if err != nil {
		return nil, err
	}
	holder, err := holderOf(filepath.Join(o.Folder, holderFile))
	if err != nil {
		return nil, &store.FolderError{Folder: o.Folder, Err: err}
	}
	state, err := sharedstate.Acquire(ctx, sharedstate.Options{
		Objects: where.Objects, MaxState: where.maxState, Key: key, Holder: holder + " on " + host, Name: fmt.Sprintf("of %s on %s", folder, host),
		Lease: cmp.Or(o.Config.Lease, sharedstate.DefaultLease), Log: o.Log, OnLost: o.OnLost, OnWait: o.OnWait,
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	return state, err
}

// readKey reads the key that seals the state.
func readKey(file string, getenv func(string) string) ([]byte, error) {
	text := getenv(KeyVariable)
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("key_file: %w", err)
		}
		text = string(content)
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, fmt.Errorf("there is no key: set key_file, or the variable %s, to the output of `openssl rand -base64 32`, the same on all hosts", KeyVariable)
	case len(text) > maxKey:
		return nil, fmt.Errorf("the key has more than %d bytes", maxKey)
	}
	return []byte(text), nil
}

// holderOf is what tells this folder from those of other hosts. It is made once.
func holderOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if id := strings.TrimSpace(string(text)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	id := rand.Text()
	return id, wholefile.WriteSynced(file, 0o600, []byte(id+"\n"))
}

// Close gives the state to others.
func (s *State) Close() error {
	defer s.unlock()
	return s.State.Close()
}
