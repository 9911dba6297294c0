package azure

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

const (
	// storage is what the token of an identity is for.
	storage = "https://storage.azure.com/.default"
	// patience bounds one request, and maxAnswer its answer, in bytes.
	patience  = 10 * time.Second
	maxAnswer = 1 << 20
	// kept is how long a key is used for more addresses: it is asked for with so much more life than an address needs.
	kept = time.Hour
	// maxKeyLife is the service's limit.
	maxKeyLife = 7 * 24 * time.Hour
)

// lent is a user delegation key.
type lent struct {
	ObjectID string `xml:"SignedOid"`
	TenantID string `xml:"SignedTid"`
	Start    string `xml:"SignedStart"`
	Expiry   string `xml:"SignedExpiry"`
	Service  string `xml:"SignedService"`
	Version  string `xml:"SignedVersion"`
	Text     string `xml:"Value"`
	Value    []byte `xml:"-"`
}

// delegator asks for keys in the name of an identity: variables, a workload, a managed identity, or who is logged in.
type delegator struct {
	service string // its address

	mu       sync.Mutex
	identity azcore.TokenCredential // nil until it is needed
	last     *lent
}

// key returns a key that holds until a time.
func (d *delegator) key(ctx context.Context, now, until time.Time) (*lent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil {
		if expiry, err := time.Parse(instant, d.last.Expiry); err == nil && !expiry.Before(until.Truncate(time.Second)) {
			return d.last, nil
		}
	}
	if d.identity == nil {
		found, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, err
		}
		d.identity = found
	}
	token, err := d.identity.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{storage}})
	if err != nil {
		return nil, err
	}
	end := until.Add(kept)
	if longest := now.Add(maxKeyLife); end.After(longest) {
		end = longest
	}
	key, err := request(ctx, d.service, token.Token, now, end)
	if err != nil {
		return nil, fmt.Errorf("asking %s for a user delegation key: %w", d.service, err)
	}
	d.last = key
	return key, nil
}

// request is Get User Delegation Key.
func request(ctx context.Context, service, token string, start, end time.Time) (*lent, error) {
	body := fmt.Sprintf(`<?xml version="1.0" encoding="utf-8"?><KeyInfo><Start>%s</Start><Expiry>%s</Expiry></KeyInfo>`, start.Format(instant), end.Format(instant))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, service+"/?restype=service&comp=userdelegationkey", bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-Ms-Version", version)
	req.Header.Set("Content-Type", "application/xml")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s; the identity needs the role Storage Blob Delegator, and Storage Blob Data Contributor for the container", resp.Status)
	}
	key := &lent{}
	if err := xml.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), key); err != nil {
		return nil, err
	}
	if key.Value, err = base64.StdEncoding.DecodeString(key.Text); err != nil || len(key.Value) == 0 {
		return nil, errors.New("the answer has no key")
	}
	return key, nil
}
