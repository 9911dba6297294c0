package gcs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"cloud.google.com/go/compute/metadata"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

const (
	// scope is what the credentials have to allow.
	scope = "https://www.googleapis.com/auth/cloud-platform"
	// patience bounds one request, and maxAnswer its answer, in bytes.
	patience  = 10 * time.Second
	maxAnswer = 1 << 20
)

// remote lets Google sign for an account whose key nobody has: that of this machine, or one that it may sign for (projects.serviceAccounts.signBlob
// of the IAM Service Account Credentials API).
type remote struct {
	endpoint string
	file     []byte // of credentials; nil uses the application default credentials

	mu      sync.Mutex
	account string // "" until the metadata server was asked
	tokens  oauth2.TokenSource
}

func newRemote(account, universe string) *remote {
	return &remote{account: account, endpoint: "https://iamcredentials." + universe}
}

func (r *remote) email(ctx context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account != "" {
		return r.account, nil
	}
	email, err := metadata.EmailWithContext(ctx, "default")
	if err != nil {
		return "", fmt.Errorf("asking the metadata server for this machine's account: %w; set AccessID and PrivateKey, or CredentialsFile, on other machines", err)
	}
	r.account = email
	return email, nil
}

// token authorises a request. The source outlives the context of one job.
func (r *remote) token() (*oauth2.Token, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tokens == nil {
		ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Timeout: patience})
		var found *google.Credentials
		var err error
		if r.file != nil {
			found, err = google.CredentialsFromJSONWithType(ctx, r.file, google.ExternalAccount, scope)
		} else {
			found, err = google.FindDefaultCredentials(ctx, scope)
		}
		if err != nil {
			return nil, fmt.Errorf("finding credentials: %w", err)
		}
		r.tokens = found.TokenSource
	}
	return r.tokens.Token()
}

func (r *remote) sign(ctx context.Context, text []byte) ([]byte, error) {
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	email, err := r.email(ctx)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string][]byte{"payload": text}) // in Base64
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, patience)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint+"/v1/projects/-/serviceAccounts/"+url.PathEscape(email)+":signBlob", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	token.SetAuthHeader(req)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		SignedBlob []byte `json:"signedBlob"`
		Error      struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil && resp.StatusCode == http.StatusOK {
		return nil, fmt.Errorf("reading the signature of %s: %w", email, err)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("signing as %s: the server answers %s: %s; the account needs the role Service Account Token Creator for itself", email, resp.Status, cmp.Or(answer.Error.Message, "no reason"))
	case len(answer.SignedBlob) == 0:
		return nil, errors.New("signing as " + email + ": the answer has no signature")
	}
	return answer.SignedBlob, nil
}
