package service

import (
	"net/http"

	"github.com/rungci/rung/steps/toolkit/github/service/artifact"
	"github.com/rungci/rung/steps/toolkit/github/service/rest"
)

// restAPI is the REST API, with what it knows of artifacts.
func (s *Server) restAPI() http.Handler {
	api := rest.New(rest.Options{
		Base: s.door.base + apiPath, WorkTree: s.opts.WorkTree, GitHub: s.opts.GitHub, Permissions: s.opts.Permissions, Record: s.opts.Record, Note: s.opts.Note,
	})
	api.Handle("GET /actions/runs/{run}/artifacts", "actions:read", s.artifacts.restList)
	api.Handle("GET /actions/artifacts", "actions:read", s.artifacts.restList)
	api.Handle("GET /actions/artifacts/{id}", "actions:read", s.artifacts.with(func(w http.ResponseWriter, r *http.Request, a artifact.Artifact) {
		writeJSON(w, http.StatusOK, s.artifacts.rest(a))
	}))
	api.Handle("GET /actions/artifacts/{id}/zip", "actions:read", s.artifacts.with(func(w http.ResponseWriter, r *http.Request, a artifact.Artifact) {
		http.Redirect(w, r, s.artifacts.addressOf(a), http.StatusFound)
	}))
	api.Handle("DELETE /actions/artifacts/{id}", "actions:write", s.artifacts.with(func(w http.ResponseWriter, r *http.Request, a artifact.Artifact) {
		if err := s.artifacts.folder.Delete(a); err != nil {
			rest.Fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		permissions, ok := s.door.tokens.githubOf(r)
		if !ok {
			rest.Fail(w, http.StatusUnauthorized, "Bad credentials")
			return
		}
		api.ServeHTTP(w, rest.Narrowed(r, permissions))
	})
}

// restList lists the artifacts of this run, the only one that is at hand.
func (s *artifacts) restList(w http.ResponseWriter, r *http.Request) {
	if run := r.PathValue("run"); run != "" && run != s.facts["run_id"] {
		rest.Fail(w, http.StatusNotFound, "Not Found: only the artifacts of run "+s.facts["run_id"]+" are available here")
		return
	}
	all, err := s.folder.List()
	if err != nil {
		rest.Fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	found := []map[string]any{}
	for _, a := range all {
		if name := r.URL.Query().Get("name"); name == "" || name == a.Name {
			found = append(found, s.rest(a))
		}
	}
	total := len(found)
	writeJSON(w, http.StatusOK, map[string]any{"total_count": total, "artifacts": rest.Page(s.door.base+apiPath, w, r, found)})
}

func (s *artifacts) rest(a artifact.Artifact) map[string]any {
	return map[string]any{
		"id": a.ID, "name": a.Name, "size_in_bytes": a.Size, "digest": a.Digest, "expired": false, "created_at": a.Created, "updated_at": a.Created,
		"workflow_run": map[string]string{"head_sha": s.facts["sha"]},
	}
}

// with finds the artifact whose ID is in the address.
func (s *artifacts) with(answer func(http.ResponseWriter, *http.Request, artifact.Artifact)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, ok := s.byID(r.PathValue("id"))
		if !ok {
			rest.Fail(w, http.StatusNotFound, "Not Found: the run has no such artifact")
			return
		}
		answer(w, r, a)
	}
}
