package github

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/toolkit/github/service"
	"github.com/rungci/rung/steps/value"
)

// Keys of context.rung: what whoever runs a job says of it beyond GitHub's contexts.
const (
	keyArtifacts   = "artifacts"   // the folder of the workflow run's artifacts; one of the job's own without
	keyCache       = "cache"       // the folder of caches; service.CacheFolder without
	keyEventPath   = "event_path"  // a file with what triggered the workflow; made of github.event without
	keyToolCache   = "tool_cache"  // the folder of tools; in the user's cache folder without
	keyPermissions = "permissions" // what the job's token may do: {contents: "read"}; service.DefaultPermissions without
	keyCacheMode   = "cache_mode"  // what the job may do with caches: ACTIONS_CACHE_MODE
	keyRecord      = "record"      // the file in which requests that would change something on GitHub are recorded
)

// services returns the servers of the job, which are started when they are first needed.
func (j *job) services(s surroundings) (*service.Server, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.server != nil {
		return j.server, nil
	}
	github := map[string]string{}
	for name, v := range s.github().Fields() {
		if v.Kind() != value.Struct && v.Kind() != value.Array && !v.Sensitive() {
			github[name] = v.Text()
		}
	}
	var err error
	if github["event_path"], err = j.eventFile(s); err != nil {
		return nil, err
	}
	cache := given(s.context, keyCache)
	if cache == "" {
		if cache, err = service.CacheFolder(github["repository"], s.workDir); err != nil {
			return nil, err
		}
	}
	artifacts := given(s.context, keyArtifacts)
	if artifacts == "" {
		artifacts = filepath.Join(s.tempDir, "_artifacts")
	}
	if !j.began.IsZero() {
		then := filepath.Join(s.tempDir, "_as_of_then")
		for name, folder := range map[string]*string{"artifacts": &artifacts, "cache": &cache} {
			to := filepath.Join(then, name)
			if err := asOf(*folder, to, j.began); err != nil {
				return nil, fmt.Errorf("looking for what the recorded run had: %w", err)
			}
			*folder = to
		}
	}
	var permissions map[string]string
	if fields := field(s.context, "rung", keyPermissions); fields.Kind() == value.Struct {
		permissions = map[string]string{}
		for scope, level := range fields.Fields() {
			permissions[scope] = level.Text()
		}
	}
	j.server, err = service.Start(service.Options{
		Artifacts: artifacts, Cache: cache, WorkTree: s.workDir, Temp: s.tempDir, Record: given(s.context, keyRecord),
		GitHub: github, Permissions: permissions, CacheMode: given(s.context, keyCacheMode), Note: j.note,
		Saved: j.saved,
	})
	if err == nil {
		j.saved = nil
	}
	return j.server, err
}

// given is a text of context.rung; "" where there is none.
func given(context value.Value, key string) string {
	if v := field(context, "rung", key); !v.IsNull() {
		return v.Text()
	}
	return ""
}

// note keeps a sentence for people until a process ends: the server has no step of its own.
func (j *job) note(text string) {
	j.notesMu.Lock()
	defer j.notesMu.Unlock()
	j.notes = append(j.notes, text)
}

// takeNotes returns what there was to say since it was last called.
func (j *job) takeNotes() []string {
	j.notesMu.Lock()
	defer j.notesMu.Unlock()
	notes := j.notes
	j.notes = nil
	return notes
}

// Close implements io.Closer.
func (j *job) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.server == nil {
		return nil
	}
	return j.server.Close()
}

// token is github.token: the user's own when there is one, or else what the job's servers know the job by. Where there is no
// workflow there is none.
func (j *job) token(own string, s surroundings) (string, error) {
	if own != "" {
		j.ownToken.Store(true)
		return own, nil
	}
	if field(s.context, "github").IsNull() || s.permissions != nil && len(s.permissions) == 0 {
		return "", nil
	}
	server, err := j.services(s)
	if err != nil {
		return "", err
	}
	return server.TokenFor(s.permissions), nil
}

// serviceVariables are those by which the process finds the job's servers. An action starts them; a script finds them when something
// has read the job's token, or when it may ask for tokens of OpenID Connect.
func (s *Session) serviceVariables(all surroundings) (map[string]string, error) {
	action := s.process.Toolkit == plan.ToolkitGitHubAction
	identity := field(all.context, "rung", keyPermissions, "id-token").Text() == "write" && (all.permissions == nil || all.permissions["id-token"] != "")
	if !action && !identity && !s.job.serving() {
		return nil, nil
	}
	server, err := s.job.services(all)
	if err != nil {
		return nil, err
	}
	for _, secret := range server.Secrets() {
		s.process.MadeUp(secret)
	}
	vars := server.Env(action, all.permissions)
	if token := vars["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]; token != "" {
		s.process.MadeUp(token)
	}
	if mode := given(all.context, keyCacheMode); mode != "" && action {
		vars["ACTIONS_CACHE_MODE"] = mode
	}
	if s.job.ownToken.Load() || field(all.context, "github", "token").Str() != "" { // it opens GitHub's API, not ours
		delete(vars, "GITHUB_API_URL")
		delete(vars, "GITHUB_GRAPHQL_URL")
	}
	return vars, nil
}

func (j *job) serving() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.server != nil || j.saved != nil
}

// eventFile returns the file that holds what triggered the workflow; "" where nothing is known of it. It is written once in a run.
func (j *job) eventFile(s surroundings) (string, error) {
	if path := given(s.context, keyEventPath); path != "" {
		return path, nil
	}
	payload := field(s.context, "github", "event")
	if payload.Kind() != value.Struct {
		return "", nil
	}
	j.eventOnce.Do(func() {
		j.event = filepath.Join(s.tempDir, "_github_workflow", "event.json")
		if j.eventErr = os.MkdirAll(filepath.Dir(j.event), 0o700); j.eventErr == nil {
			j.eventErr = os.WriteFile(j.event, append(payload.AppendJSON(nil), '\n'), 0o600)
		}
	})
	if j.eventErr != nil {
		return "", fmt.Errorf("writing the event's file: %w", j.eventErr)
	}
	return j.event, nil
}

// tellNotes passes on what the job's servers have to say.
func (s *Session) tellNotes() {
	for _, text := range s.job.takeNotes() {
		s.process.Emit(event.Warning{Message: text})
	}
}
