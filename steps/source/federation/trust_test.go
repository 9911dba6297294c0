package federation

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/source"
)

// signer is a new key, written to keys/NAME.pub beside the user's and the project's file.
func (w *world) signer(t *testing.T, name string) *signature.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.ParsePrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public().MarshalPEM()
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "config/rung/keys/"+name+".pub", string(public))
	w.write(t, "project/.rung/keys/"+name+".pub", string(public))
	return key
}

// signed is an envelope over a content digest.
func signed(t *testing.T, digest string, keys ...*signature.PrivateKey) []byte {
	t.Helper()
	statement, err := signature.ComponentStatement(digest)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := statement.Envelope()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := envelope.Sign(key); err != nil {
			t.Fatal(err)
		}
	}
	return envelope.Encode()
}

func TestDeny(t *testing.T) {
	t.Parallel()
	deny := "[[source]]\nmatch = \"gitlab.com/bad\"\ndeny = true\nreason = \"it was taken over\"\n"
	mapped := "[[source]]\nmatch = \"github.com/\"\nreplace = \"https://gitlab.com/\"\n"
	for _, tc := range []struct {
		name, user, project string
		at                  *source.Location
		denied              bool
	}{
		{name: "below the match", user: deny, at: git("https://gitlab.com/bad/p"), denied: true},
		{name: "however it is written", user: deny, at: git("https://GITLAB.com.:443//./Bad/%70.git"), denied: true},
		{name: "with a port with zeros", user: deny, at: git("https://gitlab.com:00443/bad/p"), denied: true},
		{name: "with an empty port", user: deny, at: git("https://gitlab.com:/bad/p"), denied: true},
		{name: "over SSH with its port", user: deny, at: git("ssh+git://git@gitlab.com:022/bad/p"), denied: true},
		{name: "over SSH with the host in brackets", user: deny, at: git("git@[gitlab.com]:bad/p"), denied: true},
		{name: "over SSH without a user", user: deny, at: git("gitlab.com:bad/p@q"), denied: true},
		{name: "over SSH in brackets and without a user", user: deny, at: git("[gitlab.com]:bad/p@q"), denied: true},
		{name: "an address in its other form", user: "[[source]]\nmatch = \"127.0.0.1/\"\ndeny = true\n", at: git("https://[::ffff:7f00:1]/p"), denied: true},
		{name: "a folder on this machine by its name", user: "[[source]]\nmatch = \"/srv/bad\"\ndeny = true\n", at: git("file://localhost/srv/bad/p"), denied: true},
		{name: "over SSH", user: deny, at: git("git@gitlab.com:bad/p.git"), denied: true},
		{name: "an archive", user: deny, at: archive("https://gitlab.com/bad/p.zip?x=y"), denied: true},
		{name: "an image", user: deny, at: oci("gitlab.com/bad/p"), denied: true},
		{name: "the repository itself with .git", user: deny, at: git("https://gitlab.com/bad.git"), denied: true},
		{name: "a folder, however it is written", user: "[[source]]\nmatch = \"/srv/bad\"\ndeny = true\n", at: git("file:///srv/b%61d/p"), denied: true},
		{name: "not beside it", user: deny, at: git("https://gitlab.com/badly/p")},
		{name: "the place that a name leads to", user: deny + mapped, at: git("https://github.com/bad/p"), denied: true},
		{name: "the name, wherever it leads", user: deny + "[[source]]\nmatch = \"gitlab.com/\"\nreplace = \"https://m.example/\"\n", at: git("https://gitlab.com/bad/p"), denied: true},
		{name: "a longer match lifts it", user: deny + "[[source]]\nmatch = \"gitlab.com/bad/good\"\ndeny = false\n", at: git("https://gitlab.com/bad/good")},
		{name: "one that says nothing of it does not", user: deny + "[[source]]\nmatch = \"gitlab.com/bad/good\"\nrefresh = \"1m\"\n", at: git("https://gitlab.com/bad/good"), denied: true},
		{name: "a project cannot lift the user's", user: deny, project: "[[source]]\nmatch = \"gitlab.com/bad/good\"\ndeny = false\n", at: git("https://gitlab.com/bad/good"), denied: true},
		{name: "nor go around it", user: deny, project: "[[source]]\nmatch = \"gitlab.com/bad/good\"\nreplace = \"https://m.example/\"\n", at: git("https://gitlab.com/bad/good"), denied: true},
		{name: "nor lead to it", user: deny, project: mapped, at: git("https://github.com/bad/p"), denied: true},
		{name: "a project can deny", project: deny, at: git("https://gitlab.com/bad/p"), denied: true},
		{name: "and the user's longer match does not lift it", user: "[[source]]\nmatch = \"gitlab.com/bad/good\"\ndeny = false\n", project: deny, at: git("https://gitlab.com/bad/good"), denied: true},
		{name: "all but one host", user: "[[source]]\nmatch = \"*\"\ndeny = true\n[[source]]\nmatch = \"gitlab.com\"\ndeny = false\n", at: git("https://gitlab.com/g/p")},
		{name: "all but one host: another", user: "[[source]]\nmatch = \"*\"\ndeny = true\n[[source]]\nmatch = \"gitlab.com\"\ndeny = false\n", at: git("https://github.com/g/p"), denied: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := newWorld(t, tc.user, tc.project).load(t).Apply(tc.at)
			var denied *source.DeniedError
			if errors.As(err, &denied) != tc.denied || err != nil && !tc.denied {
				t.Fatalf("got %v", err)
			}
			if tc.denied && strings.Contains(tc.user+tc.project, "reason") && (!strings.Contains(err.Error(), "it was taken over") || !strings.Contains(err.Error(), "sources.toml:3")) {
				t.Errorf("the reason or the place is missing: %v", err)
			}
		})
	}
}

