// Package azure signs addresses of blobs in Azure's Blob Storage, with shared access signatures (SAS).
package azure

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/config"
)

const (
	// version is that of the service that signatures and requests are written for.
	version = "2021-08-06"
	// instant is how times are written.
	instant = "2006-01-02T15:04:05Z"
	// ofBlob says that a signature is for one blob.
	ofBlob = "b"
)

// Store signs addresses with the key of the account, or with one that the account lends to an identity of this machine.
type Store struct {
	account, container string
	key                []byte     // of the account; nil if there is none
	identity           *delegator // instead
	protocol           string
	base               string
}

// New reads the configuration. It makes no request.
func New(c config.CacheAzure) (*Store, error) {
	switch {
	case c.AccountName == "":
		return nil, errors.New("AccountName is missing")
	case c.ContainerName == "":
		return nil, errors.New("ContainerName is missing")
	}
	s := &Store{
		account: c.AccountName, container: c.ContainerName, protocol: "https",
		base: "https://" + c.AccountName + "." + cmp.Or(c.StorageDomain, "blob.core.windows.net"),
	}
	if c.AccountKey == "" {
		s.identity = &delegator{service: s.base}
		return s, nil
	}
	var err error
	if s.key, err = base64.StdEncoding.DecodeString(c.AccountKey); err != nil || len(s.key) == 0 {
		return nil, errors.New("AccountKey is not in Base64, as Azure gives it")
	}
	return s, nil
}

// Get implements cachestore.Signer.
func (s *Store) Get(ctx context.Context, object string, life time.Duration) (cachestore.Address, error) {
	u, err := s.sign(ctx, "r", object, life)
	return cachestore.Address{URL: u}, err
}

// Put implements cachestore.Signer.
func (s *Store) Put(ctx context.Context, object string, meta cachestore.Metadata, life time.Duration) (cachestore.Address, error) {
	u, err := s.sign(ctx, "w", object, life)
	headers := meta.Headers("X-Ms-Meta-")
	headers["X-Ms-Blob-Type"] = "BlockBlob"
	headers["X-Ms-Version"] = version
	return cachestore.Address{URL: u, Headers: headers}, err
}

func (s *Store) sign(ctx context.Context, permissions, object string, life time.Duration) (string, error) {
	now := time.Now().UTC()
	query := url.Values{
		"sp": {permissions}, "se": {now.Add(life).Format(instant)}, "spr": {s.protocol}, "sv": {version}, "sr": {ofBlob},
	}
	key := s.key
	if s.identity != nil {
		lent, err := s.identity.key(ctx, now, now.Add(life))
		if err != nil {
			return "", err
		}
		key = lent.Value
		for name, text := range map[string]string{"skoid": lent.ObjectID, "sktid": lent.TenantID, "skt": lent.Start, "ske": lent.Expiry, "sks": lent.Service, "skv": lent.Version} {
			query.Set(name, text)
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(s.text(query, object)))
	query.Set("sig", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	u, err := url.Parse(s.base)
	if err != nil {
		return "", err
	}
	u = u.JoinPath(s.container)
	u.Path += "/" + object
	u.RawPath, u.RawQuery = "", query.Encode()
	return u.String(), nil
}

// text is what is signed: "Create a service SAS" and "Create a user delegation SAS" of Azure's documentation.
func (s *Store) text(query url.Values, object string) string {
	resource := "/blob/" + s.account + "/" + s.container + "/" + object
	fields := []string{query.Get("sp"), "", query.Get("se"), resource}
	if s.identity == nil {
		fields = append(fields, "") // a stored policy
	} else {
		for _, name := range []string{"skoid", "sktid", "skt", "ske", "sks", "skv"} {
			fields = append(fields, query.Get(name))
		}
		fields = append(fields, "", "", "") // who is authorised, who is not yet, and a correlation
	}
	fields = append(fields, "", query.Get("spr"), query.Get("sv"), query.Get("sr"), "", "") // addresses, …, a snapshot and an encryption scope
	fields = append(fields, "", "", "", "", "")                                             // headers of the answer
	return strings.Join(fields, "\n")
}

var client = &http.Client{Timeout: patience}
