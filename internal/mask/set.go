package mask

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Replacement is what a secret becomes.
const Replacement = "[MASKED]"

// MinLength is the length in bytes, not counting line breaks and surrounding white space, from which a secret is masked.
// Shorter values occur in ordinary text all the time: masking them would destroy the log and tell the value by its gaps.
const MinLength = 4

// space is what does not belong to a secret at its ends.
const space = " \t\n\v\f\r"

// Set holds the secrets of a run. It is safe for concurrent use and it grows while the run goes on.
type Set struct {
	mu      sync.Mutex
	secrets map[string]struct{}

	// current is what the secrets compile to, or nil when secrets were added since. It is compiled when it is next needed,
	// so that adding many secrets one by one costs no more than adding them together.
	current atomic.Pointer[matcher]
	last    *matcher // the latest of them
	fresh   []string // secrets that are not compiled yet
	parts   []part   // the others, the larger parts first
}

// part is secrets that are compiled together. Sizes of parts at least double, so that a log in which text and new secrets take turns
// costs each secret a few compilations and not one for every secret after it.
type part struct {
	secrets  []string
	patterns []pattern // what they are searched as, sorted; nil where that is more than is worth keeping
	matcher  *matcher
}

// maxPatterns is how many patterns a part keeps, so that it can be compiled with others without making them again.
const maxPatterns = 1 << 16

// NewSet returns a set of the given secrets.
func NewSet(secrets ...string) *Set {
	s := &Set{secrets: make(map[string]struct{}, len(secrets))}
	s.Add(secrets...)
	return s
}

// Add adds secrets to the set. Writers that are already open mask them in whatever is written from now on. Values that
// are shorter than [MinLength] are left out.
func (s *Set) Add(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range secrets {
		if !Maskable(secret) {
			continue
		}
		secret = strings.Trim(secret, space)
		if _, known := s.secrets[secret]; known {
			continue
		}
		secret = strings.Clone(secret) // a secret is often a small piece of a large document
		s.secrets[secret] = struct{}{}
		s.fresh = append(s.fresh, secret)
		s.current.Store(nil)
	}
}

// Maskable reports whether a secret is long enough to be masked.
func Maskable(secret string) bool {
	return len(withoutBreaks(strings.Trim(secret, space))) >= MinLength
}

// Len returns the number of different secrets that are masked.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets)
}

// matcher returns the compiled form of all secrets added so far.
func (s *Set) matcher() *matcher {
	if m := s.current.Load(); m != nil {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.current.Load(); m != nil {
		return m
	}
	m := s.compile()
	s.current.Store(m)
	return m
}

// compile takes in what is fresh, together with the parts that are no larger.
func (s *Set) compile() *matcher {
	secrets, all := s.fresh, sorted(s.fresh)
	s.fresh = nil
	for last := len(s.parts) - 1; last >= 0 && len(s.parts[last].secrets) <= len(secrets); last-- {
		p := s.parts[last]
		if p.patterns == nil {
			p.patterns = sorted(p.secrets)
		}
		secrets, all = append(secrets, p.secrets...), merge(all, p.patterns)
		s.parts = s.parts[:last]
	}
	p := part{secrets: secrets, matcher: compile(all)}
	if len(all) <= maxPatterns {
		p.patterns = all
	}
	s.parts = append(s.parts, p)
	matchers := make([]*matcher, len(s.parts))
	for i, p := range s.parts {
		matchers[i] = p.matcher
	}
	s.last = join(matchers, s.last, all)
	return s.last
}

// writers keeps the working memory of String between calls.
var writers = sync.Pool{New: func() any { return new(Writer) }}

// String returns the text with all secrets replaced. A text without secrets is returned as it is, without a copy.
func (s *Set) String(text string) string {
	m := s.matcher()
	if len(m.prefixes) == 0 || len(text) < MinLength {
		return text
	}
	w := writers.Get().(*Writer)
	defer writers.Put(w)
	w.emit = func([]byte) {}
	if w.whole(m, text); !w.replaced {
		return text
	}
	masked := make([]byte, 0, len(text)+len(Replacement))
	w.emit = func(p []byte) { masked = append(masked, p...) }
	w.whole(m, text)
	w.emit = nil
	return string(masked)
}
