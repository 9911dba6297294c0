package compile

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/steps/plan"
)

// settings reads the variables and texts that say how a job is done, and notes what is wrong with them.
type settings struct {
	*scope
	gitlab string // Job.GitLab
	notes  []string
	errs   []error
}

func (c *settings) note(format string, args ...any) {
	c.notes = append(c.notes, c.redact(fmt.Sprintf(format, args...)))
}

func (c *settings) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if shown := c.redact(err.Error()); shown != err.Error() {
		err = errors.New(shown)
	}
	c.errs = append(c.errs, err)
}

// expanded expands a text, and says what it is where that fails.
func (c *settings) expanded(what, text string) string {
	out, err := c.expand(text)
	if err != nil {
		c.fail("%s: %w", what, err)
	}
	return out
}

// patterns expands a list, without what is empty then.
func (c *settings) patterns(what string, all []string) []string {
	var out []string
	for _, text := range all {
		if text = c.expanded(what, text); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// addText adds a text that is not empty.
func (c *settings) addText(in inputs, name, text string) {
	if text != "" {
		in[name] = c.data(text)
	}
}

func (c *settings) addTexts(in inputs, name string, all []string) {
	if len(all) > 0 {
		in.add(name, c.texts(all))
	}
}

// setting returns the value of a variable that is set and not empty.
func (c *settings) setting(name string) (string, bool) {
	v, ok := c.vars.Get(name)
	return strings.TrimSpace(v.Value), ok && strings.TrimSpace(v.Value) != ""
}

// flag reads a variable that is true or false.
func (c *settings) flag(name string, byDefault bool) bool {
	text, ok := c.setting(name)
	if !ok {
		return byDefault
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		c.note("%s is %q, which is neither true nor false; using %t", name, text, byDefault)
		return byDefault
	}
	return b
}

// count reads a variable that is a whole number and not below 0.
func (c *settings) count(name string, byDefault int) int {
	text, ok := c.setting(name)
	if !ok {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		c.note("%s is %q, which is not a number; using %d", name, text, byDefault)
		return byDefault
	}
	return n
}

// attempts reads how often something is tried.
func (c *settings) attempts(name string) int {
	n := c.count(name, 1)
	if clamped := min(max(n, 1), MaxAttempts); clamped != n {
		c.note("%s is %d; using %d", name, n, clamped)
		return clamped
	}
	return n
}

// timeout reads a variable that is a duration; 0 when there is none.
func (c *settings) timeout(name string) time.Duration {
	text, ok := c.setting(name)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		c.note("%s is %q, which is not a duration such as 1h30m; ignored", name, text)
		return 0
	}
	return d
}

// choice reads a variable that is one of some words; "" when it is not, or is the default.
func (c *settings) choice(name, byDefault string, words ...string) string {
	text, ok := c.setting(name)
	if !ok || text == byDefault {
		return ""
	}
	if !slices.Contains(words, text) {
		c.note("%s is %q, but must be one of %s; using %s", name, text, strings.Join(words, ", "), byDefault)
		return ""
	}
	return text
}

// networkNames are the variables that say how to reach servers.
var networkNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// certificates are the inputs of steps that talk to GitLab, and the job's variables that they come from: files, as GitLab's runner has them.
var certificates = [][2]string{{"ca_file", "CI_SERVER_TLS_CA_FILE"}, {"cert_file", "CI_SERVER_TLS_CERT_FILE"}, {"key_file", "CI_SERVER_TLS_KEY_FILE"}}

// certified gives a step the certificates for an address, if that is the GitLab's own. They say nothing of other hosts, such as that of clone_url:
// for git, the CA would replace those of the system, and the client certificate is not meant for them.
func (c *settings) certified(in inputs, address string) {
	if server := tlsServer(address); server == "" || server != tlsServer(c.gitlab) {
		return
	}
	for _, of := range certificates {
		v, _ := c.vars.Get(of[1])
		if v.File && v.Value != "" {
			v.Value = c.path(v.Name)
		}
		c.addText(in, of[0], v.Value)
	}
}

// tlsServer is the host and port of an address of HTTPS; "" of any other address.
func tlsServer(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return ""
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), "443"))
}

// network is the environment of a step that talks to servers.
func (c *settings) network() map[string]plan.Field {
	return c.some(func(name string) bool { return slices.Contains(networkNames, strings.ToUpper(name)) })
}
