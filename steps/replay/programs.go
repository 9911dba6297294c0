package replay

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// withoutPrograms leaves out which files ran as programs, and the images of containers: they are the machine's, and OtherPrograms tells of them.
func withoutPrograms(attempts []trace.Attempt) []trace.Attempt {
	out := slices.Clone(attempts)
	for i := range out {
		out[i].Program, out[i].Image = nil, nil
	}
	return out
}

// OtherPrograms are notes on the programs that were other files in the new run than in the recorded one, by what they contain, and on the images
// that containers of steps ran from.
func (r *Replay) OtherPrograms(again *trace.Trace) []string {
	var notes []string
	r.recorded.Walk(func(s *trace.Step, _ int) {
		now := again.Find(s.ID)
		if now == nil {
			return
		}
		for i := range min(len(s.Attempts), len(now.Attempts)) {
			if note := otherImage(s.Attempts[i].Image, now.Attempts[i].Image); note != "" && !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
			for a, b := s.Attempts[i].Program, now.Attempts[i].Program; a != nil && b != nil; a, b = a.Interpreter, b.Interpreter {
				if a.Digest == b.Digest || a.Digest == "" || b.Digest == "" {
					continue
				}
				note := fmt.Sprintf("%s is another program than in the recorded run: it was %s, and is %s", filepath.Base(b.Path), programText(a), programText(b))
				if !slices.Contains(notes, note) {
					notes = append(notes, note)
				}
			}
		}
	})
	return notes
}

// otherImage says that a step's container ran from another image than in the recorded run; "" is that it did not, or that it is not known.
func otherImage(was, is *containers.StepImage) string {
	if was == nil || is == nil || was.Digest == is.Digest || was.Digest == "" || is.Digest == "" {
		return ""
	}
	return fmt.Sprintf("%s is another image than in the recorded run: it was %s, and is %s", is.Name, imageText(was), imageText(is))
}

func imageText(i *containers.StepImage) string {
	if i.Pull != "" {
		return i.Pull
	}
	return i.Digest
}

// shortDigest is how much of a digest a note shows, in characters.
const shortDigest = 12

func programText(p *event.Program) string {
	digest := strings.TrimPrefix(p.Digest, "sha256:")
	version := ""
	if p.Version != "" {
		version = p.Version + ", "
	}
	return fmt.Sprintf("%s (%ssha256:%s)", p.Path, version, digest[:min(shortDigest, len(digest))])
}
