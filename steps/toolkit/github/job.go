package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/toolkit/github/service"
)

// job is what the processes of a run share.
type job struct {
	began    time.Time                  // of the run that is done again; zero in every other one
	matchers atomic.Pointer[[]*matcher] // the newest first; replaced, never changed

	mu       sync.Mutex
	subjects map[string]subject
	free     []*fileSet      // no process has them
	sets     int             // how many were made
	server   *service.Server // nil until it is needed
	saved    []byte          // of the server in an earlier process of the run; nil when there was none, or when it serves again
	ownToken atomic.Bool     // the user has given a token of GitHub's
	nodes    map[string]int  // the major version of every node that was looked at
	said     map[string]bool // what is said once

	notesMu sync.Mutex
	notes   []string // what the server has to say

	eventOnce sync.Once
	event     string // the file that holds what triggered the workflow
	eventErr  error
}

// subject is something that a step made, as GITHUB_ARTIFACTS_LIST shows it.
type subject struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Kind   string `json:"kind"` // file or oci
}

// MaxSubjects bounds what a job can declare in GITHUB_ARTIFACTS.
const MaxSubjects = 500

// jobOf returns what the run's processes share.
func jobOf(once func(string, func() (io.Closer, error)) (io.Closer, error)) (*job, error) {
	made, err := once("the services of GitHub's actions", func() (io.Closer, error) { return newJob(), nil })
	if err != nil {
		return nil, err
	}
	return made.(*job), nil
}

func newJob() *job {
	return &job{subjects: map[string]subject{}, nodes: map[string]int{}, said: map[string]bool{}}
}

// first reports whether it is called for the first time with the words.
func (j *job) first(words ...string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := strings.Join(words, "\x00")
	before := j.said[key]
	j.said[key] = true
	return !before
}

// matchersNow returns the problem matchers in the order that they are asked in.
func (j *job) matchersNow() []*matcher {
	if all := j.matchers.Load(); all != nil {
		return *all
	}
	return nil
}

// changeMatchers takes the matchers of owners away, and puts others before the rest, the last one first.
func (j *job) changeMatchers(gone []string, added []*matcher) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := slices.Clone(added)
	slices.Reverse(all)
	for _, m := range j.matchersNow() {
		if !slices.ContainsFunc(gone, func(owner string) bool { return strings.EqualFold(owner, m.Owner) }) {
			all = append(all, m)
		}
	}
	if len(all) > MaxMatchers {
		return fmt.Errorf("the job has more than %d problem matchers", MaxMatchers)
	}
	j.matchers.Store(&all)
	return nil
}

// declare adds what a step says that it made, and returns what is new.
func (j *job) declare(declared []declaration) ([]event.Subject, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var added []event.Subject
	for _, d := range declared {
		before, known := j.subjects[d.Name]
		switch {
		case known && before.Digest != d.Digest:
			return added, fmt.Errorf("line %d: %q was declared with the digest %s before, and has %s now", d.line, d.Name, before.Digest, d.Digest)
		case known:
			continue
		case len(j.subjects) >= MaxSubjects:
			return added, fmt.Errorf("line %d: the job declares more than %d subjects", d.line, MaxSubjects)
		}
		j.subjects[d.Name] = d.subject
		added = append(added, event.Subject{Name: d.Name, Digest: d.Digest})
	}
	return added, nil
}

// subjectList is the text of GITHUB_ARTIFACTS_LIST.
func (j *job) subjectList() ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := struct {
		Version  int       `json:"version"`
		Subjects []subject `json:"subjects"`
	}{Version: 1, Subjects: []subject{}}
	for _, name := range slices.Sorted(maps.Keys(j.subjects)) {
		list.Subjects = append(list.Subjects, j.subjects[name])
	}
	return json.Marshal(list)
}

// readRegular reads a file that must be a regular one of at most limit bytes: opening a named pipe would wait for ever.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("the file is larger than %d KiB, which is the limit", limit>>10)
	}
	return data, err
}

func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder, not a regular file", filepath.Base(path))
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	return os.Open(path)
}
