package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"time"
)

// Info is what a runner says of itself.
type Info struct {
	Name         string            `json:"name,omitempty"` // of the program
	Version      string            `json:"version,omitempty"`
	Revision     string            `json:"revision,omitempty"`
	Platform     string            `json:"platform,omitempty"`
	Architecture string            `json:"architecture,omitempty"`
	Executor     string            `json:"executor,omitempty"`
	Shell        string            `json:"shell,omitempty"`
	Features     Features          `json:"features"`
	Config       *InfoConfig       `json:"config,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
}

// InfoConfig is what a runner says of its configuration.
type InfoConfig struct {
	GPUs string `json:"gpus"`
}

// Features are what a runner can do. GitLab keeps jobs from runners without some of them.
type Features struct {
	Variables               bool `json:"variables"`
	Image                   bool `json:"image"`
	Services                bool `json:"services"`
	Artifacts               bool `json:"artifacts"`
	Cache                   bool `json:"cache"`
	Shared                  bool `json:"shared"`
	UploadMultipleArtifacts bool `json:"upload_multiple_artifacts"` // or no job with reports
	UploadRawArtifacts      bool `json:"upload_raw_artifacts"`
	Session                 bool `json:"session"`
	Terminal                bool `json:"terminal"`
	Refspecs                bool `json:"refspecs"` // or no pipeline of merge requests
	Masking                 bool `json:"masking"`
	Proxy                   bool `json:"proxy"`
	RawVariables            bool `json:"raw_variables"`
	ArtifactsExclude        bool `json:"artifacts_exclude"` // or no job with artifacts:exclude
	MultiBuildSteps         bool `json:"multi_build_steps"` // or no job with release
	TraceReset              bool `json:"trace_reset"`       //
	TraceChecksum           bool `json:"trace_checksum"`    //
	TraceSize               bool `json:"trace_size"`        //
	VaultSecrets            bool `json:"vault_secrets"`     // or no job with secrets
	Cancelable              bool `json:"cancelable"`        //
	ReturnExitCode          bool `json:"return_exit_code"`  // or no job with allow_failure:exit_codes
	ServiceVariables        bool `json:"service_variables"` //
	ServiceMultipleAliases  bool `json:"service_multiple_aliases"`
	ImageExecutorOpts       bool `json:"image_executor_opts"`
	ServiceExecutorOpts     bool `json:"service_executor_opts"`
	CancelGracefully        bool `json:"cancel_gracefully"` // or cancelled jobs end without after_script
	NativeSteps             bool `json:"native_steps_integration"`
	TwoPhaseJobCommit       bool `json:"two_phase_job_commit"` // or a job counts as running before the runner said so
	JobInputs               bool `json:"job_inputs"`
	FallbackCacheKeys       bool `json:"fallback_cache_keys"` // or no job with cache:fallback_keys
}

// userAgent has the form that GitLab reads versions from: "NAME VERSION (REVISION; GO; OS/ARCH)".
func (i *Info) userAgent() string {
	return fmt.Sprintf("%s %s (%s; %s; %s/%s)", i.Name, i.Version, i.Revision, runtime.Version(), i.Platform, i.Architecture)
}

// Runner identifies one manager of one runner to GitLab.
type Runner struct {
	Token    string // glrt-… or an older one
	SystemID string // of the machine: s_… or r_…, and 12 letters or digits
}

func (r Runner) header() http.Header { return http.Header{"RUNNER-TOKEN": {r.Token}} }

// Registration is what a new runner of a registration token is to be. Runners with an authentication token are made in GitLab.
type Registration struct {
	Token           string `json:"token"` // the registration token
	Description     string `json:"description,omitempty"`
	MaintenanceNote string `json:"maintenance_note,omitempty"`
	Paused          bool   `json:"paused"`
	Locked          bool   `json:"locked"`
	AccessLevel     string `json:"access_level,omitempty"` // not_protected or ref_protected
	RunUntagged     bool   `json:"run_untagged"`
	TagList         string `json:"tag_list"`                  // separated by commas
	MaximumTimeout  int    `json:"maximum_timeout,omitempty"` // in seconds
	Info            Info   `json:"info"`
}

// Registered is a runner as GitLab knows it.
type Registered struct {
	ID      int64      `json:"id"`
	Token   string     `json:"token"`
	Expires *time.Time `json:"token_expires_at"` // nil: never
}

// Register makes a runner with a registration token. GitLab answers 410 where registration tokens are turned off.
func (c *Client) Register(ctx context.Context, r Registration) (*Registered, error) {
	var out Registered
	r.Info = c.opts.Info
	_, err := c.do(ctx, request{method: http.MethodPost, path: "/runners", body: r, accept: []int{http.StatusCreated}, into: &out})
	return &out, err
}

// Verify checks a runner's token and tells GitLab what the runner can do. The error has status 403 where the token is not valid, and 422 where
// the runner belongs to nobody any more.
func (c *Client) Verify(ctx context.Context, r Runner) (*Registered, error) {
	body := struct {
		Token    string `json:"token"`
		SystemID string `json:"system_id,omitempty"`
		Info     Info   `json:"info"`
	}{r.Token, r.SystemID, c.opts.Info}
	var out Registered
	got, err := c.do(ctx, request{method: http.MethodPost, path: "/runners/verify", header: r.header(), body: body, accept: []int{http.StatusOK}, into: &out})
	if err != nil && got != nil && got.status == http.StatusOK { // servers before 15.11 answer with plain text
		return &Registered{Token: r.Token}, nil
	}
	return &out, err
}

// Unregister deletes a runner that was made with a registration token.
func (c *Client) Unregister(ctx context.Context, r Runner) error {
	body := struct {
		Token string `json:"token"`
	}{r.Token}
	_, err := c.do(ctx, request{method: http.MethodDelete, path: "/runners", header: r.header(), body: body, accept: []int{http.StatusNoContent}})
	return err
}

// UnregisterManager takes this machine from a runner, which stays.
func (c *Client) UnregisterManager(ctx context.Context, r Runner) error {
	body := struct {
		Token    string `json:"token"`
		SystemID string `json:"system_id"`
	}{r.Token, r.SystemID}
	_, err := c.do(ctx, request{method: http.MethodDelete, path: "/runners/managers", header: r.header(), body: body, accept: []int{http.StatusNoContent}})
	return err
}

// ResetToken replaces a runner's token by a new one. The old one is not valid any more.
func (c *Client) ResetToken(ctx context.Context, r Runner) (*Registered, error) {
	body := struct {
		Token string `json:"token"`
	}{r.Token}
	var out Registered
	_, err := c.do(ctx, request{method: http.MethodPost, path: "/runners/reset_authentication_token", header: r.header(), body: body, accept: []int{http.StatusCreated}, into: &out})
	return &out, err
}

// ResetTokenOf is ResetToken for a user's personal access token instead of the runner's own, by the runner's number.
func (c *Client) ResetTokenOf(ctx context.Context, id int64, personal string) (*Registered, error) {
	var out Registered
	path := "/runners/" + url.PathEscape(strconv.FormatInt(id, 10)) + "/reset_authentication_token"
	_, err := c.do(ctx, request{method: http.MethodPost, path: path, header: http.Header{"PRIVATE-TOKEN": {personal}}, accept: []int{http.StatusCreated}, into: &out})
	return &out, err
}
