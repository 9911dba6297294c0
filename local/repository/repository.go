// Package repository describes what a pipeline on this machine runs for: the Git repository around a folder, and what would have
// started the pipeline.
//
//	Open ──> Repository: root, commit, branch, remote, user      three git processes, at the same time
//	           │  Facts(Event) ──> Facts: when.Pipeline, predefined variables, what changed
//	           │  Files, Read: what the project holds, uncommitted files too
//	           '  CacheKeys: cachekey.Repository
//
// The project is the work tree as it is, and not only what is committed: that is what a person wants to try. What cannot be found
// out (no repository, no git, no commit, no remote) gets a value that makes sense, and a line in Notes that says so.
package repository

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/internal/worktree"
)

// Repository is what is known of a project. Its fields do not change after Open, and its methods are safe for concurrent use.
type Repository struct {
	// Root is the top of the work tree, an absolute path of this system. Without a repository it is the folder itself.
	Root string
	// Git says that there is a repository, and a git program to ask about it.
	Git bool
	// NoGit says that it is a repository all the same, but that no program is there to ask: git is not in PATH.
	NoGit bool
	// Shallow says that the history ends somewhere, because it was not fetched whole.
	Shallow bool
	// ObjectFormat is sha1 or sha256.
	ObjectFormat string
	// Commit is what is checked out; nil where there is no commit.
	Commit *Commit
	// Branch is the branch that is checked out; "" when HEAD is detached.
	Branch string
	// Tags are the tags of the commit, the highest version first.
	Tags []string
	// DefaultBranch is that of the remote, or the best guess.
	DefaultBranch string
	// Remote is the name of the remote that stands for the project's GitLab; "" when there is none. RemoteURL is its URL without
	// credentials.
	Remote, RemoteURL string
	// Server is the GitLab that the project is on, and Project the project's path there.
	Server  Server
	Project Project
	User    User
	// Excludes is the user's own file of patterns that Git ignores (core.excludesFile); "" when there is none.
	Excludes string
	// Notes say what could not be found out, and what is taken instead: a sentence each, without a stop.
	Notes []string

	env        []string
	upstream   bool   // the branch has one
	originHead string // the full name of what origin/HEAD is
	branches   map[string]bool

	mu       sync.Mutex
	listing  *listing
	changes  map[string][]string // by commit
	modified map[string]bool     // tracked files that are not as in the index
	texts    map[string]string   // what git said that does not change, by question
}

// Commit is a commit.
type Commit struct {
	SHA, ShortSHA string // the short one has eight digits, as on GitLab
	Parent        string // the first one; "" for a root commit, and where the history ends
	Author        string // Name <email>
	Timestamp     time.Time
	Title         string // the first line of the message
	Description   string // the rest; the whole message when the title is long
	Message       string
}

// Server is where a GitLab is reached.
type Server struct {
	Protocol string // https or http
	Host     string
	Port     string // always set
	SSHHost  string
	SSHPort  string
}

// FQDN is the host, with its port where that is not the protocol's own.
func (s Server) FQDN() string {
	if s.Port == defaultPorts[s.Protocol] {
		return bracketed(s.Host)
	}
	return bracketed(s.Host) + ":" + s.Port
}

// URL is the address of the server, without a slash at its end.
func (s Server) URL() string { return s.Protocol + "://" + s.FQDN() }

// bracketed is a host as URLs have it: IPv6 addresses stand in brackets.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// Project is a project's full path on its server: group/subgroup/name.
type Project string

// Name is the last part of the path.
func (p Project) Name() string { return path.Base(string(p)) }

// Namespace is all before the name.
func (p Project) Namespace() string {
	if dir := path.Dir(string(p)); dir != "." {
		return dir
	}
	return ""
}

// RootNamespace is the first part of the namespace.
func (p Project) RootNamespace() string {
	root, _, _ := strings.Cut(p.Namespace(), "/")
	return root
}

// User is the person at this machine.
type User struct {
	Login, Name, Email string
}

// Tag is the first of Tags, "" when the commit has none.
func (r *Repository) Tag() string {
	if len(r.Tags) == 0 {
		return ""
	}
	return r.Tags[0]
}

// Protected reports whether a branch is one that GitLab protects when nobody says otherwise: the default branch.
func (r *Repository) Protected(branch string) bool {
	return branch != "" && branch == r.DefaultBranch
}

// SHA is the commit's name, or as many zeros where there is no commit.
func (r *Repository) SHA() string {
	if r.Commit != nil {
		return r.Commit.SHA
	}
	return r.zeros()
}

// zeros is the name that Git gives no object.
func (r *Repository) zeros() string {
	if r.ObjectFormat == "sha256" {
		return strings.Repeat("0", 64)
	}
	return strings.Repeat("0", 40)
}

// Open finds out about the project that dir is in. Env is the environment that git runs in, and says who the user is. The error
// is about the folder itself, or that of ctx; that there is no repository is none.
func Open(ctx context.Context, dir string, env []string) (*Repository, error) {
	r, err := newRepository(dir, env)
	if err != nil {
		return nil, err
	}
	if err := worktree.Check(r.Root); err != nil {
		refused := answer{err: err}
		opening{r}.take(ctx, &answers{refused, refused, refused})
		return r, nil
	}
	answers := opening{r}.ask(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	opening{r}.take(ctx, answers)
	return r, nil
}

// note adds a sentence.
func (r *Repository) note(text string) { r.Notes = append(r.Notes, text) }
