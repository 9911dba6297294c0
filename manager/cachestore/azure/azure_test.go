package azure

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/rungci/rung/manager/cachestore/cachestoretest"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/catalog/cache/bucket/buckettest"
)

const account = "runnercaches"

var accountKey = base64.StdEncoding.EncodeToString([]byte("a key that only the account has"))

// sign computes the signature of a request's address with Microsoft's own library.
type sign func(sas.BlobSignatureValues) (sas.QueryParameters, error)

// store is one that wants signatures as Microsoft's library makes them. The name of the account is in its paths, as emulators have it.
func store(t *testing.T, with sign) string {
	t.Helper()
	return buckettest.New(t, "X-Ms-Meta-", func(r *http.Request, _ []byte) error {
		query := r.URL.Query()
		need := map[string]string{http.MethodGet: "r", http.MethodPut: "w", http.MethodDelete: "d"}[r.Method]
		expiry, err := time.Parse(instant, query.Get("se"))
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		container, blob, _ := strings.Cut(rest, "/")
		want, err := with(sas.BlobSignatureValues{
			Version: query.Get("sv"), Protocol: sas.Protocol(query.Get("spr")), ExpiryTime: expiry, Permissions: query.Get("sp"), ContainerName: container, BlobName: blob,
		})
		switch {
		case err != nil:
			return err
		case query.Get("sig") != want.Signature():
			return fmt.Errorf("the signature is not that of %s", want.Encode())
		case !strings.Contains(query.Get("sp"), need):
			return fmt.Errorf("the permissions are %q", query.Get("sp"))
		case time.Now().After(expiry):
			return fmt.Errorf("it has ended")
		case r.Method == http.MethodPut && r.Header.Get("X-Ms-Blob-Type") != "BlockBlob":
			return fmt.Errorf("there is no kind of blob")
		}
		return nil
	}).URL + "/" + account
}

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("the key of the account", func(t *testing.T) {
		t.Parallel()
		key, err := service.NewSharedKeyCredential(account, accountKey)
		if err != nil {
			t.Fatal(err)
		}
		cachestoretest.Run(t, func(t *testing.T) cachestoretest.Place {
			s, err := New(config.CacheAzure{AccountName: account, AccountKey: accountKey, ContainerName: "caches"})
			if err != nil {
				t.Fatal(err)
			}
			s.base = store(t, func(v sas.BlobSignatureValues) (sas.QueryParameters, error) { return v.SignWithSharedKey(key) })
			return cachestoretest.Place{Signer: s, Secrets: []string{accountKey}}
		})
	})
	t.Run("an identity", func(t *testing.T) {
		t.Parallel()
		cachestoretest.Run(t, func(t *testing.T) cachestoretest.Place {
			key := lending(t)
			s, err := New(config.CacheAzure{AccountName: account, ContainerName: "caches"})
			if err != nil {
				t.Fatal(err)
			}
			s.identity.identity = somebody{}
			s.identity.service = key.URL
			s.base = store(t, func(v sas.BlobSignatureValues) (sas.QueryParameters, error) {
				theirs, err := service.NewClient("http://"+account+".blob.example", somebody{}, key.options())
				if err != nil {
					return sas.QueryParameters{}, err
				}
				lent, err := theirs.GetUserDelegationCredential(context.Background(), service.KeyInfo{Start: &key.start, Expiry: &key.end}, nil)
				if err != nil {
					return sas.QueryParameters{}, err
				}
				return v.SignWithUserDelegation(lent)
			})
			return cachestoretest.Place{Signer: s, Secrets: []string{secretOfKey}}
		})
	})
}

// secretOfKey is the one that is lent.
var secretOfKey = base64.StdEncoding.EncodeToString([]byte("a key that was lent"))

type lender struct {
	*httptest.Server
	start, end string
	asked      int
}

// options make a client of Microsoft's library come here, whatever host it is told.
func (l *lender) options() *service.ClientOptions {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, l.Listener.Addr().String())
	}
	return &service.ClientOptions{ClientOptions: azcore.ClientOptions{
		InsecureAllowCredentialWithHTTP: true, Transport: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}}
}

// lending is the service that lends keys to whoever has the token of somebody.
func lending(t *testing.T) *lender {
	t.Helper()
	now := time.Now().UTC()
	l := &lender{start: now.Format(instant), end: now.Add(3 * time.Hour).Format(instant)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Query().Get("restype")+r.URL.Query().Get("comp") != "serviceuserdelegationkey" || r.Header.Get("Authorization") != "Bearer t0ken" || r.Header.Get("X-Ms-Version") == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		l.asked++
		fmt.Fprintf(w, "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?><UserDelegationKey><SignedOid>object</SignedOid><SignedTid>tenant</SignedTid><SignedStart>%s</SignedStart>"+
			"<SignedExpiry>%s</SignedExpiry><SignedService>b</SignedService><SignedVersion>%s</SignedVersion><Value>%s</Value></UserDelegationKey>",
			l.start, l.end, version, secretOfKey)
	}))
	t.Cleanup(l.Close)
	return l
}

// somebody is an identity.
type somebody struct{}

func (somebody) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if len(o.Scopes) != 1 || o.Scopes[0] != "https://storage.azure.com/.default" {
		return azcore.AccessToken{}, fmt.Errorf("the scopes are %v", o.Scopes)
	}
	return azcore.AccessToken{Token: "t0ken", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestALentKeyIsKept(t *testing.T) {
	t.Parallel()
	key := lending(t)
	s, err := New(config.CacheAzure{AccountName: account, ContainerName: "caches"})
	if err != nil {
		t.Fatal(err)
	}
	s.identity.identity, s.identity.service = somebody{}, key.URL
	for _, tc := range []struct {
		life time.Duration
		want int
	}{{time.Hour, 1}, {2 * time.Hour, 1}, {4 * time.Hour, 2}} /* it is lent for three */ {
		if _, err := s.Get(t.Context(), "object", tc.life); err != nil || key.asked != tc.want {
			t.Errorf("for %s it was asked %d times, %v", tc.life, key.asked, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]string{"": "https://runnercaches.blob.core.windows.net/caches/project/7/a%20b", "blob.core.chinacloudapi.cn": "https://runnercaches.blob.core.chinacloudapi.cn/caches/project/7/a%20b"} {
		s, err := New(config.CacheAzure{AccountName: account, AccountKey: accountKey, ContainerName: "caches", StorageDomain: domain})
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Put(t.Context(), "project/7/a b", nil, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(a.URL)
		if q := u.Query(); q.Get("spr") != "https" || q.Get("sp") != "w" || q.Get("sr") != "b" {
			t.Errorf("got %v", q)
		}
		if u.RawQuery = ""; u.String() != want {
			t.Errorf("got %s, want %s", u, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]config.CacheAzure{
		"AccountName is missing":       {ContainerName: "c"},
		"ContainerName is missing":     {AccountName: "a"},
		"AccountKey is not in Base64,": {AccountName: "a", ContainerName: "c", AccountKey: "s3cr3t!"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
