package provenance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/trace"
)

// ConflictError says that what the steps of a run say they made cannot be signed, whoever signs.
type ConflictError struct{ Reason string }

func (e *ConflictError) Error() string { return e.Reason }

func conflict(format string, args ...any) error {
	return &ConflictError{Reason: fmt.Sprintf(format, args...)}
}

// madeBySteps returns what the steps say that they made, by name. Of a step that ran several times, because its list is retried, the last
// time counts.
func madeBySteps(t *trace.Trace) ([]File, error) {
	last := map[string]*trace.Step{}
	t.Walk(func(s *trace.Step, _ int) { last[withoutRounds(s.ID)] = s })
	made, by := map[string]string{}, map[string]string{}
	var err error
	t.Walk(func(s *trace.Step, _ int) {
		for _, subject := range s.Subjects {
			step := cmp.Or(s.Title, s.Name)
			switch known, ok := made[subject.Name]; {
			case last[withoutRounds(s.ID)] != s || err != nil:
			case subject.Name == "" || !isSHA256(subject.Digest):
				err = conflict("the step %q says that it made %q with the digest %q, which is not a name with a SHA-256", step, subject.Name, subject.Digest)
			case ok && known != subject.Digest:
				err = conflict("the steps %q and %q say that they made %s, with two contents: %s and %s; give each a name of its own",
					by[subject.Name], step, subject.Name, known, subject.Digest)
			default:
				made[subject.Name], by[subject.Name] = subject.Digest, step
			}
		}
	})
	var files []File
	for _, name := range slices.Sorted(maps.Keys(made)) {
		files = append(files, File{Name: name, SHA256: strings.TrimPrefix(made[name], "sha256:")})
	}
	return files, err
}

// isSHA256 reports whether a digest is "sha256:" and 64 digits of lower-case hexadecimal.
func isSHA256(digest string) bool {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	return ok && len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == ""
}

// withoutRounds is the ID that a step has whenever its list runs.
func withoutRounds(id string) string {
	parts := strings.Split(id, ".")
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, "#")
	}
	return strings.Join(parts, ".")
}
