package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/internal/gitquery"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/source"
)

// Limits of what git may print, in bytes. That of output is reached by repositories with several million files.
const (
	maxOutput = 512 << 20
	maxErrors = 16 << 10
)

// grace is how long git may take to end when nobody waits for its answer any more.
const grace = time.Second

// patience is how long git has to answer: far longer than it takes to look at every file of a large work tree on a slow disk. A stranger's repository can
// make it wait for ever.
const patience = 2 * time.Minute

// inherited are the variables that tie git to one repository. They are set in hooks, and would make it answer for that repository
// whatever the folder is.
var inherited = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_LITERAL_PATHSPECS",
	"GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_CONFIG", "LC_ALL"}

// gitEnvironment is the environment that git runs in: it asks nobody, changes nothing, and says what is wrong in English.
func gitEnvironment(env []string) []string {
	out := make([]string, 0, len(env)+3)
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if !contains(inherited, name) {
			out = append(out, v)
		}
	}
	return gitquery.Environment(append(out, "LC_ALL=C"))
}

func contains(list []string, text string) bool {
	for _, s := range list {
		if s == text {
			return true
		}
	}
	return false
}

// gitError says that git did not do what it was asked to.
type gitError struct {
	command string // its subcommand
	code    int
	said    string // the last line, without credentials
}

func (e *gitError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("git %s ended with exit code %d", e.command, e.code)
	}
	return fmt.Sprintf("git %s: %s", e.command, e.said)
}

// buffer keeps what is written to it, up to a limit.
type buffer struct {
	bytes.Buffer
	limit int
	over  bool
}

func (b *buffer) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); len(p) > room {
		b.over = true
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// git runs git in the project's folder and returns what it printed, also where the error says that it failed.
func (r *Repository) git(ctx context.Context, args ...string) (string, error) {
	return r.gitWith(ctx, nil, args...)
}

// gitWith is git with more options before the subcommand.
func (r *Repository) gitWith(ctx context.Context, options []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("git %s did not end within %s: run it in %s to see what it waits for", args[0], patience, r.Root))
	defer cancel()
	out, said := &buffer{limit: maxOutput}, &buffer{limit: maxErrors}
	result, err := process.Run(ctx, nil, process.Spec{
		Args:   slices.Concat(gitquery.Command("--literal-pathspecs", "-c", "core.quotePath=false"), options, args),
		Dir:    r.Root,
		Env:    r.env,
		Stdout: out,
		Stderr: said,
		Grace:  grace,
		Tidy:   true, // what is asked is read, by one process
	})
	switch {
	case err != nil:
		return "", err
	case result.ExitCode != 0:
		return out.String(), &gitError{command: args[0], code: result.ExitCode, said: lastLine(said.String())}
	case out.over:
		return "", fmt.Errorf("git %s printed more than %d MiB", args[0], maxOutput>>20)
	}
	return out.String(), nil
}

// lastLine is what git says in the end: the line with "fatal:" or "error:", or the last one.
func lastLine(said string) string {
	last := ""
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		for _, sign := range []string{"fatal: ", "error: "} {
			if rest, ok := strings.CutPrefix(line, sign); ok {
				return source.MaskUserinfo(strings.ToValidUTF8(rest, "\uFFFD"))
			}
		}
		if line != "" {
			last = line
		}
	}
	return source.MaskUserinfo(strings.ToValidUTF8(last, "\uFFFD"))
}

// failed reports whether git ran, and said no.
func failed(err error) bool {
	var g *gitError
	return errors.As(err, &g)
}

// question asks git something whose answer does not change while we run, once. The answer is "" where git says no.
func (r *Repository) question(ctx context.Context, args ...string) (string, error) {
	if !r.Git {
		return "", nil
	}
	key := strings.Join(args, "\x00")
	r.mu.Lock()
	answer, known := r.texts[key]
	r.mu.Unlock()
	if known {
		return answer, nil
	}
	answer, err := r.git(ctx, args...)
	if err != nil {
		if !failed(err) {
			return "", err
		}
		answer = ""
	}
	answer = strings.TrimSuffix(answer, "\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts[key] = answer
	return answer, nil
}
