package container

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

const (
	// MaxSaid is how much is kept of what a container says, in bytes.
	MaxSaid = 4 << 10
	// listening is what the step-runner says when it does.
	listening = "step-runner is listening on "
)

// Said keeps the end of what a container or a sandbox says, and tells when the step-runner in it listens. The zero value is ready for use.
type Said struct {
	mu    sync.Mutex
	text  []byte
	ready chan struct{} // closed when the step-runner listens; nil if nobody waits for it
	heard bool
	cut   bool // something was said before text
}

// Ready is closed when the step-runner listens. It is called before anything is said.
func (s *Said) Ready() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready == nil {
		s.ready = make(chan struct{})
	}
	return s.ready
}

// Write implements io.Writer.
func (s *Said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	if s.ready != nil && !s.heard && bytes.Contains(s.text, []byte(listening)) {
		s.heard = true
		close(s.ready)
	}
	if extra := len(s.text) - MaxSaid; extra > 0 {
		s.text, s.cut = append(s.text[:0], s.text[extra:]...), true
	}
	return len(p), nil
}

// String is what was said, without white space around it. It begins with a whole line, if there is one: of a secret that is cut at its
// beginning, no mask knows the rest.
func (s *Said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimSpace(string(s.text))
	if _, whole, more := strings.Cut(text, "\n"); s.cut && more {
		return whole
	}
	return text
}

// LastWords are what an error ends with that tells why the step-runner has; they are empty if nothing else was said than that it listens.
func (s *Said) LastWords() string {
	said := s.String()
	if said == "" || strings.HasPrefix(said, listening) {
		return ""
	}
	return "; its last words:\n" + said
}

// ReportEntrypoint reports what the image's entrypoint said before it ran the step-runner, which may have told on one stream or on two that it listens.
func (s *Said) ReportEntrypoint(report executor.Reporter, image string) {
	before, after, _ := strings.Cut(s.String(), listening)
	if _, after, _ = strings.Cut(after, "\n"); strings.Contains(after, listening) {
		other, _, _ := strings.Cut(after, listening)
		before += other
	}
	if before = strings.TrimSpace(before); before == "" {
		return
	}
	for line := range strings.SplitSeq(before, "\n") {
		report.Say(event.PhaseStarting, image, strings.TrimRight(line, "\r"))
	}
}

// ReportService reports what a service said, without the secrets of its job.
func (s *Said) ReportService(report executor.Reporter, service *containers.Service, secrets []string) {
	text := s.String()
	if text == "" {
		report.Say(event.PhaseServices, service.Name, fmt.Sprintf("service %s has said nothing", service.Name))
		return
	}
	for line := range strings.SplitSeq(mask.NewSet(secrets...).String(text), "\n") {
		report.Say(event.PhaseServices, service.Name, fmt.Sprintf("%s: %s", service.Name, strings.TrimRight(line, "\r")))
	}
}

var _ io.Writer = (*Said)(nil)