func TestAHostWithLettersThatLookLikeOthersIsRefused(t *testing.T) {
	t.Parallel()
	c := newWorld(t, "", "").load(t)
	for _, at := range []*source.Location{git("https://ｇitlab.com/p"), archive("https://gitlab。com/p.zip")} {
		var denied *source.DeniedError
		if _, err := c.Apply(at); !errors.As(err, &denied) || !strings.Contains(err.Error(), "not ASCII") {
			t.Errorf("%s: got %v", at.Name, err)
		}
	}
}

func TestPinned(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, user, project string
		want                bool
	}{
		{"by the user", "[[source]]\nmatch = \"a.example\"\npinned = true\n", "", true},
		{"by the project", "", "[[source]]\nmatch = \"a.example\"\npinned = true\n", true},
		{"not lifted by the project", "[[source]]\nmatch = \"a.example\"\npinned = true\n", "[[source]]\nmatch = \"a.example/g\"\npinned = false\n", true},
		{"lifted by the user", "[[source]]\nmatch = \"*\"\npinned = true\n[[source]]\nmatch = \"a.example\"\npinned = false\n", "", false},
		{"nobody", "", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			trust, err := newWorld(t, tc.user, tc.project).load(t).Apply(git("https://a.example/g/p"))
			if err != nil || trust.Pinned != tc.want {
				t.Errorf("got %v, %v", trust.Pinned, err)
			}
		})
	}
}

