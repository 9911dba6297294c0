// Package gcs signs addresses of objects in Google Cloud Storage.
package gcs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rungci/rung/internal/sigv4"
	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/config"
)

// publicCloud is Google's own universe domain.
const publicCloud = "googleapis.com"

// signer signs texts as a service account.
type signer interface {
	// email names the account.
	email(ctx context.Context) (string, error)
	sign(ctx context.Context, text []byte) ([]byte, error)
}

// Store signs addresses with the key of a service account, or lets Google sign them for the account of this machine.
type Store struct {
	bucket  string
	maxSize int64 // of an upload, in bytes; 0 is any
	signer  signer
	// base is the address of the service.
	base string
}

// New reads the configuration, and the file that it names. It makes no request. An upload of more than maxSize bytes is refused by the store, unless
// that is 0.
func New(c config.CacheGCS, maxSize int64) (*Store, error) {
	if c.BucketName == "" {
		return nil, errors.New("BucketName is missing")
	}
	universe := cmp.Or(c.UniverseDomain, publicCloud)
	s := &Store{bucket: c.BucketName, maxSize: maxSize, base: "https://storage." + universe}
	switch {
	case c.CredentialsFile != "":
		text, err := os.ReadFile(c.CredentialsFile)
		if err != nil {
			return nil, fmt.Errorf("CredentialsFile: %w", err)
		}
		if s.signer, err = ofFile(text, universe); err != nil {
			return nil, fmt.Errorf("CredentialsFile %s: %w", c.CredentialsFile, err)
		}
	case c.PrivateKey != "":
		if c.AccessID == "" {
			return nil, errors.New("AccessID is missing: it names the account that PrivateKey is of")
		}
		account, err := sigv4.NewAccount(c.AccessID, c.PrivateKey)
		if err != nil {
			return nil, fmt.Errorf("PrivateKey: %w", err)
		}
		s.signer = local{account}
	default:
		s.signer = newRemote(c.AccessID, universe)
	}
	return s, nil
}

// ofFile is the signer of a file with credentials.
func ofFile(text []byte, universe string) (signer, error) {
	var file struct {
		Type        string `json:"type"`
		Impersonate string `json:"service_account_impersonation_url"`
	}
	if json.Unmarshal(text, &file) == nil && file.Type != "service_account" && file.Impersonate != "" {
		_, account, _ := strings.Cut(file.Impersonate, "/serviceAccounts/")
		account, _, _ = strings.Cut(account, ":")
		r := newRemote(account, universe)
		r.file = text
		return r, nil
	}
	account, err := sigv4.ReadAccount(string(text))
	if err != nil {
		return nil, err
	}
	return local{account}, nil
}

// Get implements cachestore.Signer.
func (s *Store) Get(ctx context.Context, object string, life time.Duration) (cachestore.Address, error) {
	return s.sign(ctx, http.MethodGet, object, nil, life)
}

// Put implements cachestore.Signer.
func (s *Store) Put(ctx context.Context, object string, meta cachestore.Metadata, life time.Duration) (cachestore.Address, error) {
	headers := meta.Headers("X-Goog-Meta-")
	headers["Content-Type"] = "application/octet-stream"
	if s.maxSize > 0 {
		headers["X-Goog-Content-Length-Range"] = fmt.Sprintf("0,%d", s.maxSize)
	}
	return s.sign(ctx, http.MethodPut, object, headers, life)
}

func (s *Store) sign(ctx context.Context, method, object string, headers map[string]string, life time.Duration) (cachestore.Address, error) {
	email, err := s.signer.email(ctx)
	if err != nil {
		return cachestore.Address{}, err
	}
	u, err := url.Parse(s.base)
	if err != nil {
		return cachestore.Address{}, err
	}
	u.Path += "/" + s.bucket + "/" + object
	u.RawPath = sigv4.EncodePath(u.Path)
	r := &http.Request{Method: method, URL: u, Header: http.Header{}}
	for name, text := range headers {
		r.Header.Set(name, text)
	}
	signature, err := s.signer.sign(ctx, []byte(sigv4.GoogleText(r, email, time.Now().UTC(), life)))
	if err != nil {
		return cachestore.Address{}, err
	}
	sigv4.GoogleSigned(r, signature)
	return cachestore.Address{URL: u.String(), Headers: headers}, nil
}

// local has the key of its account.
type local struct{ account *sigv4.Account }

func (l local) email(context.Context) (string, error) { return l.account.Email, nil }

func (l local) sign(_ context.Context, text []byte) ([]byte, error) { return l.account.Sign(text) }
