package joblog

import (
	"errors"
	"fmt"
	"io"

	"github.com/rungci/rung/manager/gitlab"
)

// MaxRest bounds the content of a Rest, in bytes.
const MaxRest = 1 << 20

// Rest is the end of a log that is whole, without its beginning, which GitLab has.
type Rest struct {
	Offset  int64         `json:"offset"` // of Content
	Content []byte        `json:"content,omitempty"`
	Output  gitlab.Output `json:"output"` // of the whole log; zero: it is not known
}

// Size is that of the whole log.
func (r *Rest) Size() int64 { return r.Offset + int64(len(r.Content)) }

// Rest stops to send, and returns what GitLab does not have of a log that is whole.
func (s *Sender) Rest() (*Rest, error) {
	s.Stop()
	size := s.log.Size()
	if size-s.sent > MaxRest {
		return &Rest{Offset: s.sent}, fmt.Errorf("GitLab does not have the last %d bytes of the job's log; they are lost if a manager on another host has to send them", size-s.sent)
	}
	content, err := io.ReadAll(s.log.part(s.sent, MaxRest))
	if err != nil {
		return &Rest{Offset: s.sent}, fmt.Errorf("reading the job's log: %w", err)
	}
	sum, err := s.log.Checksum()
	return &Rest{Offset: s.sent, Content: content, Output: gitlab.Output{Checksum: sum, Bytesize: size}}, err
}

// Bring makes a log that is empty, or has lost its end, one that ends so. Its beginning is zeros, which GitLab is never sent, because it has its own.
func (f *File) Bring(r Rest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil || f.length() > 0 && f.length() >= r.Size() {
		return errors.New("internal error: the job's log is whole")
	}
	if err := f.file.Truncate(r.Offset); err != nil {
		return fmt.Errorf("writing the job's log: %w", err)
	}
	if _, err := f.file.WriteAt(r.Content, r.Offset); err != nil {
		return fmt.Errorf("writing the job's log: %w", err)
	}
	f.size, f.brought = r.Size(), &r
	return nil
}

// output is that of the whole log; zero: it is not known.
func (f *File) output() (gitlab.Output, error) {
	f.mu.Lock()
	brought, size := f.brought, f.length()
	f.mu.Unlock()
	if brought != nil {
		if brought.Output.Bytesize != size {
			return gitlab.Output{}, nil
		}
		return brought.Output, nil
	}
	sum, err := f.Checksum()
	return gitlab.Output{Checksum: sum, Bytesize: size}, err
}

// begins is where what is here begins: GitLab has all before it.
func (f *File) begins() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.brought == nil {
		return 0
	}
	return f.brought.Offset
}
