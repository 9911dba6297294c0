package github

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rungci/rung/steps/engine"
)

// savedJob is what another process needs to go on with a job. What is not in it is found or made again.
type savedJob struct {
	Matchers []*matcher         `json:"matchers,omitempty"` // the newest first
	Subjects map[string]subject `json:"subjects,omitempty"`
	Sets     int                `json:"sets"`
	OwnToken bool               `json:"own_token,omitempty"`
	Said     []string           `json:"said,omitempty"`
	Notes    []string           `json:"notes,omitempty"`
	Server   []byte             `json:"server,omitempty"`
}

var _ engine.Movable = (*job)(nil)

// Save implements engine.Movable.
func (j *job) Save() ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := savedJob{Matchers: j.matchersNow(), Subjects: j.subjects, Sets: j.sets, OwnToken: j.ownToken.Load(), Server: j.saved}
	for words := range j.said {
		out.Said = append(out.Said, words)
	}
	slices.Sort(out.Said)
	j.notesMu.Lock()
	out.Notes = slices.Clone(j.notes)
	j.notesMu.Unlock()
	if j.server != nil {
		var err error
		if out.Server, err = j.server.Save(); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

// Restore implements engine.Movable. The server is started when something needs it.
func (j *job) Restore(saved []byte) error {
	dec := json.NewDecoder(bytes.NewReader(saved))
	dec.DisallowUnknownFields()
	var in savedJob
	if err := dec.Decode(&in); err != nil {
		return err
	}
	switch {
	case len(in.Matchers) > MaxMatchers:
		return fmt.Errorf("the job has more than %d problem matchers", MaxMatchers)
	case len(in.Subjects) > MaxSubjects:
		return fmt.Errorf("the job declares more than %d subjects", MaxSubjects)
	case in.Sets < 0:
		return errors.New("the number of file sets is less than 0")
	}
	for _, m := range in.Matchers {
		if m == nil {
			return errors.New("a matcher is null")
		}
		if err := m.check(); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.matchers.Store(&in.Matchers)
	if in.Subjects != nil {
		j.subjects = in.Subjects
	}
	j.sets, j.notes, j.saved = in.Sets, in.Notes, in.Server
	j.ownToken.Store(in.OwnToken)
	for _, words := range in.Said {
		j.said[words] = true
	}
	return nil
}
