package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
)

// maxAnswer bounds what is read of GitLab's answer.
const maxAnswer = 8 << 20

// clientHook changes the client of the tests.
var clientHook = func(*transfer.Client) {}

// create makes the release on GitLab, and returns its address.
func (in *inputs) create(ctx context.Context, call *program.Call, b *body) (string, error) {
	if in.Project == "" || in.Token == "" {
		return "", errors.New("GitLab needs a project and a token")
	}
	text, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	client := &transfer.Client{Again: func(err error, wait time.Duration) {
		selection.Warn(call, "%v; trying again in %v", err, wait.Round(time.Second/10))
	}}
	clientHook(client)
	header := tokenHeader(in.Token)
	resp, err := client.Do(ctx, transfer.Request{
		Method: http.MethodPost, URL: strings.TrimRight(in.APIURL, "/") + "/projects/" + url.PathEscape(in.Project) + "/releases",
		Header: http.Header{header: {in.Token}, "Content-Type": {"application/json"}, "Accept": {"application/json"}},
		Secret: []string{header}, Once: true,
		Body: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, Size: int64(len(text)),
	})
	switch {
	case transfer.IsStatus(err, http.StatusConflict):
		return "", fmt.Errorf("%w; delete the release first, or use another tag", err)
	case transfer.IsStatus(err, http.StatusUnauthorized, http.StatusForbidden):
		return "", fmt.Errorf("%w; whoever the token is of may not make releases in this project", err)
	case err != nil:
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Links struct {
			Self string `json:"self"`
		} `json:"_links"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return "", errors.New("GitLab took the release, and its answer cannot be read")
	}
	fmt.Fprintf(call.Stdout, "Created release %s: %s\n", in.TagName, answer.Links.Self)
	return answer.Links.Self, nil
}

// userTokens begin the tokens of people, projects and groups. All others are tokens of jobs.
var userTokens = []string{"glpat-"}

// tokenHeader is the header in which GitLab expects a token.
func tokenHeader(token string) string {
	for _, prefix := range userTokens {
		if strings.HasPrefix(token, prefix) {
			return "Private-Token"
		}
	}
	return "Job-Token"
}
