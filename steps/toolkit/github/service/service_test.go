package service_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestEnv(t *testing.T) {
	t.Parallel()
	t.Run("a script gets no token of the services", func(t *testing.T) {
		t.Parallel()
		c := start(t, options(t))
		if got := slices.Sorted(maps.Keys(c.server.Env(false, nil))); !slices.Equal(got, []string{"GITHUB_API_URL", "GITHUB_GRAPHQL_URL"}) {
			t.Errorf("it gets %v", got)
		}
	})
	t.Run("id-token: write opens OpenID Connect, for scripts too", func(t *testing.T) {
		t.Parallel()
		opts := options(t)
		opts.Permissions = map[string]string{"id-token": "write"}
		if env := start(t, opts).server.Env(false, nil); env["ACTIONS_ID_TOKEN_REQUEST_URL"] == "" || env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"] == "" {
			t.Errorf("the environment is %v", env)
		}
	})
	t.Run("no two jobs have a token in common, and all are masked", func(t *testing.T) {
		t.Parallel()
		a, b := start(t, options(t)), start(t, options(t))
		for _, secret := range a.server.Secrets() {
			if slices.Contains(b.server.Secrets(), secret) || len(secret) < 40 {
				t.Errorf("%q is known to both, or short", secret)
			}
		}
		for _, token := range []string{a.runtime, a.server.Token()} {
			if !slices.Contains(a.server.Secrets(), token) {
				t.Errorf("%q is not masked", token)
			}
		}
	})
}

func TestTheRuntimeTokenSaysWhichJobItIsOf(t *testing.T) {
	t.Parallel()
	c := start(t, options(t))
	claims := decode(t, c.runtime)
	run, job := ids(t, c.runtime)
	if run == "" || job == "" || claims["ac"] != `[{"Scope":"refs/heads/main","Permission":3}]` {
		t.Errorf("the claims are %v", claims)
	}
}

// decode reads the claims of a token without checking it.
func decode(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is not a token", token)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	return answer{body: text}.json(t)
}

// ids are those in the scope of a runtime token.
func ids(t *testing.T, token string) (run, job string) {
	t.Helper()
	for scope := range strings.FieldsSeq(decode(t, token)["scp"].(string)) {
		if parts := strings.Split(scope, ":"); parts[0] == "Actions.Results" && len(parts) == 3 {
			return parts[1], parts[2]
		}
	}
	return "", ""
}

func TestWhoGetsIn(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Permissions = map[string]string{"id-token": "write", "contents": "read"}
	c, other := start(t, opts), start(t, opts)
	const list = "/twirp/github.actions.results.api.v1.ArtifactService/ListArtifacts"
	asJSON := "Content-Type: application/json"
	tests := []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"nobody without a token", "POST", list, []string{asJSON}, 401},
		{"no other job", "POST", list, []string{asJSON, "Authorization: Bearer " + other.runtime}, 401},
		{"no GITHUB_TOKEN in place of the runtime's", "POST", list, []string{asJSON, "Authorization: Bearer " + c.server.Token()}, 401},
		{"no other job at caches", "GET", "/_apis/artifactcache/cache?keys=a&version=b", []string{"Authorization: Bearer " + other.runtime}, 401},
		{"no other job at OpenID Connect", "GET", "/oidc/token?audience=a", []string{"Authorization: Bearer " + other.env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]}, 401},
		{"no runtime token at OpenID Connect", "GET", "/oidc/token?audience=a", []string{"Authorization: Bearer " + c.runtime}, 401},
		{"no other job at the API", "GET", "/api/v3/repos/octo/hello", []string{"Authorization: token " + other.server.Token()}, 401},
		{"not by another name", "POST", list, []string{asJSON, "Authorization: Bearer " + c.runtime, "Host: evil.example"}, 421},
		{"nothing but JSON", "POST", list, []string{"Authorization: Bearer " + c.runtime, "Content-Type: application/protobuf"}, 400},
		{"an address without a signature", "GET", "/blob/artifact/1/a.zip", nil, 403},
		{"an address with a wrong signature", "PUT", "/blob/upload/A/content?se=9999999999&sig=" + strings.Repeat("0", 64), nil, 403},
		{"a method that there is none of", "POST", "/twirp/github.actions.results.api.v1.ArtifactService/MigrateArtifact", []string{asJSON, "Authorization: Bearer " + c.runtime}, 501},
		{"artifacts of version 3", "POST", "/_apis/pipelines/workflows/1/artifacts", nil, 501},
		{"the API by basic authentication", "GET", "/api/v3/repos/octo/hello", []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+c.server.Token()))}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := c.send(tt.method, tt.path, []byte("{}"), tt.headers...); got.status != tt.status {
				t.Errorf("the answer is %d %s; want %d", got.status, got.body, tt.status)
			}
		})
	}
	t.Run("not with the IDs of another job", func(t *testing.T) {
		run, job := ids(t, other.runtime)
		c.twirp("ArtifactService/ListArtifacts", map[string]any{"workflow_run_backend_id": run, "workflow_job_run_backend_id": job}).want(t, 403, "permission_denied")
	})
	t.Run("no request that is too large", func(t *testing.T) {
		c.twirp("CacheService/GetCacheEntryDownloadURL", map[string]any{"key": strings.Repeat("k", 2<<20)}).want(t, 400, "too large")
	})
}

