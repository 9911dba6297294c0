// Package cachestoretest is the conformance suite of stores of caches.
package cachestoretest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/manager/cachestore"
)

// Place is a store that a test has to itself.
type Place struct {
	Signer cachestore.Signer
	// Secrets must not be in an address.
	Secrets []string
	// Headers says that the store refuses an upload without the headers of its address.
	Headers bool
	// Believes says that the store does not check signatures: what only they prevent is not tried.
	Believes bool
}

// life is how long most addresses hold.
const life = time.Hour

// Objects are names that GitLab's runner gives, and odd ones.
var Objects = []string{
	"runner/abcdefghi/project/7/main-non_protected", "builds/project/7/feature/x", "project/7/a b+c", "project/7/ä/日本", "project/7/100%25",
	"project/7/!'()*~-._", "project/7/a:b@c,d;e=f&g", "project/7/d0/d03a852ba491ba611e907b1ef60ad5c4516a05b8f3aae6abb77f42bc60325aed",
}

// Run runs the suite. open makes a place whose bucket is there and empty.
func Run(t *testing.T, open func(t *testing.T) Place) {
	t.Run("an object that does not exist is missing", func(t *testing.T) {
		p := open(t)
		if status, _ := send(t, http.MethodGet, p.get(t, "project/7/nothing", life), nil); status != http.StatusNotFound {
			t.Errorf("got %d", status)
		}
	})
	t.Run("what is put is got", func(t *testing.T) {
		p := open(t)
		for i, object := range Objects {
			content := bytes.Repeat([]byte{byte('a' + i)}, 1000*i)
			put := p.put(t, object, cachestore.Metadata{"cachekey": "the key"})
			if status, text := send(t, http.MethodPut, put, content); status/100 != 2 {
				t.Errorf("%q: putting it gives %d %s", object, status, text)
			}
			if status, text := send(t, http.MethodGet, p.get(t, object, life), nil); status != http.StatusOK || text != string(content) {
				t.Errorf("%q: getting it gives %d and %d bytes of %d", object, status, len(text), len(content))
			}
			for _, secret := range p.Secrets {
				for _, shape := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
					if strings.Contains(put.URL, shape) {
						t.Errorf("the address has the secret %q", shape)
					}
				}
			}
		}
	})
	t.Run("what is put again is replaced", func(t *testing.T) {
		p := open(t)
		for _, content := range []string{"first, and longer", "second"} {
			if status, text := send(t, http.MethodPut, p.put(t, "project/7/again", nil), []byte(content)); status/100 != 2 {
				t.Fatalf("got %d %s", status, text)
			}
		}
		if _, text := send(t, http.MethodGet, p.get(t, "project/7/again", life), nil); text != "second" {
			t.Errorf("got %q", text)
		}
	})
	t.Run("an address is for one object and one method", func(t *testing.T) {
		if p := open(t); !p.Believes {
			misused(t, p)
		}
	})
	t.Run("an address ends", func(t *testing.T) {
		p := open(t)
		if p.Believes {
			return
		}
		address := p.get(t, "project/7/short", 2*time.Second)
		if status, _ := send(t, http.MethodGet, address, nil); status != http.StatusNotFound {
			t.Fatalf("before its end it gives %d", status)
		}
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
			status, _ := send(t, http.MethodGet, address, nil)
			if refused(status) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("after its end it gives %d", status)
			}
		}
	})
}

// misused tries what a job could do with its addresses.
func misused(t *testing.T, p Place) {
	if status, text := send(t, http.MethodPut, p.put(t, "project/7/mine", nil), []byte("mine")); status/100 != 2 {
		t.Fatalf("got %d %s", status, text)
	}
	get, put := p.get(t, "project/7/mine", life), p.put(t, "project/7/mine", cachestore.Metadata{"cachekey": "mine"})
	other := func(a cachestore.Address, path string) cachestore.Address {
		a.URL = strings.Replace(a.URL, "project/7/mine", path, 1)
		return a
	}
	cases := map[string]struct {
		method  string
		address cachestore.Address
	}{
		"another object, read":       {http.MethodGet, other(get, "project/7/theirs")},
		"another object, written":    {http.MethodPut, other(put, "project/7/main-protected")},
		"another project, written":   {http.MethodPut, other(put, "project/8/mine")},
		"a read that writes":         {http.MethodPut, cachestore.Address{URL: get.URL, Headers: put.Headers}},
		"a read that deletes":        {http.MethodDelete, get},
		"a write that deletes":       {http.MethodDelete, put},
		"a write that reads":         {http.MethodGet, put},
		"another signature, written": {http.MethodPut, cachestore.Address{URL: forged(t, put.URL), Headers: put.Headers}},
		"no signature":               {http.MethodGet, cachestore.Address{URL: strings.SplitN(get.URL, "?", 2)[0]}},
	}
	if p.Headers {
		cases["other metadata"] = struct {
			method  string
			address cachestore.Address
		}{http.MethodPut, cachestore.Address{URL: put.URL}}
	}
	for name, c := range cases {
		if status, text := send(t, c.method, c.address, nil); !refused(status) {
			t.Errorf("%s: got %d %s", name, status, text)
		}
	}
	if _, text := send(t, http.MethodGet, get, nil); text != "mine" {
		t.Errorf("at the end it is %q", text)
	}
}

// forged is an address with another signature.
func forged(t *testing.T, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	for _, name := range []string{"X-Amz-Signature", "X-Goog-Signature", "sig"} {
		if v := query.Get(name); v != "" {
			query.Set(name, v[1:]+v[:1])
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

func refused(status int) bool { return status/100 == 4 && status != http.StatusNotFound }

func (p Place) get(t *testing.T, object string, life time.Duration) cachestore.Address {
	t.Helper()
	a, err := p.Signer.Get(t.Context(), object, life)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (p Place) put(t *testing.T, object string, meta cachestore.Metadata) cachestore.Address {
	t.Helper()
	a, err := p.Signer.Put(t.Context(), object, meta, life)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// send makes a request as a step does it: plainly.
func send(t *testing.T, method string, a cachestore.Address, content []byte) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, a.URL, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPut {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	for name, text := range a.Headers {
		req.Header.Set(name, text)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
