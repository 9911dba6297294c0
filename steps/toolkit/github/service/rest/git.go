package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rungci/rung/internal/gitquery"
	"github.com/rungci/rung/internal/process"
)

const (
	// gitTimeout is how long one Git command may take.
	gitTimeout = time.Minute
	// maxRef is how long the name of a commit may be, in bytes.
	maxRef = 1024
	// maxCommits is how many commits a list tells of.
	maxCommits = 1000
)

// repository is a Git repository that is read by the program git. What steps wrote into its configuration cannot start anything.
type repository struct{ dir string }

// errTooMuch says that Git wrote more than is answered.
var errTooMuch = errors.New("the answer is too large")

// run starts git with arguments that hold nothing of a request but what was checked.
func (r repository) run(ctx context.Context, args ...string) (string, error) {
	if r.dir == "" {
		return "", notFound("the job has no Git repository")
	}
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	out, errs := &bounded{max: MaxBlob}, &bounded{max: 4096}
	args = append(gitquery.Command("-c", "safe.directory=*", "-c", "log.showSignature=false", "--no-pager", "--literal-pathspecs"), args...)
	env := gitquery.Environment([]string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "LC_ALL=C"})
	if runtime.GOOS == "windows" {
		env = append(env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"))
	}
	result, err := process.Run(ctx, nil, process.Spec{Args: args, Dir: r.dir, Env: env, Stdout: out, Stderr: errs, Grace: time.Second})
	switch {
	case errors.Is(err, errTooMuch):
		return "", &problem{403, fmt.Sprintf("This API returns up to %d MB", MaxBlob>>20)}
	case err != nil:
		return "", fmt.Errorf("running git: %w", err)
	case result.ExitCode != 0:
		return "", notFound("git says %s", strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// bounded is a buffer that takes so much and no more.
type bounded struct {
	bytes.Buffer
	max int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, errTooMuch
	}
	return b.Buffer.Write(p)
}

// resolve returns the commit of a branch, a tag or an ID. Nothing else that Git takes for a revision is one here.
func (r repository) resolve(ctx context.Context, ref string) (string, error) {
	if !validRef(ref) {
		return "", notFound("%q is not a branch, tag or commit", ref)
	}
	names := []string{"refs/heads/" + ref, "refs/remotes/origin/" + ref, "refs/tags/" + ref}
	if rest, ok := strings.CutPrefix(ref, "heads/"); ok {
		names = append(names, "refs/remotes/origin/"+rest)
	}
	if strings.HasPrefix(ref, "refs/") || ref == "HEAD" {
		names = []string{ref}
	} else {
		names = append(names, "refs/"+ref)
	}
	if isHex(ref) {
		names = append([]string{ref}, names...)
	}
	for _, name := range names {
		out, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		if err == nil {
			return strings.TrimSpace(out), nil
		}
		if _, unknown := errors.AsType[*problem](err); !unknown || r.dir == "" {
			return "", err
		}
	}
	return "", notFound("no commit found for %s", ref)
}

// validRef holds a name against Git's rules for names of references, which leave out all that is special in revisions.
func validRef(ref string) bool {
	return ref != "" && len(ref) <= maxRef && !strings.HasPrefix(ref, "-") && !strings.HasPrefix(ref, "/") && !strings.Contains(ref, "..") &&
		!strings.Contains(ref, "@{") && !strings.ContainsAny(ref, ` ~^:?*[\`) && !strings.ContainsFunc(ref, unicode.IsControl)
}

func isHex(text string) bool {
	return len(text) >= 4 && len(text) <= 64 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// commitFormat are the fields that commits reads, each ended by a NUL.
const commitFormat = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"

// commits reads commits: at most limit of those that a revision, made of resolved commits, leads to.
func (a *API) commits(ctx context.Context, revision string, limit int, paths ...string) ([]map[string]any, error) {
	args := append([]string{"log", "-z", commitFormat, "--max-count=" + strconv.Itoa(limit), "--end-of-options", revision, "--"}, paths...)
	out, err := a.repo.run(ctx, args...)
	if err != nil || out == "" {
		return nil, err
	}
	const fields = 10
	parts := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	all := make([]map[string]any, 0, len(parts)/fields)
	for ; len(parts) >= fields; parts = parts[fields:] {
		parents := []map[string]string{}
		for _, sha := range strings.Fields(parts[2]) {
			parents = append(parents, map[string]string{"sha": sha, "url": a.url("commits", sha)})
		}
		all = append(all, map[string]any{
			"sha": parts[0], "url": a.url("commits", parts[0]), "html_url": a.html("commit", parts[0]), "parents": parents, "author": nil, "committer": nil,
			"commit": map[string]any{
				"author":    map[string]string{"name": parts[3], "email": parts[4], "date": parts[5]},
				"committer": map[string]string{"name": parts[6], "email": parts[7], "date": parts[8]},
				"message":   strings.TrimRight(parts[9], "\n"), "tree": map[string]string{"sha": parts[1], "url": a.url("git", "trees", parts[1])},
			},
		})
	}
	return all, nil
}

// url is an address of the API for the repository.
func (a *API) url(parts ...string) string {
	return a.opts.Base + "/repos/" + a.opts.GitHub["repository"] + "/" + strings.Join(parts, "/")
}

// html is an address for people.
func (a *API) html(parts ...string) string {
	return "https://github.com/" + a.opts.GitHub["repository"] + "/" + strings.Join(parts, "/")
}

// changedFile is a file of a comparison. The text of the change (patch) is left out, as GitHub does where it is long.
type changedFile struct {
	SHA       string `json:"sha"`
	Name      string `json:"filename"`
	Status    string `json:"status"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Changes   int    `json:"changes"`
	Previous  string `json:"previous_filename,omitempty"`
}

var changeStatus = map[byte]string{'A': "added", 'M': "modified", 'D': "removed", 'R': "renamed", 'C': "copied", 'T': "changed"}

// changes lists the files that differ between two commits; an empty base is before the first commit.
func (r repository) changes(ctx context.Context, base, head string) ([]changedFile, error) {
	args := []string{"diff-tree", "-r", "-z", "-M", "--raw", "--numstat", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--end-of-options", base, head}
	if base == "" {
		args = []string{"diff-tree", "-r", "-z", "-M", "--raw", "--numstat", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--no-commit-id", "--root", "--end-of-options", head}
	}
	out, err := r.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	return parseChanges(out), nil
}

// parseChanges reads what --raw and --numstat write with -z: first all lines of the one, then all of the other.
func parseChanges(out string) []changedFile {
	parts := strings.Split(out, "\x00")
	next := func() (text string) {
		if len(parts) > 0 {
			text, parts = parts[0], parts[1:]
		}
		return text
	}
	files, places := []changedFile{}, map[string]int{}
	for len(parts) > 0 {
		part := next()
		if line, ok := strings.CutPrefix(part, ":"); ok { // 100644 100644 SHA SHA M
			fields := strings.Fields(line)
			if len(fields) != 5 {
				continue
			}
			file := changedFile{SHA: fields[3], Status: changeStatus[fields[4][0]], Name: next()}
			if file.Status == "removed" {
				file.SHA = fields[2]
			}
			if file.Status == "renamed" || file.Status == "copied" {
				file.Previous, file.Name = file.Name, next()
			}
			places[file.Name] = len(files)
			files = append(files, file)
		} else if fields := strings.SplitN(part, "\t", 3); len(fields) == 3 { // ADDED DELETED NAME, or NUL OLD NUL NEW
			name := fields[2]
			if name == "" {
				next()
				name = next()
			}
			if i, ok := places[name]; ok {
				files[i].Additions, _ = strconv.Atoi(fields[0]) // "-" of a binary file is 0
				files[i].Deletions, _ = strconv.Atoi(fields[1])
				files[i].Changes = files[i].Additions + files[i].Deletions
			}
		}
	}
	return files
}