// artifactMessage is a request about an artifact of the client's job.
func (c *client) artifactMessage(fields map[string]any) map[string]any {
	run, job := ids(c.t, c.runtime)
	message := map[string]any{"workflow_run_backend_id": run, "workflow_job_run_backend_id": job, "version": 7}
	maps.Copy(message, fields)
	return message
}

// upload leaves an artifact, in two blocks that come in the wrong order.
func (c *client) upload(name, text string) {
	c.t.Helper()
	created := c.twirp("ArtifactService/CreateArtifact", c.artifactMessage(map[string]any{"name": name})).want(c.t, 200, "signed_upload_url").json(c.t)
	address := created["signed_upload_url"].(string)
	half := len(text) / 2
	c.send("PUT", address+"&comp=block&blockid=Yg==", []byte(text[half:])).want(c.t, 201, "")
	c.send("PUT", address+"&comp=block&blockid=YQ", []byte(text[:half])).want(c.t, 201, "")
	c.send("PUT", address+"&comp=blocklist", []byte("<BlockList><Latest>YQ==</Latest><Uncommitted>Yg==</Uncommitted></BlockList>")).want(c.t, 201, "")
	sum := sha256.Sum256([]byte(text))
	c.twirp("ArtifactService/FinalizeArtifact", c.artifactMessage(map[string]any{
		"name": name, "size": fmt.Sprint(len(text)), "hash": "sha256:" + hex.EncodeToString(sum[:]),
	})).want(c.t, 200, `"ok":true`)
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	opts := options(t)
	var notes []string
	opts.Note = func(text string) { notes = append(notes, text) }
	c := start(t, opts)
	c.upload("report", "0123456789")

	t.Run("they are files of the run's folder, for its other jobs", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(opts.Artifacts, "report.zip"))
		if err != nil || string(text) != "0123456789" {
			t.Errorf("the file holds %q, %v", text, err)
		}
		later := start(t, opts)
		later.twirp("ArtifactService/ListArtifacts", later.artifactMessage(map[string]any{"name_filter": "report"})).want(t, 200, `"size":"10"`)
	})
	t.Run("a part of one is a range", func(t *testing.T) {
		address := c.twirp("ArtifactService/GetSignedArtifactURL", c.artifactMessage(map[string]any{"name": "report"})).json(t)["signed_url"].(string)
		c.send("GET", address, nil, "Range: bytes=2-4").want(t, 206, "234")
		whole := c.send("GET", address, nil).want(t, 200, "0123456789")
		if got := whole.header.Get("Content-Disposition"); got != "attachment; filename=report.zip" {
			t.Errorf("its name is %q", got)
		}
		c.send("PUT", address, nil).want(t, 405, "")
		c.send("GET", strings.Replace(address, "se=", "se=1", 1), nil).want(t, 403, "")
	})
	t.Run("one is found by its number", func(t *testing.T) {
		list := func(filter map[string]any) []any {
			return c.twirp("ArtifactService/ListArtifacts", c.artifactMessage(filter)).json(t)["artifacts"].([]any)
		}
		id := list(nil)[0].(map[string]any)["database_id"]
		if len(list(map[string]any{"id_filter": id})) != 1 || len(list(map[string]any{"idFilter": "1"})) != 0 {
			t.Errorf("%v is not found, or all are", id)
		}
	})
	t.Run("a name is taken once", func(t *testing.T) {
		c.twirp("ArtifactService/CreateArtifact", c.artifactMessage(map[string]any{"name": "report"})).want(t, 409, "already exists")
	})
	t.Run("one that is deleted is gone, and its name free", func(t *testing.T) {
		c.upload("old", "x1")
		c.twirp("ArtifactService/DeleteArtifact", c.artifactMessage(map[string]any{"name": "old"})).want(t, 200, `"ok":true`)
		c.twirp("ArtifactService/GetSignedArtifactURL", c.artifactMessage(map[string]any{"name": "old"})).want(t, 404, "no artifact")
		c.upload("old", "x2")
	})
	t.Run("names that lead elsewhere are refused", func(t *testing.T) {
		for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a:b", "a\nb", "a\x00b", strings.Repeat("n", 300)} {
			for _, method := range []string{"CreateArtifact", "GetSignedArtifactURL", "DeleteArtifact"} {
				c.twirp("ArtifactService/"+method, c.artifactMessage(map[string]any{"name": name})).want(t, 400, "the name of the artifact")
			}
		}
	})
	t.Run("what is not what its client says is refused", func(t *testing.T) {
		for name, end := range map[string]map[string]any{
			"digest": {"size": "2", "hash": "sha256:" + strings.Repeat("0", 64)},
			"size":   {"size": 3},
		} {
			created := c.twirp("ArtifactService/CreateArtifact", c.artifactMessage(map[string]any{"name": name})).json(t)
			c.send("PUT", created["signed_upload_url"].(string), []byte("ab")).want(t, 201, "")
			end["name"] = name
			c.twirp("ArtifactService/FinalizeArtifact", c.artifactMessage(end)).want(t, 400, "were uploaded")
		}
	})
	t.Run("what is not complete is refused", func(t *testing.T) {
		created := c.twirp("ArtifactService/CreateArtifact", c.artifactMessage(map[string]any{"name": "none"})).json(t)
		c.send("PUT", created["signed_upload_url"].(string)+"&comp=blocklist", []byte("<BlockList><Latest>YQ==</Latest></BlockList>")).want(t, 400, "InvalidBlockList")
		c.twirp("ArtifactService/FinalizeArtifact", c.artifactMessage(map[string]any{"name": "none", "size": "0"})).want(t, 412, "incomplete")
		c.twirp("ArtifactService/FinalizeArtifact", c.artifactMessage(map[string]any{"name": "never", "size": "0"})).want(t, 404, "no upload")
	})
	t.Run("one whose content is lost can be deleted", func(t *testing.T) {
		c.upload("lost", "xy")
		if err := os.Remove(filepath.Join(opts.Artifacts, "lost.zip")); err != nil {
			t.Fatal(err)
		}
		address := c.twirp("ArtifactService/GetSignedArtifactURL", c.artifactMessage(map[string]any{"name": "lost"})).json(t)["signed_url"].(string)
		c.send("GET", address, nil).want(t, 404, "the content is gone")
		c.twirp("ArtifactService/DeleteArtifact", c.artifactMessage(map[string]any{"name": "lost"})).want(t, 200, `"ok":true`)
	})
	t.Run("a version that is gone is refused", func(t *testing.T) {
		c.twirp("ArtifactService/CreateArtifact", c.artifactMessage(map[string]any{"name": "v3", "version": 3})).want(t, 400, "version 3")
	})
	t.Run("retention is said once to be ignored", func(t *testing.T) {
		for _, name := range []string{"r1", "r2"} {
			c.twirp("ArtifactService/CreateArtifact", c.artifactMessage(map[string]any{"name": name, "expires_at": "2030-01-01T00:00:00Z"})).want(t, 200, "")
		}
		if len(notes) != 1 || !strings.Contains(notes[0], "retention") {
			t.Errorf("the notes are %q", notes)
		}
	})
	t.Run("a raw file keeps its type and its name", func(t *testing.T) {
		created := c.twirp("ArtifactService/CreateArtifact", c.artifactMessage(map[string]any{"name": "p.html", "mimeType": "text/html"})).json(t)
		c.send("PUT", created["signed_upload_url"].(string), []byte("<p>")).want(t, 201, "")
		c.twirp("ArtifactService/FinalizeArtifact", c.artifactMessage(map[string]any{"name": "p.html", "size": 3})).want(t, 200, "")
		address := c.twirp("ArtifactService/GetSignedArtifactURL", c.artifactMessage(map[string]any{"name": "p.html"})).json(t)["signed_url"].(string)
		got := c.send("GET", address, nil).want(t, 200, "<p>")
		if got.header.Get("Content-Type") != "text/html" || got.header.Get("Content-Disposition") != "attachment; filename=p.html" {
			t.Errorf("the header is %v", got.header)
		}
	})
}

