// Package glob matches files against patterns, in each of GitLab's dialects.
//
//   - [Find] is how a runner reads the paths of artifacts and caches: patterns of package doublestar, against the files on disk.
//   - [Changes] and [Exists] are how GitLab's server reads rules:changes and rules:exists: Ruby's File.fnmatch, against lists of files.
//   - [Wildcard] is how the server reads the file names of include:local and cache:key:files, where only stars mean something.
//
// Names are bytes. A file whose name has a line break, or is not UTF-8, is found like any other.
package glob

import "fmt"

// Reason is what a warning is about.
type Reason int

// The reasons of warnings.
const (
	NoMatch    Reason = iota + 1 // a pattern found nothing
	Outside                      // a pattern or a file is outside of the project
	Malformed                    // a pattern that cannot be read
	Git                          // part of the project's .git is among the entries
	Unreadable                   // a file or folder that is there and cannot be looked at
	BehindLink                   // entries behind a symbolic link were left out, because the link is an entry itself
)

// Warning is something that whoever wrote the patterns should know.
type Warning struct {
	Reason  Reason
	Subject string // the pattern as it is written, or the path; "" when it is about the whole
	Err     error  // what went wrong, where something did
}

// String says it in a sentence without a stop.
func (w Warning) String() string {
	switch w.Reason {
	case NoMatch:
		return fmt.Sprintf("%q: no matching files; patterns are relative to the project's folder", w.Subject)
	case Outside, Malformed:
		return fmt.Sprintf("%q is ignored: %v", w.Subject, w.Err)
	case Git:
		return "part of the project's .git folder is among the files; unpacking it elsewhere may break a repository"
	case Unreadable:
		return fmt.Sprintf("%q is left out: %v", w.Subject, w.Err)
	case BehindLink:
		return fmt.Sprintf("what is behind the symbolic link %q is left out, because the link itself is among the files", w.Subject)
	}
	return fmt.Sprintf("%q: unknown warning %d", w.Subject, w.Reason)
}
