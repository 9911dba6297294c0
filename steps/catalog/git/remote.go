package git

import (
	"errors"
	"net/url"
	"strings"
)

// The variables by which the credential helper has what it hands out.
const (
	userVariable     = "RUNG_GIT_USERNAME"
	passwordVariable = "RUNG_GIT_PASSWORD"
)

// helper is a credential helper: text for the shell, which git brings along. It answers questions, and forgets what it is told to keep.
const helper = `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$` + userVariable + `" "$` + passwordVariable + `"; }; f`

// remote is the repository's server and who we are there.
type remote struct {
	url            string // without credentials
	user, password string
	base           string // scheme://host:port of HTTP; "" of other addresses
	host           string // without port
}

// remoteOf takes the credentials out of the address: what is fetched from is written to the repository's configuration.
func remoteOf(in *inputs) (remote, error) {
	r := remote{url: in.URL, user: in.Username, password: in.Token}
	if strings.HasPrefix(r.url, "-") || strings.ContainsAny(r.url, "\n\r\x00") {
		return r, errors.New("url: this is not the address of a repository")
	}
	if !strings.HasPrefix(r.url, "http://") && !strings.HasPrefix(r.url, "https://") {
		return r, nil
	}
	u, err := url.Parse(r.url)
	if err != nil || u.Host == "" {
		return r, errors.New("url: this is not the address of a repository") // the parser's error would repeat it, password and all
	}
	if u.User != nil {
		password, has := u.User.Password()
		if r.password == "" && has {
			r.user, r.password = u.User.Username(), password
		}
		if r.password == "" {
			r.password = u.User.Username() // a token alone stands where the name would
		}
		u.User = nil
	}
	r.url, r.base, r.host = u.String(), u.Scheme+"://"+u.Host, u.Hostname()
	return r, nil
}

// env are the variables that the credential helper reads.
func (r *remote) env() []string {
	if r.password == "" || r.base == "" {
		return nil
	}
	return []string{userVariable + "=" + r.user, passwordVariable + "=" + r.password}
}

// sshForms are how addresses of the same server begin that are fetched by SSH.
func (r *remote) sshForms() []string {
	return []string{"git@" + r.host + ":", "ssh://git@" + r.host + "/", "ssh://" + r.host + "/"}
}

// settings are those of every git command. The helpers of the system are asked nothing: they would keep the job's token. The folder may
// belong to somebody else: what could be dangerous in its configuration has been removed.
func (c *checkout) settings() []string {
	out := []string{"-c", "safe.directory=*", "-c", "submodule.recurse=false", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false"}
	if c.remote.env() != nil {
		out = append(out, "-c", "credential.helper=", "-c", "credential."+c.remote.base+".helper="+helper)
	}
	out = append(out, certificates(c).flags("-c")...)
	if c.in.UserAgent != "" {
		out = append(out, "-c", "http.userAgent="+c.in.UserAgent)
	}
	if c.in.SubmoduleForceHTTPS && c.remote.base != "" {
		for _, ssh := range c.remote.sshForms() {
			out = append(out, "-c", "url."+c.remote.base+"/.insteadOf="+ssh)
		}
	}
	return out
}