func TestCaches(t *testing.T) {
	t.Parallel()
	opts := options(t)
	c := start(t, opts)
	save := func(c *client, key, version, text string) {
		t.Helper()
		created := c.twirp("CacheService/CreateCacheEntry", map[string]any{"key": key, "version": version}).want(t, 200, "signed_upload_url").json(t)
		c.send("PUT", created["signed_upload_url"].(string), []byte(text), "x-ms-blob-type: BlockBlob").want(t, 201, "")
		c.twirp("CacheService/FinalizeCacheEntryUpload", map[string]any{"key": key, "version": version, "sizeBytes": fmt.Sprint(len(text))}).want(t, 200, `"entry_id"`)
	}
	save(c, "npm-linux-1", "v", "one")
	save(c, "npm-linux-2", "v", "two")
	save(c, "npm-linux-3", "other", "three")

	find := func(c *client, key string, restore ...string) (matched, text string) {
		t.Helper()
		got := c.twirp("CacheService/GetCacheEntryDownloadURL", map[string]any{"key": key, "version": "v", "restore_keys": restore}).want(t, 200, `"ok"`).json(t)
		if got["ok"] != true {
			return "", ""
		}
		return got["matched_key"].(string), string(c.send("GET", got["signed_download_url"].(string), nil).body)
	}
	tests := []struct {
		name    string
		key     string
		restore []string
		matched string
		text    string
	}{
		{"the key itself", "npm-linux-1", nil, "npm-linux-1", "one"},
		{"the newest that begins with the key", "npm-", nil, "npm-linux-2", "two"},
		{"the first restore key that finds something", "none", []string{"nothing", "npm-linux-1", "npm-"}, "npm-linux-1", "one"},
		{"nothing", "none", []string{"nothing"}, "", ""},
		{"no cache of another version", "npm-linux-3", nil, "", ""},
		{"nothing for an empty key", "", []string{""}, "", ""},
	}
	for _, tt := range tests {
		t.Run("restoring finds "+tt.name, func(t *testing.T) {
			for name, c := range map[string]*client{"the job that saved": c, "another job": start(t, opts)} {
				if matched, text := find(c, tt.key, tt.restore...); matched != tt.matched || text != tt.text {
					t.Errorf("%s gets %q with %q; want %q with %q", name, matched, text, tt.matched, tt.text)
				}
			}
		})
	}
	t.Run("a cache does not change", func(t *testing.T) {
		c.twirp("CacheService/CreateCacheEntry", map[string]any{"key": "npm-linux-1", "version": "v"}).want(t, 409, "already_exists")
	})
	t.Run("a cache that is being saved is not begun again", func(t *testing.T) {
		c.twirp("CacheService/CreateCacheEntry", map[string]any{"key": "busy", "version": "v"}).want(t, 200, "")
		c.twirp("CacheService/CreateCacheEntry", map[string]any{"key": "busy", "version": "v"}).want(t, 409, "already_exists")
		c.twirp("CacheService/FinalizeCacheEntryUpload", map[string]any{"key": "busy", "version": "v", "size_bytes": "0"}).want(t, 412, "incomplete")
	})
	t.Run("keys that GitHub refuses are refused", func(t *testing.T) {
		for _, key := range []string{"", "a,b", "a\nb", strings.Repeat("k", 513)} {
			c.twirp("CacheService/CreateCacheEntry", map[string]any{"key": key, "version": "v"}).want(t, 400, "the key of the cache")
		}
	})
	t.Run("two jobs that save at once both end well, and one of them won", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 4 {
			other := start(t, opts)
			all.Go(func() {
				created := other.twirp("CacheService/CreateCacheEntry", map[string]any{"key": "race", "version": "v"})
				if created.status == 409 {
					return
				}
				other.send("PUT", created.json(t)["signed_upload_url"].(string), fmt.Appendf(nil, "%d", i))
				if got := other.twirp("CacheService/FinalizeCacheEntryUpload", map[string]any{"key": "race", "version": "v", "size_bytes": "1"}); got.status != 200 && got.status != 409 {
					t.Errorf("the answer is %d %s", got.status, got.body)
				}
			})
		}
		all.Wait()
		if matched, text := find(c, "race"); matched != "race" || len(text) != 1 {
			t.Errorf("%q holds %q", matched, text)
		}
	})
}

