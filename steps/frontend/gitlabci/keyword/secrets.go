package keyword

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// secretReader reads the keywords of credentials, and those of scanners that GitLab provides.
type secretReader struct {
	*values
}

// idTokens reads `id_tokens:`.
func (r secretReader) idTokens(n config.Node) []IDToken {
	const name = "id_tokens"
	var out []IDToken
	for key, v := range r.named(n, name, "write NAME: {aud: …} under it") {
		of := name + ":" + shorten(key.Text())
		token := IDToken{Name: key.Text(), Node: v}
		for _, aud := range r.fields(v, of, []string{"aud"}) {
			token.Audience = r.textOrTexts(aud, of+":aud")
			if aud.Len() == 0 && aud.Text() == "" && aud.Kind() != yamlsource.Mapping {
				r.report(aud, "name the audience", "`%s:aud` is empty", of)
			}
		}
		if v.Kind() == yamlsource.Mapping && v.Get("aud").IsNull() {
			r.report(key, "add `aud:` with the audience of the token", "`%s` has no aud", of)
		}
		out = append(out, token)
	}
	return out
}

// provider is where a secret can be from.
type provider struct {
	name   string
	keys   []string // nil for any
	needed []string
}

var providers = []provider{
	{"vault", []string{"engine", "path", "field"}, []string{"engine", "path", "field"}},
	{"gcp_secret_manager", []string{"name", "version"}, []string{"name"}},
	{"azure_key_vault", []string{"name", "version"}, []string{"name"}},
	{"aws_secrets_manager", []string{"secret_id", "version_id", "version_stage", "field", "region", "role_arn", "role_session_name"}, []string{"secret_id"}},
	{"gitlab_secrets_manager", []string{"name", "source"}, []string{"name"}},
	{"akeyless", nil, nil},
}

func providerNames() []string {
	out := make([]string, len(providers))
	for i, p := range providers {
		out[i] = p.name
	}
	return out
}

// secrets reads `secrets:`.
func (r secretReader) secrets(n config.Node) []Secret {
	var out []Secret
	for key, v := range r.named(n, "secrets", "write NAME: {vault: …} under it") {
		out = append(out, r.secret(key, v))
	}
	return out
}

func (r secretReader) secret(key, n config.Node) Secret {
	name := "secrets:" + shorten(key.Text())
	out := Secret{Name: key.Text(), File: true, Node: n}
	var from []string
	keys := append(providerNames(), "file", "token")
	for field, v := range r.fields(n, name, keys) {
		switch field {
		case "file":
			out.File = r.boolean(v, name+":file")
		case "token":
			out.Token = r.filled(v, name+":token")
		default:
			from = append(from, field)
			out.Provider = field
			i := slices.IndexFunc(providers, func(p provider) bool { return p.name == field })
			out.Settings = r.settings(v, name+":"+field, providers[i])
		}
	}
	if n.Kind() != yamlsource.Mapping {
		return out
	}
	switch {
	case len(from) == 0 && !strange(n, keys):
		r.report(key, "add one of "+strings.Join(providerNames(), ", "), "`%s` does not name a place for the secret", name)
	case len(from) > 1:
		r.report(key, "keep one", "`%s` has %s, and can have only one of them", name, strings.Join(from, " and "))
	case out.Provider == "gcp_secret_manager" && n.Get("token").IsNull():
		r.report(key, "add `token:` with one of `id_tokens:`, such as $GCP_ID_TOKEN", "`%s` has no token, which gcp_secret_manager needs", name)
	}
	return out
}

// settings reads what a provider wants to know.
func (r secretReader) settings(n config.Node, name string, p provider) map[string]string {
	if n.Kind() == yamlsource.String {
		switch p.name {
		case "vault":
			return r.vaultShort(n, name)
		case "aws_secrets_manager":
			id, field, _ := strings.Cut(r.filled(n, name), "#")
			out := map[string]string{"secret_id": id}
			if field != "" {
				out["field"] = field
			}
			return out
		}
	}
	out := map[string]string{}
	keys := p.keys
	if keys == nil {
		for key := range n.Entries() {
			keys = append(keys, key.Text())
		}
	}
	for key, v := range r.fields(n, name, keys) {
		switch {
		case p.name == "vault" && key == "engine":
			r.vaultEngine(v, name, out)
		case key == "version" && v.Kind() == yamlsource.Number && p.name == "gcp_secret_manager":
			out[key] = scalar(v)
		default:
			out[key] = r.filled(v, name+":"+key)
		}
	}
	for _, key := range p.needed {
		if n.Kind() == yamlsource.Mapping && n.Get(key).IsNull() {
			r.report(n, "add `"+key+":`", "`%s` has no %s", name, key)
		}
	}
	return out
}

func (r secretReader) vaultEngine(n config.Node, name string, out map[string]string) {
	for key, v := range r.fields(n, name+":engine", []string{"name", "path"}) {
		out["engine_"+key] = r.filled(v, name+":engine:"+key)
	}
	for _, key := range []string{"name", "path"} {
		if n.Kind() == yamlsource.Mapping && n.Get(key).IsNull() {
			r.report(n, "add `"+key+":`", "`%s:engine` has no %s", name, key)
		}
	}
}

// vaultShort reads path/field@engine. Without an engine it is kv-v2, as GitLab has it.
func (r secretReader) vaultShort(n config.Node, name string) map[string]string {
	const engine = "kv-v2"
	secret, mount, found := strings.Cut(n.Text(), "@")
	at := strings.LastIndexByte(secret, '/')
	if at <= 0 || at == len(secret)-1 || found && mount == "" {
		r.report(n, "write path/field@engine, such as production/db/password@ops", "`%s` has neither a map nor a path and a field", name)
		return nil
	}
	if !found {
		mount = engine
	}
	return map[string]string{"engine_name": engine, "engine_path": mount, "path": secret[:at], "field": secret[at+1:]}
}

// dast reads `dast_configuration:`.
func (r secretReader) dast(n config.Node) *DAST {
	out := &DAST{}
	for key, v := range r.fields(n, "dast_configuration", []string{"site_profile", "scanner_profile"}) {
		if key == "site_profile" {
			out.SiteProfile = r.filled(v, "dast_configuration:site_profile")
		} else {
			out.ScannerProfile = r.filled(v, "dast_configuration:scanner_profile")
		}
	}
	if n.Kind() == yamlsource.Mapping && n.Len() == 0 {
		r.report(n, "name a `site_profile:` or a `scanner_profile:`", "`dast_configuration` is empty")
	}
	return out
}
