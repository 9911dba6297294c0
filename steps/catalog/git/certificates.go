package git

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// serverSettings are git's settings for one server.
type serverSettings struct {
	base     string // of its address
	settings [][2]string
}

// certificates are the settings for the certificates of the repository's server, which hold for no other.
func certificates(c *checkout) serverSettings {
	out := serverSettings{base: c.remote.base}
	if !strings.HasPrefix(out.base, "https://") {
		return out
	}
	ca, windows := c.in.CAFile, ""
	if ca != "" {
		windows = "true" // Git for Windows asks Windows alone otherwise
	}
	for _, s := range [][2]string{{"sslCAInfo", ca}, {"schannelUseSSLCAInfo", windows}, {"sslCert", c.in.CertFile}, {"sslKey", c.in.KeyFile}} {
		if s[1] != "" {
			out.settings = append(out.settings, s)
		}
	}
	return out
}

// flags are the settings as arguments of git, each after a flag.
func (s serverSettings) flags(flag string) (out []string) {
	for _, of := range s.settings {
		out = append(out, flag, "http."+s.base+"."+of[0]+"="+of[1])
	}
	return out
}

// section are the settings as a part of a repository's configuration: for the job's own git commands.
func (s serverSettings) section() string {
	var out strings.Builder
	for i, of := range s.settings {
		if i == 0 {
			out.WriteString("[http " + gitConfigQuoted(s.base) + "]\n")
		}
		out.WriteString("\t" + of[0] + " = " + gitConfigQuoted(of[1]) + "\n")
	}
	return out.String()
}

// renew writes the settings into a configuration that stays as an earlier job left it.
func (s serverSettings) renew(ctx context.Context, git func(context.Context, ...string) error) error {
	for _, of := range s.settings {
		if err := git(ctx, "config", "http."+s.base+"."+of[0], of[1]); err != nil {
			return err
		}
	}
	return nil
}

// gitConfigQuoted is a text as a value, or the name of a part, of git's configuration.
func gitConfigQuoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// atServer carries the requests to one server, and others those to all others.
type atServer struct {
	base   string
	server http.RoundTripper
	others http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *atServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if base(r.URL) == a.base {
		return a.server.RoundTrip(r)
	}
	return a.others.RoundTrip(r)
}

func base(u *url.URL) string { return u.Scheme + "://" + u.Host }

// certified is others, with the certificates for the repository's server.
func (g *gitless) certified(others *http.Transport) (http.RoundTripper, error) {
	config, err := g.in.Config()
	if config == nil || err != nil {
		return others, err
	}
	t := others.Clone()
	if config.RootCAs == nil || g.call.Getenv("GIT_SSL_CAINFO") != "" { // which goes before, as for git
		config.RootCAs = others.TLSClientConfig.RootCAs
	}
	config.InsecureSkipVerify = others.TLSClientConfig.InsecureSkipVerify
	t.TLSClientConfig = config
	return &atServer{g.remote.base, t, others}, nil
}