func TestCachesOfTheFirstProtocol(t *testing.T) {
	t.Parallel()
	c := start(t, options(t))
	auth := "Authorization: Bearer " + c.runtime
	const caches = "/_apis/artifactcache/caches"
	reserve := func(key string) string {
		t.Helper()
		got := c.send("POST", caches, []byte(`{"key":"`+key+`","version":"v","cacheSize":6}`), auth).want(t, 201, "cacheId").json(t)
		return fmt.Sprintf("%s/%v", caches, got["cacheId"])
	}
	c.send("GET", "/_apis/artifactcache/cache?keys=k&version=v", nil, auth).want(t, 204, "")
	address := reserve("k1")
	c.send("PATCH", address, []byte("def"), auth, "Content-Range: bytes 3-5/*").want(t, 204, "")
	c.send("PATCH", address, []byte("abc"), auth, "Content-Range: bytes 0-2/*").want(t, 204, "")
	c.send("POST", address, []byte(`{"size":6}`), auth).want(t, 204, "")

	t.Run("it is found by the beginning of its key", func(t *testing.T) {
		got := c.send("GET", "/_apis/artifactcache/cache?keys=x,k&version=v", nil, auth).want(t, 200, `"cacheKey":"k1"`).json(t)
		c.send("GET", got["archiveLocation"].(string), nil).want(t, 200, "abcdef")
		c.send("GET", caches+"?key=k", nil, auth).want(t, 200, `"totalCount":1`)
	})
	t.Run("it does not change", func(t *testing.T) {
		c.send("POST", caches, []byte(`{"key":"k1","version":"v"}`), auth).want(t, 409, "already exists")
	})
	t.Run("one that is incomplete is refused", func(t *testing.T) {
		address := reserve("k2")
		c.send("PATCH", address, []byte("f"), auth, "Content-Range: bytes 5-5/*").want(t, 204, "")
		c.send("POST", address, []byte(`{"size":6}`), auth).want(t, 400, "incomplete")
	})
	t.Run("what is no request is refused", func(t *testing.T) {
		address := reserve("k3")
		c.send("PATCH", address, []byte("abc"), auth, "Content-Range: bytes 0-9/*").want(t, 400, "3 bytes came of 10")
		c.send("PATCH", address, []byte("abc"), auth, "Content-Range: bytes x").want(t, 400, "Content-Range")
		c.send("PATCH", address, []byte("abc"), auth, "Content-Range: bytes 99999999999-99999999999/*").want(t, 413, "")
		c.send("PATCH", caches+"/99", []byte("abc"), auth, "Content-Range: bytes 0-2/*").want(t, 404, "")
		c.send("POST", caches, []byte(`{"key":"big","version":"v","cacheSize":99999999999}`), auth).want(t, 400, "limit")
		c.send("POST", caches, []byte(`{`), auth).want(t, 400, "")
	})
}

