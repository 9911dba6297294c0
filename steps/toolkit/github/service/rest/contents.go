package rest

import (
	"context"
	"encoding/base64"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// gitRoutes are the answers that Git gives.
func (a *API) gitRoutes() {
	a.get("", "metadata:read", a.getRepository)
	a.get("/commits/{ref...}", "contents:read", a.getCommit)
	a.get("/git/ref/{ref...}", "contents:read", a.getRef)
	a.get("/git/trees/{ref...}", "contents:read", a.getTree)
	a.get("/git/blobs/{sha}", "contents:read", a.getBlob)
	a.get("/branches/{name...}", "contents:read", a.getBranch)
	a.get("/compare/{basehead...}", "contents:read", a.compare)
	a.Handle("GET /contents", "contents:read", a.contents)
	a.Handle("GET /contents/{path...}", "contents:read", a.contents)
	paged(a, "/commits", "contents:read", a.listCommits)
	paged(a, "/branches", "contents:read", func(r *http.Request) ([]map[string]any, error) { return a.refs(r, "refs/heads/", true) })
	paged(a, "/tags", "metadata:read", func(r *http.Request) ([]map[string]any, error) { return a.refs(r, "refs/tags/", false) })
}

func (a *API) getRepository(r *http.Request) (any, error) {
	full := a.opts.GitHub["repository"]
	owner, name, _ := strings.Cut(full, "/")
	repositoryID, _ := strconv.Atoi(a.opts.GitHub["repository_id"])
	ownerID, _ := strconv.Atoi(a.opts.GitHub["repository_owner_id"])
	private := a.opts.GitHub["repository_visibility"] != "public"
	return map[string]any{
		"id": repositoryID, "name": name, "full_name": full, "owner": map[string]any{"login": owner, "id": ownerID, "type": "Organization"},
		"private": private, "fork": false, "archived": false, "default_branch": a.defaultBranch(r.Context()), "url": strings.TrimSuffix(a.url(""), "/"),
		"html_url": strings.TrimSuffix(a.html(""), "/"), "clone_url": strings.TrimSuffix(a.html(""), "/") + ".git",
		"permissions": map[string]bool{"pull": true, "push": a.allowed(r, "contents:write"), "admin": false},
	}, nil
}

// defaultBranch is what the event says, else what the clone does.
func (a *API) defaultBranch(ctx context.Context) string {
	if event, err := a.event(); err == nil {
		if repo, ok := event["repository"].(map[string]any); ok {
			if name, ok := repo["default_branch"].(string); ok && name != "" {
				return name
			}
		}
	}
	if out, err := a.repo.run(ctx, "rev-parse", "--abbrev-ref", "refs/remotes/origin/HEAD"); err == nil {
		return strings.TrimPrefix(strings.TrimSpace(out), "origin/")
	}
	return "main"
}

func (a *API) getCommit(r *http.Request) (any, error) {
	name, pulls := strings.CutSuffix(r.PathValue("ref"), "/pulls")
	sha, err := a.repo.resolve(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if pulls {
		return a.pulls(sha), nil
	}
	all, err := a.commits(r.Context(), sha, 1)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	base := ""
	if parents := all[0]["parents"].([]map[string]string); len(parents) > 0 {
		base = parents[0]["sha"]
	}
	files, err := a.repo.changes(r.Context(), base, sha)
	if err != nil {
		return nil, err
	}
	additions, deletions := 0, 0
	for _, f := range files {
		additions, deletions = additions+f.Additions, deletions+f.Deletions
	}
	all[0]["stats"] = map[string]int{"additions": additions, "deletions": deletions, "total": additions + deletions}
	all[0]["files"] = files[:min(len(files), maxChanged)]
	return all[0], nil
}

func (a *API) listCommits(r *http.Request) ([]map[string]any, error) {
	query := r.URL.Query()
	ref := query.Get("sha")
	if ref == "" {
		ref = "HEAD"
	}
	sha, err := a.repo.resolve(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	var paths []string
	if p := query.Get("path"); p != "" {
		paths = []string{p}
	}
	return a.commits(r.Context(), sha, maxCommits, paths...)
}

func (a *API) getRef(r *http.Request) (any, error) {
	ref := r.PathValue("ref")
	if !strings.HasPrefix(ref, "heads/") && !strings.HasPrefix(ref, "tags/") {
		return nil, notFound("%q does not begin with heads/ or tags/", ref)
	}
	sha, err := a.repo.resolve(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	return map[string]any{"ref": "refs/" + ref, "url": a.url("git", "refs", ref), "object": map[string]string{"sha": sha, "type": "commit", "url": a.url("git", "commits", sha)}}, nil
}

// refs lists branches or tags; of branches those too that only the server of the clone has.
func (a *API) refs(r *http.Request, prefix string, branches bool) ([]map[string]any, error) {
	args := []string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(*objectname)", prefix}
	if branches {
		args = append(args, "refs/remotes/origin/")
	}
	out, err := a.repo.run(r.Context(), args...)
	if err != nil {
		return nil, err
	}
	all, seen := []map[string]any{}, map[string]bool{"HEAD": true}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		name := strings.TrimPrefix(strings.TrimPrefix(fields[0], prefix), "refs/remotes/origin/")
		sha := fields[1]
		if fields[2] != "" {
			sha = fields[2] // of an annotated tag
		}
		if !seen[name] {
			seen[name] = true
			all = append(all, map[string]any{"name": name, "commit": map[string]string{"sha": sha, "url": a.url("commits", sha)}, "protected": false})
		}
	}
	return all, nil
}

func (a *API) getBranch(r *http.Request) (any, error) {
	sha, err := a.repo.resolve(r.Context(), "heads/"+r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	all, err := a.commits(r.Context(), sha, 1)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return map[string]any{"name": r.PathValue("name"), "commit": all[0], "protected": false}, nil
}

// treeEntry is a line of git ls-tree.
type treeEntry struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
	Type string `json:"type"`
	SHA  string `json:"sha"`
	Size int64  `json:"size,omitempty"`
	URL  string `json:"url"`
}

// tree lists what a tree holds; paths are from its root.
func (a *API) tree(ctx context.Context, treeish string, flags ...string) ([]treeEntry, error) {
	args := append([]string{"ls-tree", "-z", "-l", "--full-tree"}, flags...)
	out, err := a.repo.run(ctx, append(args, "--end-of-options", treeish)...)
	if err != nil {
		return nil, err
	}
	all := []treeEntry{}
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		info, name, _ := strings.Cut(line, "\t")
		if fields := strings.Fields(info); len(fields) == 4 {
			e := treeEntry{Path: name, Mode: fields[0], Type: fields[1], SHA: fields[2], URL: a.url("git", fields[1]+"s", fields[2])}
			e.Size, _ = strconv.ParseInt(fields[3], 10, 64) // "-" of a folder is 0
			all = append(all, e)
		}
	}
	return all, nil
}

func (a *API) getTree(r *http.Request) (any, error) {
	ref := r.PathValue("ref")
	sha := ref
	if !isHex(ref) || len(ref) < 40 { // the ID of a tree is not a commit
		var err error
		if sha, err = a.repo.resolve(r.Context(), ref); err != nil {
			return nil, err
		}
	}
	flags := []string{}
	if recursive := r.URL.Query().Get("recursive"); recursive != "" {
		flags = []string{"-r", "-t"}
	}
	entries, err := a.tree(r.Context(), sha, flags...)
	return map[string]any{"sha": sha, "url": a.url("git", "trees", sha), "tree": entries, "truncated": false}, err
}

func (a *API) getBlob(r *http.Request) (any, error) {
	sha := r.PathValue("sha")
	if !isHex(sha) {
		return nil, notFound("%q is not an ID of a blob", sha)
	}
	text, err := a.repo.run(r.Context(), "cat-file", "blob", sha)
	return map[string]any{"sha": sha, "size": len(text), "encoding": "base64", "content": base64.StdEncoding.EncodeToString([]byte(text)), "url": a.url("git", "blobs", sha)}, err
}

// contents answers with a file, or with what a folder holds.
func (a *API) contents(w http.ResponseWriter, r *http.Request) {
	ref := r.URL.Query().Get("ref")
	if ref == "" {
		ref = "HEAD"
	}
	name := strings.Trim(path.Clean("/"+r.PathValue("path")), "/")
	sha, err := a.repo.resolve(r.Context(), ref)
	if err != nil {
		fail(w, err)
		return
	}
	object := sha + ":" + name // the commit is resolved, so that no name is anything but a path in it
	kind, err := a.repo.run(r.Context(), "cat-file", "-t", object)
	if err != nil {
		fail(w, notFound("%s is not in %s", name, ref))
		return
	}
	if strings.TrimSpace(kind) == "tree" {
		entries, err := a.tree(r.Context(), object)
		if err != nil {
			fail(w, err)
			return
		}
		all := []map[string]any{}
		for _, e := range entries {
			all = append(all, a.entry(e, path.Join(name, e.Path), ref))
		}
		write(w, http.StatusOK, all)
		return
	}
	text, err := a.repo.run(r.Context(), "cat-file", "blob", object)
	if err != nil {
		fail(w, err)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "raw") {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write([]byte(text))
		return
	}
	id, err := a.repo.run(r.Context(), "rev-parse", "--verify", "--end-of-options", object)
	if err != nil {
		fail(w, err)
		return
	}
	answer := a.entry(treeEntry{Type: "blob", SHA: strings.TrimSpace(id), Size: int64(len(text))}, name, ref)
	answer["encoding"], answer["content"] = "base64", base64.StdEncoding.EncodeToString([]byte(text))
	write(w, http.StatusOK, answer)
}

// entry describes a file or a folder as the API of contents does.
func (a *API) entry(e treeEntry, name, ref string) map[string]any {
	kind := map[string]string{"blob": "file", "tree": "dir", "commit": "submodule"}[e.Type]
	if e.Mode == "120000" {
		kind = "symlink"
	}
	return map[string]any{
		"type": kind, "name": path.Base(name), "path": name, "sha": e.SHA, "size": e.Size, "url": a.url("contents", name) + "?ref=" + ref, "html_url": a.html("blob", ref, name),
	}
}

func (a *API) compare(r *http.Request) (any, error) {
	first, second, ok := strings.Cut(r.PathValue("basehead"), "...")
	if !ok {
		return nil, notFound("%q is not like base...head", r.PathValue("basehead"))
	}
	base, err := a.repo.resolve(r.Context(), first)
	if err != nil {
		return nil, err
	}
	head, err := a.repo.resolve(r.Context(), second)
	if err != nil {
		return nil, err
	}
	out, err := a.repo.run(r.Context(), "merge-base", base, head)
	if err != nil {
		return nil, notFound("%s and %s have no common commit here; the clone may be shallow", first, second)
	}
	common := strings.TrimSpace(out)
	counts, err := a.repo.run(r.Context(), "rev-list", "--left-right", "--count", "--end-of-options", base+"..."+head)
	if err != nil {
		return nil, err
	}
	var ahead, behind int
	if fields := strings.Fields(counts); len(fields) == 2 {
		behind, _ = strconv.Atoi(fields[0])
		ahead, _ = strconv.Atoi(fields[1])
	}
	status := "diverged"
	switch {
	case ahead == 0 && behind == 0:
		status = "identical"
	case behind == 0:
		status = "ahead"
	case ahead == 0:
		status = "behind"
	}
	commits, err := a.commits(r.Context(), base+".."+head, maxCommits)
	if err != nil {
		return nil, err
	}
	files, err := a.repo.changes(r.Context(), common, head)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"status": status, "ahead_by": ahead, "behind_by": behind, "total_commits": ahead, "commits": append([]map[string]any{}, commits...),
		"files": files[:min(len(files), maxChanged)], "base_commit": map[string]string{"sha": base}, "merge_base_commit": map[string]string{"sha": common},
		"html_url": a.html("compare", first+"..."+second),
	}, nil
}
