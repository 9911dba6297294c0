package bucket

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/internal/sigv4"
)

// azureVersion is the version of the service that the requests are written for.
const azureVersion = "2021-08-06"

func (b *Bucket) openAzure(u *url.URL, getenv func(string) string) error {
	o, err := options(u, "endpoint")
	if err != nil {
		return err
	}
	container, prefix, _ := strings.Cut(b.prefix, "/")
	if container == "" {
		return errors.New("it names no container; write azblob://ACCOUNT/CONTAINER/PREFIX")
	}
	if strings.Trim(u.Host, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return errors.New("the names of accounts are small letters and digits")
	}
	base, err := endpoint(o["endpoint"], "https://"+u.Host+".blob.core.windows.net")
	if err != nil {
		return err
	}
	base.Path += "/" + container
	b.base, b.prefix, b.meta, b.limit = base, prefix, "X-Ms-Meta-", MaxAzure
	b.put = http.Header{"X-Ms-Blob-Type": {"BlockBlob"}}
	if sas := strings.TrimPrefix(getenv("AZURE_STORAGE_SAS"), "?"); sas != "" {
		query, err := url.ParseQuery(sas)
		if err != nil || query.Get("sig") == "" {
			return errors.New("AZURE_STORAGE_SAS is not a shared access signature; those are like sv=…&sig=…")
		}
		b.signer = accessSignature(sas)
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(getenv("AZURE_STORAGE_KEY"))
	switch {
	case err != nil:
		return errors.New("AZURE_STORAGE_KEY is not in Base64")
	case len(key) == 0:
		return errors.New("neither AZURE_STORAGE_KEY nor AZURE_STORAGE_SAS is given")
	}
	b.signer = &sharedKey{account: u.Host, key: key}
	return nil
}

// accessSignature is a SAS: it is in the address.
type accessSignature string

func (s accessSignature) sign(r *http.Request, _ string, now time.Time) error {
	azureHeaders(r, now)
	r.URL.RawQuery = string(s)
	return nil
}

func azureHeaders(r *http.Request, now time.Time) {
	r.Header.Set("X-Ms-Date", now.Format(http.TimeFormat))
	r.Header.Set("X-Ms-Version", azureVersion)
}

// sharedKey signs with the key of an account.
type sharedKey struct {
	account string
	key     []byte
}

func (s *sharedKey) sign(r *http.Request, _ string, now time.Time) error {
	azureHeaders(r, now)
	signature := base64.StdEncoding.EncodeToString(hmacSHA256(s.key, s.text(r)))
	r.Header.Set("Authorization", fmt.Sprintf("SharedKey %s:%s", s.account, signature))
	return nil
}

// text returns what is signed: the method, eleven headers by their place, those of Microsoft by name, and the resource.
func (s *sharedKey) text(r *http.Request) string {
	length := ""
	if r.ContentLength > 0 {
		length = strconv.FormatInt(r.ContentLength, 10)
	}
	parts := []string{r.Method, r.Header.Get("Content-Encoding"), r.Header.Get("Content-Language"), length}
	for _, name := range []string{"Content-MD5", "Content-Type", "Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"} {
		parts = append(parts, r.Header.Get(name))
	}
	own := map[string][]string{}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Ms-") {
			own[name] = values
		}
	}
	lines, _ := sigv4.Headers(own)
	return strings.Join(parts, "\n") + "\n" + lines + s.resource(r.URL)
}

// resource is the account, the path as it is sent, and the query by its names in small letters.
func (s *sharedKey) resource(u *url.URL) string {
	var b strings.Builder
	b.WriteString("/" + s.account + u.EscapedPath())
	byName := map[string][]string{}
	for name, values := range u.Query() {
		name = strings.ToLower(name)
		byName[name] = append(byName[name], values...)
	}
	var names []string
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		slices.Sort(byName[name])
		b.WriteString("\n" + name + ":" + strings.Join(byName[name], ","))
	}
	return b.String()
}