func TestOpenIDConnect(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Permissions = map[string]string{"id-token": "write"}
	c := start(t, opts)
	got := c.send("GET", c.env["ACTIONS_ID_TOKEN_REQUEST_URL"]+"&audience=sigstore", nil, "Authorization: Bearer "+c.env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]).want(t, 200, "value").json(t)
	token := got["value"].(string)

	t.Run("a token is signed by the key that the server tells of", func(t *testing.T) {
		about := c.send("GET", "/.well-known/openid-configuration", nil).want(t, 200, "jwks_uri").json(t)
		var set struct {
			Keys []struct{ N, E, Kid string }
		}
		if err := json.Unmarshal(c.send("GET", about["jwks_uri"].(string), nil).body, &set); err != nil || len(set.Keys) != 1 {
			t.Fatalf("the keys are %+v, %v", set, err)
		}
		number := func(text string) *big.Int {
			raw, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			return new(big.Int).SetBytes(raw)
		}
		key := rsa.PublicKey{N: number(set.Keys[0].N), E: int(number(set.Keys[0].E).Int64())}
		end := strings.LastIndexByte(token, '.')
		signature, err := base64.RawURLEncoding.DecodeString(token[end+1:])
		sum := sha256.Sum256([]byte(token[:end]))
		if err != nil || rsa.VerifyPKCS1v15(&key, crypto.SHA256, sum[:], signature) != nil {
			t.Errorf("the signature is wrong, or no base64: %v", err)
		}
		if claims := decode(t, token); claims["iss"] != about["issuer"] {
			t.Errorf("the issuer is %v, and should be %v", claims["iss"], about["issuer"])
		}
	})
	t.Run("it says what GitHub's say", func(t *testing.T) {
		claims := decode(t, token)
		want := map[string]any{
			"sub": "repo:octo/hello:ref:refs/heads/main", "aud": "sigstore", "repository": "octo/hello", "repository_owner": "octo", "ref": "refs/heads/main", "sha": strings.Repeat("a", 40),
			"workflow": "ci", "job_workflow_ref": "octo/hello/.github/workflows/ci.yml@refs/heads/main", "run_id": "7", "actor": "mona", "event_name": "push", "runner_environment": "self-hosted",
		}
		for name, value := range want {
			if claims[name] != value {
				t.Errorf("%s is %v; want %v", name, claims[name], value)
			}
		}
	})
	for name, facts := range map[string]map[string]string{
		"repo:octo/hello:pull_request":           {"event_name": "pull_request"},
		"repo:octo/hello:environment:prod%3A eu": {"environment": "prod: eu"},
	} {
		t.Run("the subject is "+name, func(t *testing.T) {
			opts := opts
			opts.GitHub = maps.Clone(opts.GitHub)
			maps.Copy(opts.GitHub, facts)
			c := start(t, opts)
			got := c.send("GET", c.env["ACTIONS_ID_TOKEN_REQUEST_URL"], nil, "Authorization: Bearer "+c.env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]).json(t)
			if claims := decode(t, got["value"].(string)); claims["sub"] != name || claims["aud"] != "https://github.com/octo" {
				t.Errorf("the claims are %v", claims)
			}
		})
	}
	t.Run("without the permission there is none", func(t *testing.T) {
		c := start(t, options(t))
		if c.env["ACTIONS_ID_TOKEN_REQUEST_URL"] != "" {
			t.Error("the environment tells where tokens are")
		}
		token := c.server.Secrets()[1]
		c.send("GET", "/oidc/token?audience=x", nil, "Authorization: Bearer "+token).want(t, 403, "id-token: write")
	})
}

