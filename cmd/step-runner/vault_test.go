package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// vault starts a server of secrets for a script, whose address is then in $VAULT_SERVER: vault JWT NAME=VALUE|NAME=@FILE .... It gives the token of the
// identity JWT and the role ci the fields of the secret secret/app, until the token is revoked; with `! vault`, it checks that all tokens are.
func vault(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		v := ts.Value(vaultKey{}).(*vaultServer)
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.tokens) > 0 || v.logins == 0 {
			ts.Fatalf("%d logins, and %d tokens are left", v.logins, len(v.tokens))
		}
		return
	}
	if len(args) < 2 {
		ts.Fatalf("usage: vault JWT NAME=VALUE ...")
	}
	v := ts.Value(vaultKey{}).(*vaultServer)
	v.identity, v.fields, v.tokens = args[0], map[string]string{}, map[string]bool{}
	for _, pair := range args[1:] {
		name, text, _ := strings.Cut(pair, "=")
		if file, ok := strings.CutPrefix(text, "@"); ok {
			text = ts.ReadFile(file)
		}
		v.fields[name] = text
	}
	server := httptest.NewServer(v)
	ts.Defer(server.Close)
	ts.Setenv("VAULT_SERVER", server.URL)
}

type vaultKey struct{}

type vaultServer struct {
	identity string
	fields   map[string]string

	mu     sync.Mutex
	tokens map[string]bool
	logins int
}

func (v *vaultServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	token := r.Header.Get("X-Vault-Token")
	switch request := r.Method + " " + r.URL.Path; {
	case request == "POST /v1/auth/jwt/login":
		var in struct{ Role, JWT string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.JWT != v.identity || in.Role != "ci" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"errors":["role \"%s\" could not be found"]}`, in.Role)
			return
		}
		v.logins++
		token = fmt.Sprintf("hvs.token-%d", v.logins)
		v.tokens[token] = true
		fmt.Fprintf(w, `{"auth":{"client_token":%q,"token_type":"service","lease_duration":60}}`, token)
	case !v.tokens[token]:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"errors":["permission denied"]}`)
	case request == "POST /v1/auth/token/revoke-self":
		delete(v.tokens, token)
		w.WriteHeader(http.StatusNoContent)
	case request == "GET /v1/secret/data/app":
		text, _ := json.Marshal(map[string]any{"data": map[string]any{"data": v.fields, "metadata": map[string]any{"version": 1}}})
		_, _ = w.Write(text)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"errors":[]}`)
	}
}
