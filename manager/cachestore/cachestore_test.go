package cachestore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
)

// noting is a store that says what it was asked for.
type noting struct{ err error }

func (n noting) Get(_ context.Context, object string, life time.Duration) (Address, error) {
	return Address{URL: "GET " + object + " for " + life.String()}, n.err
}

func (n noting) Put(_ context.Context, object string, meta Metadata, life time.Duration) (Address, error) {
	return Address{URL: "PUT " + object + " for " + life.String(), Headers: meta.Headers("meta-")}, n.err
}

// longtoken is the runner of gitlab-runner's test.
const longtoken = "longtoken"

// TestNamesOfObjects are the cases of gitlab-runner's TestGenerateObjectName (cache/cache_test.go). In the job's log an empty name says the reason.
func TestNamesOfObjects(t *testing.T) {
	t.Parallel()
	const hash = "d03a852ba491ba611e907b1ef60ad5c4516a05b8f3aae6abb77f42bc60325aed"
	for name, tc := range map[string]struct {
		key, path       string
		shared, sharded bool
		want            string
		wrong           string
	}{
		"default usage":                              {key: "key", want: "runner/longtoken/project/10/key"},
		"empty key":                                  {wrong: "nothing is left of it"},
		"short path is set":                          {key: "key", path: "whatever", want: "whatever/runner/longtoken/project/10/key"},
		"multiple segment path is set":               {key: "key", path: "some/other/path/goes/here", want: "some/other/path/goes/here/runner/longtoken/project/10/key"},
		"path is empty":                              {key: "key", path: "", want: "runner/longtoken/project/10/key"},
		"shared flag is set to true":                 {key: "key", shared: true, want: "project/10/key"},
		"path traversal but within base path":        {key: "../10/key", want: "runner/longtoken/project/10/key"},
		"path traversal resolves to empty key":       {key: "../10", wrong: "out of the project's own caches"},
		"path traversal escapes project namespace":   {key: "../10-outside", wrong: "out of the project's own caches"},
		"sharded key uses first two chars as prefix": {key: hash, sharded: true, want: "runner/longtoken/project/10/d0/" + hash},
		"sharded key with path prefix":               {key: hash, path: "builds", sharded: true, want: "builds/runner/longtoken/project/10/d0/" + hash},
		"sharded key with shared runner":             {key: hash, shared: true, sharded: true, want: "project/10/d0/" + hash},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Of(noting{}, config.Cache{Path: tc.path, Shared: tc.shared, MaxUploadedArchiveSize: 5}, longtoken, 10)
			c := p.For(t.Context(), time.Hour, func(err error) { t.Error(err) })
			key := compile.CacheKey{Key: tc.key, Hashed: tc.sharded, Text: "main"}
			get, err := c.Get(key)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("got %v, %v", get, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			put, err := c.Put(key)
			want := []compile.CacheAddress{
				{URL: "GET " + tc.want + " for 1h0m0s"},
				{URL: "PUT " + tc.want + " for 1h0m0s", Headers: map[string]string{"meta-cachekey": "main"}, MaxSize: 5},
			}
			if diff := cmp.Diff(want, []compile.CacheAddress{get, put}); diff != "" || err != nil {
				t.Errorf("%v; want (-), got (+):\n%s", err, diff)
			}
		})
	}
}

func TestKeysThatCannotBeInAHeaderAreLeftOut(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]Metadata{"main": {"cachekey": "main"}, "a b/c": {"cachekey": "a b/c"}, "ä": nil, "a\r\nX-Evil: 1": nil, " a": nil} {
		if diff := cmp.Diff(want, described(key)); diff != "" {
			t.Errorf("%q: %s", key, diff)
		}
	}
}

func TestOnlyTheOperatorReadsWhyNothingIsSigned(t *testing.T) {
	t.Parallel()
	var noted error
	p := Of(Broken{errors.New("assuming the role arn:aws:iam::1:role/caches: AccessDenied")}, config.Cache{}, longtoken, 10)
	c := p.For(t.Context(), 100*24*time.Hour, func(err error) { noted = err })
	_, getting := c.Get(compile.CacheKey{Key: "main"})
	_, putting := c.Put(compile.CacheKey{Key: "main"})
	for _, err := range []error{getting, putting} {
		if err == nil || strings.Contains(err.Error(), "arn:") {
			t.Errorf("the job reads %v", err)
		}
	}
	if noted == nil || !strings.Contains(noted.Error(), "runner/longtoken/project/10/main: assuming the role arn:") {
		t.Errorf("the operator reads %v", noted)
	}
	p.signer = noting{}
	if got, err := p.For(t.Context(), 100*24*time.Hour, nil).Get(compile.CacheKey{Key: "main"}); err != nil || !strings.HasSuffix(got.URL, " for 168h0m0s") {
		t.Errorf("an address holds %v, %v", got, err)
	}
}