func TestClosingLeavesNothingOfUploads(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Temp = t.TempDir()
	c := start(t, opts)
	created := c.twirp("ArtifactService/CreateArtifact", c.artifactMessage(map[string]any{"name": "half"})).json(t)
	c.send("PUT", created["signed_upload_url"].(string)+"&comp=block&blockid=YQ==", make([]byte, 1<<20)).want(t, 201, "")
	if err := c.server.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(opts.Temp); len(left) > 0 || err != nil {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestTheCacheMode(t *testing.T) {
	t.Parallel()
	opts := options(t)
	saving := start(t, opts)
	text := "kept"
	created := saving.twirp("CacheService/CreateCacheEntry", map[string]any{"key": "k", "version": "v"}).want(t, 200, "signed_upload_url").json(t)
	saving.send("PUT", created["signed_upload_url"].(string), []byte(text), "x-ms-blob-type: BlockBlob").want(t, 201, "")
	saving.twirp("CacheService/FinalizeCacheEntryUpload", map[string]any{"key": "k", "version": "v", "sizeBytes": fmt.Sprint(len(text))}).want(t, 200, `"entry_id"`)
	for mode, can := range map[string]struct{ restore, save bool }{
		"": {true, true}, "write": {true, true}, "read": {true, false}, "write-only": {false, true}, "none": {false, false},
	} {
		t.Run("mode "+mode, func(t *testing.T) {
			opts := opts
			opts.CacheMode = mode
			c := start(t, opts)
			found := c.twirp("CacheService/GetCacheEntryDownloadURL", map[string]any{"key": "k", "version": "v"}).want(t, 200, `"ok"`).json(t)
			if (found["ok"] == true) != can.restore {
				t.Errorf("restoring: %v", found)
			}
			got := c.twirp("CacheService/CreateCacheEntry", map[string]any{"key": "new-" + mode, "version": "v"})
			if (got.status == 200) != can.save || !can.save && got.status != 403 {
				t.Errorf("saving: %d %s", got.status, got.body)
			}
		})
	}
}

func TestTokensForAPartOfTheJobsPermissions(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Permissions = map[string]string{"id-token": "write", "actions": "write"}
	c := start(t, opts)
	list := "/api/v3/repos/" + opts.GitHub["repository"] + "/actions/artifacts"
	bearer := func(token string) string { return "Authorization: Bearer " + token }
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"all that the job may": {c.server.TokenFor(nil), 200},
		"what it may read":     {c.server.TokenFor(map[string]string{"actions": "read"}), 200},
		"nothing of it":        {c.server.TokenFor(map[string]string{"contents": "write"}), 403},
		"one that says more than was signed": {strings.Replace(c.server.TokenFor(map[string]string{"contents": "write"}),
			base64.RawURLEncoding.EncodeToString([]byte(`{"contents":"write"}`)), base64.RawURLEncoding.EncodeToString([]byte(`{"actions":"write"}`)), 1), 401},
	} {
		if got := c.send("GET", list, nil, bearer(test.token)); got.status != test.want {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	deletes := c.send("DELETE", list+"/1", nil, bearer(c.server.TokenFor(map[string]string{"actions": "read"})))
	if deletes.status != 403 {
		t.Errorf("a token that reads deletes: %d %s", deletes.status, deletes.body)
	}

	const vault = "https://vault.example.com"
	env := c.server.Env(true, map[string]string{"id-token": vault})
	ask := env["ACTIONS_ID_TOKEN_REQUEST_URL"]
	for audience, want := range map[string]int{vault: 200, "": 200, "https://other.example.com": 403} {
		address := ask
		if audience != "" {
			address += "&audience=" + url.QueryEscape(audience)
		}
		if got := c.send("GET", address, nil, bearer(env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"])); got.status != want {
			t.Errorf("for %q: %d %s", audience, got.status, got.body)
		}
	}
	if none := c.server.Env(true, map[string]string{"contents": "read"}); none["ACTIONS_ID_TOKEN_REQUEST_TOKEN"] != "" {
		t.Error("a step without the permission can ask for identity tokens")
	}
}