func TestSignedBy(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const other = "sha256:1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	alice := "[[source]]\nmatch = \"a.example\"\nsigned_by = [\"keys/alice.pub\"]\n"
	both := "[[source]]\nmatch = \"a.example\"\nsigned_by = [\"keys/alice.pub\", \"keys/bob.pub\"]\n"
	bobs := strings.ReplaceAll(alice, "alice", "bob")
	for _, tc := range []struct {
		name, user, project string
		signers             string
		over                string
		want                string // the signers that count
		fail                string
	}{
		{name: "the key", user: alice, signers: "alice", want: "alice"},
		{name: "another key", user: alice, signers: "bob", fail: "key"},
		{name: "another content", user: alice, signers: "alice", over: other, fail: "not those that were signed"},
		{name: "one of two keys", user: both, signers: "bob", want: "bob"},
		{name: "both of two keys", user: both + "threshold = 2\n", signers: "alice bob", want: "alice bob"},
		{name: "one where both are demanded", user: both + "threshold = 2\n", signers: "bob", fail: "key"},
		{name: "the same one twice where both are demanded", user: both + "threshold = 2\n", signers: "bob bob", fail: "key"},
		{name: "the user's and the project's", user: alice, project: bobs, signers: "alice bob", want: "alice bob"},
		{name: "the project's alone does not do", user: alice, project: bobs, signers: "bob", fail: "key"},
		{name: "a project cannot lift it", user: alice, project: "[[source]]\nmatch = \"a.example/g/p\"\nsigned_by = []\n", signers: "bob", fail: "key"},
		{name: "of the place that a name leads to", user: strings.ReplaceAll(alice, "a.example", "b.example"), project: "[[source]]\nmatch = \"a.example\"\nreplace = \"https://b.example\"\n", signers: "bob", fail: "key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.user, tc.project)
			keys := map[string]*signature.PrivateKey{"alice": w.signer(t, "alice"), "bob": w.signer(t, "bob")}
			trust, err := w.load(t).Apply(git("https://a.example/g/p"))
			if err != nil || trust.Verify == nil {
				t.Fatalf("no signature is demanded: %v", err)
			}
			over := digest
			if tc.over != "" {
				over = tc.over
			}
			var signers []*signature.PrivateKey
			for _, name := range strings.Fields(tc.signers) {
				signers = append(signers, keys[name])
			}
			got, err := trust.Verify(signed(t, over, signers...), digest)
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("got %v, want an error with %q", err, tc.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			names := map[string]string{}
			for name, key := range keys {
				names[key.Public().ID()] = name
			}
			for i := range got {
				got[i] = names[got[i]]
			}
			want := strings.Fields(tc.want)
			if len(got) == 2 && got[0] > got[1] {
				got[0], got[1] = got[1], got[0]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("what is not an envelope", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, alice, "")
		w.signer(t, "alice")
		trust, err := w.load(t).Apply(git("https://a.example/g/p"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trust.Verify([]byte("{}"), digest); err == nil {
			t.Error("it was accepted")
		}
	})
}

func TestAKeyThatCannotBeReadIsAnErrorAndNotNoDemand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "[[source]]\nmatch = \"a.example\"\nsigned_by = [\"keys/none.pub\"]\n[[source]]\nmatch = \"b.example\"\nsigned_by = [\"bad.pub\"]\n[[source]]\nmatch = \"c.example\"\nsigned_by = [\"keys/a.pub\", \"keys/a.pub\"]\n", "")
	w.write(t, "config/rung/bad.pub", "no key")
	w.signer(t, "a")
	c := w.load(t)
	for _, host := range []string{"a.example", "b.example", "c.example"} {
		if _, err := c.Apply(git("https://" + host + "/p")); diag.Of(err) == nil {
			t.Errorf("%s: %v, want an error at the line", host, err)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "[[source]]\nmatch = \"m.example\"\ntoken_env = \"TOKEN\"\nproxy = \"http://u:s3cr3t@proxy.example:1\"\nssh_key = \"key\"\n[[source]]\nmatch = \"bad.example\"\ndeny = true\n[[source]]\nmatch = \"a.example\"\nsigned_by = [\"keys/alice.pub\"]\n",
		"[[source]]\nmatch = \"a.example\"\nreplace = \"https://m.example/x\"\npinned = true\nrefresh = \"1h\"\nsubmodules = true\n")
	key := w.signer(t, "alice")
	c := w.load(t)
	got, err := c.Explain(git("https://u:s3cr3t@a.example/g/p"))
	if err != nil {
		t.Fatal(err)
	}
	user := w.dir + "/config/rung/sources.toml"
	want := &Explanation{
		Name: "https://a.example/g/p", URL: "https://m.example/x/g/p", MappedBy: w.dir + "/project/.rung/sources.toml:3",
		Credentials: "the token in the environment variable TOKEN (" + user + ":3)", SSHKey: w.dir + "/config/rung/key", Proxy: "http://proxy.example:1",
		Submodules: true, Pinned: true, Refresh: "1h0m0s",
		SignedBy: []Signed{{Keys: []string{key.Public().ID()}, Threshold: 1, By: user + ":11"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err = c.Explain(oci("bad.example/x")); err != nil || got.Denied == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// keyPair is a new ECDSA key for certificates.
func keyPair(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
