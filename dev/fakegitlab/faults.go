package fakegitlab

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/manager/gitlab"
)

// Faults are ways in which the runner API fails, by their names.
type Faults []string

// The faults: what GitLab, and what is before it, does to runners.
const (
	tooMany   = "429"  // too many requests, try again in a second
	otherPart = "416"  // a part of a log is not the one that comes next
	notYet    = "202"  // the end of a job is taken when the log has been stored
	slow      = "slow" // an answer takes up to two seconds
	dropped   = "drop" // a connection ends before or after a request was worked on
)

// FaultNames are all of them.
func FaultNames() []string { return []string{tooMany, otherPart, notYet, slow, dropped} }

// ParseFaults reads a list with commas.
func ParseFaults(text string) (Faults, error) {
	var out Faults
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
		case !slices.Contains(FaultNames(), name):
			return nil, fmt.Errorf("there is no fault %q; there are %s", name, strings.Join(FaultNames(), ", "))
		default:
			out = append(out, name)
		}
	}
	return out, nil
}

// Migrations is Options.Migrations for the faults.
func (f Faults) Migrations() int {
	if slices.Contains(f, notYet) {
		return 2
	}
	return 0
}

const (
	// faultOdds is one in how many requests fails.
	faultOdds = 4
	// maxSlow is how long a slow answer takes at most.
	maxSlow = 2 * time.Second
)

// Break lets the runner API fail. The same seed makes the same choices for the same requests in the same order; 0 takes one that is
// returned. No endpoint fails twice in a row, so that a runner that tries again comes through.
func (s *Server) Break(f Faults, seed uint64) uint64 {
	if seed == 0 {
		seed = rand.Uint64N(1e6) + 1
	}
	b := &breaker{faults: slices.DeleteFunc(slices.Clone(f), func(name string) bool { return name == notYet }), last: map[string]bool{}}
	b.random = rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // it is to be the same again
	if len(b.faults) > 0 {
		s.api.Break(b.answer)
	}
	return seed
}

type breaker struct {
	faults Faults

	mu     sync.Mutex
	random *rand.Rand
	last   map[string]bool // endpoints whose last request failed
}

// choose says which fault a request gets, "" for none, and a number for its size.
func (b *breaker) choose(endpoint string) (fault string, size float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hit, n, size := b.random.IntN(faultOdds) == 0, b.random.IntN(len(b.faults)), b.random.Float64()
	if !hit || b.last[endpoint] {
		b.last[endpoint] = false
		return "", 0
	}
	b.last[endpoint] = true
	return b.faults[n], size
}

// answer is a gitlabtest.Breaker.
func (b *breaker) answer(w http.ResponseWriter, r *http.Request, works http.Handler) bool {
	endpoint := r.Method + " " + gitlab.Endpoint(strings.TrimPrefix(r.URL.Path, "/api/v4"))
	fault, size := b.choose(endpoint)
	switch fault {
	case tooMany:
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"message":"429 Too Many Requests, on purpose"}`))
		return true
	case otherPart:
		if r.Method != http.MethodPatch {
			return false
		}
		r.Header.Set("Content-Range", fmt.Sprintf("%d-%d", 1<<40, int64(1<<40)+r.ContentLength-1)) // beyond what it has
		return false
	case slow:
		time.Sleep(time.Duration(size * float64(maxSlow)))
		return false
	case dropped:
		if size < 0.5 && endpoint != "POST /jobs/request" { // a job that was handed out would be nobody's
			works.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	}
	return false
}
